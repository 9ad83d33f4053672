//! Tells the stories, several at once, and counts how they ended.
//!
//! It understands as much of the usual test harness's command line as people and tools use: names to
//! choose by, `--exact`, `--skip NAME`, `--list` and `--test-threads N`. Other flags change nothing here.
//!
//! What must never enter: anything about file systems.

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};
use testbed::Requirements;

/// A test. It fails by an error or by a panic.
pub type Story = fn() -> Result<()>;

/// A table of stories with their names.
macro_rules! stories {
    ($($module:ident :: $story:ident),* $(,)?) => {
        &[$((
            concat!(stringify!($module), "::", stringify!($story)),
            $module::$story as Story,
        )),*]
    };
}
pub(crate) use stories;

/// Which stories are wanted.
#[derive(Default)]
struct Choice {
    names: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    list: bool,
    at_once: Option<usize>,
}

impl Choice {
    fn parse(mut words: impl Iterator<Item = String>) -> Self {
        let mut choice = Self::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--exact" => choice.exact = true,
                "--list" => choice.list = true,
                "--skip" => choice.skipped.extend(words.next()),
                "--test-threads" => {
                    choice.at_once = words.next().and_then(|at_once| at_once.parse().ok())
                }
                // These flags of the usual harness bring a value of their own.
                "--format" | "--color" => drop(words.next()),
                flag if flag.starts_with("--test-threads=") => {
                    choice.at_once = flag
                        .split_once('=')
                        .and_then(|(_, at_once)| at_once.parse().ok());
                }
                flag if flag.starts_with('-') => {}
                _ => choice.names.push(word),
            }
        }
        choice
    }

    fn wants(&self, story: &str) -> bool {
        let fits = |name: &String| match self.exact {
            true => story == name,
            false => story.contains(name.as_str()),
        };
        (self.names.is_empty() || self.names.iter().any(fits)) && !self.skipped.iter().any(fits)
    }
}

/// Tells the stories that the command line asks for, on a machine that has what they require: at most `at_once` at a time, unless the command
/// line says otherwise. Most of what a story does is wait, for guests, leases and disks.
pub fn run(stories: &[(&str, Story)], requirements: Requirements, at_once: usize) -> ExitCode {
    let choice = Choice::parse(std::env::args().skip(1));
    let chosen: Vec<_> = stories
        .iter()
        .filter(|(name, _)| choice.wants(name))
        .collect();
    if choice.list {
        chosen.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    match requirements.admit("everything with the real Linux client") {
        Ok(true) => {}
        Ok(false) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    }
    println!("\nrunning {} stories", chosen.len());
    let failed = tell_all(&chosen, choice.at_once.unwrap_or(at_once).max(1));
    conclude(&failed, chosen.len(), stories.len())
}

/// Tells stories in their order, some at once. Returns the names of those that failed.
fn tell_all<'s>(stories: &[&(&'s str, Story)], at_once: usize) -> Vec<&'s str> {
    let (rest, failed) = (Mutex::new(stories.iter()), Mutex::new(Vec::new()));
    let next = || rest.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some((name, story)) = next() {
                    if !tell(name, *story) {
                        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        failed.push(*name);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Tells one story, and whether it ended well.
fn tell(name: &str, story: Story) -> bool {
    let began = Instant::now();
    // In a thread of that name, since a panic says in which one it came.
    let told = thread::Builder::new().name(name.to_owned()).spawn(story);
    let result = told.map_err(anyhow::Error::from).and_then(|told| {
        let panicked = |_| Err(anyhow!("it panicked, see above"));
        told.join().unwrap_or_else(panicked)
    });
    let took = began.elapsed().as_secs_f32();
    match result {
        Ok(()) => println!("test {name} ... ok ({took:.1} s)"),
        Err(ref error) => println!("test {name} ... FAILED ({took:.1} s)\n{error:#}\n"),
    }
    result.is_ok()
}

fn conclude(failed: &[&str], told: usize, all: usize) -> ExitCode {
    let (word, code) = match failed.is_empty() {
        true => ("ok", ExitCode::SUCCESS),
        false => ("FAILED", ExitCode::FAILURE),
    };
    failed.iter().for_each(|name| println!("    {name}"));
    println!(
        "\ntest result: {word}. {} passed; {} failed; {} filtered out\n",
        told - failed.len(),
        failed.len(),
        all - told
    );
    code
}

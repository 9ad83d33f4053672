//! `evaluation record`: runs the real programs once on a local disk, under strace(1), and keeps their effects on
//! the tree as a [`Trace`].
//!
//! strace slows programs down, so the times between their calls are too long. So every phase is
//! run twice, first without strace in a separate tree, and the times of the traced run are
//! scaled to the length of the untraced run.
//!
//! What must never enter: knowledge of the recorded programs.

mod names;
mod processes;
mod strace;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::arguments::RecordArguments;
use crate::trace::{Phase, Step, Trace};
use processes::Processes;
use strace::{Event, Lines};

/// The recorded calls, in the syntax of strace.
const CALLS: &str = "trace=%file,%desc,fork,vfork,clone,clone3";

/// Times are rounded to this, in microseconds; the rest is added to the next time.
const RESOLUTION_US: f64 = 1000.0;

/// Records the phases and writes the trace.
pub(crate) fn run(arguments: &RecordArguments) -> Result<()> {
    let phases: Vec<(&str, &str)> = arguments
        .phases
        .iter()
        .map(|phase| {
            let named = phase.split_once('=');
            named.with_context(|| format!("'{phase}' is no phase; write NAME=COMMAND"))
        })
        .collect::<Result<_>>()?;
    let plain = empty_folder(&arguments.folder.join("plain"))?;
    let tree = empty_folder(&arguments.folder.join("traced"))?;
    let log = arguments.folder.join("strace.log");

    let mut trace = Trace::new(arguments.title.clone());
    let mut processes = Processes::in_tree(&tree.display().to_string());
    for (name, command) in phases {
        let took = run_plain(&plain, command)?;
        run_traced(&tree, command, &log)?;
        let mut steps = read(&log, &mut processes)?;
        scale(&mut steps, took);
        eprintln!(
            "evaluation: {name}: {} steps, {:.1} s without strace",
            steps.len(),
            took.as_secs_f64()
        );
        trace.phases.push(Phase {
            name: name.to_owned(),
            steps,
        });
    }
    processes.finish(&mut trace);
    trace.write(&arguments.output)?;
    for folder in [plain, tree] {
        fs::remove_dir_all(folder)?;
    }
    fs::remove_file(log)?;
    eprintln!("evaluation: the trace is {}", arguments.output.display());
    Ok(())
}

/// Makes an empty folder, and replaces an existing one.
fn empty_folder(path: &Path) -> Result<PathBuf> {
    if path.exists() {
        fs::remove_dir_all(path)?;
    }
    fs::create_dir_all(path).with_context(|| format!("could not make {}", path.display()))?;
    Ok(path.canonicalize()?)
}

fn run_plain(tree: &Path, command: &str) -> Result<Duration> {
    let began = Instant::now();
    finish(Command::new("sh").args(["-c", command]).current_dir(tree))?;
    Ok(began.elapsed())
}

fn run_traced(tree: &Path, command: &str, log: &Path) -> Result<()> {
    let mut strace = Command::new("strace");
    strace
        .args([
            "-f",
            "-y",
            "-ttt",
            "-T",
            "-s",
            "0",
            "--seccomp-bpf",
            "-e",
            CALLS,
        ])
        .arg("-o")
        .arg(log)
        .args(["sh", "-c", command]);
    finish(strace.current_dir(tree))
}

/// Runs a command to a successful end; otherwise shows its output.
fn finish(command: &mut Command) -> Result<()> {
    let output = command.output();
    let output = output.with_context(|| format!("could not start {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn read(log: &Path, processes: &mut Processes) -> Result<Vec<Step>> {
    let mut lines = Lines::default();
    for line in BufReader::new(File::open(log)?).split(b'\n') {
        match lines.read(&String::from_utf8_lossy(&line?)) {
            Some(Event::Done(call)) => processes.done(&call),
            Some(Event::Begun { process, name }) => processes.begun(process, &name),
            None => {}
        }
    }
    Ok(processes.end_phase())
}

/// Scales the times between the steps so that their sum is the time of the untraced run, and drops insignificant
/// digits. That time includes the calls themselves; on a local disk they are short.
fn scale(steps: &mut [Step], took: Duration) {
    let sum: u64 = steps.iter().map(|step| u64::from(step.think_us)).sum();
    let factor = (took.as_secs_f64() * 1e6 / (sum.max(1) as f64)).min(1.0);
    let mut owed = 0.0;
    for step in steps {
        owed += f64::from(step.think_us) * factor;
        let whole = (owed / RESOLUTION_US).floor() * RESOLUTION_US;
        step.think_us = whole as u32;
        owed -= whole;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Action;

    #[test]
    fn times_are_scaled_and_none_is_lost() {
        let step = |think_us| Step {
            think_us,
            action: Action::Close { open: 0 },
        };
        let mut steps = [step(800), step(1800), step(1400)];
        scale(&mut steps, Duration::from_micros(2000));
        let times: Vec<u32> = steps.iter().map(|step| step.think_us).collect();
        assert_eq!(times, [0, 1000, 1000]);
    }
}

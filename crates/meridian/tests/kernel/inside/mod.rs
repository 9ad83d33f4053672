//! The programs that run inside a guest, on mounted files.
//!
//! A program says what it did, a line a step, on standard output, and ends with an error that names
//! the path and what was expected as soon as something is not as it ought to be.
//!
//! What must never enter: knowledge of the server, or of guests.

mod bustle;
mod entries;
mod extras;
pub mod hand;
mod journal;
mod scribble;
mod tour;
mod trees;
mod writers;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

/// Runs the program that the first word names.
pub fn main(words: Vec<String>) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match program(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn program(words: &[&str]) -> Result<()> {
    match *words {
        ["compare", original, copy] => trees::compare(Path::new(original), Path::new(copy)),
        ["tour", folder] => tour::walk(Path::new(folder), &[]),
        ["tour-but", folder, ref left_out @ ..] => tour::walk(Path::new(folder), left_out),
        ["extras", folder] => extras::walk(Path::new(folder)),
        ["fill", folder, prefix, from, until] => {
            entries::fill(Path::new(folder), prefix, from.parse()?, until.parse()?)
        }
        ["list", folder, prefix, count] => entries::list(Path::new(folder), prefix, count.parse()?),
        ["churn", folder] => entries::churn(Path::new(folder)),
        ["hand", referee, name] => hand::obey(referee, name),
        ["count", file, steps] => hand::count(Path::new(file), steps.parse()?),
        ["append", file, way, name, lines] => {
            hand::append(Path::new(file), way, name, lines.parse()?)
        }
        ["journal", file] => journal::write(Path::new(file)),
        ["audit", file, count] => journal::audit(Path::new(file), count.parse()?),
        ["bustle", folder, name] => bustle::work(Path::new(folder), name),
        ["replace", folder, name] => writers::replace(Path::new(folder), name),
        ["watch", folder] => writers::watch(Path::new(folder)),
        ["pour", file] => writers::pour(Path::new(file)),
        ["scribble", file, seed, steps] => {
            scribble::scribble(Path::new(file), seed.parse()?, steps.parse()?)
        }
        ["gorge", folder] => writers::gorge(Path::new(folder)),
        _ => bail!("no program takes the words {words:?}"),
    }
}

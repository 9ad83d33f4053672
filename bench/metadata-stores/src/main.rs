//! Measures embedded stores under the metadata workload of a local replica store.
//!
//! Without arguments it runs everything and prints one table; with arguments it is one of the
//! processes that such a run starts. It must know nothing of the file system beyond its rows.

mod case;
mod group;
mod process;
mod report;
mod rows;
mod store;

use std::path::Path;

use anyhow::{Result, bail};

use store::{Durability, Kind, Limits};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["all", directory, rounds] => report::run(Path::new(directory), rounds.parse()?),
        ["disk", directory] => case::disk::run(Path::new(directory)),
        ["rotation", directory, workers, who] => {
            case::hazards::rotation(Path::new(directory), workers.parse()?, who == "own")
        }
        ["torn", directory, rows] => {
            case::hazards::torn_journal(Path::new(directory), rows.parse()?)
        }
        [name, kind, directory] => run_case(name, Kind::parse(kind)?, Path::new(directory)),
        ["victim", kind, directory, mode] => {
            let (durability, limits) = victim_mode(mode)?;
            case::crash::victim(Kind::parse(kind)?, Path::new(directory), durability, limits)
        }
        _ => bail!("usage: metadata-stores all DIRECTORY ROUNDS; see README.md for single cases"),
    }
}

fn run_case(name: &str, kind: Kind, directory: &Path) -> Result<()> {
    match name {
        "burst" => case::burst::run(kind, directory),
        "fill" => case::population::fill(kind, directory),
        "serve" => case::serve::run(kind, directory),
        "restart" => case::crash::restart(kind, directory),
        "crash" => case::crash::run(kind, directory),
        "full-disk" => case::hazards::full_disk(kind, directory),
        _ => bail!("no case is called {name:?}; see README.md"),
    }
}

fn victim_mode(mode: &str) -> Result<(Durability, Limits)> {
    Ok(match mode {
        "sync" => (Durability::Sync, Limits::TINY),
        "async" => (Durability::Async, Limits::TINY),
        "population" => (Durability::Sync, Limits::SMALL),
        _ => bail!("a victim works in mode sync, async or population, not {mode:?}"),
    })
}

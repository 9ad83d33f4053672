//! Repeats and extends the papers' experiments, and shows the results beside the papers' statements. Also measures costs and benefits of a set.
//!
//! An experiment (`experiment::Experiment`) has points (a panel, a series, a place on the axis), and every point is measured in several
//! trials. The rest works as in `bench` (see its front page): lines of JSON, tables, plots, pages. An interrupted
//! run continues where it stopped. Each experiment has a separate page and is published separately (`publish`); an `index`
//! lists them all.
//!
//! A trial counts only if it was valid: the copy at another site was compared with the written data, and every
//! server always ran and took part. An invalid trial ends the experiment with an error; other experiments continue, and
//! the command fails at the end. If a peer is missing, nothing is begun.
//!
//! `evaluation record` records the file operations of programs; experiments replay them (`trace`, `replay`).
//!
//! A new experiment is a file that implements `Experiment` and a line in `list`.
//!
//! What must never enter: figures that were not measured, and points left out silently.

#![forbid(unsafe_code)]

mod arguments;
mod bulk;
mod cost;
mod experiment;
mod extent;
mod failover;
mod field;
mod files;
mod grid;
mod index;
mod kernel_build;
mod latency;
mod list;
mod many;
mod nfsp;
mod page;
mod peers;
mod plan;
mod progress;
mod publish;
mod record;
mod replay;
mod run;
mod scale;
mod sharing;
mod sites;
mod ssh_build;
mod strategies;
mod today;
mod trace;
mod wan_bytes;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Measure(arguments) => run::run(&arguments),
        Command::Record(arguments) => record::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("evaluation: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! The papers' experiments repeated, extended, and shown beside what the papers say; and what a set costs and brings besides.
//!
//! An experiment (`experiment::Experiment`) has points (a panel, a series, a place on the axis), and every point is measured in several
//! trials. From there everything goes the way of `bench` (its front page): lines of JSON, tables, plots, pages. A run that was
//! interrupted goes on where it was. Each experiment has a page of its own and is published for itself (`publish`); an `index`
//! lists them all.
//!
//! A trial counts only when it was valid: the copy at another site was compared with what was written, and every
//! server ran and took part all the time. What is not valid ends the experiment with its reason; other experiments go on, and
//! the command fails in the end. Where a peer is missing nothing is begun.
//!
//! `evaluation record` records what programs do to their files; experiments play it again (`trace`, `replay`).
//!
//! A new experiment is a file that implements `Experiment` and a line in `list`.
//!
//! What must never enter: figures that were not measured, and points left out without a word.

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

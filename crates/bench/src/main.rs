//! Measures NFS servers with our own client.
//!
//! - `bench server` runs Meridian and NFS-Ganesha side by side on the same disk, in turns, and
//!   reports medians, spreads and ratios. `make bench-server` calls it.
//! - `bench replication` runs sets of replicas far apart, each beside a server that is alone.
//!   `make bench-replication` calls it, with a trace that `bench record` has made.
//! - `bench failover` kills servers of such sets, and measures until work goes on. `make bench-failover` calls it.
//! - `bench paper` repeats the experiments of the papers; `make bench-paper` calls it.
//! - `bench count` counts the system calls that the server makes for one operation.
//! - `bench load` drives one server that runs already, for a profiler to look at.
//!
//! Everything that is read is compared with what was written, and everything that is counted is
//! counted at the server too: a server that is fast because it is wrong fails the run.
//!
//! What must never enter: a figure without the conditions it was measured under, and favours for
//! either server.

#![forbid(unsafe_code)]

mod arguments;
mod comparison;
mod contender;
mod count;
mod failover;
mod figures;
mod load;
mod machine;
mod page;
mod paper;
mod processor;
mod record;
mod replay;
mod replication;
mod report;
mod sites;
mod tally;
mod trace;
mod turn;
mod worker;
mod workload;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Server(server) => comparison::run(&server),
        Command::Load(load) => load::run(&load),
        Command::Count(arguments) => count::run(&arguments),
        Command::Replication(arguments) => replication::run(&arguments),
        Command::Failover(arguments) => failover::run(&arguments),
        Command::Paper(arguments) => paper::run(&arguments),
        Command::Record(record) => record::run(&record),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

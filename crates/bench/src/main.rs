//! Measures NFS servers with our own client.
//!
//! - `bench server` runs Meridian and NFS-Ganesha side by side on the same disk, in turns, and
//!   reports medians, spreads and ratios. `make bench-server` calls it.
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
mod bare;
mod comparison;
mod contender;
mod count;
mod load;
mod report;
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
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

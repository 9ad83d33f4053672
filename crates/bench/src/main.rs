//! Measures NFS servers with the client of this repository.
//!
//! - `bench server` runs Meridian and NFS-Ganesha side by side on the same disk, in turns, and
//!   reports medians, spreads and ratios. `make bench-server` calls it.
//! - `bench count` counts the system calls that the server makes for one operation.
//! - `bench load` drives one running server, for a profiler.
//!
//! Everything that is read is compared with what was written, and everything that is counted is also
//! counted at the server: a server that is fast because it is wrong fails the run.
//!
//! What must never enter: a figure without its conditions, and advantages for
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

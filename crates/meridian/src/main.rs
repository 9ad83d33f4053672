//! The command line of Meridian: arguments, logging, and output for people.
//!
//! What must never enter: serving, checking and validating; the `server` crate does that.

#![forbid(unsafe_code)]
// These macros panic when the output is closed, and print any control characters; `output` does neither.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod asking;
mod authority;
mod automount_map;
mod check;
mod clients;
mod config;
mod consent;
mod doctor;
mod domain;
mod drain;
mod durability;
mod exit;
mod frozen;
mod junction;
mod logging;
mod manual;
mod mount_hint;
mod output;
mod pool;
mod progress;
mod recovered;
mod refusals;
mod scrub;
mod serve;
mod set;
mod status;
mod token;
mod view;

use std::process::ExitCode;

use clap::Parser;

use arguments::{
    Arguments, AuthorityCommand, Command, ConfigCommand, JunctionCommand, PoolCommand,
    RecoveredCommand, SetCommand, TokenCommand,
};
use exit::Exit;

fn main() -> ExitCode {
    let command = match Arguments::try_parse() {
        Ok(arguments) => arguments.command,
        Err(error) => return refuse_arguments(&error),
    };
    if only_tells(&command) {
        // The reader of the output may stop reading, as `head` does. Commands that change something must finish anyway.
        sigpipe::reset();
    }
    let outcome = match command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Set { command } => set::run(&command),
        Command::Pool { command } => pool::run(&command),
        Command::Durability(arguments) => durability::run(&arguments),
        Command::View(arguments) => view::run(&arguments),
        Command::Frozen(arguments) => frozen::list(&arguments),
        Command::Thaw(arguments) => frozen::thaw(&arguments),
        Command::Recovered { command } => recovered::run(&command),
        Command::Scrub(arguments) => scrub::run(&arguments),
        Command::Drain(arguments) => drain::run(&arguments),
        Command::Domain { command } => domain::run(&command),
        Command::Junction { command } => junction::run(&command),
        Command::AutomountMap(arguments) => automount_map::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Clients(arguments) => clients::run(&arguments),
        Command::Config { command } => config::run(&command),
        Command::Manual { to } => manual::write(&to),
    };
    match outcome {
        Ok(code) => code.into(),
        Err(failure) => {
            let told = format!("meridian: {}", exit::told(&failure.error));
            match failure.exit {
                // One line for each problem of the file.
                Exit::Configuration => output::remark(told),
                _ => output::remark(server::ShownText(&told)),
            }
            failure.exit.into()
        }
    }
}

/// Prints why the arguments are invalid, or the requested help. The arguments are quoted, so control characters in them
/// are escaped.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        error.exit();
    }
    for line in error.render().to_string().trim_end().lines() {
        output::remark(server::ShownText(line));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Whether a command leaves nothing unfinished when it ends because its output is closed.
fn only_tells(command: &Command) -> bool {
    match command {
        Command::Status(_) | Command::View(_) | Command::Frozen(_) | Command::Doctor(_) => true,
        Command::Clients(arguments) => arguments.command.is_none(),
        Command::Config { command } => matches!(command, ConfigCommand::Check { .. }),
        Command::Domain { .. } | Command::AutomountMap(_) => true,
        Command::Junction { command } => matches!(command, JunctionCommand::List { .. }),
        // The server continues the requested work.
        Command::Scrub(_) => true,
        Command::Check(arguments) => !arguments.repair,
        Command::Durability(arguments) => arguments.setting.is_none(),
        Command::Recovered { command } => matches!(command, RecoveredCommand::List { .. }),
        Command::Pool { command } => match command {
            PoolCommand::Members { .. } => true,
            PoolCommand::Token { command } => matches!(command, TokenCommand::List { .. }),
            _ => false,
        },
        Command::Set { command } => match command {
            SetCommand::Members { .. } => true,
            SetCommand::Token { command } => matches!(command, TokenCommand::List { .. }),
            SetCommand::Authority { command } => {
                matches!(command, AuthorityCommand::Show { export: None, .. })
            }
            _ => false,
        },
        Command::Serve(_) | Command::Thaw(_) | Command::Drain(_) | Command::Manual { .. } => false,
    }
}

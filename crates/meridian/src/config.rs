//! `meridian config`: validates a configuration file without starting anything, and makes a running server reload its own.
//!
//! What must never enter: the rules of validation.

use std::path::{Path, PathBuf};

use serde::Serialize;
use server::{Configuration, ConfigurationError, StatusError};

use crate::arguments::ConfigCommand;
use crate::asking::answer;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::status::failure;

pub(crate) fn run(command: &ConfigCommand) -> Result<Exit, Failure> {
    match command {
        ConfigCommand::Check { file, json } => check(file, *json),
        ConfigCommand::Reload { data, json } => reload(data.as_ref(), *json),
    }
}

/// The problems of a file, for programs.
#[derive(Serialize)]
struct Verdict {
    right: bool,
    problems: Vec<String>,
}

fn check(file: &Path, json: bool) -> Result<Exit, Failure> {
    let read = Configuration::read(file);
    if json {
        let problems = read.as_ref().err().map(ConfigurationError::lines);
        let problems = problems.unwrap_or_default().into_iter();
        output::say_json(&Verdict {
            right: read.is_ok(),
            problems: problems.map(server::plain).collect(),
        })?;
        return Ok(match read {
            Ok(_) => Exit::Success,
            Err(_) => Exit::Configuration,
        });
    }
    read.map_err(|error| Failure::new(Exit::Configuration, error))?;
    output::say(format_args!("{} is right.", file.display()))?;
    Ok(Exit::Success)
}

fn reload(data: Option<&PathBuf>, json: bool) -> Result<Exit, Failure> {
    let default = Configuration::default().data;
    let data = data.unwrap_or(&default);
    let answer = match answer(server::ask_reload(data))? {
        Err(StatusError::Misconfigured(problems)) if json => {
            output::say_json(&Verdict {
                right: false,
                problems,
            })?;
            return Ok(Exit::Configuration);
        }
        asked => asked.map_err(failure)?,
    };
    match json {
        true => output::say_json(&answer)?,
        false => output::say(&answer)?,
    }
    Ok(Exit::Success)
}

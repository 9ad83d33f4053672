//! `meridian status`: asks a running server and shows its answer.
//!
//! What must never enter: how the answer is sent.

use std::path::PathBuf;

use server::{Configuration, StatusError};

use crate::arguments::StatusArguments;
use crate::asking::answer;
use crate::exit::{Exit, Failure};
use crate::output;

pub(crate) fn run(arguments: &StatusArguments) -> Result<Exit, Failure> {
    let data: PathBuf = arguments
        .data
        .clone()
        .unwrap_or_else(|| Configuration::default().data);
    let asked = answer(server::ask_status(&data))?;
    let status = asked.map_err(failure)?;
    if arguments.json {
        output::say_json(&status)?;
    } else {
        output::say(&status)?;
    }
    Ok(Exit::Success)
}

/// Scripts need to know whether a server runs at all.
pub(crate) fn failure(error: StatusError) -> Failure {
    match error {
        error if error.is_of_no_server() => Failure::new(Exit::NotRunning, error),
        StatusError::Misconfigured(_) => Failure::new(Exit::Configuration, error),
        error => error.into(),
    }
}

//! `meridian drain`: sends the clients of a running server to others of its set, and waits until it has stopped.
//!
//! What must never enter: how clients are sent away.

use std::time::Duration;

use server::{Configuration, DrainQuestion, StatusError};

use crate::arguments::DrainArguments;
use crate::asking::runtime;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use crate::status::failure;

/// How long clients may take unless the command line says otherwise: they hear of it when they renew their lease,
/// of 90 seconds, at the latest.
const PATIENCE: Duration = Duration::from_secs(180);

/// How often it is asked how far the server is.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &DrainArguments) -> Result<Exit, Failure> {
    let data = arguments.data.clone();
    let data = data.unwrap_or_else(|| Configuration::default().data);
    let question = DrainQuestion {
        to: arguments.to.clone(),
        patience_seconds: arguments.patience.unwrap_or(PATIENCE).as_secs(),
    };
    let runtime = runtime()?;
    let ask = || runtime.block_on(server::ask_drain(&data, question.clone()));
    let mut told = ask().map_err(failure)?;
    output::say(told)?;
    let mut progress = Progress::of("waiting for clients");
    loop {
        std::thread::sleep(PAUSE);
        match ask() {
            Ok(answer) if answer == told => {}
            Ok(answer) => {
                // A line of its own, and the moving one below it again.
                drop(progress);
                output::say(answer)?;
                progress = Progress::of("waiting for clients");
                told = answer;
            }
            // It answered before, so it is this server that has stopped.
            Err(error) if error.is_of_no_server() => {
                drop(progress);
                output::say("the server has stopped")?;
                return Ok(Exit::Success);
            }
            // It stops, or has much to do.
            Err(StatusError::Busy(_) | StatusError::Answer { .. }) => {}
            Err(error) => return Err(failure(error)),
        }
    }
}

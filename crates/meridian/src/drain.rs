//! `meridian drain`: moves the clients of a running server to others of its set, and waits until the server has stopped.
//!
//! What must never enter: how clients are moved.

use std::time::Duration;

use server::{Configuration, DrainQuestion, StatusError};

use crate::arguments::DrainArguments;
use crate::asking::runtime;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use crate::status::failure;

/// The default time for clients to leave. They hear of the move at the latest when they renew their lease of 90
/// seconds.
const PATIENCE: Duration = Duration::from_secs(180);

/// The interval for asking for the progress.
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
                // On its own line; a new progress line follows below.
                drop(progress);
                output::say(answer)?;
                progress = Progress::of("waiting for clients");
                told = answer;
            }
            // It answered before, so this server has stopped.
            Err(error) if error.is_of_no_server() => {
                drop(progress);
                output::say("the server has stopped")?;
                return Ok(Exit::Success);
            }
            // It is stopping, or is busy.
            Err(StatusError::Busy(_) | StatusError::Answer { .. }) => {}
            Err(error) => return Err(failure(error)),
        }
    }
}

//! `meridian scrub`: makes a server compare its copy with the others', waits until it has finished, and shows the
//! result.
//!
//! What must never enter: the comparison.

use std::path::Path;
use std::time::Duration;

use server::{Configuration, ScrubQuestion, ScrubView, StatusError};

use crate::arguments::ScrubArguments;
use crate::asking::runtime;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use crate::status::failure;

/// The interval for asking whether it has finished.
const PAUSE: Duration = Duration::from_millis(500);

pub(crate) fn run(arguments: &ScrubArguments) -> Result<Exit, Failure> {
    let data = arguments.data.clone();
    let data = data.unwrap_or_else(|| Configuration::default().data);
    let runtime = runtime()?;
    let scrub = runtime.block_on(async {
        match arguments.show {
            true => ask(&data, false).await,
            false => carry_out(&data).await,
        }
    });
    let scrub = scrub.map_err(failure)?;
    if arguments.json {
        output::say_json(&scrub)?;
    } else {
        output::say(server::ScrubText(&scrub))?;
    }
    Ok(Exit::Success)
}

async fn ask(data: &Path, start: bool) -> Result<ScrubView, StatusError> {
    server::ask_scrub(data, ScrubQuestion { start }).await
}

/// Begins a run and waits for its end. A run in progress does not count: it may already have passed changed data.
async fn carry_out(data: &Path) -> Result<ScrubView, StatusError> {
    let before = ask(data, false).await?;
    ask(data, true).await?;
    let wanted = before.runs + 1 + u64::from(before.running);
    let progress = Progress::of_many("comparing objects");
    loop {
        let now = ask(data, false).await?;
        if now.runs >= wanted {
            return Ok(now);
        }
        progress.is_at(now.objects, now.objects_total);
        tokio::time::sleep(PAUSE).await;
    }
}

//! `meridian automount-map`: a program map for autofs(5), which mounts a domain's root from its nearest server.
//!
//! What must never enter: how that server is found. Any user can choose the key by typing a path. So a key is only used
//! if it is the name of a domain, and at most one line is printed.

use anyhow::anyhow;
use names::Lookup;

use crate::arguments::AutomountMapArguments;
use crate::asking::runtime;
use crate::exit::{Exit, Failure, told};
use crate::output;
use crate::refusals::{self, TOLD_MAX, Telling};

pub(crate) fn run(arguments: &AutomountMapArguments) -> Result<Exit, Failure> {
    let Err(refusal) = answer(arguments) else {
        return Ok(Exit::Success);
    };
    let telling = arguments.refusals.as_deref();
    match telling.map_or(Telling::Why, refusals::count) {
        Telling::Why => Err(refusal),
        Telling::WhyAndNoMore => Err(Failure::from(anyhow!(
            "{}. These were {TOLD_MAX} names within a minute that lead nowhere; what else is asked for in this minute is not told",
            told(&refusal.error)
        ))),
        Telling::Nothing => Ok(refusal.exit),
    }
}

fn answer(arguments: &AutomountMapArguments) -> Result<(), Failure> {
    let key = arguments.key.to_string_lossy();
    // Checked before anything else is read: most keys are names that programs look for in every directory.
    key.parse::<names::Domain>()?;
    let runtime = runtime()?;
    let entry = runtime.block_on(async {
        let lookup = match arguments.dns {
            Some(server) => Lookup::at(server),
            None => Lookup::of_this_machine()?,
        };
        names::map(&lookup, &key).await
    })?;
    // Do not wait for servers that have not answered.
    runtime.shutdown_background();
    output::say(entry)?;
    Ok(())
}

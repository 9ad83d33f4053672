//! `meridian durability`: asks a running server when updates of a directory are answered, or changes that.
//!
//! What must never enter: the effect of the setting.

use server::{Configuration, DurabilityQuestion, DurabilitySetting};

use crate::arguments::{DurabilityArguments, DurabilityWord};
use crate::asking::runtime;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use crate::status::failure;

pub(crate) fn run(arguments: &DurabilityArguments) -> Result<Exit, Failure> {
    let data = arguments.data.clone();
    let data = data.unwrap_or_else(|| Configuration::default().data);
    let question = DurabilityQuestion {
        path: arguments.path.clone(),
        set: arguments.setting.map(|word| match word {
            DurabilityWord::Relaxed => DurabilitySetting::Relaxed,
            DurabilityWord::Majority => DurabilitySetting::Majority,
            DurabilityWord::Inherit => DurabilitySetting::Inherit,
        }),
    };
    let runtime = runtime()?;
    let progress = Progress::of("waiting for the set to agree");
    let asked = runtime.block_on(server::ask_durability(&data, question));
    drop(progress);
    let answer = asked.map_err(failure)?;
    if arguments.json {
        output::say_json(&answer)?;
    } else {
        output::say(&answer)?;
    }
    Ok(Exit::Success)
}

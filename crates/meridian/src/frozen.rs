//! `meridian frozen` and `meridian thaw`: what a lost replica left undecided, and the decision to give it up.
//!
//! What must never enter: the rules of freezing and thawing.

use std::path::Path;

use server::{ThawAnswer, ThawQuestion};

use crate::arguments::{FrozenArguments, ThawArguments};
use crate::asking::{answer, directory, runtime};
use crate::consent;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use crate::status::failure;

pub(crate) fn list(arguments: &FrozenArguments) -> Result<Exit, Failure> {
    let data = directory(&arguments.data);
    let frozen = answer(server::ask_frozen(&data))?;
    let frozen = frozen.map_err(failure)?;
    if arguments.json {
        output::say_json(&frozen.rows)?;
    } else if frozen.rows.is_empty() {
        output::say("nothing is frozen")?;
    } else {
        let texts = frozen.rows.iter().map(server::FrozenText);
        texts.into_iter().try_for_each(output::say)?;
    }
    if frozen.more > 0 {
        output::remark(frozen.remark());
    }
    Ok(Exit::Success)
}

pub(crate) fn thaw(arguments: &ThawArguments) -> Result<Exit, Failure> {
    let data = directory(&arguments.data);
    let question = ThawQuestion {
        lost: arguments.discard,
        reason: arguments.reason.clone(),
        meant: false,
    };
    let given_up = ask(&data, &question)?;
    output::remark(&given_up);
    if let Some(what) = given_up.waits_for {
        return Err(anyhow::anyhow!("nothing was done, because {what}; try again later").into());
    }
    consent::obtain(arguments.yes)?;
    let question = ThawQuestion {
        meant: true,
        ..question
    };
    let given_up = ask(&data, &question)?;
    match arguments.json {
        true => output::say_json(&given_up)?,
        false => output::say(given_up)?,
    }
    Ok(Exit::Success)
}

fn ask(data: &Path, question: &ThawQuestion) -> Result<ThawAnswer, Failure> {
    let _progress = Progress::of("waiting for the set to agree");
    let asked = runtime()?.block_on(server::ask_thaw(data, question.clone()));
    asked.map_err(failure)
}

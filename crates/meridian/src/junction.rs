//! `meridian junction`: names in the root of the domain that lead to trees of other servers.
//!
//! What must never enter: which junctions are valid, and how the set agrees on them.

use std::path::PathBuf;

use server::{JunctionView, Referral};

use crate::arguments::JunctionCommand;
use crate::asking::{answer, directory, runtime};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use crate::status::failure;

pub(crate) fn run(command: &JunctionCommand) -> Result<Exit, Failure> {
    match command {
        JunctionCommand::Add { name, to, data } => {
            decide(data, name, to.clone())?;
            let to: Vec<String> = to.iter().map(ToString::to_string).collect();
            output::say(format_args!(
                "{name} leads to {} from now on, at every member of the set.",
                to.join(", ")
            ))?;
        }
        JunctionCommand::Remove { name, data } => {
            decide(data, name, Vec::new())?;
            output::say(format_args!(
                "{name} leads nowhere any more; what clients have mounted there stays until they let go of it."
            ))?;
        }
        JunctionCommand::List { data, json } => {
            let asked = answer(server::ask_junctions(&directory(data)))?;
            let junctions = asked.map_err(failure)?;
            match json {
                true => output::say_json(&junctions)?,
                false => output::say(&junctions)?,
            }
        }
    }
    Ok(Exit::Success)
}

fn decide(data: &Option<PathBuf>, name: &str, to: Vec<Referral>) -> Result<(), Failure> {
    let name = name.to_owned();
    let wish = JunctionView { name, to };
    let progress = Progress::of("waiting for the set to agree");
    let decided = runtime()?.block_on(server::ask_junction(&directory(data), wish));
    drop(progress);
    for warning in decided.map_err(failure)?.warnings {
        output::remark(format_args!("WARNING: {warning}."));
    }
    Ok(())
}

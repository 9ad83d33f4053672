//! `meridian view`: which members are active, which are away and why, and what was decided.
//!
//! What must never enter: how views are agreed.

use server::{Configuration, ViewText};

use crate::arguments::ViewArguments;
use crate::asking::answer;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::status::failure;

pub(crate) fn run(arguments: &ViewArguments) -> Result<Exit, Failure> {
    let data = arguments.data.clone();
    let data = data.unwrap_or_else(|| Configuration::default().data);
    let asked = answer(server::ask_view(&data))?;
    let view = asked.map_err(failure)?;
    if arguments.json {
        output::say_json(&view)?;
    } else {
        output::say(ViewText(&view))?;
    }
    Ok(Exit::Success)
}

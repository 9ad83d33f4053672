//! `meridian check`: verifies a data directory.
//!
//! What must never enter: the checks.

use server::Configuration;

use crate::arguments::CheckArguments;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;

pub(crate) fn run(arguments: &CheckArguments) -> Result<Exit, Failure> {
    let repair = match (arguments.repair, arguments.accept_loss) {
        (false, _) => server::Repair::Nothing,
        (true, false) => server::Repair::Mend,
        (true, true) => server::Repair::AcceptLoss,
    };
    let data = arguments.data.clone();
    let data = data.unwrap_or_else(|| Configuration::default().data);
    let progress = Progress::of("reading the data directory");
    let report = server::check(&data, repair)?;
    drop(progress);
    match arguments.json {
        true => output::say_json(&report)?,
        false => output::say(&report)?,
    }
    Ok(if report.is_sound() {
        Exit::Success
    } else {
        Exit::Defects
    })
}

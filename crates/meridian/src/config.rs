//! `meridian config check`: validates a configuration file without starting anything.
//!
//! What must never enter: the rules of validation.

use std::path::Path;

use server::Configuration;

use crate::exit::{Exit, Failure};
use crate::output;

pub(crate) fn check(file: &Path) -> Result<Exit, Failure> {
    Configuration::read(file).map_err(|error| Failure::new(Exit::Configuration, error))?;
    output::say(format_args!("{} is right.", file.display()))?;
    Ok(Exit::Success)
}

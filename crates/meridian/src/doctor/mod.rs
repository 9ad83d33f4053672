//! `meridian doctor`: looks at what a server and its clients depend on, and says what to mend.
//!
//! Each part looks at one thing and returns [`Finding`]s. What must never enter: changes to anything.

mod clients;
mod configuration;
mod domain;
mod machine;
mod mounts;
mod server_side;
mod set;

use std::fmt;
use std::path::Path;

use serde::Serialize;
use server::{Configuration, ConfigurationError};

use crate::arguments::DoctorArguments;
use crate::asking::runtime;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What was looked at.
    about: &'static str,
    verdict: Verdict,
    /// What is the case.
    what: String,
    /// What to do; absent when there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// As it should be.
    Well,
    /// It works, and will not always.
    Mind,
    /// It does not work, or harms somebody.
    Mend,
    /// It cannot be told here.
    Unknown,
}

impl Finding {
    fn well(about: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(about, Verdict::Well, what, None)
    }

    fn unknown(about: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(about, Verdict::Unknown, what, None)
    }

    fn mind(about: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding::new(about, Verdict::Mind, what, Some(remedy.into()))
    }

    fn mend(about: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding::new(about, Verdict::Mend, what, Some(remedy.into()))
    }

    fn new(
        about: &'static str,
        verdict: Verdict,
        what: impl Into<String>,
        remedy: Option<String>,
    ) -> Finding {
        let what = server::plain(what.into());
        Finding {
            about,
            verdict,
            what,
            remedy,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Well => "ok",
            Verdict::Mind => "MIND",
            Verdict::Mend => "MEND",
            Verdict::Unknown => "?",
        };
        write!(f, "{verdict:<5} {:<12} {}", self.about, self.what)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n      {:<12} {remedy}", ""),
            None => Ok(()),
        }
    }
}

pub(crate) fn run(arguments: &DoctorArguments) -> Result<Exit, Failure> {
    let (configuration, found) = match configuration(arguments) {
        Ok(known) => known,
        Err(error) => {
            if arguments.json {
                output::say_json(&[configuration::wrong(&error)])?;
            }
            return Err(Failure::new(Exit::Configuration, error));
        }
    };
    let runtime = runtime()?;
    let progress = Progress::of("looking");
    let mut findings = machine::clock();
    findings.extend(mounts::local());
    findings.extend(found);
    findings.extend(machine::disk(&configuration.data));
    let status = runtime.block_on(server::ask_status(&configuration.data));
    let inside = runtime.enter();
    findings.extend(server_side::findings(&configuration, &status));
    drop(inside);
    findings.extend(set::rights(&configuration.data));
    findings.extend(set::findings(&configuration.data));
    findings.extend(set::programs(&status));
    findings.extend(runtime.block_on(clients::findings(&configuration.data)));
    findings.extend(runtime.block_on(domain::findings(&configuration)));
    runtime.shutdown_background();
    drop(progress);
    if arguments.json {
        output::say_json(&findings)?;
    } else {
        findings.iter().try_for_each(output::say)?;
    }
    let ill = findings
        .iter()
        .any(|finding| finding.verdict == Verdict::Mend);
    Ok(if ill { Exit::Defects } else { Exit::Success })
}

/// What the server is configured to do, and what is to be said of where that stands.
fn configuration(
    arguments: &DoctorArguments,
) -> Result<(Configuration, Option<Finding>), ConfigurationError> {
    let Some(file) = &arguments.config else {
        let installed = Path::new(configuration::INSTALLED);
        let (configuration, found) = configuration::installed(installed, arguments.data.as_deref());
        return Ok((configuration, Some(found)));
    };
    let mut configuration = Configuration::read(file)?;
    if let Some(data) = &arguments.data {
        configuration.data.clone_from(data);
    }
    Ok((configuration, None))
}

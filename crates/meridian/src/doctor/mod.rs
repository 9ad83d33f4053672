//! `meridian doctor`: checks what a server and its clients depend on, and says what to repair.
//!
//! Each part checks one thing and returns [`Finding`]s. What must never enter: changes to anything.

mod clients;
mod configuration;
mod domain;
mod finding;
mod machine;
mod mounts;
mod server_side;
mod set;

use std::path::Path;

use server::{Configuration, ConfigurationError};

use crate::arguments::DoctorArguments;
use crate::asking::runtime;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;
use finding::{Finding, Verdict};

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

/// The server's configuration, and the findings for its file.
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

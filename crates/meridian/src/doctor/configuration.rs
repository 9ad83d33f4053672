//! The configuration of the server: the named file, or otherwise the package's.
//!
//! What must never enter: the settings.

use std::io;
use std::path::Path;

use server::{Configuration, ConfigurationError};

use super::finding::Finding;

const CONFIGURATION: &str = "config";

/// The file of the package, named in its unit.
pub(super) const INSTALLED: &str = "/etc/meridian/meridian.toml";

/// The configuration in the package's file, if that belongs to the server on `data`. Otherwise the defaults, with the
/// finding that the domain of that server is unknown.
pub(super) fn installed(file: &Path, data: Option<&Path>) -> (Configuration, Finding) {
    let shown = file.display();
    let unknown = |why: String| {
        let mut configuration = Configuration::default();
        if let Some(data) = data {
            data.clone_into(&mut configuration.data);
        }
        let what = format!("{why}, so DNS is not looked at; give its configuration with --config");
        (configuration, Finding::unknown(CONFIGURATION, what))
    };
    match Configuration::read(file) {
        Ok(configuration) => match data {
            Some(data) if data != configuration.data => unknown(format!(
                "{shown} is of the server on {}, not of this one",
                configuration.data.display()
            )),
            _ => {
                let what = format!("{shown} is looked at");
                (configuration, Finding::well(CONFIGURATION, what))
            }
        },
        Err(ConfigurationError::Unreadable { source, .. }) => match source.kind() {
            io::ErrorKind::NotFound => unknown(format!("there is no {shown}")),
            _ => unknown(format!("{shown} cannot be read ({source})")),
        },
        Err(error) => {
            let (configuration, _) = unknown(String::new());
            (configuration, wrong(&error))
        }
    }
}

/// The finding for an invalid file.
pub(super) fn wrong(error: &ConfigurationError) -> Finding {
    Finding::mend(CONFIGURATION, error.to_string(), "as the message says")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn the_packages_file_counts_for_the_server_that_it_is_of() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("meridian.toml");
        let (_, told) = installed(&file, None);
        assert_eq!(told.verdict, Verdict::Unknown, "{told}");
        assert!(told.what.contains("DNS is not looked at"), "{told}");

        fs::write(&file, "data = \"/d\"\n[names]\ndomain = \"example.org\"\n").unwrap();
        for data in [None, Some(Path::new("/d"))] {
            let (configuration, told) = installed(&file, data);
            assert!(configuration.domain.is_some());
            assert_eq!(told.verdict, Verdict::Well, "{told}");
        }
        let (configuration, told) = installed(&file, Some(Path::new("/e")));
        assert!(configuration.domain.is_none() && configuration.data == Path::new("/e"));
        assert!(told.what.contains("--config"), "{told}");

        fs::write(&file, "data = 7\n").unwrap();
        assert_eq!(installed(&file, None).1.verdict, Verdict::Mend);
    }
}

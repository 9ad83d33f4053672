//! Checks whether users other than the server's can read or change secret parts of its data directory.
//!
//! What must never enter: changes to anything, and the contents of files.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::configuration::Configuration;
use crate::data_directory::{has_user, pool_path, set_path, user_name};

/// The user under which the package's unit runs the server.
const USER_OF_UNIT: &str = "meridian";

/// The maximum number of checked entries of a directory.
const ENTRIES_MAX: usize = 64;

/// Something that other users can read or change, or that the server's user cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// The problem.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

/// Problems with the owners and modes of a data directory and of the keys in it. Files that this user cannot check are
/// left out.
#[must_use]
pub fn exposures(data: &Path) -> Vec<Exposure> {
    let Ok(whole) = fs::metadata(data) else {
        return Vec::new();
    };
    let owner = user_name(whole.uid());
    let mut found = Vec::new();
    let is_units = data == Configuration::default().data && has_user(USER_OF_UNIT);
    if is_units && owner != USER_OF_UNIT {
        found.push(Exposure {
            what: format!(
                "{} belongs to {owner}, and the package's unit runs the server as {USER_OF_UNIT}",
                data.display()
            ),
            remedy: format!("`chown -R {USER_OF_UNIT}: {}`", data.display()),
        });
    }
    found.extend(changeable(data, &whole));
    for directory in [data.to_owned(), set_path(data), pool_path(data)] {
        for (path, metadata) in entries(&directory) {
            if metadata.uid() != whole.uid() {
                found.push(Exposure {
                    what: format!(
                        "{} belongs to {}, and the data directory to {owner}",
                        path.display(),
                        user_name(metadata.uid())
                    ),
                    remedy: format!("`chown -R {owner}: {}`", data.display()),
                });
            }
            found.extend(readable(&path, &metadata));
        }
    }
    found
}

/// Logs these problems when a server starts.
pub(crate) fn warn_of_exposures(data: &Path) {
    for Exposure { what, remedy } in exposures(data) {
        tracing::warn!("{what}; {remedy} mends it");
    }
}

/// The entries of a directory that can be checked; for a link, its target. `lost+found` belongs to the file system.
fn entries(directory: &Path) -> Vec<(PathBuf, Metadata)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.take(ENTRIES_MAX).map(|entry| entry.path());
    let paths = paths.filter(|path| !path.ends_with("lost+found"));
    let mut found: Vec<(PathBuf, Metadata)> = paths
        .filter_map(|path| fs::metadata(&path).ok().map(|metadata| (path, metadata)))
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

/// A directory in which other users can replace files.
fn changeable(path: &Path, metadata: &Metadata) -> Option<Exposure> {
    let mode = metadata.permissions().mode() & 0o777;
    (mode & 0o022 != 0).then(|| Exposure {
        what: format!(
            "{} has the mode {mode:o}: other users may change what is in it",
            path.display()
        ),
        remedy: format!("`chmod 700 {}`", path.display()),
    })
}

/// A key that other users can read, or the directory of keys if other users can change it.
fn readable(path: &Path, metadata: &Metadata) -> Option<Exposure> {
    if metadata.is_dir() {
        return changeable(path, metadata);
    }
    let name = path.file_name()?.to_str()?;
    let is_secret =
        name.ends_with(".key") || ["authority.offer", "invitations.json"].contains(&name);
    let mode = metadata.permissions().mode() & 0o777;
    (is_secret && mode & 0o077 != 0).then(|| Exposure {
        what: format!(
            "{} has the mode {mode:o}: who reads it can pass for this server, or change the set",
            path.display()
        ),
        remedy: format!("`chmod 600 {}`", path.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_directories_that_others_may_use_are_found() {
        let data = tempfile::tempdir().unwrap();
        let set = data.path().join("set");
        fs::create_dir(&set).unwrap();
        let chmod = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        chmod(data.path(), 0o700);
        chmod(&set, 0o700);
        for (name, mode) in [("replica.key", 0o600), ("set.json", 0o644)] {
            fs::write(set.join(name), "x").unwrap();
            chmod(&set.join(name), mode);
        }
        assert_eq!(exposures(data.path()), []);
        chmod(&set.join("replica.key"), 0o640);
        chmod(&set, 0o770);
        chmod(data.path(), 0o777);
        let found = exposures(data.path());
        let remedies: Vec<&str> = found.iter().map(|one| one.remedy.as_str()).collect();
        let at = |mode: &str, path: &Path| format!("`chmod {mode} {}`", path.display());
        let wanted = [
            at("700", data.path()),
            at("700", &set),
            at("600", &set.join("replica.key")),
        ];
        assert_eq!(remedies, wanted);
        assert_eq!(exposures(&data.path().join("nowhere")), []);
    }
}

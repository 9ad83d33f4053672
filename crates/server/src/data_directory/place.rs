//! Checks the path of a data directory: whether it exists, and why it cannot be created.
//!
//! What must never enter: the content of the directory.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::DataDirectoryError;
use super::claim::user_name;

/// Refuses a path that is not a directory.
pub(crate) fn expect_directory(path: &Path) -> Result<(), DataDirectoryError> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(DataDirectoryError::NotADirectory(path.to_owned())),
        Err(error) => Err(match error.kind() {
            ErrorKind::NotFound => DataDirectoryError::Missing(path.to_owned()),
            ErrorKind::NotADirectory => DataDirectoryError::NotADirectory(in_the_way(path)),
            _ => DataDirectoryError::io("open", path)(error),
        }),
    }
}

/// Why a directory cannot be created, with a remedy for this path: a full disk is one of several reasons.
pub(super) fn not_made(path: &Path, error: io::Error) -> DataDirectoryError {
    let nearest = path.ancestors().find(|place| place.is_dir());
    let nearest = nearest.filter(|place| !place.as_os_str().is_empty());
    let nearest = nearest.unwrap_or(Path::new("."));
    let refused = |why: String, remedy: &str| DataDirectoryError::NotMade {
        path: path.to_owned(),
        why,
        remedy: remedy.to_owned(),
    };
    let is_of_the_kernel =
        rustix::fs::statvfs(nearest).is_ok_and(|file_system| file_system.f_blocks == 0);
    match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => match dangling(path) {
            Some(link) => refused(
                format!("{} is a symbolic link to what is not there", link.display()),
                "mount the disk that it leads to, or choose another directory with --data",
            ),
            None => DataDirectoryError::NotADirectory(in_the_way(path)),
        },
        ErrorKind::ReadOnlyFilesystem => refused(
            format!(
                "{} is on a file system that is mounted read-only",
                nearest.display()
            ),
            &format!(
                "choose another directory with --data, or {}",
                to_write_there()
            ),
        ),
        _ if is_of_the_kernel => refused(
            format!(
                "{} is on a file system without space for anything, such as the kernel shows itself in",
                nearest.display()
            ),
            "choose a directory on a disk with --data",
        ),
        ErrorKind::PermissionDenied => {
            let user = user_name(rustix::process::geteuid().as_raw());
            refused(
                format!("the user {user} may not make one in {}", nearest.display()),
                &format!(
                    "make it as root and give it to that user (`install -d -m 700 -o {user} {}`), or choose another directory with --data",
                    path.display()
                ),
            )
        }
        ErrorKind::InvalidFilename => refused(
            "its name is too long for the file system".to_owned(),
            "choose a shorter one with --data",
        ),
        ErrorKind::NotFound if path.as_os_str().is_empty() => {
            refused("its name is empty".to_owned(), "name one with --data")
        }
        _ => DataDirectoryError::io("create", path)(error),
    }
}

/// How to make a read-only path writable. A systemd unit may see a path as read-only that is writable for other
/// processes: our unit does so for all paths except its own directory.
pub(super) fn to_write_there() -> &'static str {
    match std::env::var_os("INVOCATION_ID").is_some() {
        true => {
            "let the unit write there, by a drop-in with `ReadWritePaths=`, unless the disk is mounted read-only for everybody: then mount it writable, and if the kernel made it read-only after an error, as `dmesg` says, repair or replace it first"
        }
        false => {
            "mount the disk writable. If the kernel made it read-only after an error, as `dmesg` says, repair or replace the disk first"
        }
    }
}

/// The first component of a path that exists and is not a directory.
fn in_the_way(path: &Path) -> std::path::PathBuf {
    let mut parts: Vec<&Path> = path.ancestors().collect();
    parts.reverse();
    let mut parts = parts.into_iter();
    let found = parts.find(|part| fs::metadata(part).is_ok_and(|found| !found.is_dir()));
    found.unwrap_or(path).to_owned()
}

/// The component of a path that is a dangling symbolic link.
fn dangling(path: &Path) -> Option<&Path> {
    path.ancestors()
        .find(|part| part.is_symlink() && !part.exists())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::io::Errno;

    use super::super::DataDirectory;
    use super::*;

    fn refusal(path: &Path) -> String {
        DataDirectory::open_or_create(path).unwrap_err().to_string()
    }

    #[test]
    fn each_place_where_none_can_be_made_has_advice_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "").unwrap();
        symlink(at("unmounted"), at("link")).unwrap();
        let long = "n".repeat(300);
        for (path, why, advice) in [
            (
                Path::new("/proc/nothing/here"),
                "/proc is on a file",
                "on a disk",
            ),
            (Path::new("/sys/nothing"), "/sys is on a file", "on a disk"),
            (&at("file"), "file is not a directory", "--data"),
            (&at("file/in/it"), "file is not a directory", "--data"),
            (
                &at("link"),
                "link is a symbolic link to what",
                "mount the disk",
            ),
            (
                &at("link/in"),
                "link is a symbolic link to what",
                "mount the disk",
            ),
            (&at(&long), "too long", "shorter"),
            (Path::new(""), "empty", "--data"),
        ] {
            let told = refusal(path);
            assert!(told.contains(why) && told.contains(advice), "{told}");
            assert!(!told.contains("free space"), "{told}");
        }
    }

    #[test]
    fn what_the_system_refuses_is_told_by_its_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        for (errno, part) in [
            (Errno::ROFS, "mounted read-only"),
            (Errno::ACCESS, "install -d -m 700 -o "),
            (Errno::NOSPC, "free space"),
        ] {
            let told = not_made(&path, errno.into()).to_string();
            assert!(told.contains(part), "{told}");
        }
    }
}

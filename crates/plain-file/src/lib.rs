//! Small files read whole: regular ones only, of bounded length, and never waited for.
//!
//! What stands where a file of ours should be may be anything: a FIFO, at which a reader waits until somebody writes, or a
//! device that never ends. And an error of reading may say something of what is stored, or only of the process that
//! reads; nobody may take the one for the other. Which numbers of descriptors are for whom stands in [`descriptors`].
//!
//! What must never enter: what a file means.

#![forbid(unsafe_code)]

pub mod descriptors;

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is a directory, a FIFO, a device or the like.
    #[error("it is not a regular file")]
    NotRegular,
    /// It has more bytes than any file of its kind.
    #[error("it is longer than any such file")]
    TooLong,
}

impl ReadError {
    /// The same where only the operating system's errors can be told.
    #[must_use]
    pub fn into_io(self) -> io::Error {
        match self {
            ReadError::Io(error) => error,
            others => io::Error::new(io::ErrorKind::InvalidData, others.to_string()),
        }
    }
}

/// Opens a regular file for reading, without waiting for anybody.
///
/// # Errors
/// [`ReadError::Io`] and [`ReadError::NotRegular`].
pub fn open(path: &Path) -> Result<File, ReadError> {
    let without_waiting = OFlags::NONBLOCK.bits().cast_signed();
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(without_waiting)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(ReadError::NotRegular),
    }
}

/// Reads a regular file whole, which has at most `bytes_max` bytes.
///
/// # Errors
/// [`ReadError`].
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
    let file = open(path)?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    match bytes.len() as u64 <= bytes_max {
        true => Ok(bytes),
        false => Err(ReadError::TooLong),
    }
}

/// Whether an error of reading says something of what a disk holds: that it is not there, or no longer as it was written.
/// All others are about this process and this machine, and nobody may conclude from them that anything is damaged, missing
/// or empty.
#[must_use]
pub fn is_about_contents(error: &io::Error) -> bool {
    const ABOUT: [Errno; 7] = [
        Errno::NOENT,
        Errno::NOTDIR,
        Errno::ISDIR,
        Errno::LOOP,
        Errno::IO,
        Errno::UCLEAN,
        Errno::BADMSG,
    ];
    // Without a number it comes from the code that read: too short, no text.
    let code = error.raw_os_error();
    code.is_none_or(|code| ABOUT.iter().any(|about| about.raw_os_error() == code))
}

/// Whether this process, or the machine, has as many files open as it may. That is no failure of a disk, and passes.
#[must_use]
pub fn lacks_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(Errno::MFILE.raw_os_error()) || code == Some(Errno::NFILE.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_no_regular_file_of_fitting_length_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let made = std::process::Command::new("mkfifo")
            .arg(path("fifo"))
            .status();
        assert!(made.unwrap().success());
        fs::create_dir(path("folder")).unwrap();
        for name in ["fifo", "folder", "/dev/zero"] {
            let refused = read(&path(name), 10);
            assert!(matches!(refused, Err(ReadError::NotRegular)), "{name}");
        }
        fs::write(path("long"), [b'a'; 11]).unwrap();
        assert!(matches!(read(&path("long"), 10), Err(ReadError::TooLong)));
        assert_eq!(read(&path("long"), 11).unwrap(), [b'a'; 11]);
        let missing = read(&path("missing"), 10).unwrap_err();
        assert!(matches!(missing, ReadError::Io(error) if error.kind() == io::ErrorKind::NotFound));
    }

    #[test]
    fn what_a_process_lacks_says_nothing_of_contents() {
        let about = |errno: Errno| is_about_contents(&errno.into());
        for errno in [Errno::NOENT, Errno::IO, Errno::UCLEAN, Errno::NOTDIR] {
            assert!(about(errno), "{errno}");
        }
        for errno in [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::ACCESS,
            Errno::PERM,
            Errno::INTR,
            Errno::NOSPC,
        ] {
            assert!(!about(errno), "{errno}");
        }
        assert!(is_about_contents(&io::ErrorKind::UnexpectedEof.into()));
        assert!(lacks_descriptors(&Errno::MFILE.into()) && !lacks_descriptors(&Errno::IO.into()));
    }
}

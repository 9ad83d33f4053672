//! Reads whole small files: only regular ones, of bounded length, and without waiting.
//!
//! A path of our file may lead to anything: a FIFO, at which a reader waits for a writer, or a
//! device that never ends. An error of reading may concern what is stored, or only the
//! reading process; the two must not be confused. [`descriptors`] defines the uses of descriptor numbers.
//!
//! What must never enter: the meaning of a file.

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
    /// It is not a regular file, but for example a directory, a FIFO or a device.
    #[error("it is not a regular file")]
    NotRegular,
    /// It has more bytes than any file of its kind.
    #[error("it is longer than any such file")]
    TooLong,
}

impl ReadError {
    /// The same for callers that can only report errors of the operating system.
    #[must_use]
    pub fn into_io(self) -> io::Error {
        match self {
            ReadError::Io(error) => error,
            others => io::Error::new(io::ErrorKind::InvalidData, others.to_string()),
        }
    }
}

/// Opens a regular file for reading, without waiting.
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

/// Reads a whole regular file of at most `bytes_max` bytes.
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

/// Whether an error of reading concerns the content of a disk: it is missing, or not as it was written.
/// All other errors concern this process and this machine. They do not show that anything is damaged, missing
/// or empty.
#[must_use]
pub fn is_about_contents(error: &io::Error) -> bool {
    const ABOUT: [Errno; 8] = [
        // A seek to before the start of a file that is too short.
        Errno::INVAL,
        Errno::NOENT,
        Errno::NOTDIR,
        Errno::ISDIR,
        Errno::LOOP,
        Errno::IO,
        Errno::UCLEAN,
        Errno::BADMSG,
    ];
    // Without a number the error comes from the reading code: too short, or not text.
    let code = error.raw_os_error();
    code.is_none_or(|code| ABOUT.iter().any(|about| about.raw_os_error() == code))
}

/// Whether this process, or the machine, has reached its limit of open files. This is not a disk failure, and may pass.
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
        for errno in [Errno::NOENT, Errno::IO, Errno::UCLEAN, Errno::INVAL] {
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

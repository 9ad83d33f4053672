//! Small files that are replaced as a whole and verified when read.
//!
//! A sealed file starts with a line with its kind and format, and ends with a line with the BLAKE3 hash of everything
//! before it. It is written under another name, flushed to stable storage and renamed, so that a crash leaves either
//! the old file or the new one.
//!
//! What must never enter: the meaning of the content.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use plain_file::ReadError;

/// The kind of a file, and the format of its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// A word for the first line.
    pub(crate) name: &'static str,
    /// The format this program writes, and the newest it reads.
    pub(crate) format: u32,
}

/// Why a sealed file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SealedFileError {
    /// The operating system reported an error.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The content differs from what was written.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How the damage was detected.
        what: &'static str,
    },
    /// A newer program wrote it.
    #[error(
        "{path} has format {found}, but this program knows only formats up to {known}; start the newer program that wrote it"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format that can be read.
        known: u32,
    },
}

impl SealedFileError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SealedFileError {
        move |source| SealedFileError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Whether the disk is full.
    pub(super) fn is_lack_of_space(&self) -> bool {
        matches!(self, SealedFileError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }

    /// Whether the file itself is unreadable, and not this process unable to read files.
    pub(super) fn is_about_contents(&self) -> bool {
        match self {
            SealedFileError::Io { source, .. } => plain_file::is_about_contents(source),
            SealedFileError::Damaged { .. } | SealedFileError::Newer { .. } => true,
        }
    }

    /// Whether the file does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, SealedFileError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

const SEAL: &[u8] = b"\nblake3 ";
/// The seal, 64 hexadecimal digits and a line feed.
const SEAL_BYTES: usize = SEAL.len() + 64 + 1;
/// The suffix of a file's name while it is being written.
const UNFINISHED: &str = ".unfinished";
/// The maximum size of a sealed file.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Writes a file to stable storage, replacing an older one.
pub(crate) fn write(path: &Path, kind: Kind, content: &[u8]) -> Result<(), SealedFileError> {
    let unfinished = path.with_added_extension(&UNFINISHED[1..]);
    let put = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options
            .open(&unfinished)
            .map_err(SealedFileError::io("create", &unfinished))?;
        let written = file
            .write_all(&sealed(kind, content))
            .and_then(|()| file.sync_all());
        written.map_err(SealedFileError::io("write", &unfinished))?;
        fs::rename(&unfinished, path).map_err(SealedFileError::io("replace", path))
    };
    put().inspect_err(|_| {
        // On a full disk many unfinished files may appear. If this removal fails, the next read removes the file.
        let _ = fs::remove_file(&unfinished);
    })?;
    sync_directory_of(path)
}

/// Removes a file, if it is there, so that it stays removed after a crash.
pub(crate) fn remove(path: &Path) -> Result<(), SealedFileError> {
    match fs::remove_file(path) {
        // An earlier attempt may have removed it without completing the flush.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(SealedFileError::io("remove", path)(error))
        }
        _ => sync_directory_of(path),
    }
}

/// Reads a file and returns its content after verifying all of it.
pub(crate) fn read(path: &Path, kind: Kind) -> Result<Vec<u8>, SealedFileError> {
    read_any(path, kind).map(|(_, content)| content)
}

/// The same with the format of the content.
pub(super) fn read_any(path: &Path, kind: Kind) -> Result<(u32, Vec<u8>), SealedFileError> {
    let damaged = |what| SealedFileError::Damaged {
        path: path.to_owned(),
        what,
    };
    let bytes = plain_file::read(path, FILE_BYTES_MAX).map_err(|error| match error {
        ReadError::Io(error) => SealedFileError::io("read", path)(error),
        ReadError::NotRegular => damaged("it is not a regular file"),
        ReadError::TooLong => damaged("it is longer than any such file"),
    })?;
    unseal(kind, &bytes).map_err(|flaw| match flaw {
        Flaw::Damage(what) => damaged(what),
        Flaw::Format(found) => SealedFileError::Newer {
            path: path.to_owned(),
            found,
            known: kind.format,
        },
    })
}

/// Whether a name belongs to a file whose writing was interrupted.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    path.as_os_str()
        .as_encoded_bytes()
        .ends_with(UNFINISHED.as_bytes())
}

/// Flushes the entries of the directory that contains `path` to stable storage.
pub(crate) fn sync_directory_of(path: &Path) -> Result<(), SealedFileError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(SealedFileError::io("synchronise", directory))
}

fn sealed(kind: Kind, content: &[u8]) -> Vec<u8> {
    let mut bytes = format!("meridian {} {}\n", kind.name, kind.format).into_bytes();
    bytes.extend_from_slice(content);
    let hash = blake3::hash(&bytes);
    bytes.extend_from_slice(SEAL);
    bytes.extend_from_slice(hash.to_hex().as_bytes());
    bytes.push(b'\n');
    bytes
}

#[derive(Debug, PartialEq, Eq)]
enum Flaw {
    Damage(&'static str),
    Format(u32),
}

/// [`crate::decode_as_anything`] for sealed files.
pub(super) fn decode_as_anything(bytes: &[u8]) {
    let kind = Kind {
        name: "member",
        format: 1,
    };
    let _ = unseal(kind, bytes);
}

fn unseal(kind: Kind, bytes: &[u8]) -> Result<(u32, Vec<u8>), Flaw> {
    let end = bytes
        .len()
        .checked_sub(SEAL_BYTES)
        .ok_or(Flaw::Damage("it is too short"))?;
    let (sealed, seal) = bytes.split_at(end);
    let hash = blake3::hash(sealed).to_hex();
    let expected = [SEAL, hash.as_bytes(), b"\n"].concat();
    if seal != expected {
        return Err(Flaw::Damage("its last line does not fit the rest"));
    }
    let line_end = sealed.iter().position(|byte| *byte == b'\n');
    let (line, content) =
        sealed.split_at(line_end.ok_or(Flaw::Damage("its first line is missing"))?);
    let format = std::str::from_utf8(line)
        .ok()
        .and_then(|line| {
            line.strip_prefix("meridian ")?
                .strip_prefix(kind.name)?
                .strip_prefix(' ')
        })
        .and_then(|format| format.parse::<u32>().ok())
        .ok_or(Flaw::Damage(
            "its first line says that it is something else",
        ))?;
    if format > kind.format {
        return Err(Flaw::Format(format));
    }
    Ok((format, content[1..].to_vec()))
}

/// Makes a FIFO without a writer.
#[cfg(test)]
pub(crate) fn make_fifo(path: &Path) {
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind {
        name: "test",
        format: 3,
    };

    #[test]
    fn content_comes_back_whatever_bytes_it_has() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for content in [&b""[..], b"one\ntwo\n", &[0, 255, b'\n', 10]] {
            write(&path, KIND, content).unwrap();
            assert_eq!(read(&path, KIND).unwrap(), content);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert!(read(&path, KIND).unwrap_err().is_missing());
    }

    #[test]
    fn nothing_is_left_of_what_cannot_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::create_dir(&path).unwrap();
        write(&path, KIND, b"content").unwrap_err();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    /// An attempt had removed the file and could not flush the directory. The next attempt found no file, and considered the removal complete: after a power
    /// loss the file was there again.
    /// of power the file was there again.
    #[test]
    fn a_removal_is_over_when_the_directory_is_flushed() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("folder");
        remove(&folder.join("file")).unwrap_err();
        fs::create_dir(&folder).unwrap();
        remove(&folder.join("file")).unwrap();
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_noticed() {
        let whole = sealed(KIND, b"content");
        for end in 0..whole.len() {
            assert!(
                unseal(KIND, &whole[..end]).is_err(),
                "{end} bytes were believed"
            );
        }
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            assert!(unseal(KIND, &bytes).is_err(), "byte {place} was believed");
        }
    }

    #[test]
    fn what_is_no_file_is_damage_and_holds_up_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let (fifo, folder) = (
            directory.path().join("fifo"),
            directory.path().join("folder"),
        );
        make_fifo(&fifo);
        fs::create_dir(&folder).unwrap();
        for path in [fifo, folder] {
            let error = read(&path, KIND).unwrap_err();
            let told = error.to_string();
            assert!(
                matches!(error, SealedFileError::Damaged { .. })
                    && told.contains(path.to_str().unwrap()),
                "{told}"
            );
        }
    }

    #[test]
    fn other_kinds_and_newer_formats_are_refused() {
        let other = sealed(
            Kind {
                name: "other",
                format: 3,
            },
            b"x",
        );
        assert!(matches!(unseal(KIND, &other), Err(Flaw::Damage(_))));
        let newer = sealed(
            Kind {
                name: "test",
                format: 4,
            },
            b"x",
        );
        assert_eq!(unseal(KIND, &newer), Err(Flaw::Format(4)));
        let older = sealed(
            Kind {
                name: "test",
                format: 2,
            },
            b"x",
        );
        assert_eq!(unseal(KIND, &older), Ok((2, b"x".to_vec())));
    }
}

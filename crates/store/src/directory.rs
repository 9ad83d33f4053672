//! The directory of a store, kept open from the time when the store was opened, wherever its path leads later.
//!
//! Data files are opened and created relative to the open directory, not through its path. Otherwise files would be created in the
//! wrong place when an administrator moves the directory of a running store, replaces it by a copy, or unmounts its disk.
//!
//! What must never enter: the content of the files.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::layout::Layout;

/// The open directories.
#[derive(Debug)]
pub(crate) struct Directory {
    root: File,
    /// The directory of data files.
    data: File,
}

impl Directory {
    pub(crate) fn open(layout: &Layout) -> io::Result<Directory> {
        Ok(Directory {
            root: File::open(layout.root())?,
            data: File::open(layout.data())?,
        })
    }

    /// The directory of data files.
    pub(crate) fn data(&self) -> &File {
        &self.data
    }

    /// Whether the paths of the store still lead to this directory, and no other process has claimed it since. An error in this check
    /// counts as yes: a failed disk is noticed in other ways.
    pub(crate) fn is_in_place(&self, layout: &Layout) -> bool {
        let is_at = |opened: &File, path: &Path| match (opened.metadata(), fs::metadata(path)) {
            (Ok(opened), Ok(found)) => is_same(&opened, &found),
            (_, Err(error)) => !is_absent(&error),
            (Err(_), _) => true,
        };
        let is_claimed = || match (layout.claim(), fs::metadata(layout.lock_file())) {
            (Some(claim), Ok(found)) => claim.metadata().is_ok_and(|own| is_same(&own, &found)),
            // A removed lock file does not keep other processes out, but none has come in.
            _ => true,
        };
        is_at(&self.root, layout.root()) && is_at(&self.data, &layout.data()) && is_claimed()
    }

    /// Opens a file below the directory of data files.
    pub(crate) fn open_below(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let (flags, mode) = (flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
        let opened = retry_on_intr(|| rustix::fs::openat(&self.data, path, flags, mode));
        Ok(File::from(opened?))
    }

    /// Whether there is a file below the directory of data files.
    pub(crate) fn has_below(&self, path: &Path) -> io::Result<bool> {
        match rustix::fs::statat(&self.data, path, AtFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Creates a directory below the directory of data files, unless it exists.
    pub(crate) fn make_below(&self, path: &Path) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.data, path, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes a file below the directory of data files. There may be none.
    pub(crate) fn remove_below(&self, path: &Path) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.data, path, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Moves a file to a path below the directory of data files, and replaces the file there.
    pub(crate) fn take_in(&self, from: &Path, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::renameat(CWD, from, &self.data, path)?)
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

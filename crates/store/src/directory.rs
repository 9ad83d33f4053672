//! The directory of a store as it was when the store was opened, whatever its path leads to later.
//!
//! Data files are opened and made below the directory itself, not below its path. An administrator who moves the directory of a
//! running store, puts a copy in its place, or unmounts its disk, would else have files made where nobody looks for them.
//!
//! What must never enter: what lies in the files.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::layout::Layout;

/// What is held open of it.
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

    /// Whether the paths of the store still lead to it, and nobody else has claimed it since. What cannot be found out does not count
    /// against that: a disk that has failed shows in other ways.
    pub(crate) fn is_in_place(&self, layout: &Layout) -> bool {
        let is_at = |opened: &File, path: &Path| match (opened.metadata(), fs::metadata(path)) {
            (Ok(opened), Ok(found)) => is_same(&opened, &found),
            (_, Err(error)) => !is_absent(&error),
            (Err(_), _) => true,
        };
        let is_claimed = || match (layout.claim(), fs::metadata(layout.lock_file())) {
            (Some(claim), Ok(found)) => claim.metadata().is_ok_and(|own| is_same(&own, &found)),
            // One that somebody has removed keeps nobody out, but nobody has come in.
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

    /// Makes a directory below the directory of data files, unless it is there.
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

    /// Puts a file from elsewhere in the place of one below the directory of data files.
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

//! The shared environment of all experiments: the server program, a disk, and the recorded package.
//!
//! What must never enter: the measurements.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

use crate::extent::Extent;
use crate::trace::Trace;

/// The environment of experiments.
#[derive(Debug)]
pub(crate) struct Field {
    /// Meridian's program.
    pub(crate) program: PathBuf,
    /// The extent of the work.
    pub(crate) extent: Extent,
    /// The package whose unpacking, configuration and build were recorded.
    pub(crate) trace: Trace,
    /// Held during work without pauses, by jobs that run beside others.
    pub(crate) turn: Mutex<()>,
    disk: PathBuf,
    folders: AtomicU64,
}

impl Field {
    /// With a work folder on this disk.
    pub(crate) fn new(program: PathBuf, extent: Extent, trace: Trace, disk: &Path) -> Self {
        Self {
            program,
            extent,
            trace,
            turn: Mutex::new(()),
            disk: disk.to_owned(),
            folders: AtomicU64::new(0),
        }
    }

    /// A new folder on the disk, for the data of servers. It is removed when it is dropped, so it must outlive
    /// them.
    ///
    /// # Errors
    /// Fails when it cannot be made.
    pub(crate) fn folder(&self) -> Result<Folder> {
        let number = self.folders.fetch_add(1, Ordering::Relaxed);
        let path = self.disk.join(format!("field-{number}"));
        fs::create_dir_all(&path)
            .with_context(|| format!("could not create {}", path.display()))?;
        Ok(Folder(path))
    }
}

/// A folder that is removed when dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("evaluation: could not remove {}: {error}", self.0.display());
        }
    }
}

/// A runtime for clients on the calling thread.
///
/// # Errors
/// Fails when the system has no more event queues.
pub(crate) fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}

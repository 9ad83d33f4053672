//! The disk of a server: a separate file system in memory, which can be filled without harm to other servers.
//!
//! It keeps exactly what survives `kill -9`; the tests of the store cover power failures.
//!
//! What must never enter: what lies on it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

/// The size of a disk. Memory is used only as the disk is filled.
const SIZE: &str = "size=2g";

/// The prefix of mount names. The process that made the mount follows, so that mounts of dead runs are recognised.
const MARK: &str = "nemesis-";

/// A separate file system, unmounted when dropped.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    balloon: PathBuf,
}

impl Disk {
    /// Mounts a new disk at `folder`.
    pub fn mount(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)
            .with_context(|| format!("could not create {}", folder.display()))?;
        let source = format!("{MARK}{}", std::process::id());
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", SIZE, &source])
            .arg(folder)
            .output()
            .context("could not start mount")?;
        ensure!(
            output.status.success(),
            "no file system could be mounted at {}: {}",
            folder.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(Self {
            folder: folder.to_owned(),
            balloon: folder.join("balloon"),
        })
    }

    /// Where the server may keep its data.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Leaves `left` bytes.
    pub fn fill(&self, left: u64) -> Result<()> {
        let balloon = File::create(&self.balloon)?;
        loop {
            let space = statvfs(&self.folder)?;
            let size = (space.f_bavail * space.f_frsize).saturating_sub(left);
            if size == 0 {
                return Ok(());
            }
            match fallocate(&balloon, FallocateFlags::empty(), 0, size) {
                Ok(()) => return Ok(()),
                // The server has used some of the space since.
                Err(Errno::NOSPC) => {}
                Err(error) => return Err(error).context("could not fill the disk"),
            }
        }
    }

    /// Gives the space back.
    pub fn empty(&self) -> Result<()> {
        match fs::remove_file(&self.balloon) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        unmount(&self.folder);
    }
}

/// Unmounts the disks of runs that were killed.
pub fn sweep() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(source), Some(folder)) = (words.next(), words.next()) else {
            continue;
        };
        let owner = source.strip_prefix(MARK);
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            unmount(Path::new(folder));
        }
    }
}

/// At once for new users, and finally when no process uses it any more.
fn unmount(folder: &Path) {
    // A later run sweeps the rest.
    let _ = Command::new("umount").arg("-l").arg(folder).status();
}

//! A disk that fails: a real file system on a loop device, whose medium a test can damage.
//!
//! What must never enter: what lies on the disk.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::requirements::search_path;

/// The reported size of the disk, in bytes.
const SIZE: u64 = 1 << 30;
/// The real size of its medium.
const MEDIUM: &str = "size=320m,mode=700";
/// How long the kernel may use a disk that is not mounted any more.
const RELEASED_WITHIN: Duration = Duration::from_secs(60);
/// The interval between checks whether it does.
const LOOK: Duration = Duration::from_millis(20);
/// The number of bytes of the medium that are read at a time.
const PIECE: usize = 1 << 20;

/// The file system of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFormat {
    /// The usual one. It does not check what the medium returns.
    Ext4,
    /// It has checksums: damaged content cannot be read.
    Btrfs,
}

/// A mounted disk. Its medium is a sparse file in memory, and the memory can be taken away. Dropping the disk removes
/// all of it; all its users must be gone by then. See [`crate::Requirements::disks`].
#[derive(Debug)]
pub struct Disk {
    format: DiskFormat,
    directory: PathBuf,
}

impl Disk {
    /// A new disk, in its own empty directory.
    ///
    /// # Errors
    /// When the directory cannot be used, or this machine cannot mount such a disk.
    pub fn make(format: DiskFormat, directory: &Path) -> Result<Disk> {
        let directory = directory.to_owned();
        let medium = directory.join("medium");
        fs::create_dir(&medium).context("no place for the medium")?;
        fs::create_dir(directory.join("mounted")).context("no place for the disk")?;
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", MEDIUM, "tmpfs"])
            .arg(medium))?;
        let disk = Disk { format, directory };
        File::create(disk.image())?.set_len(SIZE)?;
        let mut format = match format {
            DiskFormat::Ext4 => Command::new("mkfs.ext4"),
            DiskFormat::Btrfs => Command::new("mkfs.btrfs"),
        };
        run(format.arg("-q").arg(disk.image()))?;
        disk.mount()?;
        Ok(disk)
    }

    /// The mount point.
    pub fn root(&self) -> PathBuf {
        self.directory.join("mounted")
    }

    /// From now on a write to an unused place of the medium fails with an I/O error.
    ///
    /// # Errors
    /// When the medium cannot be used up.
    pub fn refuse_writes(&self) -> Result<()> {
        let mut balloon = File::create(self.balloon())?;
        match io::copy(&mut io::repeat(1), &mut balloon) {
            Err(error) if error.kind() == ErrorKind::StorageFull => Ok(()),
            other => bail!("the medium cannot be filled: {other:?}"),
        }
    }

    /// Changes all places of the medium that hold these bytes; returns their number. It compares whole blocks, and
    /// these bytes must be one block. The disk must not be mounted.
    ///
    /// # Errors
    /// When the medium cannot be read or written.
    pub fn spoil(&self, block: &[u8]) -> Result<usize> {
        ensure!(
            !block.is_empty() && PIECE.is_multiple_of(block.len()),
            "that is no block"
        );
        let mut medium = File::options().read(true).write(true).open(self.image())?;
        let (mut piece, mut found) = (vec![0; PIECE], 0);
        for start in (0..SIZE).step_by(PIECE) {
            medium.seek(SeekFrom::Start(start))?;
            medium.read_exact(&mut piece)?;
            for (number, here) in piece.chunks(block.len()).enumerate() {
                if here == block {
                    let offset = (number * block.len()) as u64;
                    medium.seek(SeekFrom::Start(start + offset))?;
                    medium.write_all(&[!block[0]])?;
                    found += 1;
                }
            }
        }
        Ok(found)
    }

    /// Unmounts the disk.
    ///
    /// # Errors
    /// When something uses it.
    pub fn unmount(&self) -> Result<()> {
        run(Command::new("umount").arg(self.root()))?;
        // The kernel releases the loop device a moment later, and writes to the medium until then.
        let given_up = Instant::now() + RELEASED_WITHIN;
        while !self.is_released()? {
            ensure!(Instant::now() < given_up, "the loop device is still in use");
            sleep(LOOK);
        }
        Ok(())
    }

    fn is_released(&self) -> Result<bool> {
        let mut question = Command::new("losetup");
        let answer = command(question.arg("--associated").arg(self.image())).output();
        let answer = answer.context("losetup cannot be started")?;
        ensure!(answer.status.success(), "losetup failed: {answer:?}");
        Ok(answer.stdout.is_empty())
    }

    /// Mounts it again.
    ///
    /// # Errors
    /// When its file system cannot be mounted.
    pub fn mount(&self) -> Result<()> {
        run(Command::new("mount")
            .args(["-o", "loop"])
            .args([self.image(), self.root()]))
    }

    /// Repairs a disk that refused to store, as an administrator does: unmounts it, gives it a medium that works, checks it
    /// and mounts it again.
    ///
    /// # Errors
    /// When something uses the disk, and when it is beyond repair.
    pub fn mend(&self) -> Result<()> {
        self.unmount()?;
        fs::remove_file(self.balloon())?;
        if self.format == DiskFormat::Ext4 {
            let mut check = Command::new("e2fsck");
            let output = command(check.arg("-fy").arg(self.image())).output();
            let output = output.context("e2fsck cannot be started")?;
            // 1: errors were repaired.
            let good = matches!(output.status.code(), Some(0 | 1));
            ensure!(good, "the disk cannot be mended: {output:?}");
        }
        self.mount()
    }

    fn image(&self) -> PathBuf {
        self.directory.join("medium/image")
    }

    fn balloon(&self) -> PathBuf {
        self.directory.join("medium/balloon")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It may be unmounted already. The kernel releases a loop device a moment later, and then the medium.
        for mounted in [self.root(), self.directory.join("medium")] {
            let _ = command(Command::new("umount").arg("--lazy").arg(mounted)).output();
        }
    }
}

fn command(command: &mut Command) -> &mut Command {
    command.env("PATH", search_path())
}

fn run(given: &mut Command) -> Result<()> {
    let output = command(given).output();
    let output = output.with_context(|| format!("{given:?} cannot be started"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{given:?} failed: {complaint}");
    Ok(())
}

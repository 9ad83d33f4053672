//! The machine of the measurements, described only as far as comparisons need.
//!
//! What must never enter: names of hosts, paths and users.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

/// The number of durable appends to measure.
const APPENDS: usize = 200;

/// The number of file creations to measure.
const CREATIONS: usize = 1000;

/// The description of a machine.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// Processor cores that this process may use.
    pub cores: usize,
    /// Memory in GiB, rounded.
    pub memory_gib: u64,
    /// The kernel's name and version, without the packager's additions.
    pub kernel: String,
    /// The file system of the folder measured.
    pub file_system: String,
    /// The median time of write(2) of 4 KiB and fdatasync(2) at the end of a file there, in
    /// microseconds.
    pub append_us: u64,
    /// The median time to make an empty file there, in microseconds.
    pub create_us: u64,
}

impl Machine {
    /// Looks at this machine and at the disk that `folder` lies on.
    pub fn describe(folder: &Path) -> Result<Self> {
        let cores = std::thread::available_parallelism().context("could not count the cores")?;
        let memory = rustix::system::sysinfo();
        let memory = u64::from(memory.mem_unit) * memory.totalram as u64;
        Ok(Self {
            cores: cores.get(),
            memory_gib: (memory + (1 << 29)) >> 30,
            kernel: kernel(),
            file_system: file_system(folder)?,
            append_us: append_us(folder)?,
            create_us: create_us(folder)?,
        })
    }
}

fn kernel() -> String {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let version: Vec<&str> = release.split(['.', '-']).take(2).collect();
    format!(
        "{} {}",
        uname.sysname().to_string_lossy(),
        version.join(".")
    )
}

/// The type of a file system, by the numbers of statfs(2).
fn file_system(folder: &Path) -> Result<String> {
    let statistics = rustix::fs::statfs(folder)?;
    Ok(match statistics.f_type as u64 {
        0xef53 if lacks_journal(folder) => "ext4 without a journal".to_owned(),
        0xef53 => "ext4".to_owned(),
        0x5846_5342 => "XFS".to_owned(),
        0x9123_683e => "Btrfs".to_owned(),
        0x2fc1_2fc1 => "ZFS".to_owned(),
        0x0102_1994 => "tmpfs".to_owned(),
        0x794c_7630 => "overlayfs".to_owned(),
        other => format!("a file system of type {other:#x}"),
    })
}

/// Whether an ext4 is known to have no journal: active journals are listed in /proc, by
/// the name of their device.
fn lacks_journal(folder: &Path) -> bool {
    let Ok(metadata) = fs::metadata(folder) else {
        return false;
    };
    let (major, minor) = (
        rustix::fs::major(metadata.dev()),
        rustix::fs::minor(metadata.dev()),
    );
    let Ok(device) = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")) else {
        return false;
    };
    let Some(device) = device.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let Ok(journals) = fs::read_dir("/proc/fs/jbd2") else {
        return false;
    };
    let prefix = format!("{device}-");
    !journals
        .filter_map(Result::ok)
        .any(|journal| journal.file_name().to_string_lossy().starts_with(&prefix))
}

/// Bytes free for this process on the file system of `folder`.
pub fn free_space(folder: &Path) -> Result<u64> {
    let statistics = rustix::fs::statvfs(folder)?;
    Ok(statistics.f_bavail * statistics.f_frsize)
}

/// Writes everything on the file system of `folder` to its disk.
pub fn write_back(folder: &Path) -> Result<()> {
    let folder = File::open(folder)?;
    Ok(rustix::fs::syncfs(&folder)?)
}

/// Asks the file system to place the folders in `folder` apart from each other, if it supports this:
/// on ext4 by the attribute `T` of chattr(1). Otherwise they share the block groups in which it
/// looks for free inodes, and the removals of one server slow another one down, see `turn::work`.
pub fn spread_subfolders(folder: &Path) -> Result<()> {
    let output = Command::new("chattr").arg("+T").arg(folder).output();
    let output = output.context("could not start chattr; install e2fsprogs")?;
    if !output.status.success() {
        eprintln!(
            "bench: this file system does not spread folders, so servers may disturb each other"
        );
    }
    Ok(())
}

fn create_us(folder: &Path) -> Result<u64> {
    let folder = folder.join("creation");
    fs::create_dir(&folder)?;
    let mut times = Vec::with_capacity(CREATIONS);
    for number in 0..CREATIONS {
        let began = Instant::now();
        File::create(folder.join(number.to_string()))?;
        times.push(began.elapsed());
    }
    fs::remove_dir_all(folder)?;
    Ok(median_us(times))
}

fn append_us(folder: &Path) -> Result<u64> {
    let path = folder.join("append");
    let mut file = File::create(&path)?;
    let mut times = Vec::with_capacity(APPENDS);
    for _ in 0..APPENDS {
        let began = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    fs::remove_file(path)?;
    Ok(median_us(times))
}

fn median_us(mut times: Vec<Duration>) -> u64 {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied();
    median.unwrap_or_default().as_micros() as u64
}

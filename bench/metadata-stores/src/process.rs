//! What the kernel knows about this process and its files: memory, processor time, disk space.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

/// Clock ticks of `/proc/self/stat` in a second; fixed at 100 on every Linux that Rust runs on.
const TICKS_A_SECOND: u64 = 100;

/// Resident memory of this process, in bytes.
pub struct Resident {
    /// Heap and stacks: what only this process can free.
    pub anonymous_bytes: u64,
    /// Mapped pages of files, such as LMDB's map: the kernel can drop them.
    pub file_bytes: u64,
}

/// Resident memory at this moment.
pub fn resident() -> Result<Resident> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| -> Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = line.and_then(|line| line.split_whitespace().next());
        Ok(kibibytes
            .with_context(|| format!("no {name} in /proc/self/status"))?
            .parse::<u64>()?
            << 10)
    };
    Ok(Resident {
        anonymous_bytes: field("RssAnon:")?,
        file_bytes: field("RssFile:")?,
    })
}

/// Processor time of all threads of this process so far, in user and kernel mode.
pub fn processor_time() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name in parentheses may hold spaces, so fields are counted after it.
    let fields = stat
        .rsplit_once(')')
        .context("malformed /proc/self/stat")?
        .1;
    let ticks = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| Ok(field.parse::<u64>()?))
        .sum::<Result<u64>>()?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS_A_SECOND))
}

/// Bytes that the files beneath `path` occupy on disk; holes do not count.
pub fn disk_bytes(path: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(path)?;
    let mut bytes = metadata.blocks() * 512;
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path)? {
            bytes += disk_bytes(&entry?.path())?;
        }
    }
    Ok(bytes)
}

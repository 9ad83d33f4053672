//! What the disk itself allows: how many small writes a second can be made durable one by one.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Latencies, figure, rate};

const SPAN: Duration = Duration::from_millis(500);
/// About what one CREATE adds to a journal.
const RECORD_BYTES: usize = 512;

/// Appends records to a fresh file, each followed by fdatasync.
pub fn run(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut file = File::create(directory.join("probe"))?;
    // As long as a journal from the start, so that its length need not become durable each time.
    file.set_len(64 << 20)?;
    file.sync_all()?;
    let mut latencies = Latencies::default();
    let start = Instant::now();
    while start.elapsed() < SPAN {
        latencies.time(|| {
            file.write_all(&[7; RECORD_BYTES])
                .and_then(|()| file.sync_data())
        })?;
    }
    rate("fdatasync", latencies.count(), start.elapsed());
    figure("fdatasync_p99_ms", latencies.p99_ms());
    Ok(())
}

//! File contents do not stand in the way of names.
//!
//! What must never enter: how fast contents travel.

use anyhow::{Result, ensure};

use crate::scene::{Sites, eventually, far, in_sites};

/// Bytes of the large file.
const BYTES: u64 = 128 << 20;

/// What the second site's server lacks of the first one's: updates, and bytes of contents.
fn lag(sites: &Sites) -> Result<(u64, u64)> {
    let status = sites.status(0)?;
    let peer = &status.peers[0];
    Ok((peer.lag_updates, peer.lag_bytes.unwrap_or(u64::MAX)))
}

pub fn a_large_file_on_a_slow_link_delays_no_directory() -> Result<()> {
    in_sites(|sites| {
        sites.run(0, "mkdir /run/m/large")?;
        sites.quiet()?;
        sites.wan().set(&far().bandwidth(20_000_000))?;
        let write = format!("head -c {BYTES} /dev/urandom > /run/m/large/file");
        sites.run(0, write)?;
        for number in 0..5 {
            sites.run(0, format!("mkdir /run/m/large/directory-{number}"))?;
            eventually("the other server has the directory itself", || {
                Ok(lag(sites)?.0 == 0)
            })?;
            sites.run(1, format!("test -d /run/w/large/directory-{number}"))?;
            let (_, left) = lag(sites)?;
            ensure!(
                left > BYTES / 8,
                "directory {number} came with {left} bytes left"
            );
        }
        sites.wan().set(&far())?;
        sites.equal_everywhere("large")?;
        sites.run(0, "rm /run/m/large/file")?;
        Ok(())
    })
}

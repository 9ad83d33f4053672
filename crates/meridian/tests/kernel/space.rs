//! A disk that fills up.

use anyhow::{Context, Result};
use testbed::Guest;

use crate::scene::{LONG_LEASE, MOUNT, OPEN_EXPORT, Scene, eventually, program, run};

/// A small ext4 file system in a file; the loop device goes with the mount. Ext4 allocates late, so
/// this shows more than a tmpfs would.
const SMALL_DISK: &str = "
mkdir $DATA
truncate -s 300M $DATA.img
mkfs.ext4 -q -F $DATA.img
mount -o loop $DATA.img $DATA";

pub fn a_full_disk_is_told_and_removal_helps() -> Result<()> {
    let mut scene = Scene::beneath(SMALL_DISK, &[OPEN_EXPORT, LONG_LEASE])?;
    let guest = scene.guest("alpha")?;
    let mut counts = Vec::new();
    for round in 0..2 {
        let written = run(&guest, program(["gorge", MOUNT]).directory(MOUNT))?.text();
        let written: u32 = written.trim().parse()?;
        counts.push(written);
        assert!(
            written > 20,
            "round {round}: only {written} MiB fitted on the disk"
        );
        // Small changes of names are still possible or refused in the right words, and what was
        // acknowledged is there.
        fill_with_names(&guest)?;
        let look =
            "cmp <(head -c 1M /dev/zero | tr '\\0' '\\1') /run/m/piece-0 && ls /run/m | wc -l";
        run(&guest, look)?;
        run(&guest, "rm -f /run/m/piece-*")?;
        assert_eq!(run(&guest, "ls -A /run/m")?.text(), "");
        eventually("the removed files' space is free", || {
            let free = run(&guest, "stat -f -c '%f %S' /run/m")?.text();
            let (blocks, size) = free.trim().split_once(' ').context("two numbers")?;
            Ok(blocks.parse::<u64>()? * size.parse::<u64>()? > u64::from(written) << 20)
        })?;
    }
    let (first, second) = (counts[0], counts[1]);
    assert!(
        second + 20 > first,
        "{first} MiB fitted first, {second} after removal"
    );
    run(
        &guest,
        "echo fine > /run/m/f && sync /run/m/f && mkdir /run/m/d",
    )?;
    // The file system is mounted for the server's process alone, so a restart finds the disk image.
    let status = scene.server.stop().context("the server is healthy")?;
    assert!(status.success(), "{status}");
    guest.crash();
    Ok(())
}

/// Names need space, too: they are made, or refused with the same word.
fn fill_with_names(guest: &Guest) -> Result<()> {
    let output = guest.run("mkdir /run/m/d && touch /run/m/d/f && rm -r /run/m/d")?;
    let said = output.error_text();
    assert!(
        output.code == 0 || said.contains("No space left on device"),
        "{said}"
    );
    run(guest, "rm -rf /run/m/d")?;
    Ok(())
}

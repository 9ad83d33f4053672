//! Writers without end: one that replaces a file, one that looks at it, one that fills the disk.
//!
//! What must never enter: an opinion on how fast.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use nix::libc;

/// Bytes of a version of the replaced file: more than one READ carries in small pieces.
const VERSION_BYTES: usize = 20_000;

/// Writes a new version beside the file and renames it over, until it is killed.
pub fn replace(folder: &Path, name: &str) -> Result<()> {
    let letter = name.as_bytes()[0];
    for number in 0_u64.. {
        let fresh = folder.join(format!("fresh-{name}"));
        fs::write(&fresh, [letter; VERSION_BYTES]).context("a version could not be written")?;
        fs::rename(&fresh, folder.join("current")).context("it could not replace the other")?;
        println!("{number}");
    }
    Ok(())
}

/// Reads the file until it is killed. It must always be there, and be all of one version.
pub fn watch(folder: &Path) -> Result<()> {
    for number in 0_u64.. {
        let bytes = fs::read(folder.join("current")).context("the name has disappeared")?;
        let whole = bytes.len() == VERSION_BYTES && bytes.iter().all(|byte| *byte == bytes[0]);
        ensure!(whole, "a mixture of versions, {} bytes", bytes.len());
        println!("{number}");
    }
    Ok(())
}

/// Bytes of a piece that `pour` writes at once, and how many there are.
const PIECE_BYTES: usize = 8 << 20;
const PIECES: u8 = 16;

/// Writes a file piece by piece, sends every piece to the server without waiting until it is stable,
/// prints its number, and synchronises only at the end. Then reads everything from the server.
pub fn pour(path: &Path) -> Result<()> {
    let mut file = File::create_new(path)?;
    for number in 0..PIECES {
        file.write_all(&vec![number; PIECE_BYTES])?;
        // Dropping pages from the cache makes the client write them first, and it does not wait.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        println!("{number}");
    }
    file.sync_all().context("fsync failed")?;
    super::tour::drop_caches()?;
    let bytes = fs::read(path)?;
    ensure!(
        bytes.len() == PIECE_BYTES * usize::from(PIECES),
        "{} bytes",
        bytes.len()
    );
    let wrong = bytes
        .chunks(PIECE_BYTES)
        .zip(0..)
        .find(|(piece, number): &(&[u8], u8)| piece.iter().any(|byte| byte != number));
    ensure!(
        wrong.is_none(),
        "piece {:?} is damaged",
        wrong.map(|(_, number)| number)
    );
    Ok(())
}

/// Writes files of one MiB until the disk is full, and says how many it kept whole.
pub fn gorge(folder: &Path) -> Result<()> {
    let mut whole = 0;
    loop {
        let written = File::create(folder.join(format!("piece-{whole}"))).and_then(|mut file| {
            file.write_all(&vec![1; 1 << 20])
                .and_then(|()| file.sync_all())
        });
        match written {
            Ok(()) => whole += 1,
            Err(error) => {
                let full = error.raw_os_error() == Some(libc::ENOSPC);
                ensure!(full, "it ended with '{error}' instead of ENOSPC");
                println!("{whole}");
                return Ok(());
            }
        }
        ensure!(whole < 4096, "this disk has no end");
    }
}

//! Records up to which batch the rows are known to be stable, in one small file beside the journals.
//!
//! After each group commit is stable, this file notes the number of its last batch. So a process that opens the rows later
//! can tell a journal torn by a power failure, which ends after that batch, from one damaged by the disk.
//! Writing the note does not wait for the disk. If the process is killed the note is complete; a power failure leaves a note
//! that is about a second old, because [`Mark::settle`] is called regularly.
//!
//! Two places in the file are written in turn, so that a torn write leaves the previous note. Each is 40 bytes,
//! numbers big-endian: `MRK` 1, a zero (4), generation (8), journal (8), batch (8), XXH3-64 of the 32 bytes before (8).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use fields::Fields;
use plain_file::{ReadError, is_about_contents};
use xxhash_rust::xxh3::xxh3_64;

pub(super) const FILE: &str = "stable";
const MAGIC: [u8; 8] = *b"MRK\x01\0\0\0\0";
const RECORD_BYTES: usize = 40;
/// The two places lie in different blocks on any disk.
const PLACES: [u64; 2] = [0, 4096];

/// A point that was stable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reached {
    /// The newest journal that held a batch then, or the one before it.
    pub(super) journal: u64,
    /// All batches up to this number were stable, in journals or in tables.
    pub(super) batch: u64,
}

/// The content of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    /// The file does not exist: an older program created the rows, or a user removed it.
    Missing,
    /// Neither place is valid.
    Damaged,
    /// A point that was stable once.
    Reached(Reached),
}

/// The open file.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
    generation: Mutex<u64>,
    settled: AtomicBool,
}

impl Mark {
    /// Reads the file in a folder, without changes.
    pub(super) fn look(folder: &Path) -> io::Result<Noted> {
        match plain_file::open(&folder.join(FILE)).map_err(ReadError::into_io) {
            Ok(file) => Ok(match newest(&file)? {
                Some((_, reached)) => Noted::Reached(reached),
                None => Noted::Damaged,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Noted::Missing),
            Err(error) => Err(error),
        }
    }

    /// Opens or creates the file, and notes what is stable now.
    pub(super) fn open(folder: &Path, reached: Reached) -> io::Result<Mark> {
        let path = folder.join(FILE);
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let generation = newest(&file)?.map_or(0, |(generation, _)| generation);
        let mark = Mark {
            file,
            generation: Mutex::new(generation),
            settled: AtomicBool::new(false),
        };
        // Both places, so that no note with a higher number is left, and so that later notes need no new blocks.
        mark.note(reached)?;
        mark.note(reached)?;
        mark.file.sync_all()?;
        File::open(folder)?.sync_all()?;
        Ok(mark)
    }

    /// Notes what is stable, without waiting for the disk.
    pub(super) fn note(&self, reached: Reached) -> io::Result<()> {
        let generation = self.generation.lock();
        let mut generation = generation.unwrap_or_else(PoisonError::into_inner);
        *generation += 1;
        let mut record = [0; RECORD_BYTES];
        record[..8].copy_from_slice(&MAGIC);
        record[8..16].copy_from_slice(&generation.to_be_bytes());
        record[16..24].copy_from_slice(&reached.journal.to_be_bytes());
        record[24..32].copy_from_slice(&reached.batch.to_be_bytes());
        let checksum = xxh3_64(&record[..32]);
        record[32..].copy_from_slice(&checksum.to_be_bytes());
        let place = PLACES[usize::from(*generation % 2 == 1)];
        self.file.write_all_at(&record, place)?;
        self.settled.store(false, Ordering::Release);
        Ok(())
    }

    /// Waits until the newest note is stable. No other task has to wait meanwhile.
    pub(super) fn settle(&self) -> io::Result<()> {
        if self.settled.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.file.sync_data()
    }
}

/// The newest valid record, with its generation.
fn newest(file: &File) -> io::Result<Option<(u64, Reached)>> {
    let mut found = None;
    for place in PLACES {
        let mut record = [0; RECORD_BYTES];
        match file.read_exact_at(&mut record, place) {
            Ok(()) => found = found.max(parse(&record)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) if !is_about_contents(&error) => return Err(error),
            // A place that the disk cannot read is treated like one that it has damaged.
            Err(error) => tracing::warn!("cannot read a note of what is stable: {error}"),
        }
    }
    Ok(found.map(|(generation, journal, batch)| (generation, Reached { journal, batch })))
}

/// The part of [`crate::decode_as_anything`] for notes of what is stable.
pub(super) fn decode_as_anything(bytes: &[u8]) {
    let _ = bytes.first_chunk().map(parse);
}

fn parse(record: &[u8; RECORD_BYTES]) -> Option<(u64, u64, u64)> {
    let mut fields = Fields::new(&record[8..]);
    let mut number = || fields.u64().ok();
    let found = (number()?, number()?, number()?);
    (record[..8] == MAGIC && number()? == xxh3_64(&record[..32])).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(batch: u64) -> Reached {
        Reached { journal: 1, batch }
    }

    #[test]
    fn the_newest_note_counts_and_the_one_before_when_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Mark::look(folder.path()).unwrap(), Noted::Missing);
        let mark = Mark::open(folder.path(), reached(1)).unwrap();
        for batch in 2..=5 {
            mark.note(reached(batch)).unwrap();
        }
        mark.settle().unwrap();
        let look = || Mark::look(folder.path()).unwrap();
        assert_eq!(look(), Noted::Reached(reached(5)));
        let newest = PLACES.into_iter().find(|place| {
            let mut number = [0; 8];
            mark.file.read_exact_at(&mut number, place + 24).unwrap();
            u64::from_be_bytes(number) == 5
        });
        mark.file.write_all_at(b"x", newest.unwrap() + 30).unwrap();
        assert_eq!(look(), Noted::Reached(reached(4)));
        mark.file.write_all_at(&[0; 8192], 0).unwrap();
        assert_eq!(look(), Noted::Damaged);
        drop(mark);
        drop(Mark::open(folder.path(), reached(9)).unwrap());
        assert_eq!(look(), Noted::Reached(reached(9)));
    }
}

//! Computes digests of contents, and stores them as notes.
//!
//! A digest covers the size, and the position and bytes of every 4 KiB block that is not all zeros. So it does not
//! depend on where a copy has holes, and holes cost nothing.

use blake3::Hasher;
use fields::Fields;
use vfs::{ChangeAttribute, Error, ObjectId, Result, SeekTarget};

use super::digests::{ContentDigest, Pace, Verified};
use super::watch::Watch;
use crate::data::Holey;
use crate::malformed::Malformed;
use crate::metadata::Table;
use crate::open_store::OpenStore;
use crate::rows::key;

const VERSION: u8 = 1;

const BLOCK_BYTES: u64 = 4096;
const ZEROS: [u8; BLOCK_BYTES as usize] = [0; BLOCK_BYTES as usize];

/// The size of one read; whole blocks.
const BUFFER_BYTES: usize = 1 << 20;

/// How often reading is restarted if the file changes meanwhile.
const ATTEMPTS: usize = 3;

impl OpenStore {
    /// Compares the content of a file with the digest noted for the same version; notes the digest if there is none.
    /// [`Verified::Busy`] while the file is being written or is incomplete. Reads the whole file from the disk and may block for as long as that takes.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] and the errors for objects that are not files; [`vfs::Error::Io`] when the
    /// content cannot be read, or is not what was written.
    pub fn verify_content(&self, file: ObjectId, pace: &mut Pace<'_>) -> Result<Verified> {
        let found = self.digest_steadily(file, pace, |found, intact, watch| {
            let noted = self.noted(file)?;
            let noted =
                noted.filter(|noted| (noted.change, noted.size) == (found.change, found.size));
            let noted = noted.map(|noted| noted.hash);
            match noted {
                Some(noted) if noted != found.hash => return Ok(Some(noted)),
                Some(_) => {}
                None if !intact => return Err(is_changed(file)),
                None => self.note_digest(file, found, watch)?,
            }
            self.note_sums(file, found.size, watch)?;
            Ok(noted)
        })?;
        Ok(match found {
            None => Verified::Busy,
            Some((found, None)) => Verified::NotKnown(found),
            Some((found, Some(noted))) if noted == found.hash => Verified::Same(found),
            Some((found, Some(noted))) => Verified::Different { noted, found },
        })
    }

    /// A digest of a file that no task writes meanwhile, and the result of `look`, called under the same watch.
    fn digest_steadily(
        &self,
        file: ObjectId,
        pace: &mut Pace<'_>,
        mut look: impl FnMut(&ContentDigest, bool, &Watch<'_>) -> Result<Option<[u8; 32]>>,
    ) -> Result<Option<(ContentDigest, Option<[u8; 32]>)>> {
        for _ in 0..ATTEMPTS {
            let watch = self.watches.watch(file);
            // A writer that begins from here on disturbs the watch, and an earlier one has updated the row.
            if self.lacks_content(file) || self.dirty.has_writers(file) {
                self.object(file)?.file()?;
                return Ok(None);
            }
            let before = self.object(file)?;
            before.file()?;
            let (hash, intact) = self.hash_content(file, before.size, pace)?;
            let after = self.object(file)?;
            let same = (before.change, before.size) == (after.change, after.size);
            if !same || watch.is_disturbed() {
                continue;
            }
            let digest = ContentDigest {
                change: before.change,
                size: before.size,
                hash,
            };
            return look(&digest, intact, &watch).map(|looked| Some((digest, looked)));
        }
        Ok(None)
    }

    /// The digest of a file, and whether all blocks match their sums.
    fn hash_content(
        &self,
        id: ObjectId,
        size: u64,
        pace: &mut Pace<'_>,
    ) -> Result<([u8; 32], bool)> {
        let content = self.content_of(id)?;
        let stored = self.object(id)?.file()?.stored;
        let content = stored.then_some(&content as &dyn Holey);
        let mut intact = true;
        let hash = hash_file(content, size, pace, &mut |at, bytes| {
            intact = intact && self.changed_in(id, at, bytes)?.is_none();
            Ok(())
        })?;
        Ok((hash, intact))
    }

    /// Computes the sums of a file that has lost them, if no task writes it.
    pub(crate) fn sum_again(&self, id: ObjectId) -> Result<()> {
        let watch = self.watches.watch(id);
        match self.object(id) {
            Ok(row) if row.file().is_ok() && !self.lacks_content(id) => {
                self.note_sums(id, row.size, &watch)
            }
            Ok(_) | Err(Error::Stale) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Computes missing sums of blocks: of files that were being written at a crash.
    fn note_sums(&self, id: ObjectId, size: u64, watch: &Watch<'_>) -> Result<()> {
        let stored = self.object(id)?.file()?.stored;
        let here = stored && !self.is_elsewhere(id)?;
        match here && self.open_sums.are_made() && !self.dirty.contains(id) {
            true => self.make_missing_sums(id, &self.content_of(id)?, size, || {
                !self.dirty.contains(id) && !watch.is_disturbed()
            }),
            false => Ok(()),
        }
    }

    pub(super) fn noted(&self, file: ObjectId) -> Result<Option<ContentDigest>> {
        let row = self.metadata.row(Table::Digests, &key::object(file))?;
        Ok(row.map(|row| decode(&row)).transpose()?)
    }

    /// Notes a digest, unless a task has begun to write since: such a writer removes the note when
    /// it marks the file.
    fn note_digest(&self, file: ObjectId, digest: &ContentDigest, watch: &Watch<'_>) -> Result<()> {
        let mut mutation = self.begin_blocking()?;
        // Unstable data may differ after a crash.
        let is_stable = !self.dirty.contains(file) && !watch.is_disturbed();
        let row = mutation.object(file);
        if is_stable && row.is_ok_and(|row| row.links > 0 && row.change == digest.change) {
            mutation.put_local(Table::Digests, &key::object(file), &encode(digest));
        }
        mutation.commit_local().map(|_| ())
    }
}

fn is_changed(file: ObjectId) -> Error {
    Error::Io(format!("the disk has changed bytes of object {file}"))
}

/// The digest of contents of `size` bytes; `None` for no contents. `look` gets the bytes read, in whole blocks.
pub(super) fn hash_file(
    content: Option<&dyn Holey>,
    size: u64,
    pace: &mut Pace<'_>,
    look: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<[u8; 32]> {
    let mut hasher = Hasher::new();
    hasher.update(&size.to_be_bytes());
    let Some(content) = content else {
        return Ok(hasher.finalize().into());
    };
    // The bytes on the disk matter, not those in memory.
    content.forget_cached();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut at = 0;
    while let Some(data) = content
        .seek(at, SeekTarget::Data)?
        .filter(|data| *data < size)
    {
        let hole = content.seek(data, SeekTarget::Hole)?;
        let hole = hole.unwrap_or(size).min(size);
        at = at.max(data - data % BLOCK_BYTES);
        let end = hole.next_multiple_of(BLOCK_BYTES).min(size);
        while at < end {
            let length = usize::try_from(end - at).map_or(BUFFER_BYTES, |l| l.min(BUFFER_BYTES));
            hash_blocks(content, &mut buffer[..length], at, &mut hasher)?;
            look(at, &buffer[..length])?;
            at += length as u64;
            if !pace(length as u64) {
                return Err(Error::Delay);
            }
        }
    }
    Ok(hasher.finalize().into())
}

fn hash_blocks(content: &dyn Holey, buffer: &mut [u8], at: u64, hasher: &mut Hasher) -> Result<()> {
    let filled = content.read(buffer, at)?;
    buffer[filled..].fill(0);
    for (number, block) in buffer.chunks(BLOCK_BYTES as usize).enumerate() {
        if *block != ZEROS[..block.len()] {
            hasher.update(&(at + number as u64 * BLOCK_BYTES).to_be_bytes());
            hasher.update(block);
        }
    }
    Ok(())
}

pub(super) fn encode(digest: &ContentDigest) -> Vec<u8> {
    let (change, size) = (key::number(digest.change.0), key::number(digest.size));
    [&[VERSION][..], &change, &size, &digest.hash].concat()
}

pub(super) fn decode(row: &[u8]) -> std::result::Result<ContentDigest, Malformed> {
    let mut fields = Fields::new(row);
    if fields.u8()? != VERSION {
        return Err(Malformed("the version of a noted digest is unknown"));
    }
    let (change, size) = (ChangeAttribute(fields.u64()?), fields.u64()?);
    let hash = fields.rest().try_into();
    Ok(ContentDigest {
        change,
        size,
        hash: hash.map_err(|_| Malformed("a noted digest has the wrong length"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_and_damage_is_refused() {
        let digest = ContentDigest {
            change: ChangeAttribute(9),
            size: 5,
            hash: [3; 32],
        };
        let row = encode(&digest);
        assert_eq!(decode(&row), Ok(digest));
        assert!(decode(&row[..row.len() - 1]).is_err());
        assert!(decode(&[]).is_err());
    }
}

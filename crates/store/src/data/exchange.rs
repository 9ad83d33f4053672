//! Transfer of file content to and from other replicas.
//!
//! Received content is put into the data file like a write that has to be stable; small pieces go through the rows
//! (`kept.rs`). But it changes no version, no time, and never the size. After a crash it is sent again.

use std::sync::Arc;

use bytes::Bytes;
use vfs::{Error, Extent, ObjectId, Result, SeekTarget};

use super::contents::{Content, Holey, Need};
use super::kept::keep;
use crate::committer::Ticket;
use crate::open_store::{OpenStore, blocking, detached};
use crate::replication::ContentPiece;
use crate::rows::ObjectRow;
use crate::space::{Admission, Demand, ROW_BYTES};

/// For files whose bytes are elsewhere: parts of this size that are all zeros are sent to other replicas as holes.
const ZERO_BYTES: u64 = 64 << 10;

impl OpenStore {
    /// Part of the current content of a file, in order, clipped at its size. Checks no permission
    /// and does not change the access time. Reads from the disk and may block.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] and the errors for objects that are not files; [`vfs::Error::Io`].
    pub fn content(&self, id: ObjectId, offset: u64, count: u64) -> Result<Vec<ContentPiece>> {
        let row = self.object(id)?;
        let stored = row.file()?.stored;
        if self.damaged.contains(id) {
            return Err(Error::Delay);
        }
        let end = offset.saturating_add(count).min(row.size);
        let content = match stored {
            true => Some(self.content_of(id)?),
            false => None,
        };
        let (mut pieces, mut at) = (Vec::new(), offset);
        while at < end {
            let next = match &content {
                Some(content) => content.seek(at, SeekTarget::Data)?,
                None => None,
            };
            let data = next.map_or(end, |data| data.min(end));
            if data > at {
                pieces.push(hole(at, data));
            }
            at = data;
            if let (Some(content), true) = (&content, at < end) {
                let piece = self.data_at(content, at, end)?;
                at += piece.len() as u64;
                if piece.is_empty() {
                    // The bytes were cut meanwhile.
                    pieces.push(hole(at, end));
                    break;
                }
                match content.is_elsewhere() {
                    true => pieces.extend(without_zeros(data, &piece)),
                    false => pieces.push(ContentPiece::Data {
                        offset: data,
                        bytes: piece,
                    }),
                }
            }
        }
        Ok(pieces)
    }

    /// Where the next data of a file at or after `offset` begins; the size of the file if there is none. May block.
    ///
    /// # Errors
    /// As [`crate::OpenStore::content`].
    pub fn hole_end(&self, id: ObjectId, offset: u64) -> Result<u64> {
        let row = self.object(id)?;
        if self.damaged.contains(id) {
            return Err(Error::Delay);
        }
        let data = match row.file()?.stored {
            true => self.content_of(id)?.seek(offset, SeekTarget::Data)?,
            false => None,
        };
        Ok(data.map_or(row.size, |data| data.min(row.size)))
    }

    /// Stores received content of a file, clipped at the size in its row. Stable on return.
    /// Concurrent calls share their flushes. Neither the version nor a time of
    /// the file changes.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] if the file does not exist; [`vfs::Error::NoSpace`]; [`vfs::Error::Io`].
    pub async fn put_content(self: &Arc<Self>, id: ObjectId, piece: ContentPiece) -> Result<()> {
        let store = Arc::clone(self);
        // Detached, so that a cancelled call does not leave half of this.
        detached(async move {
            store.incomplete.touched(id);
            let put = store.put_piece(id, piece.clone()).await;
            // The remaining contents are of no use, and the sender has all of the data.
            let is_replaced = matches!(put, Err(Error::Io(_))) && store.replace_lost(id).await?;
            match is_replaced {
                true => store.put_piece(id, piece).await,
                false => put,
            }
        })
        .await
    }

    async fn put_piece(self: &Arc<Self>, id: ObjectId, piece: ContentPiece) -> Result<()> {
        match piece {
            ContentPiece::Data { offset, bytes }
                if self.can_keep(id, bytes.len()) && !self.is_elsewhere(id)? =>
            {
                self.put_small(id, offset, bytes).await
            }
            ContentPiece::Data { offset, bytes } => self.put_large(id, offset, bytes).await,
            ContentPiece::Hole(extent) => self.put_hole(id, extent).await,
        }
    }

    /// For small pieces: one shared flush makes them stable in the rows.
    async fn put_small(self: &Arc<Self>, id: ObjectId, offset: u64, bytes: Bytes) -> Result<()> {
        // Exclusive, so that pieces of the same bytes are kept in the order in which they came.
        let alone = self.guards.exclude(id).await;
        let Some((row, bytes, _admission)) = self.clip(id, offset, bytes)? else {
            return Ok(());
        };
        let (_writing, _) = self.begin_writing_as(id, true).await?;
        self.put_or_note(id, offset, bytes.clone(), Need::of(row.file()?.stored))
            .await?;
        let ticket = self.note_stored(id, Some((offset, &bytes))).await?;
        drop(alone);
        self.commits.wait(ticket, &self.health).await
    }

    async fn put_large(self: &Arc<Self>, id: ObjectId, offset: u64, bytes: Bytes) -> Result<()> {
        let _shared = self.guards.share(id).await;
        let Some((row, bytes, _admission)) = self.clip(id, offset, bytes)? else {
            return Ok(());
        };
        let before = self.verifier();
        let (_writing, _) = self.begin_writing_as(id, true).await?;
        self.put_or_note(id, offset, bytes, Need::of(row.file()?.stored))
            .await?;
        let ticket = self.note_stored(id, None).await?;
        self.commits.ask_for(ticket);
        let released = self.stabilise_sent(id, before).await?;
        self.commits.wait(ticket.max(released), &self.health).await
    }

    async fn put_hole(self: &Arc<Self>, id: ObjectId, extent: Extent) -> Result<()> {
        let _alone = self.guards.exclude(id).await;
        let row = self.named_file(id)?;
        let end = extent.offset.saturating_add(extent.length).min(row.size);
        if !row.file()?.stored || extent.offset >= end {
            return Ok(());
        }
        let before = self.verifier();
        let (_writing, _) = self.begin_writing_as(id, true).await?;
        self.check_hole(id, extent.offset..end, row.size).await?;
        let store = Arc::clone(self);
        blocking(move || store.punch(id, extent.offset..end).map(|_| ())).await?;
        self.dirty.changed(id, false);
        let released = self.stabilise_sent(id, before).await?;
        self.commits.wait(released, &self.health).await
    }

    /// The file, and the part of these bytes that lies within its size; `None` if there is no such part.
    fn clip(
        &self,
        id: ObjectId,
        offset: u64,
        bytes: Bytes,
    ) -> Result<Option<(ObjectRow, Bytes, Admission<'_>)>> {
        let row = self.named_file(id)?;
        let left = row.size.saturating_sub(offset).min(bytes.len() as u64);
        if left == 0 {
            return Ok(None);
        }
        let here = match row.placement() {
            None => left,
            Some(_) => 0,
        };
        let admission = self.admit(Demand::Space(here + ROW_BYTES))?;
        // Invariant: `left` is at most the length of the bytes.
        Ok(Some((row, bytes.slice(..left as usize), admission)))
    }

    /// A file that other replicas have too.
    fn named_file(&self, id: ObjectId) -> Result<ObjectRow> {
        let row = self.object(id)?;
        row.file()?;
        match row.links {
            0 => Err(Error::Stale),
            _ => Ok(row),
        }
    }

    /// Notes in the row that there is a data file, and keeps bytes that may not be stable in it yet.
    async fn note_stored(&self, id: ObjectId, kept: Option<(u64, &Bytes)>) -> Result<Ticket> {
        // The space was admitted together with the data.
        let mut mutation = self.begin_maintenance().await?;
        let mut row = mutation.object(id)?.clone();
        let file = row.file_mut()?;
        if !file.stored {
            file.stored = true;
            mutation.put_quietly(id, &row);
        }
        if let Some((offset, bytes)) = kept {
            keep(&mut mutation, id, offset, bytes);
        }
        mutation.commit_local()
    }
}

impl OpenStore {
    /// The bytes from here to the next hole or the end, as written.
    fn data_at(&self, content: &Content<'_>, at: u64, end: u64) -> Result<Bytes> {
        let hole = content
            .seek(at, SeekTarget::Hole)?
            .map_or(end, |hole| hole.min(end));
        let length = hole.saturating_sub(at);
        let length = usize::try_from(length).map_err(|_| Error::Invalid("too much at once"))?;
        self.read_verified(content.id, at, length)
    }
}

/// Pieces of bytes that lie elsewhere, where holes are not known: parts that are all zeros become holes.
fn without_zeros(offset: u64, bytes: &Bytes) -> Vec<ContentPiece> {
    let mut pieces: Vec<ContentPiece> = Vec::new();
    let mut from = 0;
    while from < bytes.len() {
        let at = offset + from as u64;
        // At most one part.
        let length = (ZERO_BYTES - at % ZERO_BYTES) as usize;
        let end = bytes.len().min(from + length);
        let part = bytes.slice(from..end);
        let is_hole = part.iter().all(|byte| *byte == 0);
        match pieces.last_mut() {
            Some(ContentPiece::Hole(extent)) if is_hole => extent.length += part.len() as u64,
            Some(ContentPiece::Data {
                offset: start,
                bytes: data,
            }) if !is_hole => {
                let first = (*start - offset) as usize;
                *data = bytes.slice(first..end);
            }
            _ if is_hole => pieces.push(hole(at, at + part.len() as u64)),
            _ => pieces.push(ContentPiece::Data {
                offset: at,
                bytes: part,
            }),
        }
        from = end;
    }
    pieces
}

fn hole(start: u64, end: u64) -> ContentPiece {
    ContentPiece::Hole(Extent {
        offset: start,
        length: end - start,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_all_zeros_are_holes() {
        let part = ZERO_BYTES as usize;
        let mut bytes = vec![0; 5 * part];
        bytes[part] = 1;
        bytes[3 * part - 1] = 2;
        let bytes = Bytes::from(bytes);
        let data = |offset: u64, range: std::ops::Range<usize>| ContentPiece::Data {
            offset,
            bytes: bytes.slice(range),
        };
        let at = 7 * ZERO_BYTES;
        let pieces = [
            hole(at, at + ZERO_BYTES),
            data(at + ZERO_BYTES, part..3 * part),
            hole(at + 3 * ZERO_BYTES, at + 5 * ZERO_BYTES),
        ];
        assert_eq!(without_zeros(at, &bytes), pieces);
        // Parts lie at multiples of their size.
        let pieces = without_zeros(at + 10, &bytes.slice(10..part + 10));
        let expected = [
            hole(at + 10, at + ZERO_BYTES),
            data(at + ZERO_BYTES, part..part + 10),
        ];
        assert_eq!(pieces, expected);
    }
}

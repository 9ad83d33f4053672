//! Contents that the other side may already have: the sums of their blocks are sent, and then only the missing blocks as bytes.
//!
//! What must never enter: which contents are sent as sums (`shipping`).

use std::ops::Range;

use bytes::Bytes;
use store::{ContentPiece, Store};
use vfs::{Error, ObjectId, Result};

use crate::driver::local_replica::LocalReplica;
use crate::state::shipping::{BLOCK_BYTES, Manner};
use crate::state::wire::{PieceHead, Stretch, Sum};

/// Fewer bytes than this are sent at once: asking first would take longer and save nothing.
const WORTH_ASKING: u64 = 1 << 10;

/// Punched and never written bytes count as zeros.
const ZEROS: [u8; 4 << 10] = [0; 4 << 10];

/// Reads what is to be sent of a range of a file, in order.
pub(super) fn read(
    store: &Store,
    file: ObjectId,
    range: &Range<u64>,
    manner: Manner,
) -> Result<Vec<ContentPiece>> {
    let Manner::Blocks(bits) = manner else {
        return store.content(file, range.start, range.end - range.start);
    };
    let mut content = Vec::new();
    for block in (0..u64::from(u64::BITS)).filter(|block| bits >> block & 1 == 1) {
        let start = range.start.saturating_add(block * BLOCK_BYTES);
        if start < range.end {
            let length = BLOCK_BYTES.min(range.end - start);
            content.extend(store.content(file, start, length)?);
        }
    }
    Ok(content)
}

/// Whether to ask first whether the peer already has this.
pub(super) fn is_worth_asking(manner: Manner, content: &[ContentPiece]) -> bool {
    let bytes = |part: &ContentPiece| match part {
        ContentPiece::Data { bytes, .. } => bytes.len() as u64,
        ContentPiece::Hole(_) => 0,
    };
    manner == Manner::Sums && content.iter().map(bytes).sum::<u64>() > WORTH_ASKING
}

/// Lays out content from `start` on, without gaps, as a stretch and a sum for each block; a block without any bytes is a hole.
pub(super) fn lay_out(head: &mut PieceHead, start: u64, content: &[ContentPiece]) {
    let mut blocks = Blocks {
        head,
        offset: start,
        length: 0,
        sum: blake3::Hasher::new(),
        hole: true,
    };
    for part in content {
        match part {
            ContentPiece::Data { bytes, .. } => blocks.add_bytes(bytes),
            ContentPiece::Hole(extent) => blocks.add_hole(extent.length),
        }
    }
    blocks.close();
}

struct Blocks<'a> {
    head: &'a mut PieceHead,
    /// The block under way.
    offset: u64,
    length: u64,
    sum: blake3::Hasher,
    hole: bool,
}

impl Blocks<'_> {
    fn add_bytes(&mut self, bytes: &Bytes) {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let left = usize::try_from(BLOCK_BYTES - self.length).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(left.min(rest.len()));
            self.sum.update(now);
            self.hole = false;
            self.grow(now.len() as u64);
            rest = later;
        }
    }

    fn add_hole(&mut self, mut length: u64) {
        while length > 0 {
            let now = length.min(BLOCK_BYTES - self.length);
            add_zeros(&mut self.sum, now);
            self.grow(now);
            length -= now;
        }
    }

    fn grow(&mut self, by: u64) {
        self.length += by;
        if self.length == BLOCK_BYTES {
            self.close();
        }
    }

    fn close(&mut self) {
        if self.length == 0 {
            return;
        }
        self.head.stretches.push(Stretch {
            offset: self.offset,
            length: self.length,
            hole: self.hole,
        });
        if !self.hole {
            self.head.sums.push(*self.sum.finalize().as_bytes());
        }
        self.offset += self.length;
        self.length = 0;
        self.sum.reset();
        self.hole = true;
    }
}

fn add_zeros(sum: &mut blake3::Hasher, mut length: u64) {
    while length > 0 {
        let now = length.min(ZEROS.len() as u64);
        sum.update(&ZEROS[..usize::try_from(now).unwrap_or(ZEROS.len())]);
        length -= now;
    }
}

/// Which stretches of a piece that came as sums differ in the copy here, as bits. Reads from the disk, and blocks meanwhile.
///
/// # Errors
/// The object has no contents; the error says why.
fn lacking(store: &Store, head: &PieceHead) -> Result<u64> {
    let mut sums = head.sums.iter();
    let mut lacking = 0;
    for (bit, stretch) in head.stretches.iter().enumerate() {
        if stretch.hole {
            continue;
        }
        let there = match store.content(head.file, stretch.offset, stretch.length) {
            Ok(content) => sum_of(stretch, &content).as_ref() == sums.next(),
            // Removed meanwhile: no longer needed.
            Err(Error::Stale) => return Ok(0),
            // Damaged here, or unreadable: the bytes that come replace it.
            Err(Error::Io(_) | Error::Delay | Error::NoSpace) => {
                let _ = sums.next();
                false
            }
            Err(error) => return Err(error),
        };
        if !there {
            // Checked on arrival: there are at most as many stretches as bits.
            lacking |= 1_u64.checked_shl(bit as u32).unwrap_or(0);
        }
    }
    Ok(lacking)
}

/// Which stretches of a piece that came as sums differ here. The equal stretches are stable on return.
pub(super) async fn look(replica: &LocalReplica, head: &PieceHead) -> Result<u64> {
    let (store, looked_at) = (replica.store.clone(), head.clone());
    let since = store.verifier();
    let looking = tokio::task::spawn_blocking(move || lacking(&store, &looked_at));
    let found = looking
        .await
        .map_err(|error| Error::broken_off(error.is_cancelled(), &error))??;
    match replica.store.make_content_stable(head.file, since).await {
        Ok(()) | Err(Error::Stale) => Ok(found),
        Err(error) => Err(error),
    }
}

/// The sum of a stretch in the copy here; `None` if the file ends before its end.
fn sum_of(stretch: &Stretch, content: &[ContentPiece]) -> Option<Sum> {
    let (mut sum, mut length) = (blake3::Hasher::new(), 0_u64);
    for part in content {
        match part {
            ContentPiece::Data { bytes, .. } => {
                sum.update(bytes);
                length += bytes.len() as u64;
            }
            ContentPiece::Hole(extent) => {
                add_zeros(&mut sum, extent.length);
                length += extent.length;
            }
        }
    }
    (length == stretch.length).then(|| *sum.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::Extent;

    fn data(offset: u64, bytes: Vec<u8>) -> ContentPiece {
        ContentPiece::Data {
            offset,
            bytes: bytes.into(),
        }
    }

    fn hole(offset: u64, length: u64) -> ContentPiece {
        ContentPiece::Hole(Extent { offset, length })
    }

    #[test]
    fn blocks_have_the_same_sums_however_their_bytes_are_stored() {
        const START: u64 = 12_345;
        let length = 3 * BLOCK_BYTES + 100;
        let mut bytes = vec![7; length as usize];
        let (from, to) = (1000, 2 * BLOCK_BYTES as usize + 5);
        bytes[from..to].fill(0);
        let (mut dense, mut sparse) = (PieceHead::invented(), PieceHead::invented());
        lay_out(&mut dense, START, &[data(START, bytes.clone())]);
        let at = |place: usize| START + place as u64;
        let parts = [
            data(START, bytes[..from].to_vec()),
            hole(at(from), (to - from) as u64),
            data(at(to), bytes[to..].to_vec()),
        ];
        lay_out(&mut sparse, START, &parts);
        let holes = |head: &PieceHead| -> Vec<bool> {
            head.stretches.iter().map(|stretch| stretch.hole).collect()
        };
        assert_eq!(holes(&dense), [false; 4]);
        assert_eq!(holes(&sparse), [false, true, false, false]);
        assert_eq!(sparse.sums[0], dense.sums[0]);
        assert_eq!(sparse.sums[1..], dense.sums[2..]);
        for (number, stretch) in (0..).zip(&dense.stretches) {
            assert_eq!(stretch.offset, START + number * BLOCK_BYTES);
        }
        assert_eq!(dense.stretches[3].length, 100);
        assert_eq!(dense.check(0).ok(), Some(()));
        assert_eq!(sparse.check(0).ok(), Some(()));
        let here = sum_of(&dense.stretches[0], &sparse_block(&bytes));
        assert_eq!(here, Some(dense.sums[0]));
        assert_eq!(
            sum_of(&dense.stretches[0], &parts[..1]),
            None,
            "it is shorter"
        );
    }

    /// The first block as a receiver may have it.
    fn sparse_block(bytes: &[u8]) -> Vec<ContentPiece> {
        vec![
            data(0, bytes[..1000].to_vec()),
            hole(1000, BLOCK_BYTES - 1000),
        ]
    }
}

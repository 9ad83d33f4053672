//! Reads the journal of the embedded store without changing it: where its batches end, and where it breaks.
//!
//! The embedded store cuts a journal off at the first thing that it cannot read, whatever follows. Before
//! that may happen, [`super::examination`] has to know whether the part to be cut was ever stable.
//!
//! This is the format of fjall 3.1.13 (`journal/entry.rs`, `journal/batch_reader.rs`), to which the workspace pins
//! it; numbers are little-endian. A batch is 1 (1), count of items (4), sequence (8); then each item; then 3 (1),
//! XXH3-64 of all its items (8), `FJL` 3. An item is 2 (1), kind (1), compression (1), keyspace (8), length of the key
//! (2), length of the value (4), the same as stored (4), key, value; or 4 (1), keyspace (8) for one that was emptied.

use xxhash_rust::xxh3::xxh3_64;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
/// The size of an item without its key and value, plus one byte for the table's number.
pub(super) const ITEM_BYTES: u64 = 22;
/// The size of a batch without its items, plus the largest size of the item with its number.
pub(super) const BATCH_BYTES: u64 = 26 + ITEM_BYTES + 16;
const TRAILER: [u8; 4] = *b"FJL\x03";
/// The kinds of items that the embedded store can replay: a value, and two kinds of removal.
const KINDS: std::ops::RangeInclusive<u8> = 0..=2;

/// One complete batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Framed {
    /// Its length in bytes.
    pub(super) length: usize,
    /// Its sequence in the embedded store.
    pub(super) sequence: u64,
    /// The number that [`super::Batch::commit`] gave it; batches of older programs have none.
    pub(super) number: Option<u64>,
}

/// The batch at the start of `bytes`, if there is a complete one. `number_key` is the key of the item that
/// holds the batch's number.
pub(super) fn batch(bytes: &[u8], number_key: &[u8]) -> Option<Framed> {
    let mut reader = Reader { bytes, at: 0 };
    if reader.u8()? != START {
        return None;
    }
    let (count, sequence) = (reader.u32()?, reader.u64()?);
    let items = reader.at;
    let mut number = None;
    for _ in 0..count {
        if let Some((key, value)) = reader.item()?
            && key == number_key
        {
            number = Some(u64::from_be_bytes(value.try_into().ok()?));
        }
    }
    let checksum = xxh3_64(&bytes[items..reader.at]);
    if reader.u8()? != END || reader.u64()? != checksum || reader.take(4)? != TRAILER {
        return None;
    }
    Some(Framed {
        length: reader.at,
        sequence,
        number,
    })
}

/// The number of complete batches anywhere in `bytes`, whatever lies between them.
pub(super) fn count_batches(bytes: &[u8], number_key: &[u8]) -> u64 {
    let (mut at, mut count) = (0, 0);
    while let Some(next) = bytes.get(at..).and_then(next_start) {
        at += next;
        match batch(&bytes[at..], number_key) {
            Some(found) => {
                count += 1;
                at += found.length;
            }
            None => at += 1,
        }
    }
    count
}

fn next_start(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == START)
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    /// Key and value of the next item; the inner `None` is an emptied keyspace.
    #[expect(
        clippy::option_option,
        reason = "the outer one says that it is no item"
    )]
    fn item(&mut self) -> Option<Option<(&'b [u8], &'b [u8])>> {
        match self.u8()? {
            CLEAR => self.u64().map(|_| None),
            ITEM => {
                let (kind, compression) = (self.u8()?, self.u8()?);
                let _keyspace = self.u64()?;
                let key_bytes = self.u16()?;
                let (value_bytes, stored_bytes) = (self.u32()?, self.u32()?);
                if !KINDS.contains(&kind) || compression != 0 || value_bytes != stored_bytes {
                    return None;
                }
                let key = self.take(usize::from(key_bytes))?;
                let value = self.take(usize::try_from(value_bytes).ok()?)?;
                Some(Some((key, value)))
            }
            _ => None,
        }
    }

    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden bytes: what fjall 3.1.13 writes for a batch that puts `k` = `value` and removes `gone` in keyspace 3.
    fn golden() -> Vec<u8> {
        let mut items = vec![ITEM, 0, 0];
        items.extend([3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 5, 0, 0, 0, 5, 0, 0, 0]);
        items.extend(b"kvalue");
        items.extend([ITEM, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0]);
        items.extend([0; 8]);
        items.extend(b"gone");
        let mut bytes = vec![START, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        let checksum = xxh3_64(&items).to_le_bytes();
        bytes.extend(items);
        bytes.push(END);
        bytes.extend(checksum);
        bytes.extend(TRAILER);
        bytes
    }

    #[test]
    fn every_damaged_byte_behind_the_sequence_is_seen() {
        let bytes = golden();
        let whole = batch(&bytes, b"n").unwrap();
        assert_eq!((whole.length, whole.sequence), (bytes.len(), 7));
        for at in (0..5).chain(13..bytes.len()) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            // The checksum covers keyspace, key and value; the meaning of the other bytes is checked.
            assert_eq!(batch(&damaged, b"n"), None, "byte {at}");
            assert_eq!(batch(&bytes[..at], b"n"), None, "cut at {at}");
        }
    }

    #[test]
    fn batches_are_found_between_anything() {
        let one = golden();
        let mut bytes = vec![START; 40];
        bytes.extend(&one);
        bytes.extend([0; 600]);
        bytes.extend(&one);
        bytes.extend(&one[..one.len() - 1]);
        assert_eq!(count_batches(&bytes, b"n"), 2);
    }
}

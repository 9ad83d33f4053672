//! Long values, cut into pieces for the journal of the embedded store.
//!
//! After a power failure, fjall 3.1 drops the tail of its journal from the first thing on that cannot
//! be read, which is right. But it refuses to open at all when it can read everything and only a
//! checksum is wrong. That happens when a lost sector lies wholly inside one value. No value is
//! therefore as long as a sector: a longer one is written as several rows, and a short row in its
//! place says how long they are together. Only kept writes are not cut ([`Table::Kept`]): there are many, they go after a few
//! seconds, and our own reader, which compares checksums, has cut a torn journal before fjall sees it ([`super::examination`]).

use fields::Fields;

use super::Table;
use crate::malformed::Malformed;

/// The longest value that is written in one piece. With its key and fjall's own fields it stays below
/// the 512 bytes of a sector.
pub(super) const PIECE_BYTES: usize = 400;

/// The first byte of the row in place of a long value; no other row starts with it.
const MARK: u8 = 0xff;

/// The row in place of a long value.
pub(super) fn stand_in(length: usize) -> [u8; 9] {
    let mut row = [MARK; 9];
    row[1..].copy_from_slice(&(length as u64).to_be_bytes());
    row
}

/// How long the value is that a row stands in for; `None` for a row that is a value itself.
pub(super) fn stands_for(row: &[u8]) -> Result<Option<usize>, Malformed> {
    let mut fields = Fields::new(row);
    if fields.u8() != Ok(MARK) {
        return Ok(None);
    }
    let length = fields.u64()?;
    fields.end()?;
    let length = usize::try_from(length)
        .ok()
        .filter(|length| *length <= MAX_LONG_BYTES);
    length
        .map(Some)
        .ok_or(Malformed("a long value is too long"))
}

/// No row is longer; what claims to be is damaged.
const MAX_LONG_BYTES: usize = 1 << 24;

/// How many pieces a value of this length has.
pub(super) fn count(length: usize) -> usize {
    if length <= PIECE_BYTES {
        0
    } else {
        length.div_ceil(PIECE_BYTES)
    }
}

/// The key of one piece, behind the tag of the table of pieces.
pub(super) fn key(table: Table, key: &[u8], piece: usize) -> Vec<u8> {
    let piece = u32::try_from(piece).unwrap_or(u32::MAX);
    [&[table as u8], key, &piece.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_in_tells_the_length_and_nothing_else_is_one() {
        assert_eq!(stands_for(&stand_in(70_000)), Ok(Some(70_000)));
        assert_eq!(stands_for(&[1; 9]), Ok(None));
        assert_eq!(stands_for(&[]), Ok(None));
        assert!(stands_for(&stand_in(usize::MAX)).is_err());
        assert!(stands_for(&[MARK, 1]).is_err());
    }

    #[test]
    fn short_values_have_no_pieces() {
        assert_eq!((count(PIECE_BYTES), count(PIECE_BYTES + 1)), (0, 2));
    }
}

//! Splits long values into pieces for the journal of the embedded store.
//!
//! After a power failure, fjall 3.1 drops the tail of its journal from the first unreadable
//! item on, which is right. But it refuses to open if everything is readable and only a
//! checksum is wrong. That happens when a lost sector lies wholly inside one value. So no value is
//! as long as a sector: a longer value is written as several rows, and a short stand-in row in its
//! place holds the total length. Only kept writes are not split ([`Table::Kept`]): there are many, they are removed after a few
//! seconds, and [`super::examination`], which compares checksums, has cut a torn journal before fjall sees it.

use fields::Fields;

use super::Table;
use crate::malformed::Malformed;

/// The longest value that is written as one row. With its key and fjall's own fields it stays below
/// the 512 bytes of a sector.
pub(super) const PIECE_BYTES: usize = 400;

/// The first byte of a stand-in row; no other row starts with it.
const MARK: u8 = 0xff;

/// The stand-in row of a long value.
pub(super) fn stand_in(length: usize) -> [u8; 9] {
    let mut row = [MARK; 9];
    row[1..].copy_from_slice(&(length as u64).to_be_bytes());
    row
}

/// The length of the value that a stand-in row represents; `None` for a row that is a value itself.
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

/// The longest possible row; a larger length means damage.
const MAX_LONG_BYTES: usize = 1 << 24;

/// The number of pieces of a value of this length.
pub(super) fn count(length: usize) -> usize {
    if length <= PIECE_BYTES {
        0
    } else {
        length.div_ceil(PIECE_BYTES)
    }
}

/// The key of one piece, after the tag of the table of pieces.
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

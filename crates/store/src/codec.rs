//! Reading and writing the fields of rows, without trusting the disk.
//!
//! All numbers are big-endian. What the fields mean is the business of [`crate::rows`].

use bytes::BufMut;

/// Bytes on disk that no writer of ours can have produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored row is damaged: {0}")]
pub struct Malformed(pub(crate) &'static str);

/// Takes fields off the front of a row.
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn new(row: &'a [u8]) -> Self {
        Fields(row)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(Malformed("it is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self
            .0
            .split_first_chunk()
            .ok_or(Malformed("it is too short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn eight_bytes(&mut self) -> Result<[u8; 8], Malformed> {
        self.array()
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends the row; bytes behind its last field mean that something else was stored there.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed("it is too long"))
        }
    }
}

/// What a byte of a row stands for. No number is used again for another meaning.
pub(crate) trait Tag: Copy + 'static {
    /// All there are.
    const ALL: &'static [Self];
    /// What is said of any other byte.
    const UNKNOWN: Malformed;

    /// The byte.
    fn number(self) -> u8;

    /// Takes the byte off the front of what is left of a row.
    fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let number = fields.u8()?;
        let mut all = Self::ALL.iter().copied();
        all.find(|tag| tag.number() == number).ok_or(Self::UNKNOWN)
    }
}

/// Appends a byte string of at most 255 bytes behind its length.
pub(crate) fn put_short(row: &mut Vec<u8>, bytes: &[u8]) {
    // Invariant: names are checked to be that short before they come here.
    let length = u8::try_from(bytes.len()).expect("names have at most 255 bytes");
    row.put_u8(length);
    row.put_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_row_is_refused_instead_of_panicking() {
        let mut fields = Fields::new(&[1, 2, 3]);
        assert_eq!(fields.u16(), Ok(0x0102));
        assert_eq!(fields.u64(), Err(Malformed("it is too short")));
        assert_eq!(fields.bytes(2), Err(Malformed("it is too short")));
        assert_eq!(fields.u8(), Ok(3));
        assert!(fields.end().is_ok());
    }

    #[test]
    fn bytes_behind_the_last_field_are_refused() {
        assert_eq!(Fields::new(&[0]).end(), Err(Malformed("it is too long")));
    }
}

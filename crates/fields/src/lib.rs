//! Decodes fields from the front of untrusted bytes: stored rows, and messages of other servers. All numbers are big-endian.
//!
//! What must never enter: what the fields mean, and how they are written.

#![forbid(unsafe_code)]

/// Bytes that no writer of this project can have produced, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// The remaining bytes.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// All of them.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Fields(bytes)
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// When fewer are left. The same holds for the methods below.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = (self.0.split_at_checked(count)).ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// As [`Fields::bytes`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(TOO_SHORT)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// A number of one byte.
    ///
    /// # Errors
    /// As [`Fields::bytes`].
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// A number of two bytes.
    ///
    /// # Errors
    /// As [`Fields::bytes`].
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// A number of four bytes.
    ///
    /// # Errors
    /// As [`Fields::bytes`].
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A number of eight bytes.
    ///
    /// # Errors
    /// As [`Fields::bytes`].
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends the fields; extra bytes mean that something else was stored or sent.
    ///
    /// # Errors
    /// When something is left.
    pub fn end(self) -> Result<(), Malformed> {
        match self.is_empty() {
            true => Ok(()),
            false => Err(Malformed("it is too long")),
        }
    }
}

const TOO_SHORT: Malformed = Malformed("it is too short");

/// The meaning of a byte. No number is used again for another meaning.
pub trait Tag: Copy + 'static {
    /// All values.
    const ALL: &'static [Self];
    /// The error for any other byte.
    const UNKNOWN: Malformed;

    /// The byte.
    fn number(self) -> u8;

    /// Takes the byte from the front of the remaining bytes.
    ///
    /// # Errors
    /// When nothing is left, or the byte has no meaning.
    fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let number = fields.u8()?;
        let mut all = Self::ALL.iter().copied();
        all.find(|tag| tag.number() == number).ok_or(Self::UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_bytes_are_refused_and_stay() {
        let mut fields = Fields::new(&[1, 2, 3]);
        assert_eq!(fields.u16(), Ok(0x0102));
        assert_eq!(fields.u64(), Err(TOO_SHORT));
        assert_eq!(fields.bytes(2), Err(TOO_SHORT));
        assert_eq!(fields.u8(), Ok(3));
        assert!(fields.end().is_ok());
    }

    #[test]
    fn bytes_behind_the_last_field_are_refused() {
        assert_eq!(Fields::new(&[0]).end(), Err(Malformed("it is too long")));
    }
}

//! Takes fields off the front of bytes that are not trusted. All numbers are big-endian.

/// Bytes that no writer of ours can have produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what a pool has stored or sent is damaged: {0}")]
pub struct Malformed(pub(crate) &'static str);

/// What is left of the bytes.
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Fields(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
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

    /// Bytes behind the last field mean that something else was stored there.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed("it is too long"))
        }
    }
}

/// What a byte stands for. No number is used again for another meaning.
pub(crate) trait Tag: Copy + 'static {
    /// All there are.
    const ALL: &'static [Self];
    /// What is said of any other byte.
    const UNKNOWN: Malformed;

    /// The byte.
    fn number(self) -> u8;

    /// Takes the byte off the front of what is left.
    fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let number = fields.u8()?;
        let mut all = Self::ALL.iter().copied();
        all.find(|tag| tag.number() == number).ok_or(Self::UNKNOWN)
    }
}

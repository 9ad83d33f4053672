//! Reads XDR items from one received buffer. Opaque data comes out as slices of
//! that buffer, so payloads are never copied here.

use bytes::Bytes;

use crate::{Decode, DecodeError, padding};

/// A cursor over a received message.
///
/// Every method either consumes a whole item or fails; after a failure the
/// position is unspecified and the rest of the message should not be read.
/// The content of padding bytes is ignored: RFC 4506 asks senders for zeros, but
/// there is no advantage in refusing a sender with other bytes.
#[derive(Debug, Clone)]
pub struct Reader {
    bytes: Bytes,
    position: usize,
}

impl Reader {
    /// Starts at the beginning of `bytes`.
    pub fn new(bytes: Bytes) -> Self {
        Self { bytes, position: 0 }
    }

    /// Bytes not yet consumed.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Fails with [`DecodeError::Trailing`] unless everything has been consumed.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(DecodeError::Trailing(left)),
        }
    }

    /// Everything not yet consumed, as a slice of the received buffer.
    pub fn into_rest(self) -> Bytes {
        self.bytes.slice(self.position..)
    }

    /// Consumes one item of type `T`.
    #[inline]
    pub fn read<T: Decode>(&mut self) -> Result<T, DecodeError> {
        T::decode(self)
    }

    /// Consumes an unsigned integer (RFC 4506, section 4.2).
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Consumes an unsigned hyper integer (RFC 4506, section 4.5).
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Consumes a boolean; any value but 0 and 1 is refused (RFC 4506, section 4.4).
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::UnknownValue {
                kind: "bool",
                value,
            }),
        }
    }

    /// Consumes `N` bytes of fixed-length opaque data and their padding
    /// (RFC 4506, section 4.9).
    #[inline]
    pub fn opaque_fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let value = self.array()?;
        self.skip(padding(N))?;
        Ok(value)
    }

    /// Consumes variable-length opaque data of at most `max` bytes
    /// (RFC 4506, section 4.10). The result shares the received buffer.
    #[inline]
    pub fn opaque(&mut self, max: usize) -> Result<Bytes, DecodeError> {
        let length = self.length(max)?;
        let start = self.position;
        self.skip(length)?;
        let value = self.bytes.slice(start..start + length);
        self.skip(padding(length))?;
        Ok(value)
    }

    /// Consumes a length word and refuses one above `max`.
    #[inline]
    pub fn length(&mut self, max: usize) -> Result<usize, DecodeError> {
        let length = self.u32()? as usize;
        if length > max {
            return Err(DecodeError::TooLong { length, max });
        }
        Ok(length)
    }

    /// Consumes a counted array of at most `max` elements (RFC 4506, section 4.13).
    ///
    /// Memory grows with the elements actually present, never with the announced
    /// count alone.
    pub fn array_of<T: Decode>(&mut self, max: usize) -> Result<Vec<T>, DecodeError> {
        const FIRST_CAPACITY_MAX: usize = 256;
        let count = self.length(max)?;
        let capacity = count.min(self.remaining() / 4).min(FIRST_CAPACITY_MAX);
        let mut values = Vec::with_capacity(capacity);
        for _ in 0..count {
            values.push(T::decode(self)?);
        }
        Ok(values)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.bytes[self.position..].first_chunk::<N>() {
            Some(chunk) => {
                self.position += N;
                Ok(*chunk)
            }
            None => Err(DecodeError::Truncated {
                missing: N - self.remaining(),
            }),
        }
    }

    #[inline]
    fn skip(&mut self, length: usize) -> Result<(), DecodeError> {
        match length.checked_sub(self.remaining()) {
            None | Some(0) => {
                self.position += length;
                Ok(())
            }
            Some(missing) => Err(DecodeError::Truncated { missing }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &'static [u8]) -> Reader {
        Reader::new(Bytes::from_static(bytes))
    }

    #[test]
    fn integers_are_big_endian() {
        let mut r = reader(&[0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 4]);
        assert_eq!(r.u32(), Ok(0x0102));
        assert_eq!(r.u64(), Ok(0x0304));
        assert_eq!(r.finish(), Ok(()));
    }

    #[test]
    fn an_opaque_shares_the_buffer_and_skips_its_padding() {
        let whole = Bytes::from(vec![0, 0, 0, 3, b'a', b'b', b'c', 0xff, 0, 0, 0, 9]);
        let mut r = Reader::new(whole.clone());
        let opaque = r.opaque(3).unwrap();
        assert_eq!(&opaque[..], b"abc");
        assert_eq!(opaque.as_ptr(), whole[4..].as_ptr());
        assert_eq!(r.u32(), Ok(9));
    }

    #[test]
    fn an_opaque_may_not_pass_its_limit_or_the_end() {
        assert_eq!(
            reader(&[0, 0, 0, 4, 1, 2, 3, 4]).opaque(3),
            Err(DecodeError::TooLong { length: 4, max: 3 })
        );
        assert_eq!(
            reader(&[0, 0, 0, 4, 1, 2]).opaque(8),
            Err(DecodeError::Truncated { missing: 2 })
        );
        // The content is there, the padding is not.
        assert_eq!(
            reader(&[0, 0, 0, 3, 1, 2, 3]).opaque(8),
            Err(DecodeError::Truncated { missing: 1 })
        );
        assert_eq!(
            reader(&[0xff, 0xff, 0xff, 0xff]).opaque(usize::MAX),
            Err(DecodeError::Truncated {
                missing: 0xffff_ffff
            })
        );
    }

    #[test]
    fn booleans_are_zero_or_one() {
        assert_eq!(reader(&[0, 0, 0, 1]).bool(), Ok(true));
        assert_eq!(
            reader(&[0, 0, 0, 2]).bool(),
            Err(DecodeError::UnknownValue {
                kind: "bool",
                value: 2
            })
        );
    }

    #[test]
    fn a_huge_count_does_not_reserve_memory() {
        let mut r = reader(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1]);
        assert_eq!(
            r.array_of::<u32>(usize::MAX),
            Err(DecodeError::Truncated { missing: 4 })
        );
    }

    #[test]
    fn leftover_bytes_are_reported_and_can_be_taken() {
        let mut r = reader(&[0, 0, 0, 1, 7, 8]);
        assert_eq!(r.u32(), Ok(1));
        assert_eq!(r.finish(), Err(DecodeError::Trailing(2)));
        assert_eq!(&r.into_rest()[..], &[7, 8]);
    }
}

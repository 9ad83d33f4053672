//! The two directions as traits, and the basic types in both. Types of a
//! protocol belong to the crate of that protocol.

use bytes::Bytes;

use crate::{DecodeError, Reader, Writer};

/// A type that can be written as XDR.
pub trait Encode {
    /// Appends the value to `w`.
    fn encode(&self, w: &mut Writer);
}

/// A type that can be read from XDR and has its own bound.
pub trait Decode: Sized {
    /// Consumes one value from `r`.
    fn decode(r: &mut Reader) -> Result<Self, DecodeError>;
}

/// A type of variable length without its own bound, so that the reader must give one.
pub trait DecodeBounded: Sized {
    /// Consumes one value of at most `max` bytes or elements from `r`.
    fn decode_bounded(r: &mut Reader, max: usize) -> Result<Self, DecodeError>;
}

impl Encode for u32 {
    #[inline]
    fn encode(&self, w: &mut Writer) {
        w.u32(*self);
    }
}

impl Decode for u32 {
    #[inline]
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.u32()
    }
}

impl Encode for i32 {
    #[inline]
    fn encode(&self, w: &mut Writer) {
        w.u32(self.cast_unsigned());
    }
}

impl Decode for i32 {
    #[inline]
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.u32().map(u32::cast_signed)
    }
}

impl Encode for u64 {
    #[inline]
    fn encode(&self, w: &mut Writer) {
        w.u64(*self);
    }
}

impl Decode for u64 {
    #[inline]
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.u64()
    }
}

impl Encode for i64 {
    #[inline]
    fn encode(&self, w: &mut Writer) {
        w.u64(self.cast_unsigned());
    }
}

impl Decode for i64 {
    #[inline]
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.u64().map(u64::cast_signed)
    }
}

impl Encode for bool {
    #[inline]
    fn encode(&self, w: &mut Writer) {
        w.bool(*self);
    }
}

impl Decode for bool {
    #[inline]
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.bool()
    }
}

/// Fixed-length opaque data.
impl<const N: usize> Encode for [u8; N] {
    #[inline]
    fn encode(&self, w: &mut Writer) {
        w.opaque_fixed(self);
    }
}

/// Fixed-length opaque data.
impl<const N: usize> Decode for [u8; N] {
    #[inline]
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.opaque_fixed()
    }
}

/// Variable-length opaque data.
impl Encode for Bytes {
    #[inline]
    fn encode(&self, w: &mut Writer) {
        w.payload(self);
    }
}

impl DecodeBounded for Bytes {
    #[inline]
    fn decode_bounded(r: &mut Reader, max: usize) -> Result<Self, DecodeError> {
        r.opaque(max)
    }
}

/// A counted array.
impl<T: Encode> Encode for [T] {
    fn encode(&self, w: &mut Writer) {
        w.length(self.len());
        for value in self {
            value.encode(w);
        }
    }
}

/// A counted array.
impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, w: &mut Writer) {
        self.as_slice().encode(w);
    }
}

impl<T: Decode> DecodeBounded for Vec<T> {
    fn decode_bounded(r: &mut Reader, max: usize) -> Result<Self, DecodeError> {
        r.array_of(max)
    }
}

/// Optional data (RFC 4506, section 4.19), which is also the encoding of an
/// array of at most one element.
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, w: &mut Writer) {
        w.bool(self.is_some());
        if let Some(value) = self {
            value.encode(w);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        r.bool()?.then(|| T::decode(r)).transpose()
    }
}

impl<T: Encode> Encode for Box<T> {
    fn encode(&self, w: &mut Writer) {
        T::encode(self, w);
    }
}

impl<T: Decode> Decode for Box<T> {
    fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        T::decode(r).map(Box::new)
    }
}

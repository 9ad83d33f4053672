//! A finished message as a list of buffers, ready for a vectored write. Nothing
//! is encoded here.

use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// An immutable message made of one or more buffers.
///
/// Cloning shares the buffers. As a [`Buf`] it is consumed from the front, as
/// vectored socket writes need it.
#[derive(Debug, Clone, Default)]
pub struct Rope {
    segments: Vec<Bytes>,
    /// Index of the first segment that is not fully consumed.
    first: usize,
    len: usize,
}

impl Rope {
    /// Joins `segments` in order; empty ones are left out.
    pub fn from_segments(segments: impl IntoIterator<Item = Bytes>) -> Self {
        let segments: Vec<Bytes> = segments
            .into_iter()
            .filter(|segment| !segment.is_empty())
            .collect();
        let len = segments.iter().map(Bytes::len).sum();
        Self {
            segments,
            first: 0,
            len,
        }
    }

    /// Bytes in the message that are not yet consumed.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when nothing is left.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The buffers that are not yet consumed, in order, none of them empty.
    pub fn segments(&self) -> &[Bytes] {
        &self.segments[self.first..]
    }

    /// The whole message in one buffer. Copies unless there is only one segment.
    pub fn into_contiguous(mut self) -> Bytes {
        if self.segments().len() == 1 {
            return self.segments.swap_remove(self.first);
        }
        let mut whole = BytesMut::with_capacity(self.len);
        for segment in self.segments() {
            whole.extend_from_slice(segment);
        }
        whole.freeze()
    }
}

/// Two ropes are equal when they have the same bytes, however these are split.
impl PartialEq for Rope {
    fn eq(&self, other: &Self) -> bool {
        let bytes = |rope: &Self| rope.segments().to_vec().into_iter().flatten();
        self.len == other.len && bytes(self).eq(bytes(other))
    }
}

impl Eq for Rope {}

impl From<Bytes> for Rope {
    fn from(bytes: Bytes) -> Self {
        Self::from_segments([bytes])
    }
}

impl Buf for Rope {
    fn remaining(&self) -> usize {
        self.len
    }

    fn chunk(&self) -> &[u8] {
        self.segments().first().map_or(&[], |segment| segment)
    }

    fn chunks_vectored<'a>(&'a self, dst: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        for (slot, segment) in dst.iter_mut().zip(self.segments()) {
            *slot = IoSlice::new(segment);
            filled += 1;
        }
        filled
    }

    /// # Panics
    ///
    /// When `count` exceeds what is left, as the contract of [`Buf`] demands.
    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.len, "advanced past the end of a rope");
        self.len -= count;
        while count > 0 {
            let segment = &mut self.segments[self.first];
            if count < segment.len() {
                segment.advance(count);
                return;
            }
            count -= segment.len();
            // Dropping the buffer at once frees its memory while the rest is sent.
            *segment = Bytes::new();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rope(parts: &[&'static str]) -> Rope {
        Rope::from_segments(parts.iter().map(|part| Bytes::from_static(part.as_bytes())))
    }

    #[test]
    fn empty_segments_are_left_out() {
        let rope = rope(&["", "ab", "", "c"]);
        assert_eq!(rope.len(), 3);
        assert_eq!(rope.segments().len(), 2);
        assert_eq!(rope.into_contiguous(), "abc");
    }

    #[test]
    fn equality_ignores_the_split() {
        assert_eq!(rope(&["ab", "cd"]), rope(&["a", "bcd"]));
        assert_ne!(rope(&["ab", "cd"]), rope(&["ab", "ce"]));
        assert_ne!(rope(&["ab"]), rope(&["abc"]));
    }

    #[test]
    fn it_is_consumed_across_segments() {
        let mut rope = rope(&["abc", "de", "f"]);
        rope.advance(4);
        assert_eq!(rope.remaining(), 2);
        assert_eq!(rope.chunk(), b"e");
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(rope.chunks_vectored(&mut slices), 2);
        assert_eq!(&*slices[1], b"f");
        assert_eq!(rope.clone().into_contiguous(), "ef");
        rope.advance(2);
        assert!(rope.is_empty());
        assert_eq!(rope.chunk(), b"");
    }

    #[test]
    fn one_segment_is_not_copied() {
        let segment = Bytes::from(vec![1, 2, 3]);
        let whole = Rope::from(segment.clone()).into_contiguous();
        assert_eq!(whole.as_ptr(), segment.as_ptr());
    }
}

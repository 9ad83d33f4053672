//! Writes XDR items into a message. Small items are collected in one growing
//! buffer; payloads are appended as they are, without a copy.

use bytes::{BufMut, Bytes, BytesMut};

use crate::{Encode, Rope, padding};

/// Opaque data of at least this many bytes is appended as a segment of its own
/// instead of being copied. Below it, copying costs less than one more buffer
/// in a vectored write.
pub const PAYLOAD_MIN: usize = 8 * 1024;

/// A place in a message that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(usize);

#[derive(Debug)]
enum Segment {
    Small(BytesMut),
    Payload(Bytes),
}

impl Segment {
    fn len(&self) -> usize {
        match self {
            Segment::Small(bytes) => bytes.len(),
            Segment::Payload(bytes) => bytes.len(),
        }
    }

    fn truncate(&mut self, length: usize) {
        match self {
            Segment::Small(bytes) => bytes.truncate(length),
            Segment::Payload(bytes) => bytes.truncate(length),
        }
    }
}

/// A message under construction.
///
/// [`position`](Self::position) is always exact, so that a server can
/// keep a reply below a client's limit; [`truncate_to`](Self::truncate_to) removes
/// what turned out not to fit.
#[derive(Debug, Default)]
pub struct Writer {
    /// Finished segments before `tail`.
    sealed: Vec<Segment>,
    sealed_len: usize,
    tail: BytesMut,
}

impl Writer {
    /// An empty message.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty message with space for `capacity` bytes of small items.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            tail: BytesMut::with_capacity(capacity),
            ..Self::default()
        }
    }

    /// Bytes written so far.
    #[inline]
    pub fn position(&self) -> usize {
        self.sealed_len + self.tail.len()
    }

    /// The current place, to measure from, to truncate to or to patch later.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark(self.position())
    }

    /// Bytes written since `mark` was taken.
    pub fn written_since(&self, mark: Mark) -> usize {
        self.position().saturating_sub(mark.0)
    }

    /// Appends an item.
    #[inline]
    pub fn write<T: Encode + ?Sized>(&mut self, item: &T) {
        item.encode(self);
    }

    /// Appends an unsigned integer (RFC 4506, section 4.2).
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.tail.put_u32(value);
    }

    /// Appends an unsigned hyper integer (RFC 4506, section 4.5).
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.tail.put_u64(value);
    }

    /// Appends a boolean (RFC 4506, section 4.4).
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Appends fixed-length opaque data and its padding (RFC 4506, section 4.9).
    #[inline]
    pub fn opaque_fixed(&mut self, value: &[u8]) {
        self.tail.extend_from_slice(value);
        self.pad(value.len());
    }

    /// Appends variable-length opaque data by copying it (RFC 4506, section 4.10).
    #[inline]
    pub fn opaque(&mut self, value: &[u8]) {
        self.length(value.len());
        self.opaque_fixed(value);
    }

    /// Appends variable-length opaque data, sharing the buffer when it is at
    /// least [`PAYLOAD_MIN`] bytes long.
    pub fn payload(&mut self, value: &Bytes) {
        if value.len() < PAYLOAD_MIN {
            return self.opaque(value);
        }
        self.length(value.len());
        self.append_shared(value.clone());
        self.pad(value.len());
    }

    /// Appends the length word of an array or opaque whose content follows.
    ///
    /// Lengths are 32 bits wide. This program sends only much smaller
    /// ones; a larger value is written as the maximum so
    /// that the receiver refuses the message instead of misreading it.
    #[inline]
    pub fn length(&mut self, length: usize) {
        self.u32(u32::try_from(length).unwrap_or(u32::MAX));
    }

    /// Appends bytes that are XDR already, sharing large segments.
    pub fn rope(&mut self, encoded: &Rope) {
        for segment in encoded.segments() {
            if segment.len() < PAYLOAD_MIN {
                self.tail.extend_from_slice(segment);
            } else {
                self.append_shared(segment.clone());
            }
        }
    }

    /// Overwrites the 32-bit word at `mark`, for counts and statuses that are
    /// known only after the following items. Words inside shared payloads and
    /// words that are not written yet are not changed.
    pub fn patch_u32(&mut self, mark: Mark, value: u32) {
        let mut start = 0;
        for segment in &mut self.sealed {
            let offset = mark.0.wrapping_sub(start);
            start += segment.len();
            if mark.0 < start {
                if let Segment::Small(bytes) = segment {
                    overwrite(bytes, offset, value);
                }
                return;
            }
        }
        overwrite(&mut self.tail, mark.0 - start, value);
    }

    /// Forgets everything written after `mark`.
    pub fn truncate_to(&mut self, mark: Mark) {
        if mark.0 >= self.sealed_len {
            self.tail.truncate(mark.0 - self.sealed_len);
            return;
        }
        self.tail.clear();
        while let Some(last) = self.sealed.last_mut() {
            let start = self.sealed_len - last.len();
            if start < mark.0 {
                last.truncate(mark.0 - start);
                self.sealed_len = mark.0;
                return;
            }
            self.sealed_len = start;
            self.sealed.pop();
        }
    }

    /// The finished message.
    pub fn finish(self) -> Rope {
        let sealed = self.sealed.into_iter().map(|segment| match segment {
            Segment::Small(bytes) => bytes.freeze(),
            Segment::Payload(bytes) => bytes,
        });
        Rope::from_segments(sealed.chain([self.tail.freeze()]))
    }

    /// The finished message in one buffer. Copies only if payloads were appended.
    pub fn into_bytes(self) -> Bytes {
        if self.sealed.is_empty() {
            return self.tail.freeze();
        }
        self.finish().into_contiguous()
    }

    fn append_shared(&mut self, bytes: Bytes) {
        if !self.tail.is_empty() {
            let small = self.tail.split();
            self.sealed_len += small.len();
            self.sealed.push(Segment::Small(small));
        }
        self.sealed_len += bytes.len();
        self.sealed.push(Segment::Payload(bytes));
    }

    #[inline]
    fn pad(&mut self, length: usize) {
        self.tail.put_bytes(0, padding(length));
    }
}

fn overwrite(bytes: &mut BytesMut, offset: usize, value: u32) {
    if let Some(word) = offset
        .checked_add(4)
        .and_then(|end| bytes.get_mut(offset..end))
    {
        word.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large(byte: u8) -> Bytes {
        Bytes::from(vec![byte; PAYLOAD_MIN + 1])
    }

    #[test]
    fn small_items_share_one_buffer() {
        let mut w = Writer::new();
        w.u32(1);
        w.payload(&Bytes::from_static(b"abcde"));
        w.bool(true);
        let rope = w.finish();
        assert_eq!(rope.segments().len(), 1);
        assert_eq!(
            &rope.into_contiguous()[..],
            &[
                0, 0, 0, 1, 0, 0, 0, 5, b'a', b'b', b'c', b'd', b'e', 0, 0, 0, 0, 0, 0, 1
            ]
        );
    }

    #[test]
    fn a_large_payload_is_not_copied() {
        let data = large(7);
        let mut w = Writer::new();
        w.u32(1);
        w.payload(&data);
        w.u32(2);
        assert_eq!(w.position(), 4 + crate::opaque_size(data.len()) + 4);
        let rope = w.finish();
        assert_eq!(rope.segments().len(), 3);
        assert_eq!(rope.segments()[1].as_ptr(), data.as_ptr());
        assert_eq!(&rope.segments()[2][..], &[0, 0, 0, 0, 0, 0, 2]);
    }

    #[test]
    fn words_can_be_patched_before_and_after_a_payload() {
        let mut w = Writer::new();
        let early = w.mark();
        w.u32(0);
        w.payload(&large(7));
        let late = w.mark();
        w.u32(0);
        w.patch_u32(early, 11);
        w.patch_u32(late, 22);
        let end = w.mark();
        w.patch_u32(end, 33);
        let bytes = w.finish().into_contiguous();
        assert_eq!(bytes[3], 11);
        assert_eq!(bytes[bytes.len() - 1], 22);
        assert_eq!(bytes.len(), end.0);
    }

    #[test]
    fn patching_inside_a_payload_leaves_it_alone() {
        let data = large(7);
        let mut w = Writer::new();
        w.payload(&data);
        let mut inside = w.mark();
        inside.0 = 100;
        w.patch_u32(inside, 0);
        assert_eq!(w.finish().segments()[1], data);
    }

    #[test]
    fn truncation_takes_back_everything_after_the_mark() {
        let mut marks = Vec::new();
        let write = |marks: &mut Vec<Mark>| {
            let mut w = Writer::new();
            for round in 0..3 {
                marks.push(w.mark());
                w.u32(round);
                marks.push(w.mark());
                w.payload(&large(round as u8));
            }
            marks.push(w.mark());
            w
        };
        let whole = write(&mut marks).finish().into_contiguous();
        for mark in marks.clone() {
            let mut w = write(&mut Vec::new());
            w.truncate_to(mark);
            assert_eq!(w.position(), mark.0);
            w.u32(99);
            let mut expected = whole[..mark.0].to_vec();
            expected.extend_from_slice(&[0, 0, 0, 99]);
            assert_eq!(w.finish().into_contiguous(), expected);
        }
    }

    #[test]
    fn a_rope_can_be_written_again() {
        let mut first = Writer::new();
        first.u32(5);
        first.payload(&large(1));
        let rope = first.finish();
        let mut second = Writer::new();
        second.rope(&rope);
        assert_eq!(second.position(), rope.len());
        let again = second.finish();
        assert_eq!(again, rope);
        assert_eq!(again.segments()[1].as_ptr(), rope.segments()[1].as_ptr());
    }
}

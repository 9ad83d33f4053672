//! Record marking (RFC 5531, section 11): messages on a byte stream, each cut
//! into one or more fragments. Pure; the owner of the socket moves the bytes.

use bytes::{Buf, BytesMut};
use thiserror::Error;
use xdr::{Bytes, Mark, Rope, Writer};

/// Bytes of the mark in front of every fragment.
pub const RECORD_MARK_SIZE: usize = 4;

const LAST_FRAGMENT: u32 = 1 << 31;
const FRAGMENT_MAX: usize = (LAST_FRAGMENT - 1) as usize;

/// Space made for a socket while the size of what comes next is unknown.
const READ_SIZE: usize = 64 * 1024;

/// Space that suffices in that case, so that the end of a buffer does not lead to
/// many small reads.
const READ_SIZE_MIN: usize = 4 * 1024;

/// Why a byte stream cannot be cut into records, or a message cannot be sent as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The record is larger than the receiver accepts. Its end cannot be found
    /// without reading all of it, so the connection should be closed.
    #[error("a record of at least {length} bytes exceeds the limit of {max}")]
    TooLarge {
        /// Bytes announced so far.
        length: usize,
        /// The largest record accepted here.
        max: usize,
    },
}

/// Cuts a byte stream into records.
///
/// Sockets read straight into [`read_buffer`](Self::read_buffer), which has space
/// for all of a record once its mark has arrived; a record sent as one fragment,
/// as all common clients do, is then handed out without a copy.
///
/// Memory is bounded by two records of the maximum size and one read.
#[derive(Debug)]
pub struct RecordSplitter {
    record_max: usize,
    input: BytesMut,
    /// The fragment whose mark has been consumed and whose content has not.
    fragment: Option<Fragment>,
    /// Content of earlier fragments of the same record.
    earlier: BytesMut,
    failed: Option<RecordError>,
}

#[derive(Debug, Clone, Copy)]
struct Fragment {
    length: usize,
    last: bool,
}

impl RecordSplitter {
    /// Accepts records of at most `record_max` bytes, marks not counted.
    pub fn new(record_max: usize) -> Self {
        Self {
            record_max,
            input: BytesMut::new(),
            fragment: None,
            earlier: BytesMut::new(),
            failed: None,
        }
    }

    /// Where received bytes are to be appended, with space for at least the rest
    /// of the current fragment.
    pub fn read_buffer(&mut self) -> &mut BytesMut {
        // More than the rest of a known fragment is never demanded: making space
        // near the end of a large one would copy all of it.
        let rest = self.fragment.map_or(0, |fragment| {
            fragment.length.saturating_sub(self.input.len())
        });
        let needed = if rest > 0 { rest } else { READ_SIZE_MIN };
        if self.input.capacity() - self.input.len() < needed {
            self.input.reserve(rest.max(READ_SIZE));
        }
        &mut self.input
    }

    /// The next complete record, or `None` until more bytes arrive. After an
    /// error every further call returns the same error.
    pub fn next_record(&mut self) -> Result<Option<Bytes>, RecordError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        loop {
            let Some(fragment) = self.current_fragment()? else {
                return Ok(None);
            };
            if self.input.len() < fragment.length {
                return Ok(None);
            }
            self.fragment = None;
            let content = self.input.split_to(fragment.length);
            match (fragment.last, self.earlier.is_empty()) {
                (true, true) => return Ok(Some(content.freeze())),
                (true, false) => {
                    self.earlier.extend_from_slice(&content);
                    return Ok(Some(std::mem::take(&mut self.earlier).freeze()));
                }
                (false, _) => self.earlier.extend_from_slice(&content),
            }
        }
    }

    /// The number of bytes of the current record, as far as it is known: all of them once its last fragment has begun,
    /// before that the maximum. Zero between records.
    pub fn expected_bytes(&self) -> usize {
        match self.fragment {
            Some(fragment) if fragment.last => self.earlier.len() + fragment.length,
            None if self.earlier.is_empty() => 0,
            _ => self.record_max,
        }
    }

    /// True between records, when the end of the stream loses nothing.
    pub fn is_between_records(&self) -> bool {
        self.input.is_empty() && self.fragment.is_none() && self.earlier.is_empty()
    }

    fn current_fragment(&mut self) -> Result<Option<Fragment>, RecordError> {
        if self.fragment.is_none() && self.input.len() >= RECORD_MARK_SIZE {
            let mark = self.input.get_u32();
            let length = (mark & !LAST_FRAGMENT) as usize;
            self.check_size(self.earlier.len() + length)?;
            self.fragment = Some(Fragment {
                length,
                last: mark & LAST_FRAGMENT != 0,
            });
        }
        Ok(self.fragment)
    }

    fn check_size(&mut self, length: usize) -> Result<(), RecordError> {
        if length <= self.record_max {
            return Ok(());
        }
        let error = RecordError::TooLarge {
            length,
            max: self.record_max,
        };
        self.failed = Some(error);
        self.input = BytesMut::new();
        self.earlier = BytesMut::new();
        Err(error)
    }
}

/// Puts the mark of a single fragment in front of a finished message.
///
/// [`RecordStart`] does the same without a segment of its own for the mark, when
/// the message is yet to be written.
pub fn frame(message: Rope) -> Result<Rope, RecordError> {
    let mark = mark_of(message.len())?;
    let mark = Bytes::copy_from_slice(&mark.to_be_bytes());
    Ok(Rope::from_segments(
        [mark].into_iter().chain(message.segments().iter().cloned()),
    ))
}

/// Space kept in a [`Writer`] for the mark of the message that follows.
#[derive(Debug)]
#[must_use = "the message has no mark until it is finished"]
pub struct RecordStart {
    mark: Mark,
    message: Mark,
}

impl RecordStart {
    /// Leaves space for a mark at the current place, which must be the beginning.
    pub fn reserve(w: &mut Writer) -> Self {
        let mark = w.mark();
        w.u32(0);
        Self {
            mark,
            message: w.mark(),
        }
    }

    /// Bytes of the message so far, its mark not counted.
    pub fn message_len(&self, w: &Writer) -> usize {
        w.written_since(self.message)
    }

    /// Fills in the mark of a single fragment and hands out the message.
    pub fn finish(self, mut w: Writer) -> Result<Rope, RecordError> {
        let mark = mark_of(self.message_len(&w))?;
        w.patch_u32(self.mark, mark);
        Ok(w.finish())
    }
}

fn mark_of(length: usize) -> Result<u32, RecordError> {
    match u32::try_from(length) {
        Ok(length) if length < LAST_FRAGMENT => Ok(length | LAST_FRAGMENT),
        _ => Err(RecordError::TooLarge {
            length,
            max: FRAGMENT_MAX,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(last: bool, content: &[u8]) -> Vec<u8> {
        let mark = content.len() as u32 | if last { LAST_FRAGMENT } else { 0 };
        [&mark.to_be_bytes(), content].concat()
    }

    fn receive(splitter: &mut RecordSplitter, bytes: &[u8]) {
        splitter.read_buffer().extend_from_slice(bytes);
    }

    fn drain(splitter: &mut RecordSplitter) -> Vec<Bytes> {
        std::iter::from_fn(|| splitter.next_record().unwrap()).collect()
    }

    #[test]
    fn what_a_record_takes_is_known_when_its_last_fragment_begins() {
        let mut splitter = RecordSplitter::new(100);
        assert_eq!(splitter.expected_bytes(), 0);
        for (bytes, expected) in [
            (&fragment(true, b"whole")[..6], 5),
            (b"ole", 0),
            (&fragment(false, b"in ")[..], 100),
            (&fragment(true, b"parts")[..5], 8),
            (b"arts", 0),
        ] {
            receive(&mut splitter, bytes);
            drain(&mut splitter);
            assert_eq!(splitter.expected_bytes(), expected);
        }
    }

    #[test]
    fn a_record_may_come_in_one_fragment_or_in_several() {
        let mut splitter = RecordSplitter::new(100);
        receive(&mut splitter, &fragment(true, b"whole"));
        receive(&mut splitter, &fragment(false, b"in "));
        receive(&mut splitter, &fragment(false, b""));
        receive(&mut splitter, &fragment(true, b"parts"));
        receive(&mut splitter, &fragment(true, b""));
        assert_eq!(drain(&mut splitter), ["whole", "in parts", ""]);
        assert!(splitter.is_between_records());
    }

    #[test]
    fn a_single_fragment_is_handed_out_without_a_copy() {
        let mut splitter = RecordSplitter::new(1 << 20);
        let content = vec![7; 300_000];
        let bytes = fragment(true, &content);
        splitter.read_buffer().extend_from_slice(&bytes[..1000]);
        assert_eq!(splitter.next_record(), Ok(None));
        let buffer = splitter.read_buffer();
        assert!(buffer.capacity() >= content.len());
        let address = buffer.as_ptr();
        buffer.extend_from_slice(&bytes[1000..]);
        let record = splitter.next_record().unwrap().unwrap();
        assert_eq!(record.as_ptr(), address);
        assert_eq!(record, content);
    }

    #[test]
    fn an_oversized_record_is_refused_by_its_mark_and_for_good() {
        let error = RecordError::TooLarge {
            length: 101,
            max: 100,
        };
        let mut splitter = RecordSplitter::new(100);
        receive(&mut splitter, &(101u32 | LAST_FRAGMENT).to_be_bytes());
        assert_eq!(splitter.next_record(), Err(error));
        receive(&mut splitter, &fragment(true, b"fine"));
        assert_eq!(splitter.next_record(), Err(error));
    }

    #[test]
    fn fragments_count_together_against_the_limit() {
        let mut splitter = RecordSplitter::new(100);
        receive(&mut splitter, &fragment(false, &[0; 60]));
        receive(&mut splitter, &fragment(true, &[0; 60]));
        assert_eq!(
            splitter.next_record(),
            Err(RecordError::TooLarge {
                length: 120,
                max: 100
            })
        );
    }

    #[test]
    fn both_ways_of_framing_agree() {
        let data = Bytes::from(vec![3; xdr::PAYLOAD_MIN]);
        let mut bare = Writer::new();
        bare.u32(9);
        bare.payload(&data);
        let mut marked = Writer::new();
        let start = RecordStart::reserve(&mut marked);
        marked.u32(9);
        marked.payload(&data);
        assert_eq!(start.message_len(&marked), bare.position());
        let marked = start.finish(marked).unwrap();
        assert_eq!(marked, frame(bare.finish()).unwrap());

        let mut splitter = RecordSplitter::new(1 << 20);
        receive(&mut splitter, &marked.into_contiguous());
        let record = splitter.next_record().unwrap().unwrap();
        assert_eq!(record.len(), 4 + 4 + data.len());
    }
}

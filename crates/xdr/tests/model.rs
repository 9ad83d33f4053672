//! The writer against a plain vector of bytes, and the reader against the writer,
//! for any sequence of items, patches and truncations.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use xdr::{DecodeError, Mark, PAYLOAD_MIN, Reader, Rope, Writer, padding};

#[derive(Debug, Clone)]
enum Step {
    Word(u32),
    Hyper(u64),
    Flag(bool),
    Opaque(Bytes),
    Fixed([u8; 5]),
    Again(Bytes),
    /// Overwrites one of the words written so far.
    Patch(prop::sample::Index, u32),
    /// Goes back to the end of one of the steps so far.
    Truncate(prop::sample::Index),
}

fn bytes() -> impl Strategy<Value = Bytes> {
    let length = prop_oneof![4 => 0..40usize, 1 => PAYLOAD_MIN - 3..PAYLOAD_MIN + 9];
    (length, any::<u8>()).prop_map(|(length, byte)| Bytes::from(vec![byte; length]))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<u32>().prop_map(Step::Word),
        1 => any::<u64>().prop_map(Step::Hyper),
        1 => any::<bool>().prop_map(Step::Flag),
        4 => bytes().prop_map(Step::Opaque),
        1 => any::<[u8; 5]>().prop_map(Step::Fixed),
        1 => bytes().prop_map(Step::Again),
        1 => (any::<prop::sample::Index>(), any::<u32>()).prop_map(|(at, value)| Step::Patch(at, value)),
        1 => any::<prop::sample::Index>().prop_map(Step::Truncate),
    ]
}

/// The expected output of the writer, as simply as possible.
#[derive(Default)]
struct Model {
    bytes: Vec<u8>,
    /// The beginning of each step, and the number of bytes before it.
    marks: Vec<(Mark, usize)>,
    /// The places of single words.
    words: Vec<(Mark, usize)>,
}

impl Model {
    fn opaque(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.bytes
            .extend(std::iter::repeat_n(0, padding(value.len())));
    }

    fn apply(&mut self, w: &mut Writer, step: &Step) {
        let mark = (w.mark(), self.bytes.len());
        self.marks.push(mark);
        match step {
            Step::Word(value) => {
                self.words.push(mark);
                w.u32(*value);
                self.bytes.extend(value.to_be_bytes());
            }
            Step::Hyper(value) => {
                w.u64(*value);
                self.bytes.extend(value.to_be_bytes());
            }
            Step::Flag(value) => {
                w.bool(*value);
                self.bytes.extend([0, 0, 0, u8::from(*value)]);
            }
            Step::Opaque(value) => {
                w.payload(value);
                self.bytes.extend((value.len() as u32).to_be_bytes());
                self.opaque(value);
            }
            Step::Fixed(value) => {
                w.write(value);
                self.opaque(value);
            }
            Step::Again(value) => {
                w.rope(&Rope::from(value.clone()));
                self.bytes.extend_from_slice(value);
            }
            Step::Patch(at, value) => {
                if !self.words.is_empty() {
                    let (word, start) = *at.get(&self.words);
                    w.patch_u32(word, *value);
                    self.bytes[start..start + 4].copy_from_slice(&value.to_be_bytes());
                }
            }
            Step::Truncate(to) => {
                let to = *to.get(&self.marks);
                w.truncate_to(to.0);
                self.bytes.truncate(to.1);
                self.marks.retain(|mark| *mark <= to);
                self.words.retain(|mark| *mark < to);
            }
        }
    }
}

proptest! {
    #[test]
    fn the_writer_does_what_a_vector_would(steps in vec(step(), 0..30)) {
        let mut w = Writer::new();
        let mut model = Model::default();
        for step in &steps {
            model.apply(&mut w, step);
            prop_assert_eq!(w.position(), model.bytes.len());
        }
        let rope = w.finish();
        prop_assert_eq!(rope.len(), model.bytes.len());
        prop_assert!(rope.segments().iter().all(|segment| !segment.is_empty()));
        prop_assert!(rope.into_contiguous() == model.bytes);
    }

    #[test]
    fn the_reader_gets_back_what_was_written(
        word in any::<u32>(),
        hyper in any::<u64>(),
        signed in any::<i64>(),
        opaque in bytes(),
        fixed in any::<[u8; 7]>(),
        list in vec(any::<u32>(), 0..20),
        option in any::<Option<bool>>(),
    ) {
        let mut w = Writer::new();
        w.write(&word);
        w.write(&hyper);
        w.write(&signed);
        w.write(&opaque);
        w.write(&fixed);
        w.write(&list);
        w.write(&option);
        let whole = w.finish().into_contiguous();
        let read = |bytes: Bytes| -> Result<_, DecodeError> {
            let mut r = Reader::new(bytes);
            let values = (
                r.read::<u32>()?,
                r.read::<u64>()?,
                r.read::<i64>()?,
                r.opaque(opaque.len())?,
                r.read::<[u8; 7]>()?,
                r.array_of::<u32>(list.len())?,
                r.read::<Option<bool>>()?,
            );
            r.finish()?;
            Ok(values)
        };
        for end in (0..whole.len()).rev().take(200) {
            let cut = read(whole.slice(..end));
            prop_assert!(matches!(cut, Err(DecodeError::Truncated { .. })), "{cut:?}");
        }
        let values = read(whole).expect("was written by us");
        prop_assert_eq!(values, (word, hyper, signed, opaque, fixed, list, option));
    }
}

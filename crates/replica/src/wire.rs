//! What replicas say to each other besides what the transport knows: kinds of messages, and their encoding.
//!
//! Encodings are postcard's; the version of the transport's hello covers them all. Every decoder is bounded
//! by the length of what it is given.

use bytes::Bytes;
use control::{ControlName, Proposal};
use peer::Message;
use peer::set::MemberList;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use store::RowChange;
use vfs::ObjectId;

/// Replication control: a [`control::Envelope`]. Control lane.
pub(crate) const CONTROL: u32 = 1;
/// [`Greeting`], when a session begins. Control lane.
pub(crate) const GREETING: u32 = 2;
/// [`Records`] of the sender's stream. Metadata lane.
pub(crate) const RECORDS: u32 = 3;
/// [`Applied`]. Control lane.
pub(crate) const APPLIED: u32 = 4;
/// [`PieceHead`], with the bytes beside it. Data lanes.
pub(crate) const PIECE: u32 = 5;
/// [`PieceDone`]. Control lane.
pub(crate) const PIECE_DONE: u32 = 6;
/// [`crate::forward::Forwarded`], answered with [`crate::forward::Answer`]. Control lane, or a data lane
/// when one of the two is large.
pub(crate) const FORWARD: u32 = 7;
/// A [`MemberList`]. Control lane.
pub(crate) const MEMBERS: u32 = 8;
/// [`BasePage`] of the copy a joining replica begins with. Metadata lane.
pub(crate) const BASE: u32 = 9;

/// What rides with an update record: opaque to the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The controls it was made under.
    pub(crate) under: Vec<ControlName>,
    /// The control that a new object inherits.
    pub(crate) inherited: Option<Proposal>,
    /// The forwarded request that it carries out, if any.
    pub(crate) origin: Option<Origin>,
}

/// Names one forwarded request of one incarnation, so that a repeat is recognised (rule 18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) slot: u16,
    pub(crate) incarnation: u64,
    pub(crate) number: u64,
}

/// The first thing each side says in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Greeting {
    /// The sender begins the conversation, and may have taken no notice of what was said before.
    pub(crate) begins: bool,
    /// How far the sender has applied the receiver's stream, stably.
    pub(crate) applied: u64,
    /// How much of the tree the sender holds: 0 nothing, 1 all rows, 2 everything.
    pub(crate) held: u8,
    /// The set, as the sender knows it.
    pub(crate) members: MemberList,
}

/// One row, as it is after an update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) table: u8,
    pub(crate) key: Bytes,
    pub(crate) value: Option<Bytes>,
}

impl From<RowChange> for Row {
    fn from(change: RowChange) -> Row {
        Row {
            table: change.table,
            key: change.key,
            value: change.value,
        }
    }
}

impl From<Row> for RowChange {
    fn from(row: Row) -> RowChange {
        RowChange {
            table: row.table,
            key: row.key,
            value: row.value,
        }
    }
}

/// One update, or several consecutive ones made one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Its place in the stream; of several updates made one, the last one's.
    pub(crate) position: u64,
    /// The controls it was made under.
    pub(crate) under: Vec<ControlName>,
    /// The controls that new objects inherit.
    pub(crate) inherited: Vec<Proposal>,
    /// The forwarded requests that it carries out.
    pub(crate) origins: Vec<Origin>,
    pub(crate) rows: Vec<Row>,
}

/// Consecutive updates of the sender's stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Records {
    pub(crate) records: Vec<Record>,
    /// There are no others up to here; positions have gaps.
    pub(crate) through: u64,
}

/// Everything of the receiver's stream up to here is applied at the sender, stably.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied {
    pub(crate) position: u64,
}

/// A stretch of a file: so many bytes of the payload, or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stretch {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) hole: bool,
}

/// Content of a part of a file; the bytes of its stretches follow as payload, one after another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PieceHead {
    pub(crate) id: u64,
    pub(crate) file: ObjectId,
    /// Not to be put in place before the stream has been applied up to here.
    pub(crate) follows: u64,
    /// It belongs to the copy that the receiver begins with.
    pub(crate) initial: bool,
    pub(crate) stretches: Vec<Stretch>,
}

/// The piece is in place at the sender, stably, or of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PieceDone {
    pub(crate) id: u64,
    pub(crate) file: ObjectId,
    /// It could not be put in place; the sender of the piece must send it again.
    pub(crate) failed: bool,
}

/// Part of the copy that a joining replica begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BasePage {
    /// What was sent of an earlier copy is to be forgotten.
    Begin,
    /// Rows.
    Rows(Vec<Row>),
    /// These were all rows; the streams go on behind these positions.
    Rest(Vec<(u16, u64)>),
    /// The contents of all files have been acknowledged: the copy is complete.
    Complete,
}

/// Encodes a value as the payload of a message.
pub(crate) fn payload<T: Serialize>(kind: u32, value: &T) -> Message {
    Message::new(kind, Bytes::new()).with_payload(encode(value))
}

/// Encodes a value as the body of a message.
pub(crate) fn body<T: Serialize>(kind: u32, value: &T) -> Message {
    Message::new(kind, encode(value))
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Invariant: these types have no maps, floats or unsized sequences, which alone could fail.
    postcard::to_allocvec(value).expect("a message of plain values can be encoded")
}

/// Takes bytes of a peer apart.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Malformed> {
    postcard::from_bytes(bytes).map_err(Malformed)
}

/// Bytes that no replica of this version sends.
#[derive(Debug, thiserror::Error)]
#[error("a message cannot be decoded: {0}")]
pub(crate) struct Malformed(postcard::Error);

/// Takes arbitrary bytes apart as every kind of message, for fuzzing; nothing comes of it.
#[doc(hidden)]
pub fn decode_as_anything(bytes: &[u8]) {
    drop(decode::<control::Envelope>(bytes));
    drop(decode::<Greeting>(bytes));
    drop(decode::<Records>(bytes));
    drop(decode::<Note>(bytes));
    drop(decode::<Applied>(bytes));
    drop(decode::<PieceHead>(bytes));
    drop(decode::<PieceDone>(bytes));
    drop(decode::<MemberList>(bytes));
    drop(decode::<BasePage>(bytes));
    drop(decode::<crate::forward::Forwarded>(bytes));
    drop(decode::<crate::forward::Answer>(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused_or_understood(bytes: Vec<u8>) {
            decode_as_anything(&bytes);
        }

        #[test]
        fn a_record_comes_back_and_a_shortened_one_is_refused(position: u64, key: Vec<u8>, cut in 0_usize..8) {
            let row = Row { table: 1, key: key.into(), value: None };
            let origin = Origin { slot: 1, incarnation: 2, number: 3 };
            let (under, inherited, origins) = (Vec::new(), Vec::new(), vec![origin]);
            let record = Record { position, under, inherited, origins, rows: vec![row] };
            let records = Records { records: vec![record], through: position };
            let bytes = encode(&records);
            prop_assert_eq!(&decode::<Records>(&bytes).unwrap(), &records);
            prop_assert!(decode::<Records>(&bytes[..bytes.len() - 1 - cut.min(bytes.len() - 1)]).is_err());
        }
    }

    #[test]
    fn a_name_that_no_directory_may_hold_is_refused() {
        let who = vfs::Credentials::root();
        let honest = vfs::Name::new(&b"name"[..]).unwrap();
        let operation = crate::forward::Operation::Remove(who, ObjectId::ROOT, honest);
        let mut bytes = encode(&operation);
        let at = bytes.len() - 4;
        bytes[at] = b'/';
        assert!(decode::<crate::forward::Operation>(&bytes).is_err());
    }
}

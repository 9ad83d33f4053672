//! What replicas say to each other on top of the transport: kinds of messages, and their encoding.
//!
//! The encoding is postcard; the version in the transport's hello covers all messages. Each decoder is bounded by the length of its input.

use bytes::Bytes;
use control::{ControlName, Proposal};
use peer::Message;
use peer::set::MemberList;
use serde::{Deserialize, Serialize};
use store::RowChange;
use vfs::ObjectId;

pub(crate) use crate::state::encoding::{Malformed, decode, encode};
use crate::state::lineage::{Attested, Mac};

mod contents;

pub(crate) use contents::{
    Completed, LackingFiles, PieceDone, PieceHead, Stretch, Sum, Supplied, Wanted,
};

/// The kind of a message or request. A number never gets another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Kind {
    /// Replication control: a [`control::Envelope`]. Control lane.
    Control = 1,
    /// [`Greeting`], when a session begins. Control lane.
    Greeting = 2,
    /// [`Records`] of the sender's stream. Metadata lane.
    Records = 3,
    /// [`Applied`]. Control lane.
    Applied = 4,
    /// [`PieceHead`], with the bytes beside it. Data lanes.
    Piece = 5,
    /// [`PieceDone`]. Control lane.
    PieceDone = 6,
    /// [`crate::state::forward::Forwarded`], answered with [`crate::state::forward::Answer`]. Control lane, or a data lane
    /// when one of the two is large.
    Forward = 7,
    /// A [`MemberList`]. Control lane.
    Members = 8,
    /// [`BasePage`] of the copy a joining replica begins with. Metadata lane.
    Base = 9,
    /// [`LeaseRequest`], a few times while a lease lasts. Control lane.
    LeaseRequest = 10,
    /// [`LeaseGrant`], the answer to it. Control lane.
    LeaseGrant = 11,
    /// [`Joined`], from each member of a view to a replica that has been admitted to it. Control lane.
    Joined = 12,
    /// [`CaughtUp`], to the same replica, later. Control lane.
    CaughtUp = 13,
    /// A request of the crate `view`, answered in kind. Control lane.
    View = 14,
    /// [`Relayed`]. Metadata lane.
    Relayed = 15,
    /// [`Incomplete`]. Metadata lane.
    Incomplete = 16,
    /// [`Completed`]. Metadata lane.
    Completed = 17,
    /// [`Wanted`]. Metadata lane.
    Wanted = 18,
    /// This replica no longer keeps what the receiver lacks of its stream: the receiver needs a whole copy. Empty.
    TooFar = 19,
    /// A [`Completed`], returned once it is stable. Metadata lane.
    Noted = 20,
    /// A [`ScrubQuestion`], answered with a [`ScrubAnswer`]. Data lane.
    Scrub = 21,
    /// [`crate::state::clients::ClientsAsked`], answered with [`crate::state::clients::ClientsAbsent`]. Control lane.
    Clients = 31,
    /// [`crate::state::rejoins::Remainder`], about once a second to replicas on their way back into the view. Control lane.
    Remainder = 41,
    /// A [`peer::set::Handover`], answered with an empty message once it is stored durably. Control lane.
    Authority = 50,
    /// [`HeldOpen`], when it changes and when a session begins. Control lane.
    HeldOpen = 60,
}

impl Kind {
    /// All kinds.
    pub(crate) const ALL: [Kind; 25] = [
        Kind::Control,
        Kind::Greeting,
        Kind::Records,
        Kind::Applied,
        Kind::Piece,
        Kind::PieceDone,
        Kind::Forward,
        Kind::Members,
        Kind::Base,
        Kind::LeaseRequest,
        Kind::LeaseGrant,
        Kind::Joined,
        Kind::CaughtUp,
        Kind::View,
        Kind::Relayed,
        Kind::Incomplete,
        Kind::Completed,
        Kind::Wanted,
        Kind::TooFar,
        Kind::Noted,
        Kind::Scrub,
        Kind::Clients,
        Kind::Remainder,
        Kind::Authority,
        Kind::HeldOpen,
    ];

    /// Its number on the wire.
    pub(crate) const fn number(self) -> u32 {
        self as u32
    }

    /// The kind of this number, if there is one.
    pub(crate) fn of(number: u32) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// Why a replica that connects is turned away; sent to that replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Grounds {
    /// The evidence about the past of the two replicas.
    Past(crate::state::lineage::Evidence),
    /// It was removed from the set, as the list says.
    Removed(MemberList),
}

/// What one replica asks another in order to compare the copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ScrubQuestion {
    /// The digest of the rows of all objects from the first identifier to the second.
    Rows { from: ObjectId, through: ObjectId },
    /// The digest of a file's content; with `again`, of what its disk has now, not of what was noted.
    Content { file: ObjectId, again: bool },
    /// The content of this version from this offset on, as much as fits into a message.
    Piece {
        file: ObjectId,
        version: u64,
        offset: u64,
    },
    /// Others have another content of this file and outvote the receiver: it has to check its own copy.
    Check { file: ObjectId },
}

/// The answer to a [`ScrubQuestion`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ScrubAnswer {
    /// How many objects there are, their digest, and how far each stream was applied before the replica read them; for the sender's own slot, the
    /// place of its last update.
    Rows {
        objects: u64,
        hash: [u8; 32],
        places: Vec<(u16, u64)>,
    },
    /// Version, size and digest; `None` if the file is being changed, or is not to be trusted.
    Content(Option<(u64, u64, [u8; 32])>),
    /// The bytes of the stretches, one after another. Without stretches the content has ended.
    Piece {
        stretches: Vec<Stretch>,
        bytes: Bytes,
    },
    /// The question was understood; or there is no such version.
    Nothing,
}

/// The sender asks for a grant of its site lease, and reports what other replicas base decisions on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaseRequest {
    /// When, on the sender's clock.
    pub(crate) asked: u64,
    /// The view in force there.
    pub(crate) epoch: u64,
    /// The place of its last update.
    pub(crate) position: u64,
    /// How far it has applied the stream of each other replica, stably.
    pub(crate) applied: Vec<(u16, u64)>,
    /// How many files have lacked some of the sender's changes at the receiver for longer than a fresh change takes to arrive.
    pub(crate) owed: u64,
    /// All controls and updates of the sender from earlier configurations of the set have reached every replica.
    pub(crate) steady: bool,
    /// The sender lacks nothing that was made before it took part.
    pub(crate) up_to_date: bool,
    /// The sender takes part and was up to date, in this or an earlier incarnation, and has not left the view since.
    pub(crate) complete: bool,
    /// Bytes that users may still write.
    pub(crate) available: u64,
    /// Lost replicas whose streams the sender has applied up to these places, with all contents that came with them.
    pub(crate) whole: Vec<(u16, u64)>,
    /// Replicas that have answered with today's durability, each since a place in its stream.
    pub(crate) aware: Vec<(u16, u64)>,
    /// The sender waits for a majority where no directory sets the durability.
    pub(crate) majority_by_default: bool,
    /// The incarnation of the sender.
    pub(crate) incarnation: u64,
    /// The mark of its lineage, which covers everything that it had on stable storage a moment ago; `None` if there is no mark.
    pub(crate) mark: Option<Attested>,
    /// The sender takes part and knows what froze when the view began.
    pub(crate) settled: bool,
    /// Members of the view that have not answered the sender for too long. The sender is a member itself.
    pub(crate) misses: Vec<u16>,
    /// The sender, which takes no part, could be admitted without these members of the view. Empty: it could not.
    pub(crate) fit_without: Vec<u16>,
    /// The sender's links to all others, for display.
    pub(crate) links: Vec<LinkView>,
    /// Members whose disks have too little space, so that the sender refuses changes, or soon will.
    pub(crate) short_of: Vec<u16>,
    /// Replicas whose contents the sender lacks in part, each with the place in its stream up to which the sender has all contents.
    pub(crate) lacks: Vec<(u16, u64)>,
    /// Lost replicas of which the sender, in this view, accepts only updates that others relay.
    pub(crate) closed: Vec<u16>,
    /// Which files those are, for replicas that take no part or do not answer the sender, each with the place up to which the sender has its contents.
    pub(crate) lacking: Vec<(u16, LackingFiles)>,
}

impl LeaseRequest {
    /// Whether another request of the same sender differs in something that other replicas base decisions on.
    pub(crate) fn differs(&self, other: &LeaseRequest) -> bool {
        let decisive = |one: &LeaseRequest| LeaseRequest {
            asked: 0,
            available: 0,
            links: Vec::new(),
            ..one.clone()
        };
        decisive(self) != decisive(other)
    }
}

/// A link between two members, as one of them sees it and reports it to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkView {
    /// The slot of the other end.
    pub to: u16,
    /// The round trip in microseconds; `None` if they are not connected.
    pub round_trip_us: Option<u64>,
    /// The number of updates of the reporting member that the other end lacks.
    pub lag_updates: u64,
    /// The number of files of which the other end lacks something.
    pub lag_files: u64,
}

/// The answer to a [`LeaseRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaseGrant {
    /// The incarnation of the receiver that asked, as in the request.
    pub(crate) incarnation: u64,
    /// As in the request.
    pub(crate) asked: u64,
    /// The sender joins no view without the receiver while the grant lasts.
    pub(crate) given: bool,
    /// The sender's time of day when it answered, in microseconds since 1970.
    pub(crate) time_of_day_us: i64,
    /// Which contents of the sender the other members have; `None` if it cannot tell.
    pub(crate) shipped: Option<Shipped>,
}

/// All other members of a view that keep contents have all contents that the sender changed before it heard an earlier request of the receiver.
/// Members that do not answer the sender are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shipped {
    /// The view in force at the sender.
    pub(crate) epoch: u64,
    /// When the receiver sent that request, on its own clock.
    pub(crate) asked: u64,
    /// The members that are left out.
    pub(crate) without: Vec<u16>,
}

/// The sender has entered a view to which the receiver was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Joined {
    pub(crate) epoch: u64,
    /// The place of the sender's last update at that moment. The receiver need not know the controls of updates up to there.
    pub(crate) through: u64,
}

/// The receiver has everything that the sender owed it when this view began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CaughtUp {
    pub(crate) epoch: u64,
}

/// A message of a lost replica's stream, with its original [`Records`], from a replica that has applied them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Relayed {
    pub(crate) of: u16,
    pub(crate) records: Bytes,
    /// The maker's signature of the records, as [`UPDATES`].
    pub(crate) signature: Bytes,
    /// The maker's certificate, in DER.
    pub(crate) certificate: Bytes,
}

/// The purpose in the signature of records.
pub(crate) const UPDATES: &str = "updates 1";

/// Files of a lost replica that are not complete at the sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Incomplete {
    pub(crate) of: u16,
    /// How far the sender has applied that replica's stream.
    pub(crate) applied: u64,
    pub(crate) epoch: u64,
    /// The sender accepts no more updates directly from that replica.
    pub(crate) closed: bool,
    /// This is the first part.
    pub(crate) first: bool,
    /// Each with the replica whose data is missing: the lost one, or a member that has it.
    pub(crate) files: Vec<(u16, Lack)>,
    /// This is the last part.
    pub(crate) last: bool,
}

/// A file that is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lack {
    pub(crate) file: ObjectId,
    /// The position up to which it is complete.
    pub(crate) through: u64,
    /// The last position whose data may be missing.
    pub(crate) at: u64,
    /// The version of the file before the first change whose data may be missing; 0 if that is unknown.
    pub(crate) follows: u64,
    /// None of the missing data has come: up to this size the file is the previous version.
    pub(crate) whole: Option<u64>,
    /// The durability of the file is `majority`: a majority has everything that was answered as stable.
    pub(crate) majority: bool,
}

/// Metadata of an update record, opaque to the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The controls it was made under.
    pub(crate) under: Vec<ControlName>,
    /// The control that a new object inherits.
    pub(crate) inherited: Option<Proposal>,
    /// The forwarded request that it carries out, if any.
    pub(crate) origin: Option<Origin>,
    /// The file whose data it changes, if any.
    pub(crate) data: Option<ObjectId>,
    /// How far the primary had applied the streams of others when it made the update.
    pub(crate) after: Vec<(u16, u64)>,
}

/// Names one forwarded request of one incarnation, so that a repeat is recognised (rule 18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) slot: u16,
    pub(crate) incarnation: u64,
    pub(crate) number: u64,
}

/// The first message of each side in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Greeting {
    /// The sender begins the conversation, and may have ignored earlier messages.
    pub(crate) begins: bool,
    /// How far the sender has applied the receiver's stream, stably.
    pub(crate) applied: u64,
    /// How much of the tree the sender holds: 0 nothing, 1 all rows, 2 everything.
    pub(crate) held: u8,
    /// How many files the sender has asked for, not counting those of copies ([`Wanted::named`]). Its last requests may arrive later, on another
    /// lane.
    pub(crate) wished: u64,
    /// The sender holds nothing, and has taken this part of a copy from the receiver.
    pub(crate) taken: Option<Taken>,
    /// The set, as the sender knows it.
    pub(crate) members: MemberList,
    /// The sender's certificate, in DER, for replicas to which its updates are relayed if it is lost.
    pub(crate) certificate: Bytes,
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

/// One update, or several consecutive updates merged into one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Its place in the stream; that of the last update if several are merged.
    pub(crate) position: u64,
    /// The controls it was made under.
    pub(crate) under: Vec<ControlName>,
    /// The controls that new objects inherit.
    pub(crate) inherited: Vec<Proposal>,
    /// The forwarded requests that it carries out.
    pub(crate) origins: Vec<Origin>,
    /// The files whose data it changes; their contents are sent separately.
    pub(crate) data: Vec<ObjectId>,
    /// How far the primary had applied the streams of others when it made the update. A replica that applies the update without knowing its controls
    /// must have applied the streams this far.
    pub(crate) after: Vec<(u16, u64)>,
    pub(crate) rows: Vec<Row>,
}

/// Consecutive updates of the sender's stream. The body of the message is the sender's signature of the payload, as [`UPDATES`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Records {
    /// They follow this place: there are no others between it and the first of them.
    pub(crate) behind: u64,
    pub(crate) records: Vec<Record>,
    /// There are no others up to here; positions have gaps.
    pub(crate) through: u64,
    /// How many settlements the sender knew. An update made after a settlement may replace what the settlement has given up.
    pub(crate) settlements: u64,
    /// The number of the view in force at the sender. The receiver may get updates of a replica that is still in an earlier view only later.
    pub(crate) epoch: u64,
    /// The maker of the stream attests with this that the stream has come this far.
    pub(crate) mac: Mac,
}

/// Everything of the receiver's stream up to here is applied at the sender, stably.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied {
    pub(crate) position: u64,
    /// The number of the sender's [`HeldOpen`] that tells which files removed up to there it keeps: this one or a later one.
    pub(crate) held_open: u64,
}

/// All files without a name that the sender's clients have open, or may yet reclaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldOpen {
    /// Grows with each change during one incarnation of the sender.
    pub(crate) version: u64,
    pub(crate) files: Vec<ObjectId>,
}

/// A place in a copy of all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Taken {
    /// The incarnation of the supplier that began it.
    pub(crate) incarnation: u64,
    /// Which copy of that incarnation it is.
    pub(crate) copy: u64,
    /// How many pages of rows precede this place.
    pub(crate) pages: u64,
}

/// Part of the copy with which a joining replica begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BasePage {
    /// Rows follow from this place on. At the first page, the receiver must forget an earlier copy. The second value is the number of settlements
    /// that the copy has gone through.
    Begin(Taken, u64),
    /// The rows of this place.
    Rows(Taken, Vec<Row>),
    /// All rows precede this place; the streams continue behind these positions.
    Rest(Taken, Vec<(u16, u64)>),
    /// The contents of all files have been acknowledged: the copy is complete.
    Complete,
}

/// Encodes a value as the payload of a message.
pub(crate) fn payload<T: Serialize>(kind: Kind, value: &T) -> Message {
    Message::new(kind.number(), Bytes::new()).with_payload(encode(value))
}

/// Encodes a value as the body of a message.
pub(crate) fn body<T: Serialize>(kind: Kind, value: &T) -> Message {
    Message::new(kind.number(), encode(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_comes_back_and_a_shortened_one_is_refused(position: u64, key: Vec<u8>, cut in 0_usize..8) {
            let row = Row { table: 1, key: key.into(), value: None };
            let origin = Origin { slot: 1, incarnation: 2, number: 3 };
            let (under, inherited, origins) = (Vec::new(), Vec::new(), vec![origin]);
            let data = vec![ObjectId::ROOT];
            let (after, rows) = (vec![(2, 7)], vec![row]);
            let record = Record { position, under, inherited, origins, data, after, rows };
            let records = Records { behind: 0, records: vec![record], through: position, settlements: 0, epoch: 0, mac: Mac::invented() };
            let bytes = encode(&records);
            prop_assert_eq!(&decode::<Records>(&bytes).unwrap(), &records);
            prop_assert!(decode::<Records>(&bytes[..bytes.len() - 1 - cut.min(bytes.len() - 1)]).is_err());
        }
    }

    #[test]
    fn a_name_that_no_directory_may_hold_is_refused() {
        let who = vfs::Credentials::root();
        let honest = vfs::Name::new(&b"name"[..]).unwrap();
        let operation = crate::state::forward::Operation::Remove(who, ObjectId::ROOT, honest);
        let mut bytes = encode(&operation);
        let at = bytes.len() - 4;
        bytes[at] = b'/';
        assert!(decode::<crate::state::forward::Operation>(&bytes).is_err());
    }
}

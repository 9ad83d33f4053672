//! What replicas say about contents of files: which are wanted, which are sent, and which have arrived.
//!
//! What must never enter: when that is said (`replication`).

use serde::{Deserialize, Serialize};
use vfs::ObjectId;

/// The receiver has the contents of these files up to these places of the sender's stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Completed {
    pub(crate) files: Vec<(ObjectId, u64)>,
    /// Those of the files that the receiver has asked for in this session and that were sent since, each with the turn of its last request. In an
    /// answer ([`super::Kind::Noted`]) the requests that the sender of the answer takes for answered.
    pub(crate) asked: Vec<(ObjectId, u64)>,
    /// The files with which the sender, having the best copy, supplied the receiver.
    pub(crate) supplied: Vec<Supplied>,
}

/// Files that lacked a lost replica's data on some survivor, and that the receiver now has as the sender has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Supplied {
    /// The epoch in which the sender found that out.
    pub(crate) epoch: u64,
    /// The lost replicas whose streams were closed at that time.
    pub(crate) closed: Vec<u16>,
    pub(crate) files: Vec<ObjectId>,
}

/// The sender, which has taken all rows from the receiver, needs the contents of these files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// They belong to the copy that the sender took, and the receiver tells the sender when it has all of them.
    pub(crate) copy: bool,
    /// How far the sender has applied the receiver's stream. Its greeting, which says this too, may come later, on another lane.
    pub(crate) applied: u64,
    pub(crate) files: Vec<ObjectId>,
    /// It is the first part of the list of a copy.
    pub(crate) first: bool,
    pub(crate) last: bool,
    /// How many files, including these, the sender has asked for since the receiver began the conversation; those of copies do not count.
    pub(crate) named: u64,
    /// How often copies of files have given way at the sender since its start.
    pub(crate) turn: u64,
    /// For a copy: how far the sender has applied all streams. It has files that were made up to there.
    pub(crate) places: Vec<(u16, u64)>,
}

/// Files without all contents of a replica, each with the place in its stream up to which they are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LackingFiles {
    Named(Vec<(ObjectId, u64)>),
    /// A checksum of these, if they are many.
    Sum([u8; blake3::OUT_LEN]),
}

/// A stretch of a file: `length` bytes of the payload, or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stretch {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) hole: bool,
}

/// Content of a part of a file; the payload is the bytes of its stretches, one after another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PieceHead {
    pub(crate) id: u64,
    pub(crate) file: ObjectId,
    /// The piece must not be put in place before the stream has been applied up to here.
    pub(crate) follows: u64,
    /// It belongs to the copy with which the receiver begins.
    pub(crate) initial: bool,
    /// With this piece the receiver has the whole file, up to this place of the stream.
    pub(crate) completes: Option<u64>,
    /// The receiver has asked for the file in this session, and the whole file was sent since: the turn of its last request.
    pub(crate) asked: Option<u64>,
    /// At least this version of the file was read; 0 if the sender lacks data of that version and sends an earlier one.
    pub(crate) version: u64,
    /// The sender lacks some of a lost replica's data of the file, and has the best copy of it.
    pub(crate) partial: bool,
    /// The sender lacks data of these makers, which are outside the view or do not answer it, and which no other member can replace yet. It sends nothing
    /// of the file.
    pub(crate) without: Vec<u16>,
    /// With those: how many settlements the sender's copy has gone through.
    pub(crate) settlements: u64,
    pub(crate) stretches: Vec<Stretch>,
    /// The sums of all stretches except holes, instead of their bytes: the receiver may have these already. Empty: the bytes follow.
    pub(crate) sums: Vec<Sum>,
}

#[cfg(test)]
impl PieceHead {
    /// A piece of the root, without bytes or sums.
    pub(crate) fn invented() -> PieceHead {
        PieceHead {
            id: 1,
            file: ObjectId::ROOT,
            follows: 0,
            initial: false,
            completes: None,
            asked: None,
            version: 1,
            partial: false,
            without: Vec::new(),
            settlements: 0,
            stretches: Vec::new(),
            sums: Vec::new(),
        }
    }
}

/// The BLAKE3 of the bytes of a stretch.
pub(crate) type Sum = [u8; blake3::OUT_LEN];

/// The piece is in place at the sender, stably, or is no longer needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PieceDone {
    pub(crate) id: u64,
    pub(crate) file: ObjectId,
    /// It could not be put in place; the sender of the piece must send it again.
    pub(crate) failed: bool,
    /// There was no space for it.
    pub(crate) no_space: bool,
    /// The piece came as sums: the bytes of the stretches with these bits differ here, and must be sent. All others are in place.
    pub(crate) lacking: u64,
    /// Data of other replicas is missing in the file, so it counts for no majority. The receiver reports when that data has come ([`Kind::Noted`]).
    pub(crate) apart: bool,
}

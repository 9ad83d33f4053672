//! What replicas say of contents of files: which are wanted, which come, and which are there.
//!
//! What must never enter: when that is said (`replication`).

use serde::{Deserialize, Serialize};
use vfs::ObjectId;

/// The receiver has the contents of these files up to these places of the sender's stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Completed {
    pub(crate) files: Vec<(ObjectId, u64)>,
    /// Those of them that the receiver has asked for in this session, and that were sent since, each with the turn of its last wish.
    pub(crate) asked: Vec<(ObjectId, u64)>,
    /// With what of it the receiver was supplied because the sender has the best.
    pub(crate) supplied: Vec<Supplied>,
}

/// Files of which lost replicas' data was missing somewhere, and which the receiver has as the sender has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Supplied {
    /// In which epoch that was found out.
    pub(crate) epoch: u64,
    /// The lost ones of whom nothing more had been taken in then.
    pub(crate) closed: Vec<u16>,
    pub(crate) files: Vec<ObjectId>,
}

/// The sender, which has taken all rows from the receiver, needs the contents of these files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// They belong to the copy that the sender took, and the receiver says when it has all of them.
    pub(crate) copy: bool,
    /// How far it has applied the receiver's stream. Its greeting, which says so too, may come later, on another lane.
    pub(crate) applied: u64,
    pub(crate) files: Vec<ObjectId>,
    pub(crate) last: bool,
    /// How many files the sender has asked for so far, these included, since the receiver began the conversation; those of copies do not count.
    pub(crate) named: u64,
    /// How often copies of files have given way at the sender so far, since it was started.
    pub(crate) turn: u64,
}

/// A stretch of a file: `length` bytes of the payload, or a hole.
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
    /// With this piece everything of the file is there, up to this place of the stream.
    pub(crate) completes: Option<u64>,
    /// The receiver has asked for the file in this session, and all of it was sent since: the turn of its last wish.
    pub(crate) asked: Option<u64>,
    /// The version of the file that was read, at least; 0 when the sender lacks data of that version itself, so that what it
    /// sends is of some earlier one.
    pub(crate) version: u64,
    /// The sender lacks some of the file itself, of a lost replica's, and has the best of it.
    pub(crate) partial: bool,
    pub(crate) stretches: Vec<Stretch>,
    /// The sums of all stretches that are no holes, in place of their bytes: the receiver may have these already. Nothing: the
    /// bytes follow.
    pub(crate) sums: Vec<Sum>,
}

#[cfg(test)]
impl PieceHead {
    /// One of the root, without bytes or sums.
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
            stretches: Vec::new(),
            sums: Vec::new(),
        }
    }
}

/// The BLAKE3 of the bytes of a stretch.
pub(crate) type Sum = [u8; blake3::OUT_LEN];

/// The piece is in place at the sender, stably, or of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PieceDone {
    pub(crate) id: u64,
    pub(crate) file: ObjectId,
    /// It could not be put in place; the sender of the piece must send it again.
    pub(crate) failed: bool,
    /// There was no space for it.
    pub(crate) no_space: bool,
    /// It came as sums: the bytes of the stretches with these bits are something else here, and must be sent. All others are in
    /// place.
    pub(crate) lacking: u64,
    /// Data of the file that others made is missing, so it counts for no majority: the receiver says when that has come
    /// ([`Kind::Noted`]).
    pub(crate) apart: bool,
}

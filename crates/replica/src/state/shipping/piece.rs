//! A part of a file's contents that is sent to one peer, and how it is sent.
//!
//! What must never enter: which parts a peer lacks, and their order (`backlog`).

use std::ops::Range;

use control::Position;
use vfs::ObjectId;

/// How many bytes of a piece one sum covers.
pub const BLOCK_BYTES: u64 = 64 << 10;

/// A peer can name at most this many blocks that it lacks.
pub const BLOCKS_MAX: u64 = u64::BITS as u64;

/// What of a piece is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Its bytes.
    Bytes,
    /// The sums of its blocks: the peer may have them already.
    Sums,
    /// The bytes of the blocks with these bits, which the peer lacks.
    Blocks(u64),
}

/// Names a piece in flight to one peer. One [`Backlog`](super::Backlog) never uses it twice, not even in different sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceId(pub u64);

/// A part of a file that is to be read and sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The peer acknowledges the piece by it.
    pub id: PieceId,
    /// The file.
    pub file: ObjectId,
    /// Which bytes of it; may reach beyond the end of the file.
    pub range: Range<u64>,
    /// The peer must have applied the sender's stream up to here before it applies the piece.
    pub follows: Position,
    /// What of it is to be sent.
    pub manner: Manner,
}

/// How many blocks a range has.
pub(super) fn blocks_of(range: &Range<u64>) -> u64 {
    (range.end - range.start).div_ceil(BLOCK_BYTES)
}

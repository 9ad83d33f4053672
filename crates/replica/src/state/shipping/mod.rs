//! Shipping: which updates travel together (`merging`), what each peer lacks of file contents, what is sent next, and when the receiver applies it.
//!
//! Contents are *state*, not history: the backlog notes only which ranges were changed, and the sender reads their contents when it sends them. So
//! overwrites merge, what is removed early is never sent, and memory does not depend on how much was written (rules 25 and 29).
//!
//! Contents travel beside the ordered stream of update records, over several connections and in any order. Three rules make the copies equal in the
//! end (rule 26, counterexamples 12 and 13):
//!
//! 1. *Waiting.* Each piece names the newest position of any change of its file. The receiver applies the piece when the stream is applied up to
//!    there ([`Arrivals`]): an older truncation that comes late cannot erase the piece's contents.
//! 2. *Clipping.* The receiver drops what lies behind the size in its row, and pieces of objects that it does not have: truncation and removal always
//!    win over older contents.
//! 3. *One in flight.* Two pieces in flight to one peer never overlap. A range that is changed, punched or cut off while in flight is sent again
//!    after the piece is acknowledged, with its contents at that time: a late piece cannot be the last word on a range that was changed after it was
//!    read.
//!
//! If the peer may already have the contents, because this replica does not remember or the session ended before the peer said so, the sender first
//! sends sums, and then only the bytes of the blocks that the peer does not find in its copy (counterexample 51). An equal block counts as put in
//! place at the moment of comparison; the piece stays in flight until the other blocks are there.
//!
//! Duties of callers:
//!
//! - Call [`Backlog::changed`] when the change is visible to readers, and before anyone relies on [`Backlog::lacks`] (before the client is answered).
//!   Call [`Backlog::cut`] when the truncation is visible, and before its record can be sent. A truncation that makes a file longer, and a change of
//!   attributes, need no call.
//! - Read a piece after [`Backlog::next`] returned it. If the file ends before the piece does, call [`Backlog::found_end`]. If the file is gone, call
//!   [`Backlog::removed`] (again). Do not send pieces that turn out to have no content; acknowledge them at once.
//! - Send holes as holes: the receiver may have something there. If a piece is part of a longer hole, extend the piece over the rest of the hole
//!   ([`Backlog::reaches`]) and read it again.
//! - The receiver applies rows one after the other, a truncation before the growth that follows it. It acknowledges a piece when the piece *and the
//!   rows it follows* are stable: a truncation that is applied again after a crash would erase what came after it. Before the receiver takes part in
//!   a new session it drops the [`Arrivals`] of the old one and finishes what it was applying; only then are the pieces that [`Backlog::lost`] brings
//!   back the only ones in flight.
//! - A sender that brings a replica up to date in any other way than by the records in their order ships it the whole file (`0..u64::MAX`), since the
//!   replica may have missed a truncation.
//! - After a restart, every file that is durably marked as unshipped is suspected as a whole ([`Backlog::suspected`], rule 27); positions are not
//!   used again (counterexample 17).
//!
//! Nothing in here reads a clock, touches a disk or a network, or decides whether a client has to wait.

mod arrivals;
mod backlog;
mod merging;
mod piece;
mod ranges;
mod shortfall;
mod unshipped;

#[cfg(test)]
mod tests;

pub use arrivals::Arrivals;
pub use backlog::{Backlog, Settings};
pub(crate) use merging::{bytes_of, merge};
pub use piece::{BLOCK_BYTES, BLOCKS_MAX, Manner, Piece, PieceId};
pub use unshipped::Unshipped;

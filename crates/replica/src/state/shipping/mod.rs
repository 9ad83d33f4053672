//! Shipping: which updates travel together (`merging`), what each peer lacks of file contents, what is sent next,
//! and when what arrives is applied.
//!
//! Contents are *state*, not history: what is noted is only which ranges were changed, and what is
//! sent is what they contain when they are read for sending. So overwrites merge, what is removed
//! early is never sent, and memory does not depend on how much was written (rules 25 and 29).
//!
//! Contents travel beside the ordered stream of update records, over several connections and in any
//! order. Three rules make the copies equal in the end (rule 26, counterexamples 12 and 13):
//!
//! 1. *Waiting.* Each piece names the newest position of any change of its file. The receiver applies it
//!    when the stream is applied up to there ([`Arrivals`]): what the piece has in it cannot be erased by
//!    an older truncation that comes late.
//! 2. *Clipping.* The receiver drops what lies behind the size in its row, and pieces of objects that it
//!    does not have: truncation and removal always win over older contents.
//! 3. *One in flight.* Two pieces in flight to one peer never overlap. What is changed, punched or cut off
//!    while in flight is sent again once the piece is acknowledged, as it is then: a late piece cannot be
//!    the last word on a range that was changed after it was read.
//!
//! Of what the peer may have already, because nobody here remembers or the session ended before it said so, sums go first, and
//! the bytes of those blocks alone that it does not find in its own copy (counterexample 51). That a block is the same there
//! counts as if it had been put in place at that moment; the piece stays in flight until the rest is there.
//!
//! What callers have to keep:
//!
//! - [`Backlog::changed`] comes when the change is visible to readers, and before anybody may rely on
//!   [`Backlog::lacks`] (before the client is answered). [`Backlog::cut`] comes when the truncation is
//!   visible, and before its record can be sent. A truncation that makes a file longer, and a change of
//!   attributes, need no call.
//! - A piece is read after [`Backlog::next`] returned it. If the file ends before the piece does, that is
//!   said with [`Backlog::found_end`]. If the file is gone, [`Backlog::removed`] is called (again). Pieces
//!   that turn out to have no content are not sent and are acknowledged at once.
//! - Holes are sent as holes: the receiver may have something there. A piece that is found to be part of a longer one takes the rest
//!   of that along ([`Backlog::reaches`]) and is read again then.
//! - The receiver applies rows one after the other, a truncation before the growth that follows it. It
//!   acknowledges a piece when the piece *and the rows it follows* are stable: a truncation that is applied
//!   again after a crash would erase what came after it. Before it takes part in a new session it drops the
//!   [`Arrivals`] of the old one and finishes what it was applying; only then are the pieces that
//!   [`Backlog::lost`] brings back the only ones in flight.
//! - A sender that brings a replica up to date by any other way than by the records in their order
//!   ships it the whole file (`0..u64::MAX`), since it may have missed a truncation.
//! - After a restart everything durably marked as unshipped is suspected as a whole ([`Backlog::suspected`], rule 27);
//!   positions are not used again (counterexample 17).
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

//! The state of one lane, which outlives its connections: what waits, what is in flight, what has arrived.
//!
//! [`Outbox`] and [`Inbox`] are pure and make all decisions about sequence numbers, acknowledgement and credit.
//! [`LaneState`] combines them with wake-ups. What must never enter: sockets and bytes on the wire.

mod inbox;
mod lane_state;
mod outbox;

pub(crate) use inbox::{Arrival, Inbox, ReportDue};
pub(crate) use lane_state::{Consumed, LaneState, locked};
pub(crate) use outbox::{Outbox, Outgoing};

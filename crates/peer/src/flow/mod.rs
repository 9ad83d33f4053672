//! One lane's state, which outlives its connections: what waits, what is on its way, what has arrived.
//!
//! [`Outbox`] and [`Inbox`] are pure and decide everything about sequence numbers, acknowledgement and
//! credit; [`LaneState`] joins them with wake-ups. What must never enter: sockets and bytes on the wire.

mod inbox;
mod lane_state;
mod outbox;

pub(crate) use inbox::{Arrival, Inbox, ReportDue};
pub(crate) use lane_state::{Consumed, LaneState, locked};
pub(crate) use outbox::{Outbox, Outgoing};

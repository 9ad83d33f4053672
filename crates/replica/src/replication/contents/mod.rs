//! Contents of files on their way: `sending` reads and sends what a peer lacks, `receiving` puts in place what arrives.
//!
//! What must never enter: what is sent when, and when a piece may be put in place (`state::shipping`).

mod parts;
mod receiving;
mod sending;

pub(crate) use parts::end_of;
pub(crate) use receiving::{arrived, put_in_place};
pub(crate) use sending::{done, noted, ship};

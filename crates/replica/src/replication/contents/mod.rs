//! Contents of files on their way: `reading` reads what a peer lacks, `sending` sends it, `receiving` puts in place what arrives.
//!
//! What must never enter: what is sent when, and when a piece may be put in place (`state::shipping`).

mod parts;
mod reading;
mod receiving;
mod sending;

pub(crate) use parts::end_of;
pub(crate) use receiving::{arrived, put_in_place};
pub(crate) use sending::{done, noted, ship};

//! Messages as bytes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod strategies;

mod garbage;
mod golden;
mod refusals;
mod round_trip;

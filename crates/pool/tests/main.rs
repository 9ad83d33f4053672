//! What servers of a pool agree on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clients;
mod handles;
mod readmission;

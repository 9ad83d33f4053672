//! The agreement of the servers of a pool.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clients;
mod handles;
mod readmission;

//! Tests of the testbed itself.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod peers;
mod real_client;
mod sites;
mod wan;
mod wan_commands;
mod world;

//! Two metadata servers of a pool in one process, between two stores.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

mod copies;
mod given_up;
mod holdings;
mod homes;
mod moves;
mod stands_still;
mod three_homes;
mod two_servers;

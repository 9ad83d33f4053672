//! A data server, as its clients and its home use it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;
mod home;

mod layouts;
mod served;

//! Configuration, and what the manual says of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod configuration;
mod operating_page;

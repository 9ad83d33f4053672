//! The core of replication control as those see it who drive it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod set;

mod closing;
mod figures;
mod reports;
mod restart;
mod retiring;
mod strategies;
mod views;

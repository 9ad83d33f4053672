//! The failures that the simulation finds, with all rules and with a rule switched off.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;
mod played;
mod stage;

mod counterexamples;
mod failing;
mod holdings;
mod homes;
mod lagging;
mod listed;
mod locks;
mod membership;
mod memory;
mod pool;
mod pool_keys;
mod pool_moves;
mod pool_scripted;
mod reading;
mod scripted;
mod seeds;
mod sequences;
mod steady;

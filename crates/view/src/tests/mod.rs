//! Several members in one process, joined by a transport whose links a test can cut; nothing else is imitated.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agreeing;
mod attributed;
mod ended;
mod fixture;
mod garbage;
mod hostile;
mod joining;
mod recovering;
mod rolled_back;

//! Replicas over real sockets on loopback: what a handler is promised, and what strangers are told.
//!
//! Nothing here asserts how long something takes; a test that waits, waits for a fact.

mod backpressure;
mod hostile;
mod joining;
mod proxy;
mod refusals;
mod replica;
mod requests;
mod sessions;
mod signatures;

//! Shipping between a model of a primary and a model of a receiver, over a network that delays and reorders.
//!
//! The model is in `world`; nothing in here is timed.

mod counterexamples;
mod order;
mod properties;
mod receiver;
mod world;

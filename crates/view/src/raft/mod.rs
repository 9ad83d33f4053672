//! Adapts the Raft library to this crate: its types, its log and state machine on stable storage, and its network over
//! a transport.
//!
//! What must never enter: the effect of a decision (`state`), and when to decide anything.

pub(crate) mod credible;
pub(crate) mod incoming;
pub(crate) mod log;
pub(crate) mod machine;
pub(crate) mod network;
pub(crate) mod types;
pub(crate) mod wire;

/// [`crate::decode_as_anything`] for requests, answers and entries of the log.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    drop(crate::bytes::decode::<wire::Request>(bytes));
    drop(crate::bytes::decode::<wire::Answer>(bytes));
    drop(crate::bytes::decode::<openraft::Entry<types::Types>>(bytes));
    log::decode_as_anything(bytes);
    machine::decode_as_anything(bytes);
}

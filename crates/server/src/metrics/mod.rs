//! What the server counts, and how Prometheus gets to see it.
//!
//! What must never enter: decisions. Nothing behaves differently for what is counted here.

mod endpoint;
mod exposition;
mod latency;
mod operations;
mod pool;
mod replication;

pub use endpoint::EndpointError;
pub(crate) use endpoint::{Page, serve};
pub(crate) use exposition::exposition;
pub(crate) use operations::{OperationCounters, TimeTaken};

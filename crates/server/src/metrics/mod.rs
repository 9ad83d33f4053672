//! The server's counters, and the endpoint for Prometheus.
//!
//! What must never enter: decisions. No behaviour depends on these counters.

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

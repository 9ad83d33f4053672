//! The interface for reporting operations, for metrics. Reporting never fails and never waits.

use std::time::Duration;

use nfs4::{NfsStat4, Opnum};

/// Gets reports about executed operations.
pub trait Observer: Send + Sync + 'static {
    /// One operation of a COMPOUND was executed.
    fn operation(&self, operation: Opnum, status: NfsStat4, took: Duration);

    /// Data was sent to a client.
    fn bytes_read(&self, count: u64);

    /// Data was received from a client.
    fn bytes_written(&self, count: u64);

    /// A reply was sent again from a reply cache.
    fn replayed(&self);
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn operation(&self, _: Opnum, _: NfsStat4, _: Duration) {}
    fn bytes_read(&self, _: u64) {}
    fn bytes_written(&self, _: u64) {}
    fn replayed(&self) {}
}

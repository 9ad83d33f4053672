//! Signals that tell the process to end, or to read its configuration again.
//!
//! What must never enter: the reaction to signals.

use std::io;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

const FILE_SIZE: Number = Number::XFSZ;

/// SIGTERM, SIGINT and SIGHUP.
#[derive(Debug)]
pub struct Signals {
    pub(super) stop: StopSignals,
    /// A signal that comes while no task waits for it is kept.
    pub(super) hangup: Signal,
    /// If file sizes are limited (`LimitFSIZE`), this signal comes with a write beyond the limit, which fails. It is received and ignored.
    _file_size: Signal,
}

/// SIGTERM and SIGINT.
#[derive(Debug)]
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Receives the signals from now on: none of them ends the process directly any more. Must be called inside a runtime.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn listen() -> io::Result<Signals> {
        Ok(Signals {
            stop: StopSignals {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
            },
            hangup: signal(SignalKind::hangup())?,
            _file_size: signal(SignalKind::from_raw(FILE_SIZE.as_raw()))?,
        })
    }

    /// Waits for the next signal that tells the process to end, and returns its name.
    pub async fn next_stop(&mut self) -> &'static str {
        self.stop.next().await
    }
}

impl StopSignals {
    /// Waits for the next signal and returns its name.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

//! Signals that ask the process to end, or to read its configuration again.
//!
//! What must never enter: what comes of them.

use std::io;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

const FILE_SIZE: Number = Number::XFSZ;

/// SIGTERM, SIGINT and SIGHUP, as they come.
#[derive(Debug)]
pub struct Signals {
    pub(super) stop: StopSignals,
    /// One that came while nobody waited for it is not forgotten.
    pub(super) hangup: Signal,
    /// Where the size of files is limited (`LimitFSIZE`), it comes with a write that goes beyond, which fails; nobody waits for it.
    _file_size: Signal,
}

/// SIGTERM and SIGINT.
#[derive(Debug)]
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes the signals from now on: none of them ends the process by itself any more. Must be called inside a runtime.
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

    /// Waits for the next one that asks the process to end, and names it.
    pub async fn next_stop(&mut self) -> &'static str {
        self.stop.next().await
    }
}

impl StopSignals {
    /// Waits for the next one and names it.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

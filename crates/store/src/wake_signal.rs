//! How the store's threads are woken and stopped.
//!
//! What must never enter: what a thread does.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Wakes a thread, or stops it.
#[derive(Debug, Default)]
pub(crate) struct WakeSignal {
    state: Mutex<WakeState>,
    raised: Condvar,
}

#[derive(Debug, Default)]
struct WakeState {
    nudged: bool,
    stopped: bool,
}

impl WakeSignal {
    pub(crate) fn nudge(&self) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .nudged = true;
        self.raised.notify_one();
    }

    pub(crate) fn stop(&self) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .stopped = true;
        self.raised.notify_one();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .stopped
    }

    /// Sleeps until nudged or stopped, at most this long; false when stopped.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |state: &mut WakeState| !state.nudged && !state.stopped;
        let (mut state, _) = self
            .raised
            .wait_timeout_while(state, longest, idle)
            .unwrap_or_else(PoisonError::into_inner);
        state.nudged = false;
        !state.stopped
    }

    /// Sleeps for this time even if nudged; returns false immediately when stopped.
    pub(crate) fn pause(&self, length: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, _) = self
            .raised
            .wait_timeout_while(state, length, |state| !state.stopped)
            .unwrap_or_else(PoisonError::into_inner);
        !state.stopped
    }
}

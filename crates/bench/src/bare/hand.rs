//! One thread of the bare loop, and the rules for all threads.
//!
//! What must never enter: what is measured.

use std::path::PathBuf;

use fastrand::Rng;

use super::journal::Journal;
use crate::contender::Kind;

/// When changes of names are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Some time later, as with `commit = "async"`.
    Later,
    /// Before the loop goes on, as with `commit = "sync"`.
    AtOnce,
}

impl Promise {
    /// All of them.
    pub(crate) const ALL: [Self; 2] = [Promise::Later, Promise::AtOnce];

    /// The promise of a server.
    pub(crate) fn of(kind: Kind) -> Self {
        match kind.is_durable() {
            true => Promise::AtOnce,
            false => Promise::Later,
        }
    }

    /// The title of the loop with this promise in tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Promise::Later => "bare loop, async",
            Promise::AtOnce => "bare loop, sync",
        }
    }

    pub(super) fn folder(self) -> &'static str {
        match self {
            Promise::Later => "bare-async",
            Promise::AtOnce => "bare-sync",
        }
    }
}

/// The state of one thread.
#[derive(Debug)]
pub(super) struct Hand {
    pub(super) folder: PathBuf,
    /// The number of small files that it has made.
    pub(super) files: usize,
    pub(super) random: Rng,
}

/// What all threads share while they work.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    pub(super) journal: &'a Journal,
    pub(super) promise: Promise,
}

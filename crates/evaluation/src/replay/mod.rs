//! Replays a [`Trace`] over NFS, with the requests that a Linux client would make.
//!
//! The native client caches nothing, so the caches of Linux are modelled here (`kernel`), as far as they
//! determine the requests that a program waits for:
//!
//! - Names: once looked up, a name is known, also a missing one. A directory's attributes are valid for 30 s,
//!   a file's for 3 s (`acdirmin`, `acregmin`); then a GETATTR renews them. Own changes of a directory
//!   invalidate no names, because the server's change information is atomic. There is no LOOKUP before
//!   making an object that must not exist.
//! - Every open is one request, OPEN with ACCESS and GETATTR, also for reading. Cached pages
//!   are kept if the change attribute is the last known one; otherwise the file is read.
//! - Writes wait in the page cache until a descriptor of the file is closed, the file is synced, or its
//!   attributes are read or set. Data that fits into one request is one WRITE FILE_SYNC; more is WRITE
//!   UNSTABLE in requests of the largest size and a COMMIT. close(2) waits for these and for CLOSE, which
//!   is sent with the last descriptor.
//! - Removing a file that is open renames it, and it is removed when it is closed ("silly rename").
//! - After NFS4ERR_DELAY the client pauses for 0.1 s, then for twice as long each time.
//!
//! Differences: one program acts after another in the order of the recording, while in Linux some
//! wait at the same time; whole directories are read; there is no read-ahead; attributes of objects that did not
//! change for long are not valid for longer.
//!
//! Every written byte is recorded (`compare`), so that the result can be compared at any
//! server afterwards.
//!
//! What must never enter: knowledge of replication.
//!
//! [`Trace`]: crate::trace::Trace

mod calls;
mod compare;
mod content;
mod kernel;
mod names;
mod requests;
mod work;

use std::ops::AddAssign;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nfs4::NfsFh4;
use nfs4_client::Client;

use crate::trace::{Step, Trace};
pub(crate) use calls::{Calls, same_tree};
pub(crate) use compare::{Outcome, compare};
pub(crate) use content::Text;
use kernel::Kernel;
pub(crate) use requests::Requests;
pub(crate) use work::Counts;

/// Shorter pauses are accumulated, because timers are not that exact.
const PAUSE_MIN: Duration = Duration::from_millis(2);

/// The treatment of the recorded pauses, in which programs thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pauses {
    /// They are left out.
    None,
    /// They are kept.
    Whole,
    /// Each is divided by this number.
    Shortened(u32),
}

impl Pauses {
    /// The replayed length of a pause.
    fn of(self, recorded: Duration) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Whole => recorded,
            Self::Shortened(divisor) => recorded / divisor,
        }
    }
}

/// A replay in progress: phases are replayed one after another in the same tree.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    trace: &'a Trace,
    kernel: Kernel,
    pauses: Pauses,
}

/// The cost of some replayed steps.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Played {
    /// From the first step's beginning to the last one's end.
    pub(crate) took: Duration,
    /// The counts.
    pub(crate) counts: Counts,
    /// The part of the time that was spent thinking.
    pub(crate) thought: Duration,
}

impl AddAssign for Played {
    fn add_assign(&mut self, later: Self) {
        self.took += later.took;
        self.counts += later.counts;
        self.thought += later.thought;
    }
}

impl<'a> Replay<'a> {
    /// Begins in an empty directory of a server, with these pauses between the steps.
    pub(crate) fn begin(trace: &'a Trace, client: Client, root: NfsFh4, pauses: Pauses) -> Self {
        Self {
            trace,
            kernel: Kernel::mount(client, root),
            pauses,
        }
    }

    /// Replays these steps.
    ///
    /// # Errors
    /// Fails when the server's files differ from those that the recorded programs found.
    pub(crate) async fn play(&mut self, steps: &[Step]) -> Result<Played> {
        let (began, before) = (Instant::now(), self.kernel.counts());
        let (mut owed, mut thought) = (Duration::ZERO, Duration::ZERO);
        for (number, step) in steps.iter().enumerate() {
            owed += self.pauses.of(Duration::from_micros(step.think_us.into()));
            if owed >= PAUSE_MIN {
                let paused = Instant::now();
                tokio::time::sleep(owed).await;
                let paused = paused.elapsed();
                thought += paused;
                owed = owed.saturating_sub(paused);
            }
            let done = self.kernel.perform(self.trace, &step.action).await;
            done.with_context(|| format!("step {number}, {:?}, differs", step.action))?;
        }
        Ok(Played {
            took: began.elapsed(),
            counts: self.kernel.counts() - before,
            thought,
        })
    }

    /// The tree that every server must have now.
    pub(crate) fn outcome(&self) -> Outcome {
        self.kernel.outcome()
    }
}

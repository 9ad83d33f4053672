//! Does the work of a [`Trace`] again over NFS, with the requests that a Linux client would make.
//!
//! The native client caches nothing, so the caches of Linux are modelled here (`kernel`), as far as they
//! decide which requests a program waits for:
//!
//! - Names: what was looked up once is known, missing names too. A directory's attributes hold for 30 s,
//!   a file's for 3 s (`acdirmin`, `acregmin`); then a GETATTR renews them. Own changes of a directory
//!   invalidate no names, because the server's change information is atomic. Making what must not be
//!   there is preceded by no LOOKUP.
//! - Opening is one request each time, OPEN with ACCESS and GETATTR, also for reading. Pages that this
//!   client has are kept when the change attribute is the one it saw last; otherwise the file is read.
//! - Writes wait in the page cache until a descriptor of the file is closed, the file is synced, its
//!   attributes are asked for or set. What fits into one request is one WRITE FILE_SYNC, more is WRITE
//!   UNSTABLE in requests of the largest size and a COMMIT. close(2) waits for these and for CLOSE, which
//!   is sent with the last descriptor.
//! - Removing a file that is open renames it, and it is removed when it is closed ("silly rename").
//! - NFS4ERR_DELAY is answered by a pause of 0.1 s, then twice as long every time.
//!
//! What differs: one program acts after the other in the order of the recording, where Linux lets some
//! wait side by side; directories are read whole; there is no read-ahead; attributes do not hold longer
//! for objects that have not changed in long.
//!
//! Every byte written is remembered (`compare`), so that the result can be compared at any
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

/// Shorter pauses are saved up, as timers cannot keep them.
const PAUSE_MIN: Duration = Duration::from_millis(2);

/// What becomes of the pauses of the recording, in which programs thought.
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
    /// What becomes of one.
    fn of(self, recorded: Duration) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Whole => recorded,
            Self::Shortened(divisor) => recorded / divisor,
        }
    }
}

/// A replay in progress: phases are played one after the other in the same tree.
#[derive(Debug)]
pub(crate) struct Replay<'a> {
    trace: &'a Trace,
    kernel: Kernel,
    pauses: Pauses,
}

/// What playing some steps took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Played {
    /// From the first step's beginning to the last one's end.
    pub(crate) took: Duration,
    /// What was done.
    pub(crate) counts: Counts,
    /// How much of the time was spent thinking.
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
    /// In an empty directory of a server; with these pauses between the steps.
    pub(crate) fn begin(trace: &'a Trace, client: Client, root: NfsFh4, pauses: Pauses) -> Self {
        Self {
            trace,
            kernel: Kernel::mount(client, root),
            pauses,
        }
    }

    /// Does these steps.
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

    /// What must be found at every server now.
    pub(crate) fn outcome(&self) -> Outcome {
        self.kernel.outcome()
    }
}

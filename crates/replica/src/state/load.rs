//! How busy clients keep this server with file contents: the part of the recent time in which at least one of their reads, writes and commits was
//! being carried out. Waiting for control, or for another replica, does not count.
//!
//! What must never enter: what follows from it.

use std::time::Duration;

use tokio::time::Instant;

use crate::state::locks::Table;

/// Load from this long ago counts for 1/e of the present load.
const MEMORY: Duration = Duration::from_secs(1);

/// The server is busy above this part of the time.
const BUSY: f64 = 0.5;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Load(Table<Level>);

#[derive(Debug, Default)]
struct Level {
    under_way: u32,
    /// The part of the time, at the moment `at`.
    part: f64,
    at: Option<Instant>,
}

/// One operation is being carried out, until this is dropped.
#[derive(Debug)]
pub(crate) struct Work<'a>(&'a Load);

impl Load {
    /// A client's operation on contents begins.
    pub(crate) fn begin(&self) -> Work<'_> {
        let mut level = self.0.lock();
        level.advance(Instant::now());
        level.under_way += 1;
        Work(self)
    }

    /// Whether such operations ran for most of the recent time.
    pub(crate) fn is_busy(&self, now: Instant) -> bool {
        let mut level = self.0.lock();
        level.advance(now);
        level.part > BUSY
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let mut level = self.0.0.lock();
        level.advance(Instant::now());
        level.under_way -= 1;
    }
}

impl Level {
    fn advance(&mut self, now: Instant) {
        let passed = self
            .at
            .map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.at = self.at.max(Some(now));
        let kept = (-passed.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        let now_part = f64::from(u8::from(self.under_way > 0));
        self.part = now_part + (self.part - now_part) * kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_is_busy_while_something_is_carried_out_most_of_the_time() {
        let load = Load::default();
        let is_busy = || load.is_busy(Instant::now());
        let rest = |millis| tokio::time::sleep(Duration::from_millis(millis));
        assert!(!is_busy());
        // A little work again and again: a log that is written.
        for _ in 0..1000 {
            let work = load.begin();
            rest(2).await;
            drop(work);
            rest(8).await;
        }
        assert!(!is_busy());
        // One burst, after which another replica asks for the contents.
        let work = load.begin();
        rest(300).await;
        assert!(!is_busy());
        // The load continues, with several operations at a time.
        for _ in 0..10 {
            let other = load.begin();
            rest(100).await;
            drop(other);
        }
        assert!(is_busy());
        drop(work);
        rest(100).await;
        assert!(is_busy(), "a short pause");
        rest(900).await;
        assert!(!is_busy());
    }
}

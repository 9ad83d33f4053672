//! Who reads and writes contents at the moment: what fences them waits until these have finished, and nobody begins meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use pool::ContentsId;

type Locks = HashMap<ContentsId, Arc<RwLock<()>>>;

/// One lock for each contents that are in use.
#[derive(Debug, Default)]
pub(crate) struct Guards(Mutex<Locks>);

impl Guards {
    /// Begins a read or write.
    pub(crate) async fn share(&self, contents: ContentsId) -> OwnedRwLockReadGuard<()> {
        let lock = self.lock_of(contents);
        lock.read_owned().await
    }

    /// Waits for those that have begun.
    pub(crate) async fn exclude(&self, contents: ContentsId) -> OwnedRwLockWriteGuard<()> {
        let lock = self.lock_of(contents);
        lock.write_owned().await
    }

    fn lock_of(&self, contents: ContentsId) -> Arc<RwLock<()>> {
        let mut locks = self.locks();
        if locks.len() >= MANY && !locks.contains_key(&contents) {
            // Guards hold their lock, so nothing that is in use goes.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        Arc::clone(locks.entry(contents).or_default())
    }

    fn locks(&self) -> MutexGuard<'_, Locks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From so many on, locks that nobody has go.
const MANY: usize = 4096;

#[cfg(test)]
mod tests {
    use pool::PlacementNumber;
    use vfs::ObjectId;

    use super::*;

    fn contents(number: u64) -> ContentsId {
        ContentsId {
            object: ObjectId::from_u64(number),
            placement: PlacementNumber(1),
        }
    }

    #[tokio::test]
    async fn who_fences_waits_for_those_that_have_begun_and_locks_of_nobody_go() {
        let guards = Arc::new(Guards::default());
        let begun = guards.share(contents(0)).await;
        for number in 1..=2 * MANY as u64 {
            drop(guards.share(contents(number)).await);
        }
        assert!(guards.locks().len() <= MANY + 1);
        let waiting = tokio::spawn({
            let guards = Arc::clone(&guards);
            async move { drop(guards.exclude(contents(0)).await) }
        });
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished());
        drop(begun);
        waiting.await.unwrap();
    }
}

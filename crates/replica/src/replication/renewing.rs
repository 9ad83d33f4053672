//! New versions of files whose data has changed: after a crash, or when the replicas decide to continue with what is left.
//!
//! What must never enter: when that is decided.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use store::Store;
use tokio::time::Instant;
use vfs::{Error, ObjectId};

use crate::driver::commit_hook::AdmissionHook;
use crate::driver::local_replica::LocalReplica;
use crate::driver::waiting::{CALM, UNNOTIFIED, changed};
use crate::state::ledger::Verdict;

/// Gives new versions to files that lost unstable data in a crash of this server or of a data server of its pool: all replicas get what is left, and
/// no client trusts its cache. Runs until the replica stops.
pub(crate) async fn renew_recovered(replica: Arc<LocalReplica>) {
    let mut found_lost = replica.store.found_lost();
    loop {
        // Changes from here on count.
        found_lost.mark_unchanged();
        let mut changes = replica.engine.notifications();
        let recovered = match replica.store.recovered() {
            Ok(listed) => listed,
            // A store that has failed ends the server.
            Err(error) => return tracing::error!(%error, "files are not renewed"),
        };
        let left = renew_all(&replica, &recovered).await;
        // The next round also has files that were found meanwhile: one that waits keeps no other waiting.
        if left > 0 {
            changed(&mut changes, CALM, Instant::now() + UNNOTIFIED).await;
        } else if found_lost.changed().await.is_err() {
            return;
        }
    }
}

/// Returns how many files are left.
async fn renew_all(replica: &LocalReplica, recovered: &[ObjectId]) -> usize {
    let mut left = recovered.len();
    let recovering = &replica.state.metrics.recovering;
    for file in recovered {
        recovering.store(left as u64, Ordering::Relaxed);
        if renew(replica, *file).await {
            left -= 1;
        }
    }
    recovering.store(left as u64, Ordering::Relaxed);
    left
}

/// Returns whether it is done. If another replica has part of a version, that version or the decision about it comes first: a new version of what is
/// here would replace that part at all others.
async fn renew(replica: &LocalReplica, file: ObjectId) -> bool {
    let renew = |store: Store| async move { store.renew(file).await };
    match give_new_version(replica, file, renew).await {
        Ok(()) => true,
        Err(Error::Delay) => false,
        Err(error) => {
            tracing::error!(%file, %error, "a file cannot be renewed");
            true
        }
    }
}

/// After this time the next file is tried: a lost replica's control may prevent the change until the loss is settled.
const VERDICT_PATIENCE: Duration = Duration::from_secs(2);

/// How often a change is attempted at once after control was won for it. It can be lost again before the store commits.
const ATTEMPTS: usize = 3;

/// Makes the store give a file a new version, and tells all others of its contents.
///
/// # Errors
/// [`Error::Delay`] if it is to be tried again; errors of the store.
pub(crate) async fn give_new_version<F>(
    replica: &LocalReplica,
    file: ObjectId,
    renew: impl Fn(Store) -> F,
) -> Result<(), Error>
where
    F: Future<Output = Result<(), Error>>,
{
    for _ in 0..ATTEMPTS {
        replica.engine.begin_renewing(file);
        let hook = Arc::new(AdmissionHook::new(&replica.engine, None));
        let renewed = renew(replica.store.with_hook(hook.clone())).await;
        replica.engine.end_renewing(file, renewed.is_ok());
        if renewed != Err(Error::Delay) {
            return renewed;
        }
        let Some(verdict) = hook.take_refusal() else {
            return renewed;
        };
        // Control that was won ends soon without an update: it is used before the next file asks for its own (109).
        match tokio::time::timeout(VERDICT_PATIENCE, verdict).await {
            Ok(Ok(Verdict::Admitted)) => {}
            // Another one has control, perhaps a lost one, or this replica takes no part at present.
            _ => return renewed,
        }
    }
    Err(Error::Delay)
}

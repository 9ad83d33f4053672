//! New versions of files whose data is not what it was: after a crash, or when it is decided to go on with what there is.
//!
//! What must never enter: when that is decided.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::Store;
use tokio::time::Instant;
use vfs::{Error, ObjectId};

use crate::driver::commit_hook::AdmissionHook;
use crate::driver::local_replica::LocalReplica;
use crate::driver::waiting::{CALM, UNNOTIFIED, changed};

/// Gives files new versions whose unstable data a crash has taken, of this server or of a data server of its pool: everybody gets what is
/// left, and no client trusts what it remembers. Until the replica stops.
pub(crate) async fn renew_recovered(replica: Arc<LocalReplica>, mut recovered: Vec<ObjectId>) {
    let mut found_lost = replica.store.found_lost();
    // Some may have been found since the list was made.
    found_lost.mark_changed();
    loop {
        renew_all(&replica, &recovered).await;
        if found_lost.changed().await.is_err() {
            return;
        }
        match replica.store.recovered() {
            Ok(listed) => recovered = listed,
            // A store that has failed ends the server.
            Err(error) => return tracing::error!(%error, "files are not renewed"),
        }
    }
}

async fn renew_all(replica: &LocalReplica, recovered: &[ObjectId]) {
    let left = |files: usize| {
        let recovering = &replica.state.metrics.recovering;
        recovering.store(files as u64, Ordering::Relaxed);
    };
    left(recovered.len());
    for (done, file) in recovered.iter().enumerate() {
        loop {
            // What changes from here on counts.
            let mut changes = replica.engine.notifications();
            if renew(replica, *file).await {
                break;
            }
            changed(&mut changes, CALM, Instant::now() + UNNOTIFIED).await;
        }
        left(recovered.len() - done - 1);
    }
}

/// Says whether it is done. A version of which a lost replica has a part comes first, or what is decided about it.
async fn renew(replica: &LocalReplica, file: ObjectId) -> bool {
    if replica.store.is_abandoned(file) || replica.engine.lacks_frozen(file) {
        return false;
    }
    let renew = |store: Store| async move { store.renew(file).await };
    give_new_version(replica, file, renew).await
}

/// Has the store give a file a new version, and all others told of its contents. Says whether it is done; it can be tried again.
pub(crate) async fn give_new_version<F>(
    replica: &LocalReplica,
    file: ObjectId,
    renew: impl FnOnce(Store) -> F,
) -> bool
where
    F: Future<Output = Result<(), Error>>,
{
    replica.engine.begin_renewing(file);
    let hook = Arc::new(AdmissionHook::new(&replica.engine, None));
    let renewed = renew(replica.store.with_hook(hook.clone())).await;
    replica.engine.end_renewing(file, renewed.is_ok());
    match renewed {
        Ok(()) => true,
        Err(Error::Delay) => {
            // It is tried again, whatever becomes of it; without a verdict this replica takes no part at present.
            if let Some(verdict) = hook.take_refusal() {
                let _ = verdict.await;
            }
            false
        }
        Err(error) => {
            tracing::error!(%file, %error, "a file cannot be renewed");
            true
        }
    }
}

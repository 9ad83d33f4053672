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

/// Gives files new versions whose unstable data a crash has taken: everybody gets what is left, and no
/// client trusts what it remembers.
pub(crate) async fn renew_recovered(shared: Arc<LocalReplica>, recovered: Vec<ObjectId>) {
    let left = |files: usize| {
        shared
            .state
            .metrics
            .recovering
            .store(files as u64, Ordering::Relaxed)
    };
    for (done, file) in recovered.iter().enumerate() {
        loop {
            // What changes from here on counts.
            let mut changes = shared.engine.notifications();
            if renew(&shared, *file).await {
                break;
            }
            changed(&mut changes, CALM, Instant::now() + UNNOTIFIED).await;
        }
        left(recovered.len() - done - 1);
    }
}

/// Says whether it is done. A version of which a lost replica has a part comes first, or what is decided about it.
async fn renew(shared: &LocalReplica, file: ObjectId) -> bool {
    if shared.store.is_abandoned(file) || shared.engine.lacks_frozen(file) {
        return false;
    }
    let renew = |store: Store| async move { store.renew(file).await };
    give_new_version(shared, file, renew).await
}

/// Has the store give a file a new version, and all others told of its contents. Says whether it is done; it can be tried again.
pub(crate) async fn give_new_version<F>(
    shared: &LocalReplica,
    file: ObjectId,
    renew: impl FnOnce(Store) -> F,
) -> bool
where
    F: Future<Output = Result<(), Error>>,
{
    shared.engine.begin_renewing(file);
    let hook = Arc::new(AdmissionHook::new(&shared.engine, None));
    let renewed = renew(shared.store.with_hook(hook.clone())).await;
    shared.engine.end_renewing(file, renewed.is_ok());
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

//! Whether the others may have given up what this server's clients held before its start.
//!
//! What must never enter: what clients hold, and which replica decides.

use std::sync::atomic::Ordering;

use crate::driver::local_replica::LocalReplica;

/// The fact that this replica was outside the view, until its clients have had time to reclaim.
const OTHERS_WENT_ON: &[u8] = b"others-went-on";

/// Loads what an earlier incarnation noted.
pub(crate) fn remember_others_went_on(replica: &LocalReplica) -> vfs::Result<()> {
    let noted = !replica.store.facts(OTHERS_WENT_ON)?.is_empty();
    replica.state.others_went_on.store(noted, Ordering::Release);
    Ok(())
}

/// From now on, other clients may have what this replica's clients held before its start.
pub(crate) async fn note_others_went_on(replica: &LocalReplica) -> vfs::Result<()> {
    if !replica.state.others_went_on.swap(true, Ordering::AcqRel) {
        let rows = vec![(OTHERS_WENT_ON.to_vec(), Some(Vec::new()))];
        let ticket = replica.store.put_facts(rows).await?;
        replica.store.wait_stable(ticket).await?;
    }
    Ok(())
}

/// From now on, no client reclaims what it held before the start.
pub(crate) async fn forget_others_went_on(replica: &LocalReplica) -> vfs::Result<()> {
    if replica.state.others_went_on.swap(false, Ordering::AcqRel) {
        let rows = vec![(OTHERS_WENT_ON.to_vec(), None)];
        replica.store.put_facts(rows).await?;
    }
    Ok(())
}

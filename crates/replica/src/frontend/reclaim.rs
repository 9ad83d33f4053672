//! Whether the others may have given up what clients of this server held before its start.
//!
//! What must never enter: what clients hold, and who decides.

use std::sync::atomic::Ordering;

use crate::driver::local_replica::LocalReplica;

/// The fact that says that this replica was out of the view, until its clients have had time to reclaim.
const OTHERS_WENT_ON: &[u8] = b"others-went-on";

/// What an earlier incarnation has noted.
pub(crate) fn remember_others_went_on(replica: &LocalReplica) -> vfs::Result<()> {
    let noted = !replica.store.facts(OTHERS_WENT_ON)?.is_empty();
    replica.state.others_went_on.store(noted, Ordering::Release);
    Ok(())
}

/// From here on this replica's clients may have lost to others what they held before its start.
pub(crate) async fn note_others_went_on(replica: &LocalReplica) -> vfs::Result<()> {
    if !replica.state.others_went_on.swap(true, Ordering::AcqRel) {
        let rows = vec![(OTHERS_WENT_ON.to_vec(), Some(Vec::new()))];
        let ticket = replica.store.put_facts(rows).await?;
        replica.store.wait_stable(ticket).await?;
    }
    Ok(())
}

/// Nobody reclaims any more what was held before the start.
pub(crate) async fn forget_others_went_on(replica: &LocalReplica) -> vfs::Result<()> {
    if replica.state.others_went_on.swap(false, Ordering::AcqRel) {
        let rows = vec![(OTHERS_WENT_ON.to_vec(), None)];
        replica.store.put_facts(rows).await?;
    }
    Ok(())
}

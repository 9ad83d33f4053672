//! Free space on the disks of all replicas that hold the tree. A primary answers NOSPC by the smallest of them (rule 34). So what it has
//! acknowledged fits everywhere, and no replica must leave the view for lack of space.
//!
//! Each replica regularly reports how much its users may still fill. The primary subtracts what is in transit to that replica, and a reserve for
//! what others send it meanwhile. Until the next report every admitted change counts: what arrives there meanwhile is no longer in transit, and
//! not yet in the report.
//!
//! What must never enter: the space on the local disk; the store handles that.

use std::collections::BTreeSet;

use tokio::time::Instant;
use vfs::{Error, ReplicaSlot, Result, Space};

use crate::driver::local_replica::LocalReplica;
use crate::state::free_space::UNKNOWN;

/// What one new object, name or attribute is assumed to need.
const ROW_BYTES: u64 = 4096;
/// At most this many files of unknown length are looked at.
const LOOKED_AT: usize = 4096;
/// If a peer lacks more bytes than this, its files are looked at more closely.
const MANY: u64 = 1 << 30;
/// Logged once; repeats are logged as sums.
const REFUSED: &str = "changes are refused for lack of space on another replica's disk";

/// [`Error::NoSpace`] unless all replicas that hold the tree have space for this many bytes and their rows.
pub(crate) fn admit_bytes(replica: &LocalReplica, bytes: u64) -> Result<()> {
    let wanted = bytes.saturating_add(ROW_BYTES);
    replica
        .state
        .free_space
        .take(wanted)
        .map_err(|(slot, left)| {
            replica.state.free_space.note_refusal(slot, Instant::now());
            if let Some(sum) = replica.state.repeats.is_to_tell(REFUSED, slot) {
                tracing::warn!(
                    replica = slot.0, left, wanted, %sum,
                    "a change is refused for lack of space on another replica's disk"
                );
            }
            Error::NoSpace
        })
}

/// Each member that refuses changes, or soon will, with the member whose disk is too full: this replica, and others by their reports.
pub(crate) fn shortages(replica: &LocalReplica) -> BTreeSet<(ReplicaSlot, ReplicaSlot)> {
    let own = replica
        .state
        .free_space
        .short_of(Instant::now())
        .into_iter();
    let mut all: BTreeSet<_> = own.map(|of| (replica.slot(), of)).collect();
    let fresh = replica.state.settings.site_lease;
    for (by, news) in replica.state.peers.news() {
        if let Some((request, _)) = news.said.filter(|(_, at)| at.elapsed() < fresh) {
            all.extend(request.short_of.into_iter().map(|of| (by, ReplicaSlot(of))));
        }
    }
    all
}

/// A peer reports how much its users may still fill.
pub(crate) fn note_available(replica: &LocalReplica, slot: ReplicaSlot, available: u64) {
    if replica.engine.is_keeper(slot) {
        replica
            .state
            .free_space
            .set(slot, available, bytes_for(replica, slot));
    }
}

/// Forgets the space of replicas that are no longer in the view.
pub(crate) fn forget_outsiders(replica: &LocalReplica) {
    let told: Vec<ReplicaSlot> = replica.state.free_space.left().keys().copied().collect();
    let keepers = replica.engine.keepers();
    for slot in told.into_iter().filter(|slot| !keepers.contains(slot)) {
        replica.state.free_space.left().remove(&slot);
    }
}

/// Bytes that a peer lacks. Files that count as a whole, and few large files, count with their space here. `None` if those are too many.
fn bytes_for(replica: &LocalReplica, slot: ReplicaSlot) -> Option<u64> {
    // Holes count among the bytes, and take no space.
    let Some(lacking) = replica.engine.lacking(slot, MANY, LOOKED_AT) else {
        return Some(0);
    };
    let Some(files) = lacking.listed else {
        return (lacking.bytes < u64::MAX).then_some(lacking.bytes);
    };
    let sizes = files
        .into_iter()
        .filter_map(|file| replica.store.file_space(file).ok());
    Some(sizes.fold(0, u64::saturating_add))
}

/// The space as clients are told: at most that of the smallest replica.
pub(crate) fn common_space(replica: &LocalReplica, own: Space) -> Space {
    let left = replica.state.free_space.least().unwrap_or(UNKNOWN);
    if left >= own.available_bytes {
        return own;
    }
    let free_objects = own.free_objects.min(left / ROW_BYTES);
    Space {
        available_bytes: left,
        free_objects,
        total_objects: own.total_objects - (own.free_objects - free_objects),
        ..own
    }
}

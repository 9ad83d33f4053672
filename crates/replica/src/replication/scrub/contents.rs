//! Contents of files: the local disk compared with the noted digest and with the other copies.
//!
//! If the local bytes do not match the noted digest, the disk has changed them. If each copy matches its own noted digest and the copies differ, the
//! majority of them decides; two copies alone cannot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use store::{ContentDigest, Verified};
use vfs::{ChangeAttribute, Error, FileSystem, ObjectId, ReplicaSlot};

use super::asking::{PAUSE, ask, blocking, called};
use crate::driver::local_replica::LocalReplica;
use crate::state::wire::{ScrubAnswer, ScrubQuestion};

/// A file that cannot be read counts as damaged after this many attempts, with this time between them.
const LOOKS: u32 = 3;
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// What the local disk holds of a file.
pub(super) enum Own {
    /// The file is being changed, or is incomplete, torn, or gone.
    Busy,
    /// It does not match the noted digest, or cannot be read.
    Damaged,
    /// It is intact, with this digest.
    Is(ContentDigest),
}

/// Reads the whole file on the local disk. Damage is noted.
pub(super) async fn look(replica: &Arc<LocalReplica>, file: ObjectId) -> Own {
    if !replica.store.is_at_rest(file) || replica.store.is_torn(file) {
        return Own::Busy;
    }
    let Ok(before) = replica.store.attributes(file).await else {
        return Own::Busy;
    };
    let look = || {
        let (store, pacer) = (replica.store.clone(), replica.state.scrub.pacer.clone());
        blocking(move || store.verify_content(file, &mut |bytes| pacer.pay(bytes)))
    };
    let mut looked = look().await;
    for _ in 1..LOOKS {
        // It may be temporary: a server that stops, or a data server that cannot answer now.
        if matches!(looked, Err(Error::Io(_))) {
            tokio::time::sleep(BETWEEN_LOOKS).await;
            looked = look().await;
        }
    }
    match looked {
        Ok(Verified::Same(found) | Verified::NotKnown(found)) if replica.store.is_at_rest(file) => {
            Own::Is(found)
        }
        Ok(Verified::Different { found, .. }) => {
            let why = "its bytes have changed on the disk";
            damaged(replica, (file, found.change), why, true).await
        }
        Err(Error::Io(why)) => {
            let why = format!("the disk cannot read it: {why}");
            damaged(replica, (file, before.change), &why, true).await
        }
        _ => Own::Busy,
    }
}

/// Checks files of which a read has failed, until the replica stops.
pub(crate) async fn look_at_suspects(replica: Arc<LocalReplica>) {
    let mut suspects = replica.state.scrub.suspects.subscribe();
    loop {
        suspects.borrow_and_update();
        for file in replica.state.scrub.take_suspects() {
            // A read of a torn file fails because its row says that it is torn.
            if replica.store.is_damaged(file) || replica.store.is_torn(file) {
                replica.state.scrub.end_look(file);
                continue;
            }
            let replica = replica.clone();
            tokio::spawn(async move {
                // Every finding is noted.
                let _own = look(&replica, file).await;
                replica.state.scrub.end_look(file);
            });
        }
        // The sender lives in `LocalReplica`.
        let _ = suspects.changed().await;
    }
}

/// Notes damage of the version of a file that was checked; the file cannot be read until it is mended. What was written meanwhile was not checked.
async fn damaged(
    replica: &Arc<LocalReplica>,
    (file, version): (ObjectId, ChangeAttribute),
    why: &str,
    note_is_right: bool,
) -> Own {
    if replica.store.is_damaged(file) {
        return Own::Damaged;
    }
    let noting = replica.store.note_damaged(file, version, note_is_right);
    match noting.await {
        Ok(true) => {
            let name = called(replica, file);
            replica
                .state
                .scrub
                .found(format!("the content of {name}: {why}"));
            replica.state.scrub.damage.send_modify(|count| *count += 1);
        }
        Ok(false) | Err(Error::Stale) => return Own::Busy,
        Err(error) => tracing::error!(%file, %error, "damage cannot be noted"),
    }
    Own::Damaged
}

/// Compares one file with the local disk and with another copy; returns whether it could be checked. A torn file is skipped: it cannot be read, and
/// has no right content.
pub(super) async fn compare(replica: &Arc<LocalReplica>, file: ObjectId) -> bool {
    if replica.store.is_torn(file) {
        return true;
    }
    let own = match look(replica, file).await {
        Own::Busy => return false,
        Own::Damaged => return true,
        Own::Is(own) => own,
    };
    let others = replica.holders_in_contact();
    for other in &others {
        let question = ScrubQuestion::Content { file, again: false };
        match theirs(replica, *other, question, own.change).await {
            Some(theirs) if theirs == own => {
                replica.state.scrub.is_equal(file);
                return true;
            }
            Some(_) => {
                // Perhaps a change has just arrived.
                tokio::time::sleep(PAUSE).await;
                return decide(replica, file, own.change).await;
            }
            None => {}
        }
    }
    // Without other replicas, the comparison with the local disk is enough.
    others.is_empty()
}

/// What another replica has of a file, if it has that version.
pub(super) async fn theirs(
    replica: &LocalReplica,
    other: ReplicaSlot,
    question: ScrubQuestion,
    version: ChangeAttribute,
) -> Option<ContentDigest> {
    let Some(ScrubAnswer::Content(Some((change, size, hash)))) =
        ask(replica, other, question).await
    else {
        return None;
    };
    let change = ChangeAttribute(change);
    (change == version).then_some(ContentDigest { change, size, hash })
}

/// What all other replicas have on their disks of this version of a file.
pub(super) async fn all_theirs(
    replica: &LocalReplica,
    file: ObjectId,
    version: ChangeAttribute,
) -> BTreeMap<ReplicaSlot, ContentDigest> {
    let mut found = BTreeMap::new();
    for other in replica.holders_in_contact() {
        let question = ScrubQuestion::Content { file, again: true };
        if let Some(theirs) = theirs(replica, other, question, version).await {
            found.insert(other, theirs);
        }
    }
    found
}

/// The content that more than half of these copies have.
pub(super) fn majority<'d>(
    digests: impl Iterator<Item = &'d ContentDigest> + Clone,
) -> Option<ContentDigest> {
    let all = digests.clone().count();
    let mut candidates = digests.clone();
    candidates
        .find(|one| 2 * digests.clone().filter(|other| other == one).count() > all)
        .copied()
}

/// Two copies of one version differ: makes every replica check its disk, and decides which copy is wrong. Returns whether that could be done.
async fn decide(replica: &Arc<LocalReplica>, file: ObjectId, version: ChangeAttribute) -> bool {
    let theirs = all_theirs(replica, file, version).await;
    let Own::Is(own) = look(replica, file).await else {
        return false;
    };
    if own.change != version || theirs.is_empty() {
        // It is being changed, or the other replica has found the damage and mends it.
        return false;
    }
    if theirs.values().all(|other| *other == own) {
        return true;
    }
    let name = called(replica, file);
    match majority(theirs.values().chain([&own])) {
        Some(right) if right == own => {
            for (other, _) in theirs.iter().filter(|(_, theirs)| **theirs != own) {
                tracing::error!(
                    peer = other.0,
                    file = name,
                    "another copy has a wrong content"
                );
                let _told = ask(replica, *other, ScrubQuestion::Check { file }).await;
            }
        }
        Some(_) => {
            let why =
                "the other copies have another content of the same version and outvote this one";
            let found = damaged(replica, (file, version), why, false).await;
            return matches!(found, Own::Damaged);
        }
        None => {
            let list: Vec<String> = theirs.keys().map(|slot| slot.0.to_string()).collect();
            let list = list.join(" ");
            let what = format!(
                "the content of {name} differs from that of replica {list}, and nobody can tell which is right"
            );
            replica.state.scrub.undecided(file, what);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_decide_and_half_do_not() {
        let digest = |byte| ContentDigest {
            change: ChangeAttribute(1),
            size: 1,
            hash: [byte; 32],
        };
        let of = |bytes: &[u8]| {
            let digests: Vec<_> = bytes.iter().map(|byte| digest(*byte)).collect();
            majority(digests.iter()).map(|digest| digest.hash[0])
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[1]), Some(1));
        assert_eq!(of(&[1, 2]), None);
        assert_eq!(of(&[1, 2, 2]), Some(2));
        assert_eq!(of(&[1, 2, 2, 1]), None);
    }
}

//! Restores damaged contents from another copy.
//!
//! A content is accepted if its version is that of the local row, and its digest, as read from the other disk now, is the digest noted here. If no
//! digest is noted any more, the others have to agree.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::{ContentDigest, ContentPiece};
use vfs::{Error, FileSystem, ObjectId, ReplicaSlot, Result};

use super::asking::{ask, called};
use super::contents::{all_theirs, majority, theirs};
use crate::driver::local_replica::LocalReplica;
use crate::state::wire::{ScrubAnswer, ScrubQuestion, Stretch};

/// The pause between attempts, doubled each time up to the longer one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The pause between checks of an empty list.
const IDLE: Duration = Duration::from_secs(5);

/// Mends what is damaged, until the replica stops.
pub(crate) async fn mend(replica: Arc<LocalReplica>) {
    let mut damage = replica.state.scrub.damage.subscribe();
    let mut pause = FIRST_PAUSE;
    let mut failed = BTreeSet::new();
    loop {
        damage.borrow_and_update();
        let files = replica.store.damaged();
        let mut left = 0;
        for file in files {
            match mend_one(&replica, file, &mut failed).await {
                Ok(true) => {
                    failed.remove(&file);
                    let name = called(&replica, file);
                    replica.state.scrub.mended(format!("the content of {name}"));
                    replica.engine.notify();
                }
                Ok(false) => left += 1,
                Err(error) => {
                    tracing::warn!(%file, %error, "a damaged content cannot be mended yet");
                    left += 1;
                }
            }
        }
        if left == 0 {
            pause = FIRST_PAUSE;
            failed.clear();
            // The store also notes damage by itself, without a notification.
            let _ = tokio::time::timeout(IDLE, damage.changed()).await;
            continue;
        }
        // New damage and a timeout are handled alike.
        let _ = tokio::time::timeout(pause, damage.changed()).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// Returns whether the file is right now, or gone. `failed`: files that could not be mended with what another replica has noted of its copy. The next
/// attempt asks all others to read theirs.
async fn mend_one(
    replica: &Arc<LocalReplica>,
    file: ObjectId,
    failed: &mut BTreeSet<ObjectId>,
) -> Result<bool> {
    let attributes = match replica.store.attributes(file).await {
        Err(Error::Stale) => return Ok(true),
        attributes => attributes?,
    };
    if attributes.size == 0 {
        return replica.store.forget_damage_of_empty(file).await;
    }
    let noted = match failed.remove(&file) {
        true => None,
        false => noted_by_both(replica, file, attributes.change).await?,
    };
    let known = match noted {
        Some(known) => {
            // Until it is mended.
            failed.insert(file);
            Some(known)
        }
        None => right_content(replica, file, attributes.change).await?,
    };
    let Some((right, from)) = known else {
        return Ok(false);
    };
    let mending = replica.store.begin_mending(file).await?;
    let mut at = 0;
    while at < right.size {
        let Some(parts) = piece(replica, from, file, &right, at).await else {
            return Ok(false);
        };
        let Some(end) = end_of(&parts).filter(|end| *end > at) else {
            return Ok(false);
        };
        for part in parts {
            mending.put(part).await?;
        }
        at = end;
    }
    let pacer = replica.state.scrub.pacer.clone();
    let finishing = mending.finish(right, Box::new(move |bytes| pacer.pay(bytes)));
    let is_right = finishing.await?;
    if !is_right {
        // Unless the file was changed meanwhile, that disk does not hold what it should.
        let _told = ask(replica, from, ScrubQuestion::Check { file }).await;
    }
    Ok(is_right)
}

/// The content that the file should have, and a replica that has it.
async fn right_content(
    replica: &Arc<LocalReplica>,
    file: ObjectId,
    version: vfs::ChangeAttribute,
) -> Result<Option<(ContentDigest, ReplicaSlot)>> {
    let noted = replica.store.noted_content(file)?;
    let theirs = all_theirs(replica, file, version).await;
    let right = match noted {
        Some(noted) => Some(noted),
        None => majority(theirs.values()),
    };
    let Some(right) = right else {
        return Ok(None);
    };
    let from = theirs.iter().find(|(_, theirs)| **theirs == right);
    if from.is_none() && !theirs.is_empty() {
        let name = called(replica, file);
        let what = format!("the content of {name} is damaged, and no other copy has what it was");
        replica.state.scrub.undecided(file, what);
    }
    Ok(from.map(|(slot, _)| (right, *slot)))
}

/// What is noted of a version here, and a replica that has noted the same. A disk is read for that only where nothing is noted: what is sent is compared
/// with it in any case.
async fn noted_by_both(
    replica: &Arc<LocalReplica>,
    file: ObjectId,
    version: vfs::ChangeAttribute,
) -> Result<Option<(ContentDigest, ReplicaSlot)>> {
    let noted = replica.store.noted_content(file)?;
    let Some(right) = noted.filter(|noted| noted.change == version) else {
        return Ok(None);
    };
    for other in replica.holders_in_contact() {
        let question = ScrubQuestion::Content { file, again: false };
        if theirs(replica, other, question, version).await == Some(right) {
            return Ok(Some((right, other)));
        }
    }
    Ok(None)
}

/// The next parts of a content.
async fn piece(
    replica: &LocalReplica,
    from: ReplicaSlot,
    file: ObjectId,
    right: &ContentDigest,
    offset: u64,
) -> Option<Vec<ContentPiece>> {
    let version = right.change.0;
    let question = ScrubQuestion::Piece {
        file,
        version,
        offset,
    };
    match ask(replica, from, question).await? {
        ScrubAnswer::Piece { stretches, bytes } => take_apart(stretches, bytes, right.size),
        _ => None,
    }
}

/// The stretches with their bytes; `None` if they do not fit together or into the file.
fn take_apart(stretches: Vec<Stretch>, mut bytes: Bytes, size: u64) -> Option<Vec<ContentPiece>> {
    let mut parts = Vec::with_capacity(stretches.len());
    for Stretch {
        offset,
        length,
        hole,
    } in stretches
    {
        if offset.checked_add(length)? > size {
            return None;
        }
        parts.push(match hole {
            true => ContentPiece::Hole(vfs::Extent { offset, length }),
            false => {
                let length = usize::try_from(length).ok()?;
                if length > bytes.len() {
                    return None;
                }
                let bytes = bytes.split_to(length);
                ContentPiece::Data { offset, bytes }
            }
        });
    }
    Some(parts)
}

fn end_of(parts: &[ContentPiece]) -> Option<u64> {
    parts.last().map(crate::replication::contents::end_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_do_not_fit_are_refused() {
        let data = |offset, length| Stretch {
            offset,
            length,
            hole: false,
        };
        let hole = Stretch {
            offset: 4,
            length: 6,
            hole: true,
        };
        let bytes = Bytes::from_static(b"abcd");
        let parts = take_apart(vec![data(0, 4), hole], bytes.clone(), 10).unwrap();
        assert_eq!((parts.len(), end_of(&parts)), (2, Some(10)));
        assert!(take_apart(vec![data(0, 5)], bytes.clone(), 10).is_none());
        assert!(take_apart(vec![data(7, 4)], bytes.clone(), 10).is_none());
        assert!(take_apart(vec![data(u64::MAX, 4)], bytes, 10).is_none());
    }
}

//! Restores damaged contents from another copy.
//!
//! A content is accepted if its version is that of the local row, and its digest, as read from the other disk now, is the digest noted here. If no
//! digest is noted any more, the others have to agree.

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
    loop {
        damage.borrow_and_update();
        let files = replica.store.damaged();
        let mut left = 0;
        for file in files {
            match mend_one(&replica, file).await {
                Ok(true) => {
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
            // The store also notes damage by itself, without a notification.
            let _ = tokio::time::timeout(IDLE, damage.changed()).await;
            continue;
        }
        // New damage and a timeout are handled alike.
        let _ = tokio::time::timeout(pause, damage.changed()).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// Returns whether the file is right now, or gone.
async fn mend_one(replica: &Arc<LocalReplica>, file: ObjectId) -> Result<bool> {
    let attributes = match replica.store.attributes(file).await {
        Err(Error::Stale) => return Ok(true),
        attributes => attributes?,
    };
    if attributes.size == 0 {
        return replica.store.forget_damage_of_empty(file).await;
    }
    let Some((right, from)) = right_content(replica, file, attributes.change).await? else {
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
    mending
        .finish(right, Box::new(move |bytes| pacer.pay(bytes)))
        .await
}

/// The content that the file should have, and a replica that has it.
async fn right_content(
    replica: &Arc<LocalReplica>,
    file: ObjectId,
    version: vfs::ChangeAttribute,
) -> Result<Option<(ContentDigest, ReplicaSlot)>> {
    let noted = replica.store.noted_content(file)?;
    if let Some(right) = noted
        && right.change == version
        && let Some(from) = a_holder(replica, file, right).await
    {
        return Ok(Some((right, from)));
    }
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

/// A replica that has noted the same digest of this version. Its disk is not read for that: what it sends is compared with the digest in any case.
async fn a_holder(
    replica: &Arc<LocalReplica>,
    file: ObjectId,
    right: ContentDigest,
) -> Option<ReplicaSlot> {
    for other in replica.holders_in_contact() {
        let question = ScrubQuestion::Content { file, again: false };
        if theirs(replica, other, question, right.change).await == Some(right) {
            return Some(other);
        }
    }
    None
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

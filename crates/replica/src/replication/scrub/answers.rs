//! What a replica tells another replica that compares its copy.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::BytesMut;
use store::{ContentDigest, ContentPiece};
use vfs::{FileSystem, ObjectId, Result};

use super::asking::{blocking, is_comparable};
use super::contents::{self, Own};
use crate::driver::local_replica::LocalReplica;
use crate::replication::contents::end_of;
use crate::state::wire::{ScrubAnswer, ScrubQuestion, Stretch};

/// One message carries at most this much of a content.
const PIECE_BYTES: u64 = 512 << 10;

/// Answers a question of a member.
pub(crate) async fn answer(replica: &Arc<LocalReplica>, question: ScrubQuestion) -> ScrubAnswer {
    if !is_comparable(replica) {
        return ScrubAnswer::Nothing;
    }
    let answer = match question {
        ScrubQuestion::Rows { from, through } => digest(replica, from, through).await,
        ScrubQuestion::Content { file, again } => content(replica, file, again).await,
        ScrubQuestion::Piece {
            file,
            version,
            offset,
        } => piece(replica, file, version, offset).await,
        ScrubQuestion::Check { file } => {
            let replica = replica.clone();
            tokio::spawn(async move {
                // Every finding is noted.
                let _looked = contents::compare(&replica, file).await;
            });
            Ok(ScrubAnswer::Nothing)
        }
    };
    answer.unwrap_or_else(|error| {
        tracing::debug!(%error, "a comparison cannot be answered");
        ScrubAnswer::Nothing
    })
}

/// How far each stream is applied here.
pub(super) fn places(replica: &LocalReplica) -> BTreeMap<u16, u64> {
    let inboxes = replica.state.inboxes.lock();
    let applied = inboxes
        .iter()
        .map(|(slot, inbox)| (slot.0, inbox.applied()));
    let mut places: BTreeMap<u16, u64> = applied.collect();
    drop(inboxes);
    let own = replica.engine.last_position();
    places.insert(replica.slot().0, own);
    places
}

/// The digest of rows, and how far each stream had certainly been applied when it was made.
pub(super) async fn digest(
    replica: &Arc<LocalReplica>,
    from: ObjectId,
    through: ObjectId,
) -> Result<ScrubAnswer> {
    let places = places(replica);
    let store = replica.store.clone();
    let digest = blocking(move || store.digest_metadata(from..=through, u64::MAX)).await?;
    Ok(ScrubAnswer::Rows {
        objects: digest.objects,
        hash: digest.hash,
        places: places.into_iter().collect(),
    })
}

async fn content(replica: &Arc<LocalReplica>, file: ObjectId, again: bool) -> Result<ScrubAnswer> {
    let told = |digest: ContentDigest| Some((digest.change.0, digest.size, digest.hash));
    if !again
        && replica.store.is_at_rest(file)
        && let Some(noted) = replica.store.noted_content(file)?
    {
        return Ok(ScrubAnswer::Content(told(noted)));
    }
    Ok(ScrubAnswer::Content(
        match contents::look(replica, file).await {
            Own::Is(found) => told(found),
            Own::Busy | Own::Damaged => None,
        },
    ))
}

async fn piece(
    replica: &Arc<LocalReplica>,
    file: ObjectId,
    version: u64,
    offset: u64,
) -> Result<ScrubAnswer> {
    let is_there = || async {
        let attributes = replica.store.attributes(file).await;
        attributes.is_ok_and(|attributes| attributes.change.0 == version)
    };
    if !is_there().await {
        return Ok(ScrubAnswer::Nothing);
    }
    let (store, pacer) = (replica.store.clone(), replica.state.scrub.pacer.clone());
    let parts = blocking(move || {
        let parts = store.content(file, offset, PIECE_BYTES)?;
        let end = parts.last().map_or(offset, end_of);
        let _paid = pacer.pay(end - offset);
        Ok(parts)
    })
    .await?;
    if !is_there().await {
        return Ok(ScrubAnswer::Nothing);
    }
    let mut stretches = Vec::with_capacity(parts.len());
    let mut payload = BytesMut::new();
    for part in parts {
        let (offset, length) = match &part {
            ContentPiece::Data { offset, bytes } => (*offset, bytes.len() as u64),
            ContentPiece::Hole(extent) => (extent.offset, extent.length),
        };
        let hole = matches!(part, ContentPiece::Hole(_));
        if let ContentPiece::Data { bytes, .. } = part {
            payload.extend_from_slice(&bytes);
        }
        stretches.push(Stretch {
            offset,
            length,
            hole,
        });
    }
    let bytes = payload.freeze();
    Ok(ScrubAnswer::Piece { stretches, bytes })
}

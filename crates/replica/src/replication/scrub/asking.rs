//! Helpers for the whole scrub: asking a peer, reading the disk in the background, and whether a comparison is meaningful.
//!
//! What must never enter: what is compared.

use std::sync::Arc;
use std::time::Duration;

use peer::Lane;
use tokio::time::Instant;
use vfs::{Error, ObjectId, ReplicaSlot, Result};

use crate::driver::local_replica::LocalReplica;
use crate::state::wire::{self, ScrubAnswer, ScrubQuestion};

/// A peer may read a large file for hours, at a low rate that it shares among many files. If it is silent, its session ends, and the question with it.
const ANSWER_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// The pause between two checks of something that may just be changing.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// Asks a peer; `None` if it does not answer, or does not know the question yet.
pub(super) async fn ask(
    replica: &LocalReplica,
    of: ReplicaSlot,
    question: ScrubQuestion,
) -> Option<ScrubAnswer> {
    let peer = replica.endpoint.get()?.peer(of)?;
    let session = peer.session().ok()?;
    let message = wire::payload(wire::Kind::Scrub, &question);
    let limit = Instant::now() + ANSWER_LIMIT;
    match session.request(Lane::Data, message, limit).await {
        Ok(reply) => wire::decode(&reply.payload).ok(),
        Err(error) => {
            tracing::debug!(peer = of.0, %error, "a comparison was not answered");
            None
        }
    }
}

/// Runs work that reads the disk in a thread where it blocks no task.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::broken_off(error.is_cancelled(), &error))?
}

/// The name of an object, for display.
pub(super) fn called(replica: &LocalReplica, object: ObjectId) -> String {
    let path = replica.store.path_of(object);
    path.unwrap_or_else(|_| format!("object {object}"))
}

/// Whether this replica holds everything that its clients may ask for, so that a difference is meaningful.
pub(super) fn is_comparable(replica: &Arc<LocalReplica>) -> bool {
    let own = replica.slot();
    let is_witness = replica.engine.witnesses().contains(&own);
    !is_witness && replica.is_whole() && replica.lease.is_up_to_date()
}

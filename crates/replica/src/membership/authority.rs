//! Moves the set's authority to another member, over the connection between the two.
//!
//! What must never enter: which member may sign what; the set's files know that.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use peer::set::{Handover, SetDirectory, SetError};
use peer::{Lane, Message, Refusal};
use tokio::time::Instant;
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::membership::members;
use crate::state::wire::{self, Malformed};

/// How long the next keeper may take to store the key.
const STORED_WITHIN: Duration = Duration::from_secs(20);
/// How long the next keeper may take to confirm that it keeps the authority.
const TAKEN_WITHIN: Duration = Duration::from_secs(15);

/// Makes another member keep the set's authority from now on.
///
/// # Errors
/// Why not, for people, with what to do next. The authority is kept here then.
pub(crate) async fn hand_over(replica: &Arc<LocalReplica>, to: ReplicaSlot) -> Result<(), String> {
    let handover = on_files(replica, move |set| set.begin_handover(to)).await?;
    let words = |why: String| {
        format!(
            "replica {} has not stored the authority's key, which stays here: {why}",
            to.0
        )
    };
    let peer = replica.endpoint.get().and_then(|all| all.peer(to));
    let session = peer.and_then(|peer| peer.session().ok());
    let session = session.ok_or_else(|| {
        words("it is not in contact; `meridian status` shows the links".to_owned())
    })?;
    let message = wire::payload(wire::Kind::Authority, &handover);
    let deadline = Instant::now() + STORED_WITHIN;
    let stored = session.request(Lane::Control, message, deadline);
    let stored = tokio::time::timeout_at(deadline, stored).await;
    let stored = stored.map_err(|_| words("it does not answer in time".to_owned()))?;
    stored.map_err(|error| words(error.to_string()))?;
    on_files(replica, move |set| set.complete_handover(to, &handover)).await?;
    members::look_for_members(replica);
    Ok(())
}

/// Whether the next keeper confirms soon that it keeps the authority.
pub(crate) async fn is_taken(replica: &LocalReplica) -> bool {
    // The key goes when the next keeper's list is stored; taking that over notifies.
    let taken = (replica.engine).until(|| (!replica.set.holds_key()).then_some(()));
    tokio::time::timeout(TAKEN_WITHIN, taken).await.is_ok()
}

/// A keeper offers this replica the authority: confirms once the key is stored.
pub(crate) async fn offered(
    replica: &Arc<LocalReplica>,
    from: ReplicaSlot,
    payload: &[u8],
) -> Result<Message, Refusal> {
    let refused = Refusal;
    // The error might quote the key.
    let handover: Handover =
        wire::decode(payload).map_err(|_: Malformed| refused("it cannot be decoded".to_owned()))?;
    let stored = on_files(replica, move |set| set.store_offer(&handover)).await;
    stored.map_err(refused)?;
    tracing::info!(
        from = from.0,
        "the set's authority was handed over, for use once the list of members says so"
    );
    Ok(Message::new(wire::Kind::Authority.number(), Bytes::new()))
}

/// Works on the set's files, and may wait for the disk or for a command.
async fn on_files<T: Send + 'static>(
    replica: &Arc<LocalReplica>,
    work: impl FnOnce(&SetDirectory) -> Result<T, SetError> + Send + 'static,
) -> Result<T, String> {
    let set = replica.set.clone();
    let done = tokio::task::spawn_blocking(move || work(&set)).await;
    let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    done.map_err(|error| error.to_string())
}

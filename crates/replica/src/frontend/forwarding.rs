//! Operations that another replica carries out, on their way to it and back.
//!
//! What must never enter: which replica is primary, and what becomes of an operation that is never answered (`outcomes`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use peer::{Lane, Message, RequestError, Sender};
use tokio::time::Instant;
use vfs::{Error, ReplicaSlot, Result};

use crate::driver::local_replica::LocalReplica;
use crate::state::forward::{Answer, Forwarded, Operation};
use crate::state::outcomes::{Handed, Unanswered, Watch};
use crate::state::wire::{self, Origin};

/// A forwarded operation without an answer by then is given up; its outcome is unknown.
const FORWARD_LIMIT: Duration = Duration::from_secs(600);

/// Makes another replica carry out an operation.
///
/// # Errors
/// The operation's own, and [`Error::Delay`] if the replica cannot be asked, or did not answer and may be asked again.
pub(crate) async fn forward(
    replica: &LocalReplica,
    to: ReplicaSlot,
    (operation, removed): (Operation, bool),
    deadline: Instant,
) -> Result<Handed> {
    let peer = replica
        .endpoint
        .get()
        .and_then(|endpoint| endpoint.peer(to));
    let peer = peer.ok_or(Error::Delay)?;
    let session = tokio::select! {
        session = tokio::time::timeout_at(deadline, peer.ready()) => session,
        () = replica.lease.lost(to) => return Ok(Handed::NotPrimary),
    };
    let session = session.map_err(|_| Error::Delay)?;
    let lane = match operation.is_bulky() {
        true => Lane::Data,
        false => Lane::Control,
    };
    let number = replica.state.requests.fetch_add(1, Ordering::Relaxed);
    let watch = operation
        .repeated_on()
        .map(|_| replica.state.outcomes.watch(number));
    let forwarded = Forwarded {
        origin: Origin {
            slot: replica.slot().0,
            incarnation: replica.state.incarnation,
            number,
        },
        operation,
        removed,
    };
    replica
        .state
        .metrics
        .forwarded
        .fetch_add(1, Ordering::Relaxed);
    let message = wire::payload(wire::Kind::Forward, &forwarded);
    let limit = Instant::now() + FORWARD_LIMIT;
    let reply = tokio::select! {
        reply = session.request(lane, message, limit) => Some(reply),
        () = replica.lease.lost(to) => None,
    };
    handed(replica, session.peer(), watch, reply)
}

/// The result of handing an operation over to `by`; without a reply it is unknown whether it was carried out.
fn handed(
    replica: &LocalReplica,
    by: Sender,
    watch: Option<Watch>,
    reply: Option<std::result::Result<Message, RequestError>>,
) -> Result<Handed> {
    match reply {
        Some(Ok(reply)) => match wire::decode::<Answer>(&reply.payload) {
            Ok(Answer::Done(outcome)) => outcome.map(Handed::Done),
            Ok(Answer::NotPrimary) => Ok(Handed::NotPrimary),
            Err(error) => {
                replica.refuse_nonsense(by, &error.to_string());
                Err(Error::Delay)
            }
        },
        Some(Err(RequestError::Busy | RequestError::NotSent(_) | RequestError::Refused(_))) => {
            Ok(Handed::NotPrimary)
        }
        // It is unknown whether it was carried out.
        None | Some(Err(RequestError::OutcomeUnknown(_))) => {
            tracing::debug!(peer = by.slot.0, "a forward will not be answered");
            let unanswered = watch.map(|watch| Unanswered {
                watch,
                by,
                epoch: replica.lease.view().epoch,
            });
            unanswered.map(Handed::Unanswered).ok_or(Error::Delay)
        }
        Some(Err(error)) => {
            tracing::debug!(peer = by.slot.0, %error, "a forward was not answered");
            Err(Error::Delay)
        }
    }
}

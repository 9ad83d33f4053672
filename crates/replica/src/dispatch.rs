//! Messages of other replicas, and where they go.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use control::{Envelope, Message as Said};
use peer::{Incoming, Message, MessageHandler, Refusal, Sender, TurnedAway};
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::frontend::absent_clients;
use crate::frontend::file_system::ReplicatedFileSystem;
use crate::membership::authorisation;
use crate::membership::authority;
use crate::membership::greetings;
use crate::membership::losses;
use crate::membership::meeting;
use crate::membership::members;
use crate::membership::sessions;
use crate::membership::views;
use crate::replication::contents;
use crate::replication::scrub;
use crate::state::clients::ClientsAsked;
use crate::state::forward::{self, Answer, Forwarded, Operation, Value};
use crate::state::wire::{
    self, Applied, Grounds, Kind, LeaseRequest, Malformed, PieceDone, PieceHead,
};

/// Takes what the endpoint receives; it does not keep the replica alive.
pub(crate) struct Dispatch(pub(crate) Weak<LocalReplica>);

#[async_trait]
impl MessageHandler for Dispatch {
    fn admit_session(&self, peer: Sender) -> Result<(), TurnedAway> {
        match self.0.upgrade() {
            Some(replica) => authorisation::admit_session(&replica, peer),
            None => Err(stopping()),
        }
    }

    fn admit_message(&self, from: Sender, kind: u32) -> Result<(), Refusal> {
        let replica = self.0.upgrade().ok_or_else(|| refused("it stops"))?;
        authorisation::admit_message(&replica, from.slot, kind)
    }

    async fn receive(&self, incoming: Incoming) {
        let Some(replica) = self.0.upgrade() else {
            return;
        };
        let from = incoming.from;
        if let Err(error) = receive(&replica, incoming) {
            replica.refuse_nonsense(from, &error.to_string());
        }
    }

    async fn answer(&self, incoming: Incoming) -> Result<Message, Refusal> {
        let replica = self.0.upgrade().ok_or_else(|| refused("it stops"))?;
        let malformed = |error: Malformed| refused(&error.to_string());
        match Kind::of(incoming.message.kind) {
            Some(Kind::View) => {
                let from = incoming.from;
                views::answer(&replica, from, incoming.release()).await
            }
            Some(Kind::Clients) => {
                let asked: ClientsAsked =
                    wire::decode(&incoming.message.payload).map_err(malformed)?;
                let absent = absent_clients::answer(&replica, &asked);
                Ok(wire::payload(Kind::Clients, &absent))
            }
            Some(Kind::Authority) => {
                let from = incoming.from.slot;
                authority::offered(&replica, from, &incoming.release().payload).await
            }
            Some(Kind::Scrub) => {
                let question = wire::decode(&incoming.release().payload).map_err(malformed)?;
                let answer = scrub::answer(&replica, question).await;
                Ok(wire::payload(Kind::Scrub, &answer))
            }
            Some(Kind::Forward) => {
                let forwarded: Forwarded =
                    wire::decode(&incoming.message.payload).map_err(malformed)?;
                let from = incoming.from.slot;
                drop(incoming);
                if forwarded.origin.slot != from.0 {
                    return Err(refused("it forwards in the name of another replica"));
                }
                Ok(answer_forward(replica, from, forwarded).await)
            }
            _ => Err(refused("this is no request")),
        }
    }

    fn introduce(&self, to: ReplicaSlot) -> Bytes {
        let replica = self.0.upgrade();
        replica.map_or_else(Bytes::new, |replica| meeting::introduce(&replica, to))
    }

    fn meet(&self, peer: Sender, introduction: &Bytes) -> Result<(), TurnedAway> {
        let replica = self.0.upgrade().ok_or_else(stopping)?;
        meeting::meet(&replica, peer, introduction)
    }

    fn turned_away(&self, by: ReplicaSlot, evidence: &Bytes) {
        if let Some(replica) = self.0.upgrade() {
            match wire::decode(evidence) {
                Ok(Grounds::Past(evidence)) => meeting::turned_away(&replica, by, evidence),
                Ok(Grounds::Removed(list)) => members::learn_members(&replica, by, &list),
                // A refusal by the transport, or by another program version.
                Err(_) => {}
            }
        }
    }

    fn session_began(&self, peer: Sender) {
        if let Some(replica) = self.0.upgrade() {
            sessions::began(&replica, peer);
        }
    }

    fn session_ended(&self, peer: Sender) {
        if let Some(replica) = self.0.upgrade() {
            sessions::ended(&replica, peer);
        }
    }
}

fn stopping() -> TurnedAway {
    TurnedAway {
        again: true,
        reason: "it stops".to_owned(),
        evidence: Bytes::new(),
    }
}

fn refused(reason: &str) -> Refusal {
    Refusal(reason.to_owned())
}

fn receive(replica: &Arc<LocalReplica>, incoming: Incoming) -> Result<(), Malformed> {
    let from = incoming.from.slot;
    let Some(kind) = Kind::of(incoming.message.kind) else {
        return Ok(());
    };
    let body = &incoming.message.body;
    match kind {
        Kind::Control => control(replica, from, wire::decode(body)?),
        Kind::Applied => {
            let Applied {
                position,
                held_open,
            } = wire::decode(body)?;
            replica.state.removed.need(from, held_open);
            sessions::applied(replica, from, position);
        }
        Kind::PieceDone => {
            let done: PieceDone = wire::decode(body)?;
            contents::done(replica, from, done);
        }
        Kind::HeldOpen => {
            let held = wire::decode(&incoming.message.payload)?;
            replica.state.removed.hear(from, held);
            replica.engine.notify();
        }
        Kind::Members => members::learn_members(replica, from, &wire::decode(body)?),
        Kind::Piece => {
            let head: PieceHead = wire::decode(body)?;
            head.check(incoming.message.payload.len())?;
            if let Some(inbox) = replica.state.inboxes.get(from) {
                contents::arrived(replica, &inbox, head, incoming);
            }
        }
        Kind::LeaseRequest => {
            let request: LeaseRequest = wire::decode(body)?;
            replica
                .state
                .outcomes
                .note_said(incoming.from, request.position);
            if let Some(mark) = request.mark {
                replica.state.lineage.note(from, request.incarnation, mark);
            }
            views::lease_requested(replica, from, request);
        }
        Kind::LeaseGrant => views::lease_granted(replica, from, wire::decode(body)?),
        Kind::Joined => views::joined(replica, from, wire::decode(body)?),
        Kind::CaughtUp => views::caught_up(replica, from, wire::decode(body)?),
        Kind::Incomplete => {
            losses::incomplete(replica, from, wire::decode(&incoming.message.payload)?)
        }
        Kind::Completed => {
            let completed = wire::decode(&incoming.message.payload)?;
            let noting = losses::completed(replica.clone(), from, completed);
            // Until then it keeps its credit, which limits how much waits here.
            tokio::spawn(async move {
                noting.await;
                drop(incoming);
            });
        }
        Kind::Noted => contents::noted(replica, from, wire::decode(&incoming.message.payload)?),
        Kind::Relayed => losses::relayed(replica, from, wire::decode(&incoming.message.payload)?),
        Kind::Wanted => greetings::wanted(replica, from, wire::decode(body)?),
        Kind::Remainder => {
            let remainder = wire::decode(body)?;
            replica
                .state
                .peers
                .with(from, |peer| peer.rejoin.hear(remainder));
        }
        Kind::TooFar => views::too_far(replica, from),
        Kind::Greeting => greetings::greeted(replica, incoming.from, wire::decode(body)?),
        Kind::Records | Kind::Base => {
            if let Some(inbox) = replica.state.inboxes.get(from) {
                inbox.take_in(incoming);
            }
        }
        Kind::Forward | Kind::View | Kind::Clients | Kind::Scrub | Kind::Authority => {
            tracing::warn!(peer = from.0, "a request came as a message");
        }
    }
    Ok(())
}

/// A message of replication control.
fn control(replica: &Arc<LocalReplica>, from: ReplicaSlot, envelope: Envelope) {
    if let Err(why) = authorisation::may_control(replica.speaker(from), &envelope.message) {
        return tracing::warn!(peer = from.0, why, "a message of a peer is dropped");
    }
    if matches!(envelope.message, Said::Propose { .. } | Said::Revoke { .. }) {
        replica.state.interest.note();
    }
    replica.engine.message(from, envelope);
}

/// Answers a forwarded operation.
async fn answer_forward(
    replica: Arc<LocalReplica>,
    from: ReplicaSlot,
    forwarded: Forwarded,
) -> Message {
    replica.state.metrics.served.fetch_add(1, Ordering::Relaxed);
    replica.state.interest.note();
    let answer = tokio::select! {
        answer = serve(replica.clone(), from, forwarded) => Some(answer),
        // What it waits for no longer happens.
        () = replica.stopped() => None,
    };
    drop(replica);
    match answer {
        Some(answer) => wire::payload(Kind::Forward, &answer),
        // It may have been carried out, so this is no refusal; the connection is closed by now.
        None => std::future::pending().await,
    }
}

/// Carries out what another replica forwarded.
async fn serve(replica: Arc<LocalReplica>, from: ReplicaSlot, forwarded: Forwarded) -> Answer {
    let Forwarded {
        origin,
        operation,
        removed,
    } = forwarded;
    let file_system = ReplicatedFileSystem::forwarded(replica, origin, removed);
    if let Operation::Read(_, file, ..) | Operation::Fetch(_, file, ..) = &operation {
        // The other site wants this before what no client reads.
        file_system.replica.engine.expedite(Some(*file));
    }
    let changed = operation.changes_file();
    let outcome = match operation {
        Operation::Settle(file) => file_system.settle(file).await.map(|()| Value::Nothing),
        Operation::Lookup(who, directory, name) => {
            let found = file_system.find(&who, directory, &name);
            found.await.map(Value::Found)
        }
        Operation::Fetch(by, file, offset, count) => {
            let range = offset..offset.saturating_add(count.into());
            let read = Operation::Read(by, file, offset, count);
            file_system.fetch(from, file, range, read).await
        }
        operation => forward::perform(&file_system, operation).await,
    };
    if let Some(file) = changed {
        // The replica that changes the file gets control once its contents are everywhere (decision 52).
        file_system.replica.engine.expedite_much(file);
    }
    match outcome {
        Err(_) if file_system.was_not_primary() => Answer::NotPrimary,
        outcome => Answer::Done(outcome),
    }
}

//! What arrives from other replicas, and where it goes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use control::Envelope;
use peer::{Incoming, Message, MessageHandler, Refusal, Sender, TurnedAway};
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::frontend::expired_clients;
use crate::frontend::expired_clients::ClientsAsked;
use crate::frontend::file_system::ReplicatedFileSystem;
use crate::membership::authorisation;
use crate::membership::authority;
use crate::membership::losses;
use crate::membership::meeting;
use crate::membership::members;
use crate::membership::sessions;
use crate::membership::views;
use crate::replication::base;
use crate::replication::contents;
use crate::replication::scrub;
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
            Some(shared) => authorisation::admit_session(&shared, peer),
            None => Err(stopping()),
        }
    }

    fn admit_message(&self, from: Sender, kind: u32) -> Result<(), Refusal> {
        let shared = self.0.upgrade().ok_or_else(|| refused("it stops"))?;
        authorisation::admit_message(&shared, from.slot, kind)
    }

    async fn receive(&self, incoming: Incoming) {
        let Some(shared) = self.0.upgrade() else {
            return;
        };
        let from = incoming.from;
        if let Err(error) = receive(&shared, incoming) {
            shared.refuse_nonsense(from, &error.to_string());
        }
    }

    async fn answer(&self, incoming: Incoming) -> Result<Message, Refusal> {
        let shared = self.0.upgrade().ok_or_else(|| refused("it stops"))?;
        let malformed = |error: Malformed| refused(&error.to_string());
        match Kind::of(incoming.message.kind) {
            Some(Kind::View) => {
                let from = incoming.from;
                views::answer(&shared, from, incoming.release()).await
            }
            Some(Kind::Clients) => {
                let asked: ClientsAsked =
                    wire::decode(&incoming.message.payload).map_err(malformed)?;
                let absent = expired_clients::answer(&shared, &asked);
                Ok(wire::payload(Kind::Clients, &absent))
            }
            Some(Kind::Authority) => {
                let from = incoming.from.slot;
                authority::offered(&shared, from, &incoming.release().payload).await
            }
            Some(Kind::Scrub) => {
                let question = wire::decode(&incoming.release().payload).map_err(malformed)?;
                let answer = scrub::answer(&shared, question).await;
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
                Ok(answer_forward(shared, from, forwarded).await)
            }
            _ => Err(refused("this is no request")),
        }
    }

    fn introduce(&self, to: ReplicaSlot) -> Bytes {
        let shared = self.0.upgrade();
        shared.map_or_else(Bytes::new, |shared| meeting::introduce(&shared, to))
    }

    fn meet(&self, peer: Sender, introduction: &Bytes) -> Result<(), TurnedAway> {
        let shared = self.0.upgrade().ok_or_else(stopping)?;
        meeting::meet(&shared, peer, introduction)
    }

    fn turned_away(&self, by: ReplicaSlot, evidence: &Bytes) {
        if let Some(shared) = self.0.upgrade() {
            match wire::decode(evidence) {
                Ok(Grounds::Past(evidence)) => meeting::turned_away(&shared, by, evidence),
                Ok(Grounds::Removed(list)) => members::learn_members(&shared, by, &list),
                // The transport refused, or a program of another version.
                Err(_) => {}
            }
        }
    }

    fn session_began(&self, peer: Sender) {
        if let Some(shared) = self.0.upgrade() {
            sessions::began(&shared, peer);
        }
    }

    fn session_ended(&self, peer: Sender) {
        if let Some(shared) = self.0.upgrade() {
            sessions::ended(&shared, peer);
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

fn receive(shared: &Arc<LocalReplica>, incoming: Incoming) -> Result<(), Malformed> {
    let from = incoming.from.slot;
    let Some(kind) = Kind::of(incoming.message.kind) else {
        return Ok(());
    };
    let body = &incoming.message.body;
    match kind {
        Kind::Control => control(shared, from, wire::decode(body)?),
        Kind::Applied => {
            let Applied {
                position,
                held_open,
            } = wire::decode(body)?;
            shared.state.removed.need(from, held_open);
            sessions::applied(shared, from, position);
        }
        Kind::PieceDone => {
            let done: PieceDone = wire::decode(body)?;
            contents::done(shared, from, done);
        }
        Kind::HeldOpen => {
            let held = wire::decode(&incoming.message.payload)?;
            shared.state.removed.hear(from, held);
            shared.engine.notify();
        }
        Kind::Members => members::learn_members(shared, from, &wire::decode(body)?),
        Kind::Piece => {
            let head: PieceHead = wire::decode(body)?;
            head.check(incoming.message.payload.len())?;
            if let Some(inbox) = shared.state.inboxes.get(from) {
                contents::arrived(shared, &inbox, head, incoming);
            }
        }
        Kind::LeaseRequest => {
            let ask: LeaseRequest = wire::decode(body)?;
            shared.state.outcomes.note_said(incoming.from, ask.position);
            if let Some(mark) = ask.mark {
                shared.state.lineage.note(from, ask.incarnation, mark);
            }
            views::lease_requested(shared, from, ask);
        }
        Kind::LeaseGrant => views::lease_granted(shared, from, wire::decode(body)?),
        Kind::Entered => views::entered(shared, from, wire::decode(body)?),
        Kind::CaughtUp => views::caught_up(shared, from, wire::decode(body)?),
        Kind::Incomplete => {
            losses::incomplete(shared, from, wire::decode(&incoming.message.payload)?)
        }
        Kind::Completed => {
            let completed = wire::decode(&incoming.message.payload)?;
            let noting = losses::completed(shared.clone(), from, completed);
            // Until then it keeps its credit, so that not too much waits here.
            tokio::spawn(async move {
                noting.await;
                drop(incoming);
            });
        }
        Kind::Noted => contents::noted(shared, from, wire::decode(&incoming.message.payload)?),
        Kind::Relayed => losses::relayed(shared, from, wire::decode(&incoming.message.payload)?),
        Kind::Wanted => base::wanted(shared, from, wire::decode(body)?),
        Kind::Remainder => {
            let remainder = wire::decode(body)?;
            shared
                .state
                .peers
                .with(from, |peer| peer.rejoin.hear(remainder));
        }
        Kind::TooFar => views::too_far(shared, from),
        Kind::Greeting => sessions::greeted(shared, from, wire::decode(body)?),
        Kind::Records | Kind::Base => {
            if let Some(inbox) = shared.state.inboxes.get(from) {
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
fn control(shared: &Arc<LocalReplica>, from: ReplicaSlot, envelope: Envelope) {
    if let Err(why) = authorisation::may_control(shared.speaker(from), &envelope.message) {
        return tracing::warn!(peer = from.0, why, "a message of a peer is dropped");
    }
    shared.engine.message(from, envelope);
}

/// Answers a forwarded operation.
async fn answer_forward(
    shared: Arc<LocalReplica>,
    from: ReplicaSlot,
    forwarded: Forwarded,
) -> Message {
    shared.state.metrics.served.fetch_add(1, Ordering::Relaxed);
    let answer = tokio::select! {
        answer = serve(shared.clone(), from, forwarded) => Some(answer),
        // What it waits for does not happen any more.
        () = shared.parted() => None,
    };
    drop(shared);
    match answer {
        Some(answer) => wire::payload(Kind::Forward, &answer),
        // It may have been carried out, so this is no refusal; the connection is closed by now.
        None => std::future::pending().await,
    }
}

/// Carries out what another replica forwarded.
async fn serve(shared: Arc<LocalReplica>, from: ReplicaSlot, forwarded: Forwarded) -> Answer {
    let Forwarded {
        origin,
        operation,
        removed,
    } = forwarded;
    let file_system = ReplicatedFileSystem::forwarded(shared, origin, removed);
    if let Operation::Read(_, file, ..) | Operation::Fetch(_, file, ..) = &operation {
        // What is read at another site is wanted there before what nobody reads.
        file_system.shared.engine.expedite(Some(*file));
    }
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
    match outcome {
        Err(_) if file_system.was_not_primary() => Answer::NotPrimary,
        outcome => Answer::Done(outcome),
    }
}

//! What arrives from other replicas, and where it goes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use control::Envelope;
use peer::{Incoming, Message, Owner, Refusal, Sender, TurnedAway};
use vfs::{Error, ReplicaSlot};

use crate::door::Door;
use crate::forward::{self, Answer, Forwarded, Operation, Value};
use crate::leavings::ClientsAsked;
use crate::overseer::ORIGIN;
use crate::shared::Shared;
use crate::wire::{self, Applied, Ask, Malformed, PieceDone};
use crate::{authority, base, contents, leavings, lineage, losses, scrub, sessions, views};

/// The owner of the endpoint; it does not keep the replica alive.
pub(crate) struct Reception(pub(crate) Weak<Shared>);

#[async_trait]
impl Owner for Reception {
    async fn receive(&self, incoming: Incoming) {
        let Some(shared) = self.0.upgrade() else {
            return;
        };
        let (from, kind) = (incoming.from.slot, incoming.message.kind);
        if let Err(error) = receive(&shared, incoming) {
            tracing::error!(peer = from.0, kind, %error, "a message of a peer makes no sense");
        }
    }

    async fn answer(&self, incoming: Incoming) -> Result<Message, Refusal> {
        let refused = |reason: &str| Refusal {
            epoch: peer::Epoch::default(),
            reason: reason.to_owned(),
        };
        let shared = self.0.upgrade().ok_or_else(|| refused("it stops"))?;
        if incoming.message.kind == wire::VIEW {
            let from = incoming.from;
            return views::answer(&shared, from, incoming.release()).await;
        }
        if incoming.message.kind == wire::CLIENTS {
            let asked: ClientsAsked = wire::decode(&incoming.message.payload)
                .map_err(|error: Malformed| refused(&error.to_string()))?;
            let absent = leavings::answer(&shared, &asked);
            return Ok(wire::payload(wire::CLIENTS, &absent));
        }
        if incoming.message.kind == wire::AUTHORITY {
            let from = incoming.from.slot;
            return authority::offered(&shared, from, &incoming.release().payload).await;
        }
        if incoming.message.kind == wire::SCRUB {
            let question = wire::decode(&incoming.release().payload)
                .map_err(|error: Malformed| refused(&error.to_string()))?;
            let answer = scrub::answer(&shared, question).await;
            return Ok(wire::payload(wire::SCRUB, &answer));
        }
        if incoming.message.kind != wire::FORWARD {
            return Err(refused("it does not know this kind of request"));
        }
        let forwarded: Forwarded = wire::decode(&incoming.message.payload)
            .map_err(|error: Malformed| refused(&error.to_string()))?;
        let from = incoming.from.slot;
        drop(incoming);
        shared.figures.served.fetch_add(1, Ordering::Relaxed);
        let answer = tokio::select! {
            answer = serve(shared.clone(), from, forwarded) => Some(answer),
            // What it waits for does not happen any more.
            () = shared.parted() => None,
        };
        drop(shared);
        match answer {
            Some(answer) => Ok(wire::payload(wire::FORWARD, &answer)),
            // It may have been carried out, so this is no refusal; the connection is closed by now.
            None => std::future::pending().await,
        }
    }

    fn introduce(&self, to: ReplicaSlot) -> Bytes {
        let shared = self.0.upgrade();
        shared.map_or_else(Bytes::new, |shared| lineage::introduce(&shared, to))
    }

    fn meet(&self, peer: Sender, introduction: &Bytes) -> Result<(), TurnedAway> {
        let shared = self.0.upgrade().ok_or_else(|| TurnedAway {
            again: true,
            reason: "it stops".to_owned(),
            evidence: Bytes::new(),
        })?;
        lineage::meet(&shared, peer, introduction)
    }

    fn turned_away(&self, by: ReplicaSlot, evidence: &Bytes) {
        if let Some(shared) = self.0.upgrade() {
            lineage::turned_away(&shared, by, evidence);
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

fn receive(shared: &Arc<Shared>, incoming: Incoming) -> Result<(), Malformed> {
    let from = incoming.from.slot;
    if !shared.is_member(from) {
        return Ok(());
    }
    let body = &incoming.message.body;
    match incoming.message.kind {
        wire::CONTROL => {
            let envelope: Envelope = wire::decode(body)?;
            shared.engine.turn(|turn| {
                turn.core
                    .handle_message(turn.now, &turn.tree, from, envelope);
                turn.stirred = true;
            });
        }
        wire::APPLIED => {
            let Applied { position } = wire::decode(body)?;
            sessions::applied(shared, from, position);
        }
        wire::PIECE_DONE => {
            let done: PieceDone = wire::decode(body)?;
            contents::done(shared, from, done);
        }
        wire::MEMBERS => sessions::learn_members(shared, from, &wire::decode(body)?),
        wire::PIECE => {
            let head = wire::decode(body)?;
            if let Some(inbox) = shared.inbox(from) {
                contents::arrived(shared, &inbox, head, incoming);
            }
        }
        wire::ASK => {
            let ask: Ask = wire::decode(body)?;
            shared.outcomes.note_said(incoming.from, ask.position);
            shared.lineage.note(from, ask.incarnation, ask.mark);
            views::asked(shared, from, ask);
        }
        wire::PROMISE => views::promised(shared, from, wire::decode(body)?),
        wire::ENTERED => views::entered(shared, from, wire::decode(body)?),
        wire::CAUGHT_UP => views::caught_up(shared, from, wire::decode(body)?),
        wire::INCOMPLETE => {
            losses::incomplete(shared, from, wire::decode(&incoming.message.payload)?)
        }
        wire::COMPLETED => {
            let completed = wire::decode(&incoming.message.payload)?;
            tokio::spawn(losses::completed(shared.clone(), from, completed));
        }
        wire::NOTED => contents::noted(shared, from, wire::decode(&incoming.message.payload)?),
        wire::RELAYED => losses::relayed(shared, wire::decode(&incoming.message.payload)?)?,
        wire::WANTED => base::wanted(shared, from, wire::decode(body)?),
        wire::REMAINDER => shared.returns.hear(from, wire::decode(body)?),
        wire::TOO_FAR => views::too_far(shared, from),
        wire::GREETING => sessions::greeted(shared, from, wire::decode(body)?),
        wire::RECORDS | wire::BASE => {
            if let Some(inbox) = shared.inbox(from) {
                inbox.take_in(incoming);
            }
        }
        kind => tracing::warn!(peer = from.0, kind, "a message of an unknown kind"),
    }
    Ok(())
}

/// Carries out what another replica forwarded.
async fn serve(shared: Arc<Shared>, from: ReplicaSlot, forwarded: Forwarded) -> Answer {
    let Forwarded { origin, operation } = forwarded;
    if shared.is_witness {
        return Answer::NotHere;
    }
    let door = Door {
        shared,
        forwarded: true,
        adopting: false,
    };
    if let Operation::Read(_, file, ..) | Operation::Fetch(_, file, ..) = &operation {
        // What is read at another site is wanted there before what nobody reads.
        door.shared.engine.hurry(Some(*file));
    }
    let outcome = match operation {
        Operation::Settle(file) => door.settle(file).await.map(|()| Value::Nothing),
        Operation::Lookup(who, directory, name) => {
            let found = door.find(&who, directory, &name);
            found.await.map(Value::Found)
        }
        Operation::Fetch(by, file, offset, count) => {
            let range = offset..offset.saturating_add(count.into());
            let read = Operation::Read(by, file, offset, count);
            door.fetch(from, file, range, read).await
        }
        operation => {
            ORIGIN
                .scope(origin, forward::perform(&door, operation))
                .await
        }
    };
    match outcome {
        Err(Error::Refused(_)) => Answer::NotHere,
        outcome => Answer::Done(outcome),
    }
}

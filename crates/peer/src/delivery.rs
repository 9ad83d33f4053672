//! From a lane's queue to the handler: in order, one after the other, requests side by side.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::connection::Arrived;
use crate::error::SendError;
use crate::flow::{Consumed, LaneState};
use crate::handler::{Incoming, MessageHandler};
use crate::message::{Lane, Message};
use crate::session::SessionState;
use crate::wire::Role;

/// Hands up what arrives on one lane until the session ends. After that it hands up what had already arrived, except
/// requests, because their replies could not be delivered.
pub(crate) async fn hand_up(
    handler: Arc<dyn MessageHandler>,
    session: Arc<SessionState>,
    lane: Arc<LaneState>,
    mut outlet: mpsc::UnboundedReceiver<Arrived>,
) {
    loop {
        let arrived = tokio::select! {
            biased;
            arrived = outlet.recv() => arrived,
            () = session.ended() => None,
        };
        let Some(arrived) = arrived else { return };
        let admitted = handler.admit_message(session.peer, arrived.message.kind);
        if let Err(refusal) = &admitted {
            if arrived.role != Role::Request {
                session.counters.refuse();
            }
            tracing::debug!(peer = session.peer.slot.0, %refusal, "refused a message");
        }
        let asker = (arrived.role == Role::Request).then(|| Asker {
            session: session.clone(),
            lane: lane.clone(),
            request: arrived.request,
            ticket: Consumed::new(&lane, Message::OVERHEAD_BYTES),
        });
        let kept = asker.as_ref().map_or(0, |_| Message::OVERHEAD_BYTES);
        let incoming = Incoming {
            from: session.peer,
            lane: lane.lane,
            consumed: Consumed::new(&lane, arrived.credit() - kept),
            message: arrived.message,
        };
        match (asker, admitted) {
            (None, Ok(())) => handler.receive(incoming).await,
            (None, Err(_)) => {}
            (Some(_), _) if session.has_ended() => {}
            (Some(asker), Ok(())) => answer(&handler, asker, incoming),
            (Some(asker), Err(refusal)) => {
                drop(incoming);
                asker.reply(Role::Refused, Message::new(0, refusal.0)).await;
            }
        }
    }
}

/// Which session and lane wait for a reply.
struct Asker {
    session: Arc<SessionState>,
    lane: Arc<LaneState>,
    request: u64,
    ticket: Consumed,
}

impl Asker {
    async fn reply(self, role: Role, mut message: Message) {
        message.body.truncate(Message::MAX_BODY_BYTES);
        let mut outgoing = self
            .session
            .prepare(self.lane.lane, role, self.request, message)
            .await;
        outgoing.ticket = Some(Arc::new(self.ticket));
        self.lane.push_reply(outgoing);
    }
}

/// Lets the handler answer on a separate task, or refuses at once when too many requests are being answered. Waiting
/// here could wait for a message behind this one.
fn answer(handler: &Arc<dyn MessageHandler>, asker: Asker, incoming: Incoming) {
    let handler = handler.clone();
    let permit = asker.session.serving.clone().try_acquire_owned();
    let choked = asker.lane.is_choked_by_replies();
    tokio::spawn(async move {
        let (role, message) = match permit {
            Ok(_permit) if !choked => match handler.answer(incoming).await {
                Ok(message) => check_reply(asker.lane.lane, message),
                Err(refusal) => (Role::Refused, Message::new(0, refusal.0)),
            },
            _ => {
                drop(incoming);
                (Role::Busy, Message::default())
            }
        };
        asker.reply(role, message).await;
    });
}

/// Replaces a reply that the lane cannot carry: such a reply would end every connection.
fn check_reply(lane: Lane, message: Message) -> (Role, Message) {
    match SendError::check_size(lane, &message) {
        Ok(()) => (Role::Reply, message),
        Err(error) => {
            tracing::error!(kind = message.kind, %error, "a reply is too large");
            (Role::Refused, Message::new(0, error.to_string()))
        }
    }
}

//! The state of each peer, and the change from one session to the next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use vfs::ReplicaSlot;

use crate::connection::Arrived;
use crate::delivery::hand_up;
use crate::endpoint::EndpointState;
use crate::error::SendError;
use crate::flow::locked;
use crate::handler::{MessageHandler, Sender};
use crate::session::{Session, SessionState};
use crate::status::{Counters, PeerStatus};
use crate::wire::Hello;

/// The name of a program is cut to this number of letters.
const PROGRAM_LETTERS_MAX: usize = 64;

/// One other replica of the set, as far as the transport knows it.
#[derive(Debug)]
pub(crate) struct PeerState {
    pub slot: ReplicaSlot,
    /// Where to dial it, tried in turn.
    pub addresses: Mutex<Vec<String>>,
    pub session: watch::Sender<Option<Arc<SessionState>>>,
    pub counters: Arc<Counters>,
    pub last_error: Mutex<Option<String>>,
    /// The name of the program that the peer runs, from its hello.
    program: Mutex<Option<String>>,
    /// The task that hands up the messages of the newest session. It ends with the session.
    deliveries: Mutex<Option<JoinHandle<()>>>,
}

/// A hello of an incarnation that a later one has replaced.
#[derive(Debug)]
pub(crate) struct OldIncarnation;

impl PeerState {
    pub(crate) fn new(slot: ReplicaSlot) -> PeerState {
        PeerState {
            slot,
            addresses: Mutex::new(Vec::new()),
            session: watch::Sender::new(None),
            counters: Arc::default(),
            last_error: Mutex::new(None),
            program: Mutex::new(None),
            deliveries: Mutex::new(None),
        }
    }

    /// Keeps the name of the program from a hello, reduced to characters that can be shown.
    pub(crate) fn note_program(&self, hello: &Hello) {
        let told = hello.program.chars();
        let told = told.filter(|letter| letter.is_ascii_graphic() || *letter == ' ');
        let told: String = told.take(PROGRAM_LETTERS_MAX).collect();
        *locked(&self.program) = Some(told).filter(|told| !told.is_empty());
    }

    pub(crate) fn current(&self) -> Option<Arc<SessionState>> {
        self.session.borrow().clone()
    }

    /// The session with this incarnation. `true` says that it begins now, and that the previous one has ended.
    pub(crate) fn session_with(
        &self,
        shared: &Arc<EndpointState>,
        sender: Sender,
        data_lanes: u32,
    ) -> Result<(Arc<SessionState>, bool), OldIncarnation> {
        // Held throughout, so that two connections of one incarnation find one session.
        let mut deliveries = locked(&self.deliveries);
        let before = self.current();
        if let Some(session) = &before {
            let known = session.peer.incarnation;
            if known == sender.incarnation && !session.has_ended() {
                return Ok((session.clone(), false));
            }
            if known >= sender.incarnation {
                return Err(OldIncarnation);
            }
            session.end();
        }
        let (session, outlets) =
            SessionState::new(sender, data_lanes, &shared.settings, self.counters.clone());
        let session = Arc::new(session);
        let handler = shared.handler.clone();
        let hand_over =
            change_session(handler, before, deliveries.take(), session.clone(), outlets);
        *deliveries = Some(tokio::spawn(hand_over));
        self.session.send_replace(Some(session.clone()));
        // A task that closes or revokes first sets its flag and then looks at the session. This function does it in the
        // opposite order.
        if shared.is_closed() || shared.is_revoked(self.slot) {
            session.end();
        }
        Ok((session, true))
    }

    /// Whether the control lane is connected.
    pub(crate) fn is_connected(&self) -> bool {
        let session = self.current().filter(|session| !session.has_ended());
        session.is_some_and(|session| session.lanes[0].is_connected())
    }

    pub(crate) fn end(&self) {
        if let Some(session) = self.current() {
            session.end();
        }
    }

    pub(crate) fn status(&self) -> PeerStatus {
        let session = self.current();
        let lanes = session.iter().flat_map(|session| session.lanes.iter());
        let mut status = PeerStatus {
            slot: self.slot,
            incarnation: session.as_ref().map(|session| session.peer.incarnation),
            lanes_connected: 0,
            lanes: 0,
            rtt: self.counters.rtt(),
            sent_bytes: self.counters.sent_bytes(),
            received_bytes: self.counters.received_bytes(),
            queued_bytes: 0,
            held_bytes: 0,
            retransmitted: 0,
            connections: self.counters.connections(),
            refused: self.counters.refused(),
            last_error: locked(&self.last_error).clone(),
            program: locked(&self.program).clone(),
        };
        for lane in lanes {
            status.lanes += 1;
            status.lanes_connected += u32::from(lane.is_connected());
            status.held_bytes += locked(&lane.inbox).held();
            let outbox = locked(&lane.outbox);
            status.queued_bytes += outbox.queued();
            status.retransmitted += outbox.retransmitted();
        }
        status
    }
}

/// Tells the handler that one session ended and the next one began, in this order. Then hands messages up until the new
/// one ends too.
async fn change_session(
    handler: Arc<dyn MessageHandler>,
    before: Option<Arc<SessionState>>,
    deliveries_before: Option<JoinHandle<()>>,
    session: Arc<SessionState>,
    outlets: Vec<mpsc::UnboundedReceiver<Arrived>>,
) {
    if let Some(deliveries) = deliveries_before {
        // A panic of the handler was reported where it happened.
        let _ = deliveries.await;
    }
    if let Some(before) = before {
        handler.session_ended(before.peer);
    }
    handler.session_began(session.peer);
    let mut lanes = JoinSet::new();
    for (lane, outlet) in session.lanes.iter().zip(outlets) {
        lanes.spawn(hand_up(
            handler.clone(),
            session.clone(),
            lane.clone(),
            outlet,
        ));
    }
    while let Some(lane) = lanes.join_next().await {
        if lane.is_err() {
            // To continue would skip the message whose handler failed.
            tracing::error!(
                peer = session.peer.slot.0,
                "a message handler failed; the session ends"
            );
            session.end();
        }
    }
}

/// The peers that have been named or have called.
pub(crate) type Peers = Mutex<BTreeMap<ReplicaSlot, Arc<PeerState>>>;

/// One other replica of the set. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Peer(pub(crate) Arc<PeerState>);

impl Peer {
    /// The session with the newest known incarnation. It may have no connection at present: messages then wait.
    ///
    /// # Errors
    /// [`SendError::NoSession`] before the first, [`SendError::Ended`] when it was ended for good.
    pub fn session(&self) -> Result<Session, SendError> {
        let session = self.0.current().ok_or(SendError::NoSession)?;
        if session.has_ended() {
            return Err(SendError::Ended(session.peer.incarnation));
        }
        Ok(Session(session))
    }

    /// Waits for the first session that has not ended.
    pub async fn ready(&self) -> Session {
        let mut sessions = self.0.session.subscribe();
        loop {
            if let Ok(session) = self.session() {
                return session;
            }
            // The sender lives in `self`, so this returns only after a change.
            let _ = sessions.changed().await;
        }
    }

    /// The status of the peer.
    #[must_use]
    pub fn status(&self) -> PeerStatus {
        self.0.status()
    }
}

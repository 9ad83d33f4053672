//! One-way messages to peers, in order, from code that cannot wait.
//!
//! Replication control says again what a lost session took with it, so a message for a peer without a
//! session is dropped, and nothing piles up for one that is away.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use peer::{Lane, Message, Peer};
use tokio::sync::mpsc;
use vfs::ReplicaSlot;

/// Letters to one peer.
struct Letterbox {
    /// A session has begun and not ended.
    in_session: Arc<AtomicBool>,
    letters: mpsc::UnboundedSender<(Lane, Message)>,
}

/// The letterboxes of all peers.
#[derive(Default)]
pub(crate) struct Post(Mutex<BTreeMap<ReplicaSlot, Letterbox>>);

impl Post {
    /// Opens the box of a peer; within a tokio runtime. Doing it again does nothing.
    pub(crate) fn open(&self, peer: Peer) {
        let mut boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        boxes.entry(peer.slot()).or_insert_with(|| {
            let (letters, letters_out) = mpsc::unbounded_channel();
            let in_session = Arc::new(AtomicBool::new(false));
            tokio::spawn(deliver(peer, in_session.clone(), letters_out));
            Letterbox {
                in_session,
                letters,
            }
        });
    }

    /// Says whether a peer has a session at present.
    pub(crate) fn set_in_session(&self, peer: ReplicaSlot, in_session: bool) {
        let boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(letterbox) = boxes.get(&peer) {
            letterbox.in_session.store(in_session, Ordering::Release);
        }
    }

    pub(crate) fn is_in_session(&self, peer: ReplicaSlot) -> bool {
        let boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        boxes
            .get(&peer)
            .is_some_and(|letterbox| letterbox.in_session.load(Ordering::Acquire))
    }

    /// Sends a message behind those sent before.
    pub(crate) fn send(&self, to: ReplicaSlot, lane: Lane, message: Message) {
        let boxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(letterbox) = boxes.get(&to) else {
            return;
        };
        if letterbox.in_session.load(Ordering::Acquire) {
            // The task ends only with the runtime.
            let _ = letterbox.letters.send((lane, message));
        }
    }
}

async fn deliver(
    peer: Peer,
    in_session: Arc<AtomicBool>,
    mut letters: mpsc::UnboundedReceiver<(Lane, Message)>,
) {
    while let Some((lane, message)) = letters.recv().await {
        if !in_session.load(Ordering::Acquire) {
            continue;
        }
        let session = peer.ready().await;
        if let Err(error) = session.send(lane, message).await {
            tracing::debug!(peer = peer.slot().0, %error, "a message was not sent");
        }
    }
}

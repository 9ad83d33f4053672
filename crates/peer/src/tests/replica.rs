//! A replica with a handler that records, for the tests beside this file.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use vfs::ReplicaSlot;

use crate::flow::locked;
use crate::set::{SetDirectory, join};
use crate::{
    Endpoint, Identity, Incarnation, Incoming, Lane, Message, MessageHandler, Peer, Refusal,
    Sender, Settings, TurnedAway,
};

/// Kinds that the recorder treats specially; it answers any other request with an echo.
pub(super) const NEVER_ANSWERED: u32 = 900;
pub(super) const REFUSED: u32 = 901;
pub(super) const TOO_LARGE: u32 = 902;
/// Beyond the kinds of numbered messages.
pub(super) const NOT_ADMITTED: u32 = 1_000_000;

/// What a handler saw.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Seen {
    Began(Sender),
    Ended(Sender),
    Message(Lane, Sender, Message),
}

/// Records everything, and can be told to hold data messages back.
#[derive(Debug)]
pub(super) struct Recorder {
    pub seen: Mutex<Vec<Seen>>,
    pub count: watch::Sender<usize>,
    /// Each data message takes one permit before it is released.
    pub data_permits: Semaphore,
    /// Peers that may not talk to it, by slot.
    pub removed: Mutex<Vec<ReplicaSlot>>,
    /// Who told it that it was removed.
    pub told_by: Mutex<Vec<ReplicaSlot>>,
}

impl Recorder {
    fn new() -> Recorder {
        Recorder {
            seen: Mutex::default(),
            count: watch::Sender::new(0),
            data_permits: Semaphore::new(1 << 30),
            removed: Mutex::default(),
            told_by: Mutex::default(),
        }
    }

    fn note(&self, seen: Seen) {
        locked(&self.seen).push(seen);
        self.count.send_modify(|count| *count += 1);
    }

    /// The messages seen on one kind of lane, as the number in their `kind`.
    pub(super) fn kinds(&self, lane: Lane) -> Vec<u32> {
        let seen = locked(&self.seen);
        let kind = |seen: &Seen| match seen {
            Seen::Message(by, _, message) if *by == lane => Some(message.kind),
            _ => None,
        };
        seen.iter().filter_map(kind).collect()
    }

    /// Waits until the recorder has seen enough for `fact` to hold.
    pub(super) async fn until(&self, fact: impl Fn(&[Seen]) -> bool) {
        let mut count = self.count.subscribe();
        while !fact(&locked(&self.seen)) {
            count.changed().await.expect("the recorder lives");
        }
    }

    pub(super) async fn until_messages(&self, wanted: usize) {
        let is_message = |seen: &&Seen| matches!(seen, Seen::Message(..));
        self.until(|seen| seen.iter().filter(is_message).count() >= wanted)
            .await;
    }
}

#[async_trait]
impl MessageHandler for Recorder {
    fn admit_session(&self, peer: Sender) -> Result<(), TurnedAway> {
        if locked(&self.removed).contains(&peer.slot) {
            return Err(TurnedAway {
                again: false,
                reason: "it was removed from the set".to_owned(),
                evidence: Bytes::from_static(b"removed"),
            });
        }
        Ok(())
    }

    fn admit_message(&self, _: Sender, kind: u32) -> Result<(), Refusal> {
        match kind {
            NOT_ADMITTED => Err(Refusal("not of this kind".to_owned())),
            _ => Ok(()),
        }
    }

    fn turned_away(&self, by: ReplicaSlot, evidence: &Bytes) {
        if evidence == "removed" {
            locked(&self.told_by).push(by);
        }
    }

    async fn receive(&self, incoming: Incoming) {
        let (lane, from) = (incoming.lane, incoming.from);
        if lane == Lane::Data {
            let permit = self.data_permits.acquire().await;
            permit.expect("never closed").forget();
        }
        self.note(Seen::Message(lane, from, incoming.release()));
    }

    async fn answer(&self, incoming: Incoming) -> Result<Message, Refusal> {
        match incoming.message.kind {
            NEVER_ANSWERED => std::future::pending().await,
            REFUSED => Err(Refusal("not today".to_owned())),
            TOO_LARGE => Ok(Message::new(0, vec![0; Message::MAX_BODY_BYTES + 1])),
            _ => Ok(incoming.release()),
        }
    }

    fn session_began(&self, peer: Sender) {
        self.note(Seen::Began(peer));
    }

    fn session_ended(&self, peer: Sender) {
        self.note(Seen::Ended(peer));
    }
}

/// Settings with pauses short enough for tests.
pub(super) fn quick() -> Settings {
    Settings {
        backoff_min: Duration::from_millis(4),
        backoff_max: Duration::from_millis(20),
        ..Settings::default()
    }
}

/// A running replica.
pub(super) struct Replica {
    pub endpoint: Endpoint,
    pub recorder: Arc<Recorder>,
    pub address: String,
}

impl Replica {
    pub(super) async fn start(
        identity: &Identity,
        incarnation: u64,
        settings: Settings,
    ) -> Replica {
        Replica::start_at("127.0.0.1:0", identity, incarnation, settings, None).await
    }

    pub(super) async fn start_at(
        address: &str,
        identity: &Identity,
        incarnation: u64,
        settings: Settings,
        admitting: Option<SetDirectory>,
    ) -> Replica {
        let listener = loop {
            // An earlier replica may still be closing its listener.
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let address = listener.local_addr().expect("bound").to_string();
        let recorder = Arc::new(Recorder::new());
        let incarnation = Incarnation(incarnation);
        let endpoint = Endpoint::start(
            identity,
            incarnation,
            settings,
            recorder.clone(),
            listener,
            admitting,
        )
        .expect("the certificates of a test can be used");
        Replica {
            endpoint,
            recorder,
            address,
        }
    }

    /// Names a peer that listens at `address`.
    pub(super) fn connect(&self, slot: u16, address: &str) -> Peer {
        self.endpoint
            .connect(ReplicaSlot(slot), vec![address.to_owned()])
    }

    /// The peer, once it has called.
    pub(super) async fn called_by(&self, slot: u16) -> Peer {
        loop {
            if let Some(peer) = self.endpoint.peer(ReplicaSlot(slot)) {
                peer.ready().await;
                return peer;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// A set with as many members as wanted, and where their files are.
pub(super) struct TestSet {
    pub root: TempDir,
    pub identities: Vec<Identity>,
}

impl TestSet {
    pub(super) fn directory(&self, slot: u16) -> SetDirectory {
        SetDirectory::new(self.root.path().join(format!("replica-{slot}")))
    }

    /// The identity of the replica in this slot, from 1.
    pub(super) fn identity(&self, slot: u16) -> &Identity {
        &self.identities[usize::from(slot) - 1]
    }

    pub(super) async fn of(members: u16) -> TestSet {
        let mut set = TestSet {
            root: TempDir::new().expect("a directory"),
            identities: Vec::new(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let first = set.directory(1);
        let now = SystemTime::now();
        first.create_for(b"", vec![address], now).expect("creates");
        set.identities.push(first.identity().expect("has one"));
        let recorder = Arc::new(Recorder::new());
        first.note_current();
        let admitting = Some(first.clone());
        let endpoint = Endpoint::start(
            set.identity(1),
            Incarnation(1),
            quick(),
            recorder,
            listener,
            admitting,
        )
        .expect("starts");
        for slot in 2..=members {
            let token = first.invite(Duration::from_secs(60), now).expect("invites");
            let directory = set.directory(slot);
            join(&token, &directory, Vec::new(), now)
                .await
                .expect("joins");
            set.identities.push(directory.identity().expect("has one"));
        }
        drop(endpoint);
        set
    }
}

/// Waits until the peer's last failure to connect says this.
pub(super) async fn until_error(peer: &Peer, words: &str) {
    loop {
        if peer
            .status()
            .last_error
            .is_some_and(|error| error.contains(words))
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

//! What the parts of a replica share: the copy, the core, the connections, and who is in the set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use peer::set::{MemberList, SetDirectory};
use peer::{Endpoint, Lane, RequestError};
use store::Store;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use vfs::{Error, ObjectId, ReplicaSlot, Result};

use crate::arrivals::Inbox;
use crate::base::Held;
use crate::forward::{Answer, Forwarded, Operation, Value};
use crate::opens::Opens;
use crate::post::Post;
use crate::sessions::Conversations;
use crate::settings::Settings;
use crate::streams;
use crate::turn::Engine;
use crate::wire::{self, Origin};

/// A forwarded operation that has not been answered by then is given up; its outcome is unknown.
const FORWARD_LIMIT: Duration = Duration::from_secs(600);

/// Counts for people and metrics.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) forwarded: AtomicU64,
    pub(crate) served: AtomicU64,
    pub(crate) record_bytes: AtomicU64,
    pub(crate) content_bytes: AtomicU64,
    /// Files that a crash may have damaged and that have to get a new version.
    pub(crate) recovering: AtomicU64,
}

pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Arc<Store>,
    pub(crate) settings: Settings,
    pub(crate) incarnation: u64,
    pub(crate) set: SetDirectory,
    pub(crate) endpoint: OnceLock<Endpoint>,
    pub(crate) post: Post,
    pub(crate) opens: Opens,
    pub(crate) inboxes: Mutex<BTreeMap<ReplicaSlot, Arc<Inbox>>>,
    pub(crate) conversations: Conversations,
    membership: RwLock<Membership>,
    pub(crate) figures: Figures,
    /// How much of the tree is here; clients are answered when it is everything.
    pub(crate) held: watch::Sender<Held>,
    requests: AtomicU64,
    lock_listeners: RwLock<Vec<LockListener>>,
    /// What applies the streams of others; ends with the replica.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// What [`Shared::new`] is made of.
pub(crate) struct Parts {
    pub(crate) engine: Arc<Engine>,
    pub(crate) settings: Settings,
    pub(crate) incarnation: u64,
    pub(crate) set: SetDirectory,
    pub(crate) held: Held,
}

/// Told of files whose locks have changed at another site.
type LockListener = Arc<dyn Fn(ObjectId) + Send + Sync>;

/// Who is in the set.
#[derive(Default)]
struct Membership {
    current: BTreeSet<ReplicaSlot>,
    list: MemberList,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Shared {
        Shared {
            store: parts.engine.store.clone(),
            engine: parts.engine,
            settings: parts.settings,
            incarnation: parts.incarnation,
            set: parts.set,
            endpoint: OnceLock::new(),
            post: Post::default(),
            opens: Opens::default(),
            inboxes: Mutex::default(),
            conversations: Conversations::default(),
            membership: RwLock::default(),
            figures: Figures::default(),
            held: watch::Sender::new(parts.held),
            requests: AtomicU64::new(0),
            lock_listeners: RwLock::default(),
            tasks: Mutex::default(),
        }
    }

    pub(crate) fn slot(&self) -> ReplicaSlot {
        self.engine.slot
    }

    fn membership(&self) -> RwLockReadGuard<'_, Membership> {
        self.membership
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a replica belongs to the set.
    pub(crate) fn is_member(&self, slot: ReplicaSlot) -> bool {
        self.membership().current.contains(&slot)
    }

    /// The members as far as this replica knows.
    pub(crate) fn member_list(&self) -> MemberList {
        self.membership().list.clone()
    }

    pub(crate) fn set_members(&self, current: BTreeSet<ReplicaSlot>, list: MemberList) {
        let membership = self.membership.write();
        let mut membership = membership.unwrap_or_else(PoisonError::into_inner);
        *membership = Membership { current, list };
    }

    /// How many replicas the set has.
    pub(crate) fn set_size(&self) -> usize {
        self.membership().current.len()
    }

    /// Whether it is up to this replica to supply new ones with the tree.
    pub(crate) fn supplies_base(&self) -> bool {
        let first = self.membership().current.first().copied();
        first == Some(self.slot()) && self.is_whole()
    }

    /// Whether everything of the tree is here.
    pub(crate) fn is_whole(&self) -> bool {
        *self.held.borrow() == Held::Everything
    }

    /// Keeps connections to a peer, and a place for what it sends. Again: learns its addresses.
    pub(crate) fn meet(self: &Arc<Self>, slot: ReplicaSlot, addresses: Vec<String>) {
        if !self.inboxes().contains_key(&slot) {
            let applied = self.store.applied(slot).unwrap_or_else(|error| {
                tracing::error!(%error, "the position in a stream cannot be read");
                0
            });
            let (inbox, queue) = Inbox::new(slot, applied);
            let inbox = Arc::new(inbox);
            self.inboxes().insert(slot, inbox.clone());
            let applying = tokio::spawn(streams::apply(self.clone(), inbox, queue));
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.push(applying);
        }
        if let Some(endpoint) = self.endpoint.get() {
            let peer = endpoint.connect(slot, addresses);
            self.post.open(peer);
        }
    }

    /// Has somebody told of files whose locks have changed elsewhere.
    pub(crate) fn listen_for_locks(&self, listener: LockListener) {
        let listeners = self.lock_listeners.write();
        listeners
            .unwrap_or_else(PoisonError::into_inner)
            .push(listener);
    }

    /// The locks of a file have changed for somebody of another site.
    pub(crate) fn tell_of_locks(&self, file: ObjectId) {
        let listeners = self.lock_listeners.read();
        for listener in &*listeners.unwrap_or_else(PoisonError::into_inner) {
            listener(file);
        }
    }

    /// Ends all conversations.
    pub(crate) fn part(&self) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.drain(..).for_each(|task| task.abort());
        drop(tasks);
        self.inboxes().clear();
        self.conversations.end_all();
        if let Some(endpoint) = self.endpoint.get() {
            endpoint.close();
        }
    }

    /// Returns when every member that is in contact has everything that was made here.
    pub(crate) async fn everything_everywhere(&self) {
        self.engine.hurry(None);
        self.engine
            .until(|turn| {
                let ledger = &turn.ledger;
                let mut peers = ledger.unshipped.peers();
                let done = peers.all(|(slot, backlog)| {
                    let applied = ledger.applied.get(&slot).copied().unwrap_or(0);
                    !self.post.is_in_session(slot)
                        || (backlog.files() == 0 && applied >= ledger.last_position)
                });
                done.then_some(())
            })
            .await;
    }

    pub(crate) fn inbox(&self, from: ReplicaSlot) -> Option<Arc<Inbox>> {
        self.inboxes().get(&from).cloned()
    }

    pub(crate) fn inboxes(&self) -> MutexGuard<'_, BTreeMap<ReplicaSlot, Arc<Inbox>>> {
        self.inboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has another replica carry an operation out. `None`: it is not primary, nothing has happened.
    ///
    /// # Errors
    /// The operation's own, and [`Error::Delay`] when the replica cannot be asked, or did not answer.
    pub(crate) async fn forward(
        &self,
        to: ReplicaSlot,
        operation: Operation,
        deadline: Instant,
    ) -> Result<Option<Value>> {
        let peer = self.endpoint.get().and_then(|endpoint| endpoint.peer(to));
        let peer = peer.ok_or(Error::Delay)?;
        let session = tokio::time::timeout_at(deadline, peer.ready()).await;
        let session = session.map_err(|_| Error::Delay)?;
        let lane = match operation.is_bulky() {
            true => Lane::Data,
            false => Lane::Control,
        };
        let forwarded = Forwarded {
            origin: Origin {
                slot: self.slot().0,
                incarnation: self.incarnation,
                number: self.requests.fetch_add(1, Ordering::Relaxed),
            },
            operation,
        };
        self.figures.forwarded.fetch_add(1, Ordering::Relaxed);
        let message = wire::payload(wire::FORWARD, &forwarded);
        let limit = Instant::now() + FORWARD_LIMIT;
        match session.request(lane, message, limit).await {
            Ok(reply) => match wire::decode::<Answer>(&reply.payload) {
                Ok(Answer::Done(outcome)) => outcome.map(Some),
                Ok(Answer::NotHere) => Ok(None),
                Err(error) => Err(Error::Io(error.to_string())),
            },
            Err(RequestError::Busy) => Ok(None),
            Err(error) => {
                tracing::debug!(peer = to.0, %error, "a forwarded operation was not answered");
                Err(Error::Delay)
            }
        }
    }
}

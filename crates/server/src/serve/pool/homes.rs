//! Joined metadata servers that are homes of directories, as seen from the first metadata server, which asks them.
//!
//! What must never enter: what lives where.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use metadata_server::{
    Asked, Connection, DataServers, Holders, Home, Homes, News, PoolTree, Question, RemoteTree,
    Reply,
};
use nfs4_server::{DeviceId, LayoutEvent, LayoutHolder};
use peer::{Endpoint, Peer, Sender, Session};
use store::Store;
use vfs::{Error, FileSystem, FsId, ObjectId, ReplicaSlot};

use super::asking::{self, PAUSE, UnderWay};
use super::clock;
use super::direct;
use super::metadata_server::MetadataServer;

/// How long a client waits for a silent home before it is told to retry: shorter than the wait of other servers' clients that ask through
/// this server.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often operations over several homes are checked.
const LOOK: Duration = Duration::from_secs(1);

type Listener = Arc<dyn Fn(LayoutEvent) + Send + Sync>;

/// The homes besides that of the first metadata server.
pub(super) struct JoinedHomes {
    /// The homes in the book.
    known: BTreeSet<ReplicaSlot>,
    /// Set when the tree is shown.
    shown: OnceLock<(Arc<Store>, Weak<PoolTree>)>,
    /// Set when other servers can connect.
    endpoint: OnceLock<Weak<Endpoint>>,
    home: OnceLock<Weak<Home>>,
    server: OnceLock<Weak<MetadataServer>>,
    trees: Mutex<BTreeMap<ReplicaSlot, Arc<RemoteTree>>>,
    /// Where bytes of their files are read and written, from this size on.
    data_servers: (Arc<dyn DataServers>, u64),
    /// Called with events of layouts of files that live there.
    listeners: Mutex<Vec<Listener>>,
    this: Weak<JoinedHomes>,
}

/// The connection to one of them.
struct ToJoined {
    homes: Weak<JoinedHomes>,
    slot: ReplicaSlot,
    tree: FsId,
    /// Questions to it that are under way.
    under_way: UnderWay,
}

impl JoinedHomes {
    pub(super) fn new(known: BTreeSet<ReplicaSlot>, direct_size: u64) -> Arc<JoinedHomes> {
        Arc::new_cyclic(|this| JoinedHomes {
            known,
            shown: OnceLock::new(),
            endpoint: OnceLock::new(),
            home: OnceLock::new(),
            server: OnceLock::new(),
            trees: Mutex::default(),
            data_servers: (direct::data_servers(), direct_size),
            listeners: Mutex::default(),
            this: this.clone(),
        })
    }

    fn trees(&self) -> MutexGuard<'_, BTreeMap<ReplicaSlot, Arc<RemoteTree>>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tree of the pool, with `own` as the part that lives here.
    pub(super) fn show(
        self: &Arc<Self>,
        own: Arc<dyn FileSystem>,
        store: &Arc<Store>,
        holders: Arc<Holders>,
    ) -> Arc<PoolTree> {
        let known = self.known.iter();
        let known: Vec<_> = known
            .map(|slot| (*slot, self.tree_of(*slot, store)))
            .collect();
        let tree = PoolTree::at_first((own, store.clone()), holders, known, self.clone());
        // It is shown once.
        let _ = self.shown.set((store.clone(), Arc::downgrade(&tree)));
        tokio::spawn(settle(Arc::downgrade(&tree)));
        tree
    }

    /// The tree, once it is shown.
    pub(super) fn shown(&self) -> Option<Arc<PoolTree>> {
        self.shown.get()?.1.upgrade()
    }

    /// Other servers can connect from now on, and this home answers them.
    pub(super) fn can_call(&self, endpoint: &Arc<Endpoint>, home: &Arc<Home>) {
        // They are set once.
        let _ = self.home.set(Arc::downgrade(home));
        let _ = self.endpoint.set(Arc::downgrade(endpoint));
        let slots: Vec<ReplicaSlot> = self.trees().keys().copied().collect();
        for slot in slots {
            // It may have connected before this.
            self.meet_present(slot);
        }
    }

    /// Takes up what an earlier run has left. Call it before clients are served.
    ///
    /// # Errors
    /// The errors of reading.
    pub(super) async fn take_up(&self) -> vfs::Result<()> {
        match self.shown() {
            Some(tree) => tree.take_up().await,
            None => Ok(()),
        }
    }

    /// Has `server` note new homes.
    pub(super) fn are_noted_by(&self, server: &Arc<MetadataServer>) {
        // It is set once.
        let _ = self.server.set(Arc::downgrade(server));
    }

    fn tree_of(&self, slot: ReplicaSlot, store: &Arc<Store>) -> Arc<RemoteTree> {
        let mut trees = self.trees();
        let known = trees.entry(slot).or_insert_with(|| {
            let way = ToJoined {
                homes: self.this.clone(),
                slot,
                tree: store.tree().fs_id,
                under_way: UnderWay::new(),
            };
            let (lease, now) = clock::of_given_leases();
            let tree = RemoteTree::new(store.clone(), (Arc::new(way), slot), now, lease);
            let (servers, from) = self.data_servers.clone();
            tree.use_directly(servers, from);
            tokio::spawn(asking::keep_lease(Arc::downgrade(&tree)));
            let homes = self.this.clone();
            tree.on_loss(Arc::new(move || {
                let home = homes.upgrade();
                let home = home.and_then(|homes| homes.home.get().and_then(Weak::upgrade));
                Box::pin(async move {
                    if let Some(home) = home {
                        home.give_up_others(slot).await;
                    }
                })
            }));
            tree
        });
        known.clone()
    }

    fn peer(&self, slot: ReplicaSlot) -> Option<Peer> {
        self.endpoint.get()?.upgrade()?.peer(slot)
    }

    /// The session with a connected server.
    pub(super) fn session(&self, slot: ReplicaSlot) -> Option<Session> {
        self.peer(slot).and_then(|peer| peer.session().ok())
    }

    fn meet_present(&self, slot: ReplicaSlot) {
        if let Some(session) = self.session(slot) {
            self.session_began(session.peer());
        }
    }

    /// A joined metadata server has connected.
    pub(super) fn session_began(&self, peer: Sender) {
        let tree = self.trees().get(&peer.slot).cloned();
        if let Some(tree) = tree {
            asking::meet(&tree, peer);
            tokio::spawn(hand_over(self.this.clone(), peer));
        }
    }

    /// A home invalidates copies.
    pub(super) fn hear(&self, from: ReplicaSlot, news: &News) {
        let tree = self.trees().get(&from).cloned();
        if let Some(tree) = tree {
            tree.hear(news);
        }
    }

    /// The home of a file. `None` if the file lives at the first server.
    pub(super) fn home_of(&self, file: ObjectId) -> Option<Arc<RemoteTree>> {
        self.trees().get(&file.slot()).cloned()
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `listener` called with events of their layouts.
    pub(super) fn on_layout_event(&self, listener: Listener) {
        self.listeners().push(listener);
    }

    /// A home reports an event of a layout.
    pub(super) fn hear_of_layouts(&self, from: ReplicaSlot, event: metadata_server::LayoutEvent) {
        let tree = self.trees().get(&from).cloned();
        if tree.is_none_or(|tree| tree.takes_event(event)) {
            return;
        }
        let listeners = self.listeners().clone();
        let event = event_here(event);
        listeners.iter().for_each(|listener| listener(event));
    }

    /// A home has left the pool.
    pub(super) fn has_left(&self, slot: ReplicaSlot) {
        self.trees().remove(&slot);
        if let Some(tree) = self.shown() {
            tree.has_left(slot);
        }
    }
}

#[async_trait]
impl Homes for JoinedHomes {
    async fn note(&self, home: ReplicaSlot) -> vfs::Result<Arc<RemoteTree>> {
        let server = self.server.get().and_then(Weak::upgrade);
        let server = server.ok_or(Error::Delay)?;
        let (store, _) = self.shown.get().ok_or(Error::Delay)?;
        let noted = server.keep_home(home).await;
        noted.map_err(|error| Error::Io(error.to_string()))?;
        // From now on it is asked before a data server is removed. What it was told earlier may be outdated.
        server.tell(home).await.ok_or(Error::Delay)?;
        tracing::info!(
            number = home.0,
            "a metadata server that has joined is the home of directories from now on"
        );
        Ok(self.tree_of(home, store))
    }

    fn begin(&self, home: ReplicaSlot) {
        self.meet_present(home);
    }
}

#[async_trait]
impl Connection for ToJoined {
    async fn ask(
        &self,
        question: Question,
        keeps: Option<u64>,
        clients: u64,
    ) -> vfs::Result<Reply> {
        let asked = Asked {
            tree: Some(self.tree),
            keeps,
            clients,
            question,
        };
        let peer = self.homes.upgrade().and_then(|homes| homes.peer(self.slot));
        let peer = peer.ok_or(Error::Delay)?;
        asking::ask((&peer, &self.under_way), asked, PATIENCE).await
    }
}

/// Converts a home's layout event to the type of the NFS service.
pub(super) fn event_here(event: metadata_server::LayoutEvent) -> LayoutEvent {
    match event {
        metadata_server::LayoutEvent::Recall(holder) => LayoutEvent::Recall(LayoutHolder(holder)),
        metadata_server::LayoutEvent::DeviceGone(device) => {
            LayoutEvent::DeviceGone(DeviceId(device))
        }
    }
}

/// Settles operations over several homes regularly.
async fn settle(tree: Weak<PoolTree>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(tree) = tree.upgrade() else { return };
        tree.settle_over_homes().await;
    }
}

/// Reports to a run of a home what clients have open there, until it has heard it or ends.
async fn hand_over(homes: Weak<JoinedHomes>, to: Sender) {
    loop {
        let Some(homes) = homes.upgrade() else { return };
        let session = homes.peer(to.slot).and_then(|peer| peer.session().ok());
        if session.is_none_or(|session| session.peer() != to) {
            return;
        }
        let Some(tree) = homes.trees().get(&to.slot).cloned() else {
            return;
        };
        if tree.hand_over().await.is_ok() {
            return;
        }
        drop((tree, homes));
        tokio::time::sleep(PAUSE).await;
    }
}

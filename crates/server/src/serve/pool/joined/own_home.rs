//! The home of what a joined metadata server has made: what it shows of it, and to whom it answers.
//!
//! What must never enter: what is done to directories.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use metadata_server::{
    Asked, Asker, Holders, Home, Memory, News, PoolTree, RemoteTree, Reply, ToHolders,
};
use peer::{Lane, Sender};
use pool::LeaseSettings;
use store::Store;
use tokio::sync::watch;
use tokio::time::Instant;
use vfs::{Error, ObjectId, ReplicaSlot};

use super::super::asking::PAUSE;
use super::super::{BOOK, clock, connection};
use super::ToHome;
use crate::pools::{Book, PoolPlace};
use crate::serve::ServeError;

/// So long the first server may take to drop copies before it is told again.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked for what the first server knows and this one does not, and whether that is lost.
const LOOK: Duration = Duration::from_secs(1);

/// The home, once there is one.
pub(super) struct OwnHome(watch::Sender<Option<Arc<Home>>>);

/// Where it is kept that what clients of the first server held was given up.
struct InOwnBook(PathBuf);

/// The way to the first server, which may have copies.
struct ToFirst(Weak<ToHome>);

pub(super) fn asker(from: Sender) -> Asker {
    Asker {
        server: from.slot,
        run: from.incarnation.0,
    }
}

impl Default for OwnHome {
    fn default() -> OwnHome {
        OwnHome(watch::Sender::new(None))
    }
}

impl OwnHome {
    /// Answers the first server, once there is something to show.
    pub(super) async fn answer(&self, from: Sender, asked: Asked) -> Option<Reply> {
        let mut begun = self.0.subscribe();
        // The sender lives as long as this.
        let home = begun.wait_for(Option::is_some).await.ok()?.clone()?;
        Some(home.answer(asker(from), asked).await)
    }

    /// A run of the first server is there.
    pub(super) fn session_began(&self, peer: Sender) {
        let home = self.0.borrow().clone();
        if let Some(home) = home {
            home.meet(asker(peer));
        }
    }

    /// Begins to be a home.
    pub(super) async fn begin(
        &self,
        (place, way): (&PoolPlace, &Arc<ToHome>),
        (run, client_lease): (u32, Duration),
        (store, first): (&Arc<Store>, Arc<RemoteTree>),
        makes_directories: bool,
    ) -> Result<Arc<PoolTree>, ServeError> {
        let book_path = place.directory.path().join(BOOK);
        let book = Book::read(&book_path).map_err(ServeError::Book)?;
        let wrong = |source: Error| ServeError::Home(source);
        let has_directories = metadata_server::has_directories(store).await;
        // Otherwise nobody can have anything of it.
        let others = has_directories.map_err(wrong)?.then_some(place.keeper);
        let leases = (LeaseSettings::default(), client_lease);
        let now = clock::of_leases();
        let holders = Holders::new(run.into(), leases, now, others, &book.given_up);
        holders.tell_by(Arc::new(ToFirst(Arc::downgrade(way))));
        store.on_changes(holders.clone());
        let own = holders.file_system(store.clone());
        let tree = PoolTree::at_joined(
            (own, store.clone()),
            holders.clone(),
            first,
            makes_directories,
        );
        tree.take_up().await.map_err(wrong)?;
        let memory: Arc<dyn Memory> = Arc::new(InOwnBook(book_path));
        let of = tree.clone();
        let changes_elsewhere = Arc::new(move |id: ObjectId| of.is_elsewhere(id));
        let home = Home::new(
            store.tree(),
            tree.clone(),
            holders,
            changes_elsewhere,
            (memory, book.given_up),
        );
        let home = Arc::new(home.with_pool_tree(tree.clone()));
        self.0.send_replace(Some(home.clone()));
        tokio::spawn(settle(Arc::downgrade(&tree)));
        tokio::spawn(give_up_lost(Arc::downgrade(&home)));
        Ok(tree)
    }

    /// Nobody is answered any more.
    pub(super) fn end(&self) {
        self.0.send_replace(None);
    }
}

async fn settle(tree: Weak<PoolTree>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(tree) = tree.upgrade() else { return };
        // What is not known yet is asked for again.
        let _ = tree.settle_unsettled().await;
        tree.settle_sealed().await;
        tree.settle_over_homes().await;
    }
}

async fn give_up_lost(home: Weak<Home>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(home) = home.upgrade() else { return };
        home.give_up_lost().await;
    }
}

#[async_trait]
impl Memory for InOwnBook {
    async fn keep(&self, given_up: BTreeSet<ReplicaSlot>) -> vfs::Result<()> {
        let path = self.0.clone();
        let written = tokio::task::spawn_blocking(move || {
            let book = Book {
                given_up,
                ..Book::read(&path)?
            };
            book.write(&path)
        });
        let written = written.await;
        let written = written.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        written.map_err(|error| Error::Io(error.to_string()))
    }
}

#[async_trait]
impl ToHolders for ToFirst {
    async fn tell(&self, to: Asker, news: News) -> bool {
        let way = self.0.upgrade();
        let session = way.and_then(|way| way.peer.get()?.session().ok());
        let Some(session) = session.filter(|session| asker(session.peer()) == to) else {
            return false;
        };
        let (message, patience) = (connection::encode_news(&news), Instant::now() + PATIENCE);
        let heard = session.request(Lane::Control, message, patience).await;
        if !heard.is_ok_and(|answer| connection::is_heard(&answer)) {
            tokio::time::sleep(PAUSE).await;
            return false;
        }
        true
    }
}

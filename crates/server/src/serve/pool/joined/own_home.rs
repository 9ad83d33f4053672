//! The home of the objects that a joined metadata server has made: how they are shown, and which server it answers.
//!
//! What must never enter: operations on directories.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use metadata_server::{
    Asked, Asker, Holders, Home, LayoutEvent, Memory, News, PoolTree, RemoteTree, Reply, ToHolders,
};
use nfs4_server::Layouts;
use peer::{Lane, Sender};
use pool::LeaseSettings;
use store::Store;
use striping::Striped;
use tokio::sync::watch;
use tokio::time::Instant;
use vfs::{FileSystem, ObjectId};

use super::super::asking::PAUSE;
use super::super::layouts::GivenBehindCopies;
use super::super::{clock, connection};
use super::ToHome;
use super::own_book::OwnBook;
use crate::pools::PoolPlace;
use crate::serve::ServeError;

/// How long the first server may take to drop copies before it is told again.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often open outcomes are asked from the first server, and how often its loss is checked.
const LOOK: Duration = Duration::from_secs(1);

/// The home, once there is one.
pub(super) struct OwnHome(watch::Sender<Option<Arc<Home>>>);

/// What the home starts with.
pub(super) struct Beginning {
    pub(super) makes_directories: bool,
    /// Some directories live here already.
    pub(super) has_directories: bool,
    /// The contents of files, if these are striped.
    pub(super) striped: Option<Arc<Striped>>,
    pub(super) book: Arc<OwnBook>,
}

/// The connection to the first server, which may have copies.
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
    /// Answers the first server, once there is a tree to show.
    pub(super) async fn answer(&self, from: Sender, asked: Asked) -> Option<Reply> {
        let mut begun = self.0.subscribe();
        // The sender lives as long as `self`.
        let home = begun.wait_for(Option::is_some).await.ok()?.clone()?;
        Some(home.answer(asker(from), asked).await)
    }

    /// A run of the first server has connected.
    pub(super) fn session_began(&self, peer: Sender) {
        let home = self.0.borrow().clone();
        if let Some(home) = home {
            home.meet(asker(peer));
        }
    }

    /// Starts the home.
    pub(super) async fn begin(
        &self,
        (place, way): (&PoolPlace, &Arc<ToHome>),
        (run, client_lease): (u32, Duration),
        (store, first): (&Arc<Store>, Arc<RemoteTree>),
        Beginning {
            makes_directories,
            has_directories,
            striped,
            book,
        }: Beginning,
    ) -> Result<(Arc<PoolTree>, Arc<Holders>), ServeError> {
        let known = book.read().map_err(ServeError::Book)?;
        // Otherwise no server can hold anything of it.
        let others = has_directories.then_some(place.keeper);
        let leases = (LeaseSettings::default(), client_lease);
        let now = clock::of_leases();
        let holders = Holders::new(run.into(), leases, now, others, &known.given_up);
        holders.tell_by(Arc::new(ToFirst(Arc::downgrade(way))));
        store.on_changes(holders.clone());
        let below: Arc<dyn FileSystem> = match &striped {
            Some(striped) => striped.file_system(store.clone()),
            None => store.clone(),
        };
        let own = holders.file_system(below);
        let tree = PoolTree::at_joined(
            (own, store.clone()),
            holders.clone(),
            first,
            makes_directories,
        );
        tree.take_up().await.map_err(ServeError::Home)?;
        let (of, files) = (tree.clone(), striped.clone());
        let changes_elsewhere = Arc::new(move |id: ObjectId| {
            let is_written = |striped: &Arc<Striped>| striped.is_written_past_home(id);
            of.is_elsewhere(id) || files.as_ref().is_some_and(is_written)
        });
        let home = Home::new(
            store.tree(),
            tree.clone(),
            holders.clone(),
            changes_elsewhere,
            (book as Arc<dyn Memory>, known.given_up),
        );
        let home = home.with_pool_tree(tree.clone());
        let home = match &striped {
            Some(striped) => home.with_layouts(Arc::new(GivenBehindCopies {
                striped: striped.clone(),
                holders: holders.clone(),
            })),
            None => home,
        };
        let home = Arc::new(home);
        if let Some(striped) = &striped {
            striped.on_event(tells_of_layouts(&home, way));
        }
        self.0.send_replace(Some(home.clone()));
        tokio::spawn(settle(Arc::downgrade(&tree)));
        tokio::spawn(give_up_lost(Arc::downgrade(&home)));
        Ok((tree, holders))
    }

    /// No question is answered any more.
    pub(super) fn end(&self) {
        self.0.send_replace(None);
    }
}

/// Passes recalls of layouts on to the first server, for its clients and for those of servers behind it. The first server itself handles
/// devices.
fn tells_of_layouts(
    home: &Arc<Home>,
    way: &Arc<ToHome>,
) -> Arc<dyn Fn(nfs4_server::LayoutEvent) + Send + Sync> {
    let (home, way) = (Arc::downgrade(home), Arc::downgrade(way));
    Arc::new(move |event| {
        let nfs4_server::LayoutEvent::Recall(holder) = event else {
            return;
        };
        let home = home.upgrade();
        let Some((at, there)) = home.and_then(|home| home.holder_elsewhere(holder.0)) else {
            return;
        };
        let session = way.upgrade().and_then(|way| way.peer.get()?.session().ok());
        if let Some(session) = session.filter(|session| asker(session.peer()) == at) {
            // It is repeated.
            let recall = connection::encode_layout_event(&LayoutEvent::Recall(there));
            let _ = session.try_send(Lane::Control, recall);
        }
    })
}

async fn settle(tree: Weak<PoolTree>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(tree) = tree.upgrade() else { return };
        // Unknown outcomes are asked for again.
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

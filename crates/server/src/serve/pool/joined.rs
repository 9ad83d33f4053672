//! A joined metadata server: it serves objects of the first server by asking that server, which also makes the clients' changes, and serves
//! its own objects.
//!
//! What must never enter: what clients may do there.

mod own_book;
mod own_files;
mod own_home;

use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use metadata_server::{Answer, Asked, Connection, Question, RemoteTree, Reply};
use nfs4_server::LayoutProperties;
use peer::{
    Endpoint, Incarnation, Incoming, Lane, Message, MessageHandler, Peer, Refusal, Sender,
    TurnedAway,
};
use store::{Elsewhere, Store, TreeIdentity};
use tokio::time::timeout;
use vfs::{Error, FsId, ReplicaSlot};

use self::own_book::OwnBook;
use self::own_files::OwnFiles;
use self::own_home::{Beginning, OwnHome};
use super::asking::{self, PAUSE, UnderWay};
use super::layouts::{GivenBehindCopies, GivenByHome};
use super::{BOOK, Shown};
use super::{clock, connection, direct};
use crate::configuration::PoolConfiguration;
use crate::data_directory::{DataDirectory, MemberOf};
use crate::pools::{self, PoolPlace};
use crate::serve::ServeError;
use crate::status::{CopiesStatus, PoolServerStatus, PoolStatus};

/// How long a client waits for a silent first metadata server before it is told to retry.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same at the very first start, when this server must learn which tree it serves.
const FIRST_PATIENCE: Duration = Duration::from_secs(30);

/// A running joined metadata server.
pub(in crate::serve) struct JoinedServer {
    place: PoolPlace,
    endpoint: Endpoint,
    home: Arc<ToHome>,
    files: Arc<OwnFiles>,
    book: Arc<OwnBook>,
    /// The incarnation of this start, and how long clients may be silent.
    run: (u32, Duration),
}

/// The connection to the first metadata server.
struct ToHome {
    /// Set when this server connects.
    peer: OnceLock<Peer>,
    /// Questions that are under way.
    under_way: UnderWay,
    /// The tree, once it is known.
    tree: OnceLock<FsId>,
    /// The objects of the first server.
    shown: OnceLock<Weak<RemoteTree>>,
    /// The objects that this server has made.
    own: OwnHome,
}

impl JoinedServer {
    /// Connects to the first metadata server.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub(super) fn start(
        place: PoolPlace,
        incarnation: u32,
        (client_lease, key_life): (Duration, Duration),
    ) -> Result<JoinedServer, ServeError> {
        let identity = place.directory.identity();
        let identity = identity.map_err(pools::PoolPlaceError::from)?;
        let home = Arc::new(ToHome {
            peer: OnceLock::new(),
            under_way: UnderWay::new(),
            tree: OnceLock::new(),
            shown: OnceLock::new(),
            own: OwnHome::default(),
        });
        let book = Arc::new(OwnBook::new(place.directory.path().join(BOOK)));
        let files = OwnFiles::new(place.clone(), book.clone(), key_life)?;
        let files = Arc::new(files);
        let hears = Hears {
            place: place.clone(),
            home: home.clone(),
            files: files.clone(),
        };
        let endpoint = Endpoint::start_calling(
            &identity,
            Incarnation(incarnation.into()),
            connection::settings(),
            Arc::new(hears),
        )?;
        let keeper = place.member(place.keeper);
        let addresses = keeper.map_or_else(Vec::new, |keeper| keeper.addresses);
        // It is set once.
        let _ = home.peer.set(endpoint.connect(place.keeper, addresses));
        Ok(JoinedServer {
            place,
            endpoint,
            home,
            files,
            book,
            run: (incarnation, client_lease),
        })
    }

    /// The tree of this server's store, and this server's slot.
    pub(in crate::serve) fn shows(&self) -> (&str, ReplicaSlot) {
        (&self.place.tree, self.place.slot)
    }

    /// The place of the bytes of this store's files.
    pub(in crate::serve) fn elsewhere(&self) -> Arc<dyn Elsewhere> {
        self.files.contents()
    }

    /// Asks for the identity of the tree, for a server without a store of it.
    ///
    /// # Errors
    /// [`ServeError::HomeAway`] when there is no answer for a while.
    pub(in crate::serve) async fn identity_of_tree(&self) -> Result<TreeIdentity, ServeError> {
        let asked = self.home.ask_for(FIRST_PATIENCE, (Question::Tree, None, 0));
        let reply = timeout(FIRST_PATIENCE, asked).await;
        match reply
            .unwrap_or(Err(Error::Delay))
            .and_then(|reply| reply.answer)
        {
            Ok(Answer::Tree(fs_id, name_key)) => Ok(TreeIdentity { fs_id, name_key }),
            other => {
                let keeper = self.place.member(self.place.keeper);
                let addresses = keeper.map_or_else(Vec::new, |keeper| keeper.addresses);
                let trouble = self.endpoint.peer(self.place.keeper);
                let trouble = trouble.and_then(|peer| peer.status().last_error);
                let trouble = trouble.or_else(|| other.err().map(|error| error.to_string()));
                Err(ServeError::HomeAway {
                    addresses: addresses.join(", "),
                    trouble: trouble.unwrap_or_default(),
                })
            }
        }
    }

    /// The tree that clients see, given its local store, and the source of its layouts.
    ///
    /// # Errors
    /// [`ServeError`] when the store belongs to another server.
    pub(in crate::serve) async fn show(
        &self,
        data: &DataDirectory,
        (store, path): (&Arc<Store>, &Path),
        configuration: &PoolConfiguration,
    ) -> Result<Shown, ServeError> {
        let place = MemberOf {
            set: self.place.pool,
            slot: self.place.slot,
        };
        if store.slot() != place.slot {
            return Err(ServeError::OtherTree {
                tree: self.place.tree.clone(),
                path: path.to_owned(),
            });
        }
        data.note_member(place)?;
        let (lease, now) = clock::of_given_leases();
        let first = (self.home.clone() as Arc<dyn Connection>, self.place.keeper);
        let shown = RemoteTree::new(store.clone(), first, now, lease);
        shown.use_directly(direct::data_servers(), configuration.direct_size);
        let makes_directories = configuration.makes_directories;
        // They are set once.
        let _ = self.home.tree.set(store.tree().fs_id);
        let _ = self.home.shown.set(Arc::downgrade(&shown));
        let has_directories = metadata_server::has_directories(store).await;
        let has_directories = has_directories.map_err(ServeError::Home)?;
        // Objects that lived here earlier may have left work for data servers.
        let was_started = striping::was_started(&store.placed_rows());
        let was_started = was_started.map_err(ServeError::Home)?;
        let stripes = makes_directories || has_directories || was_started;
        if stripes {
            self.files.begin(store, &self.home).await?;
        }
        let beginning = Beginning {
            makes_directories,
            has_directories,
            striped: stripes.then(|| self.files.contents()),
            book: self.book.clone(),
        };
        let began = self.home.own.begin(
            (&self.place, &self.home),
            self.run,
            (store, shown.clone()),
            beginning,
        );
        let (tree, holders) = began.await?;
        tokio::spawn(asking::keep_lease(Arc::downgrade(&shown)));
        let session = self.home.peer.get().and_then(|peer| peer.session().ok());
        if let Some(session) = session {
            // It began before there was a tree to show.
            asking::meet(&shown, session.peer());
            self.home.own.session_began(session.peer());
            tokio::spawn(hand_over(Arc::downgrade(&self.home), session.peer()));
        }
        let layouts = GivenByHome {
            tree: shown,
            own: self.place.slot,
            files: stripes.then(|| GivenBehindCopies {
                striped: self.files.contents(),
                holders,
            }),
            properties: LayoutProperties {
                // At most 16 MiB.
                stripe_unit: self.place.stripe_unit.bytes() as u32,
                threshold: None,
            },
        };
        Ok((tree, Arc::new(layouts)))
    }

    /// Closes the connections and makes no new ones.
    pub(super) fn close(&self) {
        self.home.own.end();
        self.endpoint.close();
    }

    /// The status, for display.
    pub(super) fn status(&self) -> PoolStatus {
        PoolStatus {
            pool: self.place.pool.to_string(),
            role: "metadata server".to_owned(),
            joined: true,
            number: self.place.slot.0,
            stripe_unit_bytes: self.place.stripe_unit.bytes(),
            servers: vec![status_of_keeper(&self.place, &self.endpoint)],
            holding: None,
            moving: None,
            giving_up: Vec::new(),
            copies: self.copies(),
        }
    }

    fn copies(&self) -> Option<CopiesStatus> {
        let metrics = self.home.shown.get()?.upgrade()?.metrics();
        Some(CopiesStatus {
            kept: metrics.kept,
            answered: metrics.answered,
            questions: metrics.asked,
            taken_back: metrics.taken_back,
        })
    }
}

/// The state of the first metadata server, for a server that connects to it.
pub(super) fn status_of_keeper(place: &PoolPlace, endpoint: &Endpoint) -> PoolServerStatus {
    let keeper = place.member(place.keeper);
    let met = endpoint.peer(place.keeper);
    let session = met.as_ref().and_then(|peer| peer.session().ok());
    let connected = session.is_some_and(|session| session.is_connected(Lane::Control));
    let trouble = met.and_then(|peer| peer.status().last_error);
    PoolServerStatus {
        number: place.keeper.0,
        name: String::new(),
        role: "metadata server".to_owned(),
        addresses: keeper.map_or_else(Vec::new, |keeper| keeper.addresses),
        connected,
        trouble: trouble.filter(|_| !connected),
        serves: connected,
        new_files: false,
        draining: false,
        home: false,
        waits: 0,
        holding: None,
    }
}

impl ToHome {
    async fn ask_for(
        &self,
        patience: Duration,
        (question, keeps, clients): (Question, Option<u64>, u64),
    ) -> vfs::Result<Reply> {
        let asked = Asked {
            tree: self.tree.get().copied(),
            keeps,
            clients,
            question,
        };
        let peer = self.peer.get().ok_or(Error::Delay)?;
        asking::ask((peer, &self.under_way), asked, patience).await
    }
}

#[async_trait]
impl Connection for ToHome {
    async fn ask(
        &self,
        question: Question,
        keeps: Option<u64>,
        clients: u64,
    ) -> vfs::Result<Reply> {
        self.ask_for(PATIENCE, (question, keeps, clients)).await
    }
}

/// Reports to a run of the first metadata server what clients have open, until it has heard it or ends.
async fn hand_over(home: Weak<ToHome>, to: Sender) {
    loop {
        let Some(home) = home.upgrade() else { return };
        let session = home.peer.get().and_then(|peer| peer.session().ok());
        if session.is_some_and(|session| session.peer() != to) {
            return;
        }
        let Some(shown) = home.shown.get().and_then(Weak::upgrade) else {
            return;
        };
        if let Ok((opens, locks)) = shown.hand_over().await {
            return tracing::info!(
                opens,
                locks,
                "the first metadata server knows what clients have open here"
            );
        }
        drop((shown, home));
        tokio::time::sleep(PAUSE).await;
    }
}

/// Receives messages of the first metadata server.
struct Hears {
    place: PoolPlace,
    home: Arc<ToHome>,
    files: Arc<OwnFiles>,
}

impl Hears {
    /// Answers a report of the pool's state, or a question about data servers. `None` for other messages.
    async fn answer_about_pool(
        &self,
        from: Sender,
        message: &Message,
    ) -> Option<vfs::Result<Message>> {
        if let Some(told) = connection::decode_pool(message) {
            let heard = self.files.hear_pool(from, told).await;
            return Some(heard.map(|heard| connection::encode_heard_pool(&heard)));
        }
        let survey = connection::decode_survey(message)?;
        let surveyed = self.files.survey(survey).await;
        Some(surveyed.map(|surveyed| connection::encode_surveyed(&surveyed)))
    }
}

#[async_trait]
impl MessageHandler for Hears {
    fn admit_session(&self, peer: Sender) -> Result<(), TurnedAway> {
        connection::meet_at_joined(&self.place, peer)
    }

    fn admit_message(&self, from: Sender, kind: u32) -> Result<(), Refusal> {
        connection::admit_at_joined(&self.place, from.slot, kind)
    }

    async fn receive(&self, incoming: Incoming) {
        let message = incoming.release();
        if let Some((server, said)) = connection::decode_of_data_server(&message) {
            return self.files.receive(server, said);
        }
        let event = connection::decode_layout_event(&message);
        let shown = self.home.shown.get().and_then(Weak::upgrade);
        match (event, shown) {
            (Some(event), Some(shown)) => shown.hear_of_layouts(event),
            (Some(_), None) => {}
            (None, _) => tracing::warn!(
                "a message of the first metadata server is not understood, and dropped"
            ),
        }
    }

    async fn answer(&self, incoming: Incoming) -> Result<Message, Refusal> {
        if let Some(asked) = connection::decode_question(&incoming.message) {
            let reply = self.home.own.answer(incoming.from, asked).await;
            // Until here, its bytes count against the asker's limit.
            drop(incoming);
            let reply = reply.ok_or_else(connection::refusal)?;
            return Ok(connection::encode_reply(&reply));
        }
        let (from, message) = (incoming.from, incoming.release());
        if let Some(answered) = self.answer_about_pool(from, &message).await {
            return answered.map_err(|error| Refusal(error.to_string()));
        }
        let news = connection::decode_news(&message);
        let news = news.ok_or_else(connection::refusal)?;
        if let Some(shown) = self.home.shown.get().and_then(Weak::upgrade) {
            shown.hear(&news);
        }
        Ok(connection::heard())
    }

    fn session_began(&self, peer: Sender) {
        tracing::info!("the first metadata server of the pool is there");
        if let Some(shown) = self.home.shown.get().and_then(Weak::upgrade) {
            asking::meet(&shown, peer);
            self.home.own.session_began(peer);
            tokio::spawn(hand_over(Arc::downgrade(&self.home), peer));
        }
    }

    fn session_ended(&self, _peer: Sender) {
        tracing::info!("the first metadata server of the pool is gone, or was started anew");
    }
}

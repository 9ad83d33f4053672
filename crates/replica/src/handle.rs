//! A replica as the server sees it: how it starts, what it offers, how it stops.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use control::Proposal;
use peer::set::{MemberList, SetDirectory, SetError};
use peer::{Endpoint, Identity, Signatures};
use store::Store;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use vfs::{FileSystem, ObjectId, ReplicaSlot};

use crate::dispatch::Dispatch;
use crate::driver::engine::{Engine, Step};
use crate::driver::local_replica::LocalReplica;
use crate::driver::persistence;
use crate::driver::readers::Readers;
use crate::driver::remembered::{self, Remembered};
use crate::frontend::durability;
use crate::frontend::expired_clients;
use crate::frontend::file_system::ReplicatedFileSystem;
use crate::frontend::reclaim;
use crate::maintenance;
use crate::membership::losses;
use crate::membership::meeting;
use crate::membership::members;
use crate::membership::views;
use crate::replication::base;
use crate::replication::removed;
use crate::replication::renewing;
use crate::replication::scrub;
use crate::state::copies::Held;
use crate::state::lineage::{self, Lineage};
use crate::state::replica_state::{Parts, ReplicaState};
use crate::state::settings::{Durability, Settings};

/// Why a replica does not start. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The files of the set cannot be used.
    #[error(transparent)]
    Set(#[from] SetError),
    /// The certificate cannot be used.
    #[error("the certificate of this replica cannot be used: {0}")]
    Identity(#[from] peer::IdentityError),
    /// The store cannot be read.
    #[error("the state of replication cannot be read from the store: {0}; run `meridian check`")]
    Store(#[from] vfs::Error),
    /// The log of views cannot be used.
    #[error("what the set agreed on cannot be read: {0}; run `meridian check`")]
    Views(#[from] view::ViewError),
    /// The store belongs to another replica.
    #[error(
        "the store was made by replica {store} and the set's files in {set} are those of replica {here}; put back the directory that belongs together"
    )]
    OtherReplica {
        /// The store's slot.
        store: u16,
        /// The set's slot.
        here: u16,
        /// The directory of the set.
        set: PathBuf,
    },
}

/// One replica of a tree, running.
///
/// It serves as a [`FileSystem`] through [`Replica::file_system`]. Dropping it ends its connections; what
/// others lack of it is sent when it starts again.
pub struct Replica {
    local: Arc<LocalReplica>,
    file_system: Arc<ReplicatedFileSystem>,
    tasks: Vec<JoinHandle<()>>,
}

impl Replica {
    /// Starts to replicate the store with the other members of the set, within a tokio runtime.
    /// `incarnation` must be larger than at any earlier start, and not 0. `readers` read files of the store without the replica.
    ///
    /// # Errors
    /// [`StartError`] says what to do next.
    pub async fn start(
        store: Arc<Store>,
        set: SetDirectory,
        settings: Settings,
        listener: TcpListener,
        incarnation: u64,
        readers: Option<Arc<dyn Readers>>,
    ) -> Result<Arc<Replica>, StartError> {
        let identity = set.identity()?;
        let list = set.member_list()?;
        if store.slot() != identity.slot() {
            return Err(StartError::OtherReplica {
                store: store.slot().0,
                here: identity.slot().0,
                set: set.path().to_owned(),
            });
        }
        let (steps, steps_out) = mpsc::unbounded_channel();
        let held = held_at_start(&store, &set, &list).await?;
        let remembered = remembered::load(&store)?;
        let engine = Engine::begin(store, &settings, incarnation, &remembered, steps);
        let peer_settings = settings.peer.clone();
        // The keeper of the authority may change while the server runs.
        let admitting = Some(set.clone());
        let of = (&identity, &list);
        let state = state_at_start(&engine, of, settings, (incarnation, held)).await?;
        let signatures = Signatures::new(&identity)?;
        let replica = LocalReplica::new(engine.clone(), state, set, signatures, readers);
        let replica = Arc::new(replica);
        meeting::take_up_fault(&replica);
        engine.tell_store();
        engine.store.take_up_held().await?;
        let dispatch = Arc::new(Dispatch(Arc::downgrade(&replica)));
        let number = peer::Incarnation(incarnation);
        let endpoint = Endpoint::start(
            &identity,
            number,
            peer_settings,
            dispatch,
            listener,
            admitting,
        )?;
        // Set here for the first time.
        let _ = replica.endpoint.set(endpoint);
        take_up(&replica, list, &remembered, held)?;
        let views = views::begin(&replica).await?;
        let anew = views::needs_copy_anew(&replica.store)?;
        replica.state.needs_copy.fetch_or(anew, Ordering::AcqRel);
        let states = views.state();
        members::agreed_removals(&replica, &states.borrow().removed);
        let ended = views::notice_end(replica.clone(), views.clone());
        // Set here for the first time.
        let _ = replica.views.set(views);
        let mut tasks = begin_tasks(&replica, steps_out)?;
        tasks.push(tokio::spawn(views::follow(replica.clone(), states)));
        tasks.push(tokio::spawn(ended));
        let file_system = Arc::new(ReplicatedFileSystem::new(replica.clone()));
        Ok(Arc::new(Replica {
            local: replica,
            file_system,
            tasks,
        }))
    }

    /// The replicated tree, for clients of this server.
    #[must_use]
    pub fn file_system(&self) -> Arc<dyn FileSystem> {
        self.file_system.clone()
    }

    /// Whether it is a witness: it votes and follows, and its [`Replica::file_system`] refuses everything.
    #[must_use]
    pub fn is_witness(&self) -> bool {
        self.local.state.is_witness
    }

    /// Whether it was removed from the set. Then it serves no clients, for good.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.local.state.members.is_removed()
    }

    /// Whether clients are answered now; until then they are told to try again.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.local.is_whole() && self.local.lease.may_answer()
    }

    /// Whether a reader may read a file of the local copy without this replica, for as long as [`Replica::readers_left`] and until
    /// [`Readers::end`]: no other replica decides about it, and all of it is here. Call this when [`Readers::files`] already names the file, so
    /// that later grants to others end the reading.
    #[must_use]
    pub fn is_read_here(&self, file: ObjectId) -> bool {
        self.local.is_read_here(file)
    }

    /// How long the local copy may be read without this replica if nothing more is granted (rule 22).
    #[must_use]
    pub fn readers_left(&self) -> Duration {
        self.local.readers_left()
    }

    /// Gives the reason once the others have gone on without this replica, which must then restart.
    #[must_use]
    pub fn has_left(&self) -> watch::Receiver<Option<String>> {
        self.local.lease.has_left()
    }

    /// Sets when updates of a directory and everything below are answered; `None` leaves it to the directories above.
    ///
    /// # Errors
    /// Those of an operation on the directory.
    pub async fn set_durability(
        &self,
        directory: ObjectId,
        durability: Option<Durability>,
    ) -> vfs::Result<()> {
        durability::set(&*self.file_system, directory, durability).await
    }

    /// The setting that holds for an object, and the directory that it comes from, if any has one.
    pub async fn durability(&self, object: ObjectId) -> (Durability, Option<ObjectId>) {
        durability::setting_of(&self.local, object).await
    }

    /// Before the server stops: waits at most this long until every replica in contact has everything. Returns whether they have.
    pub async fn stop(&self, patience: Duration) -> bool {
        let everywhere = self.local.everything_everywhere();
        tokio::time::timeout(patience, everywhere).await.is_ok()
    }

    pub(crate) fn local(&self) -> &Arc<LocalReplica> {
        &self.local
    }
}

/// How much of the tree is here. If nothing is, what was granted to others is set aside.
async fn held_at_start(
    store: &Store,
    set: &SetDirectory,
    list: &MemberList,
) -> Result<Held, StartError> {
    let founder = set.is_creator() && (list.members.len() == 1 || views::has_known_a_view(store)?);
    let held = base::held(store, founder)?;
    if held == Held::Nothing {
        // Others' data here is not a copy any more. Grants to them still count.
        persistence::set_aside(store).await?;
    }
    Ok(held)
}

/// What the replica knows in memory as it starts.
async fn state_at_start(
    engine: &Engine,
    (identity, list): (&Identity, &MemberList),
    settings: Settings,
    (incarnation, held): (u64, Held),
) -> Result<ReplicaState, StartError> {
    let slot = identity.slot();
    let others = list.members.iter().filter(|member| !member.revoked);
    let others = others.map(|member| ReplicaSlot(member.slot));
    let others = others.filter(|other| *other != slot).collect();
    let patience = settings.site_lease / 2;
    let (store, key) = (engine.store.clone(), lineage::Key::of(identity));
    let lineage = Lineage::begin(store, key, incarnation, others, patience);
    Ok(ReplicaState::new(Parts {
        slot,
        incarnation,
        is_witness: list.is_witness(slot.0),
        held,
        lineage: Arc::new(lineage.await?),
        outcomes: engine.outcomes.clone(),
        settings,
    }))
}

/// Loads what earlier starts noted about the other members and this replica.
fn take_up(
    replica: &Arc<LocalReplica>,
    list: MemberList,
    remembered: &Remembered,
    held: Held,
) -> Result<(), StartError> {
    replica.note_applied_streams()?;
    members::adopt_members(replica, list);
    if replica.state.is_witness || held == Held::Nothing {
        // A witness makes nothing. Without a copy here, everything is with the others or was given up.
        replica.engine.previous_settled();
    } else {
        take_up_previous(replica, &remembered.granted)?;
    }
    reclaim::remember_others_went_on(replica)?;
    replica.remember_trimmed()?;
    replica.remember_complete()?;
    Ok(())
}

/// The tasks of a replica, except following the views.
fn begin_tasks(
    replica: &Arc<LocalReplica>,
    steps: mpsc::UnboundedReceiver<Step>,
) -> vfs::Result<Vec<JoinHandle<()>>> {
    let recovered = replica.store.recovered()?;
    let recovering = &replica.state.metrics.recovering;
    recovering.store(recovered.len() as u64, Ordering::Relaxed);
    let engine = replica.engine.clone();
    Ok(vec![
        tokio::spawn(persistence::carry_out(replica.clone(), steps)),
        tokio::spawn(async move { engine.wake().await }),
        tokio::spawn(views::keep(replica.clone())),
        tokio::spawn(views::watch(replica.clone())),
        tokio::spawn(views::come_back(replica.clone())),
        tokio::spawn(losses::attend(replica.clone())),
        tokio::spawn(losses::adopt(replica.clone())),
        tokio::spawn(expired_clients::keep(replica.clone())),
        tokio::spawn(maintenance::keep(replica.clone())),
        tokio::spawn(scrub::keep(replica.clone())),
        tokio::spawn(scrub::mend(replica.clone())),
        tokio::spawn(scrub::look_at_suspects(replica.clone())),
        tokio::spawn(maintenance::pass_lock_changes_on(replica.clone())),
        tokio::spawn(renewing::renew_recovered(replica.clone())),
        tokio::spawn(removed::keep(replica.clone())),
    ])
}

impl Drop for Replica {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.local.stop();
        if let (Some(views), Ok(runtime)) = (self.local.views.get().cloned(), Handle::try_current())
        {
            runtime.spawn(async move { views.stop().await });
        }
    }
}

/// Continues what earlier incarnations left: contents that were not everywhere, and controls that were not given up. A control ends only when
/// everything written under it is everywhere. So if no previous control covers a marked file, only the mark is left.
fn take_up_previous(replica: &LocalReplica, grants: &[Proposal]) -> Result<(), StartError> {
    let marked = replica.store.unshipped()?;
    let position = *replica.store.stable_position().borrow();
    let own = replica.slot();
    let own: Vec<&Proposal> = grants
        .iter()
        .filter(|grant| grant.name.holder == own)
        .collect();
    replica.engine.take_up_previous(&own, marked, position);
    Ok(())
}

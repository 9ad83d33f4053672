//! This replica as all layers above see it: what it knows, and what it works with.
//!
//! What must never enter: data other than connections and handles (`replica_state` of `state`).

use std::sync::{Arc, OnceLock};

use peer::set::SetDirectory;
use peer::{Endpoint, Signatures};
use store::Store;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use vfs::ReplicaSlot;

use crate::driver::engine::Engine;
use crate::driver::lease_state::LeaseState;
use crate::driver::readers::Readers;
use crate::state::copies::Held;
use crate::state::locks::Table;
use crate::state::replica_state::ReplicaState;

/// See the module.
pub(crate) struct LocalReplica {
    /// What it knows.
    pub(crate) state: ReplicaState,
    /// The core of replication control, behind its lock.
    pub(crate) engine: Arc<Engine>,
    /// Whether clients may be answered.
    pub(crate) lease: Arc<LeaseState>,
    /// The copy of the tree.
    pub(crate) store: Arc<Store>,
    /// The files of the set.
    pub(crate) set: SetDirectory,
    pub(crate) signatures: Signatures,
    /// The readers of the local copy past this replica, if there are any.
    pub(super) readers: Option<Arc<dyn Readers>>,
    /// Connections to the other members; set when they begin.
    pub(crate) endpoint: OnceLock<Endpoint>,
    /// What the set agrees on; set when it is followed.
    pub(crate) views: OnceLock<Arc<view::Views>>,
    /// The replica stops.
    pub(super) stopping: watch::Sender<bool>,
    /// The tasks that apply the streams of others; they end with the replica.
    pub(super) tasks: Table<Vec<JoinHandle<()>>>,
}

impl LocalReplica {
    pub(crate) fn new(
        engine: Arc<Engine>,
        state: ReplicaState,
        set: SetDirectory,
        signatures: Signatures,
        readers: Option<Arc<dyn Readers>>,
    ) -> LocalReplica {
        if readers.is_some() {
            engine.with_core(|guard| guard.ledger.read_past.begin());
        }
        LocalReplica {
            state,
            store: engine.store.clone(),
            lease: engine.lease.clone(),
            engine,
            set,
            signatures,
            readers,
            endpoint: OnceLock::new(),
            views: OnceLock::new(),
            stopping: watch::Sender::new(false),
            tasks: Table::default(),
        }
    }

    pub(crate) fn slot(&self) -> ReplicaSlot {
        self.engine.slot
    }

    /// Whether everything of the tree is here.
    pub(crate) fn is_whole(&self) -> bool {
        *self.state.held.borrow() == Held::Everything
    }

    /// Whether this replica takes part in the view in force.
    pub(crate) fn takes_part(&self) -> bool {
        self.lease.view().active.contains(&self.slot())
    }

    /// Whether every member takes part, including this replica, which is up to date.
    pub(crate) fn all_take_part(&self) -> bool {
        let all_active = |state: &view::ViewState| {
            state.losses.keys().all(|slot| state.is_settled(*slot))
                && state.members.values().all(|member| member.active)
        };
        self.takes_part()
            && self.lease.is_up_to_date()
            && self.view_state().is_some_and(|state| all_active(&state))
            && self.engine.is_settled()
    }

    /// What the set agreed on last, as far as it is known here.
    pub(crate) fn view_state(&self) -> Option<Arc<view::ViewState>> {
        let state = self.views.get()?.state().borrow().clone();
        (state.epoch > 0).then_some(state)
    }

    /// Whether the set decided to give up what only a lost replica had.
    pub(crate) fn is_given_up(&self, slot: ReplicaSlot) -> bool {
        let state = self.view_state();
        state.is_some_and(|state| state.is_settled(slot))
    }
}

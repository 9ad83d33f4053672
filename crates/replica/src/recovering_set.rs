//! Going on when the majority of a set is lost for ever: what a survivor's store knows, and how it makes the survivors alone the set from now
//! on.
//!
//! No replica may run on the store meanwhile. What must never enter: whether the others are really gone; an administrator says that.

use std::collections::BTreeSet;
use std::sync::Arc;

use store::Store;
use vfs::ReplicaSlot;
use view::{Kind, Outcome, ViewError, ViewState};

use crate::membership::views::Facts;
use crate::state::lineage;
use crate::state::time::unix_seconds;

/// Why a set cannot go on with its survivors. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// What was agreed cannot be read or changed.
    #[error("what the set agreed on cannot be used: {0}; run `meridian check`")]
    Views(#[from] ViewError),
    /// The store cannot be changed.
    #[error("the store cannot be used: {0}; run `meridian check`")]
    Store(#[from] vfs::Error),
    /// This replica was never told of a view.
    #[error(
        "this replica has never heard what the set agreed on, so nothing can be recovered from it; use another survivor"
    )]
    NeverHeard,
    /// The survivors do not fit what is known here.
    #[error("{0}; `meridian view` and `meridian set members` show who is in the set")]
    Refused(String),
}

/// What one replica knows of its set while it is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownSet {
    /// The number of the last view it has heard of.
    pub epoch: u64,
    /// The configured replicas, by slot.
    pub members: Vec<KnownMember>,
    /// The last decision it has heard of, for people, and when it was made, in seconds since 1970.
    pub last_decision: Option<(u64, String)>,
    /// This copy is known to be restored from an older one, or truncated.
    pub rolled_back: bool,
}

/// A configured replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownMember {
    /// Its slot.
    pub slot: u16,
    /// It keeps the tree; a witness does not.
    pub keeps_tree: bool,
    /// It took part in the last view.
    pub active: bool,
}

impl KnownSet {
    /// What an open store knows.
    ///
    /// # Errors
    /// [`RecoverError`], with what to do next.
    pub async fn read(store: &Arc<Store>) -> Result<KnownSet, RecoverError> {
        let state = view::last_known(facts(store)).await?;
        match state.epoch {
            0 => Err(RecoverError::NeverHeard),
            _ => Ok(KnownSet {
                rolled_back: lineage::is_rolled_back(store)?,
                ..KnownSet::of(&state)
            }),
        }
    }

    fn of(state: &ViewState) -> KnownSet {
        let members = state.members.iter().map(|(slot, member)| KnownMember {
            slot: slot.0,
            keeps_tree: member.kind == Kind::Data,
            active: member.active,
        });
        KnownSet {
            epoch: state.epoch,
            members: members.collect(),
            last_decision: state
                .audit
                .back()
                .map(|entry| (entry.at_unix_s, entry.what.clone())),
            rolled_back: false,
        }
    }
}

fn facts(store: &Arc<Store>) -> Arc<Facts> {
    Arc::new(Facts {
        store: store.clone(),
        lineage: None,
    })
}

/// Makes the survivors the whole set, by a decision of the replica that owns this store and must be one of them. It holds once a majority of the
/// survivors runs; the other survivors follow when they hear of it. A copy restored from an older one may do this only as the single survivor.
///
/// # Errors
/// [`RecoverError`], with what to do next; then nothing has changed.
pub async fn go_on_with(store: &Arc<Store>, survivors: &BTreeSet<u16>) -> Result<(), RecoverError> {
    let alone = survivors.len() == 1;
    if !alone && lineage::is_rolled_back(store)? {
        let why = "this copy was put back from an older one, and other survivors know more; run the command on one of them, or name this one alone";
        return Err(RecoverError::Refused(why.to_owned()));
    }
    let survivors = survivors.iter().copied().map(ReplicaSlot).collect();
    match view::force(facts(store), survivors, store.slot(), unix_seconds()).await? {
        Outcome::Applied if alone => Ok(lineage::forgive(store).await?),
        Outcome::Applied => Ok(()),
        Outcome::Refused(why) => Err(RecoverError::Refused(why)),
    }
}

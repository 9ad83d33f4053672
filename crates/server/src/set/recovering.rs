//! Continuing when the majority of a set is gone for ever, by an administrator's decision.
//!
//! What must never enter: asking the administrator; the caller has done so.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use peer::set::SetDirectory;
use replica::recovering_set::{self, KnownSet};
use store::{Store, StoreOptions};
use vfs::ReplicaSlot;

use super::{Membership, SetCommandError};
use crate::data_directory::{DataDirectory, set_path};

/// What a survivor knows about its set, and which members would be given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastChance {
    /// The server's own slot.
    pub own: u16,
    /// The last view that it knows.
    pub known: KnownSet,
    /// The members that would be given up for ever.
    pub gone: Vec<u16>,
    /// Whether this server can admit others afterwards.
    pub keeps_authority: bool,
}

/// The store of a stopped server, and its content.
struct Standstill {
    // Dropped first: the store must be closed before another process may open it.
    store: Arc<Store>,
    set: SetDirectory,
    _data: DataDirectory,
}

/// Reports what continuing with only the survivors would mean, as far as this server knows. No server may run on the
/// directory.
///
/// # Errors
/// [`SetCommandError`], each with what to do next.
pub async fn last_chance(
    data: &Path,
    tree: &str,
    survivors: &BTreeSet<u16>,
) -> Result<LastChance, SetCommandError> {
    examine(&open(data, tree).await?, survivors).await
}

/// Makes the survivors the whole set, for ever. No server may run on the directory.
///
/// # Errors
/// [`SetCommandError`], each with what to do next; then nothing has changed.
pub async fn go_on_with(
    data: &Path,
    tree: &str,
    survivors: &BTreeSet<u16>,
) -> Result<LastChance, SetCommandError> {
    let standstill = open(data, tree).await?;
    let chance = examine(&standstill, survivors).await?;
    recovering_set::go_on_with(&standstill.store, survivors).await?;
    if chance.keeps_authority {
        // A member that is given up must not be admitted again because the list still contains it.
        for slot in &chance.gone {
            standstill.set.revoke(ReplicaSlot(*slot))?;
        }
    }
    Ok(chance)
}

async fn open(data: &Path, tree: &str) -> Result<Standstill, SetCommandError> {
    let membership = Membership::read(SetDirectory::new(set_path(data)))?;
    let data = DataDirectory::open_or_create(data)?;
    let options = StoreOptions::new(data.tree(tree));
    // Opening reads the disk, and replays the journal after a crash.
    let opened = tokio::task::spawn_blocking(move || Store::open(&options)).await;
    let opened = opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    let store = opened.map_err(|source| SetCommandError::Tree {
        tree: tree.to_owned(),
        source,
    })?;
    Ok(Standstill {
        store: Arc::new(store),
        set: membership.directory,
        _data: data,
    })
}

async fn examine(
    standstill: &Standstill,
    survivors: &BTreeSet<u16>,
) -> Result<LastChance, SetCommandError> {
    let own = standstill.store.slot().0;
    if !survivors.contains(&own) {
        return Err(SetCommandError::NotASurvivor { own });
    }
    if standstill.set.is_witness()? {
        return Err(SetCommandError::Witness { own });
    }
    let known = KnownSet::read(&standstill.store).await?;
    let members: BTreeSet<u16> = known.members.iter().map(|member| member.slot).collect();
    if let Some(stranger) = survivors.difference(&members).next() {
        let why = format!("replica {stranger} is not in the set as this server knows it");
        return Err(recovering_set::RecoverError::Refused(why).into());
    }
    let gone: Vec<u16> = members.difference(survivors).copied().collect();
    if gone.is_empty() {
        return Err(SetCommandError::NobodyGivenUp);
    }
    Ok(LastChance {
        own,
        known,
        gone,
        keeps_authority: standstill.set.keeps_authority(),
    })
}

//! Waiting for a majority, where a directory tree asks for it (rule 24).
//!
//! The setting is an extended attribute of a directory. It holds for everything below, unless a directory below says otherwise. So it is
//! replicated, backed up and moved like any other attribute.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use store::{RowChange, RowSubject};
use tokio::time::Instant;
use vfs::{Credentials, FileSystem, ObjectId, ReplicaSlot, Result, XattrMode, XattrName};

use crate::driver::durability::Nearest;
use crate::driver::local_replica::LocalReplica;
use crate::state::settings::Durability;

/// The attribute, in the `user.` name space.
const ATTRIBUTE: &[u8] = b"meridian.durability";

/// The pause between requests for what is awaited.
const AGAIN: Duration = Duration::from_millis(200);

/// An operation that waits longer than this for a majority is logged.
const LONG: Duration = Duration::from_secs(10);

/// Logged once; repeats are summed later.
const WAITING: &str = "an operation waits for a majority";

/// On the root: some directory asks for relaxed durability, no matter what holds above it.
const MIXED: &[u8] = b"meridian.durability.mixed";

fn mixed() -> XattrName {
    XattrName::new(MIXED).expect("the name of the attribute is a name")
}

fn attribute() -> XattrName {
    XattrName::new(ATTRIBUTE).expect("the name of the attribute is a name")
}

/// Returns when a majority holds every update made here so far, if this object's tree asks for it.
pub(crate) async fn hold_by_majority(replica: &LocalReplica, object: ObjectId) {
    if setting_of(replica, object).await.0 == Durability::Relaxed {
        return;
    }
    let position = replica.engine.last_position();
    replica.state.interest.note();
    let applied = || replica.engine.until_majority_applied(position);
    let began = Instant::now();
    while tokio::time::timeout(AGAIN, applied()).await.is_err() {
        replica.state.interest.note();
        if began.elapsed() > LONG {
            for peer in replica.engine.behind(position) {
                tell_of_wait(replica, object, peer, "updates are on their way to it");
            }
        }
    }
}

/// The same, and a majority also has the file's content.
pub(crate) async fn hold_content_by_majority(replica: &LocalReplica, file: ObjectId) {
    if replica.engine.is_alone() || setting_of(replica, file).await.0 == Durability::Relaxed {
        return;
    }
    hold_by_majority(replica, file).await;
    let _awaited = Awaited::note(&replica.state.majority_awaited);
    replica.engine.expedite(Some(file));
    replica.send_completed();
    let held = || replica.engine.until_majority_holds(file);
    let began = Instant::now();
    while tokio::time::timeout(AGAIN, held()).await.is_err() {
        if began.elapsed() > LONG {
            for (peer, why) in replica.engine.obstacles(file) {
                tell_of_wait(replica, file, peer, why);
            }
        }
        // Later changes are awaited, too, and a replica that lacked others' data of the file may have it by now.
        replica.engine.expedite(Some(file));
        replica.say_completed_again_of(file);
    }
}

/// An operation that waits for a majority, until this is dropped, also when nobody waits for the operation any more.
struct Awaited<'c>(&'c AtomicU64);

impl<'c> Awaited<'c> {
    fn note(count: &'c AtomicU64) -> Awaited<'c> {
        count.fetch_add(1, Ordering::AcqRel);
        Awaited(count)
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// An operation has waited long for a majority, because of this peer.
fn tell_of_wait(replica: &LocalReplica, object: ObjectId, peer: ReplicaSlot, why: &str) {
    if let Some(sum) = replica.state.repeats.is_to_tell(WAITING, peer) {
        tracing::warn!(%object, peer = peer.0, why, %sum, "an operation waits for a majority");
    }
}

/// Whether a directory somewhere below may have a setting that asks for less.
pub(crate) async fn relaxed_below(replica: &LocalReplica, directory: ObjectId) -> bool {
    let root = Credentials::root();
    let mixed = replica.store.xattr(&root, ObjectId::ROOT, &mixed()).await;
    let known = replica.engine.knows_relaxed_below(directory);
    mixed.is_ok() || known
}

/// Whether a majority has to hold the data of a file before a flush is answered.
pub(crate) async fn is_held_by_majority(replica: &LocalReplica, file: ObjectId) -> bool {
    setting_of(replica, file).await.0 == Durability::Majority
}

/// The setting that holds for an object, and the directory it comes from.
pub(crate) async fn setting_of(
    replica: &LocalReplica,
    object: ObjectId,
) -> (Durability, Option<ObjectId>) {
    loop {
        let (read, generation) = match replica.engine.nearest_durability(object) {
            Nearest::Set(durability, place) => return (durability, Some(place)),
            Nearest::Default => return (replica.state.settings.durability, None),
            Nearest::Unread(place, generation) => (place, generation),
        };
        let own = own_durability(replica, read).await;
        replica.engine.learn_durability(generation, read, own);
    }
}

/// Objects that are `relaxed` and that a foreign update may bring under `majority`: they get another place, or their attributes are set.
pub(crate) async fn relaxed_before(replica: &LocalReplica, changes: &[RowChange]) -> Vec<ObjectId> {
    let set = changes.iter().filter_map(|change| match change.subject() {
        Some(RowSubject::Xattr(object)) => Some(object),
        _ => None,
    });
    let names = |there: bool| {
        let names = changes
            .iter()
            .filter(move |change| change.value.is_some() == there);
        names.filter_map(|change| match change.subject() {
            Some(RowSubject::Link(object)) => Some(object),
            _ => None,
        })
    };
    let named: BTreeSet<ObjectId> = names(true).collect();
    let moved = names(false).filter(|object| named.contains(object));
    let mut relaxed = Vec::new();
    for object in set.chain(moved) {
        if setting_of(replica, object).await.0 == Durability::Relaxed {
            relaxed.push(object);
        }
    }
    relaxed
}

/// Notes if an update has brought one of these objects under `majority`.
pub(crate) async fn note_protected(
    replica: &LocalReplica,
    objects: &[ObjectId],
    by: ReplicaSlot,
    position: u64,
) {
    for object in objects {
        if setting_of(replica, *object).await.0 == Durability::Majority {
            return replica.state.losses.awareness().changed(by, position);
        }
    }
}

/// The same for a change made here just now.
async fn note_protected_here(replica: &LocalReplica, object: ObjectId) {
    let position = replica.engine.last_position();
    note_protected(replica, &[object], replica.slot(), position).await;
}

/// Changes an extended attribute here, perhaps this setting.
pub(crate) async fn change_attribute<T>(
    replica: &LocalReplica,
    (object, name): (ObjectId, &XattrName),
    change: impl Future<Output = Result<T>>,
) -> Result<T> {
    let is_setting = name.as_bytes() == ATTRIBUTE;
    change_protection(replica, is_setting.then_some(object), change).await
}

/// Moves an object here from a directory to another one, which may ask for more.
pub(crate) async fn change_place<T>(
    replica: &LocalReplica,
    (from, to): (ObjectId, ObjectId),
    change: impl Future<Output = Result<T>>,
) -> Result<T> {
    let may_ask_for_more = from != to && setting_of(replica, from).await.0 == Durability::Relaxed;
    change_protection(replica, may_ask_for_more.then_some(to), change).await
}

/// Makes a change here that brings objects under `majority` if that holds for `object` afterwards.
async fn change_protection<T>(
    replica: &LocalReplica,
    object: Option<ObjectId>,
    change: impl Future<Output = Result<T>>,
) -> Result<T> {
    let Some(object) = object else {
        return change.await;
    };
    // No survivor may go on with a lost replica's objects between the change and its note.
    let _undecided = replica.state.losses.undecided();
    let outcome = change.await;
    if outcome.is_ok() {
        note_protected_here(replica, object).await;
    }
    outcome
}

async fn own_durability(replica: &LocalReplica, object: ObjectId) -> Option<Durability> {
    let root = Credentials::root();
    let value = replica
        .store
        .xattr(&root, object, &attribute())
        .await
        .ok()?;
    match &value[..] {
        b"majority" => Some(Durability::Majority),
        b"relaxed" => Some(Durability::Relaxed),
        _ => None,
    }
}

/// Sets what holds for a directory and everything below; `None` leaves it to the directories above.
pub(crate) async fn set(
    file_system: &impl FileSystem,
    directory: ObjectId,
    durability: Option<Durability>,
) -> Result<()> {
    let name = attribute();
    let root = Credentials::root();
    if durability == Some(Durability::Relaxed) {
        let (mixed, mode) = (mixed(), XattrMode::Any);
        file_system
            .set_xattr(&root, ObjectId::ROOT, &mixed, (&b"1"[..]).into(), mode)
            .await?;
    }
    let value = match durability {
        None => return ignore_missing(file_system.remove_xattr(&root, directory, &name).await),
        Some(Durability::Majority) => &b"majority"[..],
        Some(Durability::Relaxed) => &b"relaxed"[..],
    };
    let set = file_system.set_xattr(&root, directory, &name, value.into(), XattrMode::Any);
    set.await.map(|_| ())
}

fn ignore_missing<T>(outcome: Result<T>) -> Result<()> {
    match outcome {
        Ok(_) | Err(vfs::Error::NoXattr) => Ok(()),
        Err(error) => Err(error),
    }
}

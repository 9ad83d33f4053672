//! Files that lack data of a lost replica here: what this replica sends of them, to which replicas, and what it takes from which replica.
//!
//! What must never enter: how the replicas find the best copy of a file (`membership::losses`).

use std::time::Duration;

use peer::Lane;
use vfs::{Error, ObjectId, ReplicaSlot, Result};

use crate::driver::local_replica::LocalReplica;
use crate::replication::conversing;
use crate::replication::settled;
use crate::state::given_way::InFavourOf;
use crate::state::losses::{Best, best, lacking, told_of_all};
use crate::state::time::unix_seconds;
use crate::state::wire::PieceHead;

/// Logged once; repeats are summed later.
const KEEPING: &str = "what gives way cannot be kept aside";

/// Whether this replica sends its part of a file because it has the best copy, although it lacks some of the file.
pub(crate) fn supplies(replica: &LocalReplica, to: ReplicaSlot, file: ObjectId) -> bool {
    let all = replica.state.losses.equalling();
    all.values().any(|one| one.supplies_in_part(to, file))
}

/// Whether the peer's data of a file would be useless here if the peer were lost together with others: this copy lacks data of those others, so
/// another copy would replace it (counterexample 66), or the peer's data has given way here and has not been sent again.
pub(crate) fn is_in_vain(replica: &LocalReplica, peer: ReplicaSlot, file: ObjectId) -> bool {
    let store = &replica.store;
    let mut missing = store.lacks_data_of(file).into_iter();
    missing.any(|maker| maker != peer) || store.has_given_way(peer, Some(file))
}

/// Whether a peer has the best copy of a file of which lost replicas had sent this replica only a part.
pub(crate) fn is_supplied_by(replica: &LocalReplica, from: ReplicaSlot, file: ObjectId) -> bool {
    best_elsewhere(replica, file).is_some_and(|best| best.slot == from)
}

/// The best copy, by the reports of all survivors, of a file that lacks a lost replica's data here. `None` if the best copy is here.
fn best_elsewhere(replica: &LocalReplica, file: ObjectId) -> Option<Best> {
    let (lost, others, own) = (replica.lost(), replica.holders(), replica.slot());
    let all = replica.state.losses.equalling();
    let told = told_of_all(&all, &lost, (own, &others))?;
    let best = best(&told, file)?;
    (best.slot != own && lacking(&told, file).contains(&own)).then_some(best)
}

/// The best copy replaces the local one. From now on the local copy lacks the same data as the best copy. The replaced data is kept aside
/// (counterexample 66). [`vfs::Error::Delay`] if another copy is the best.
pub(crate) async fn give_way(
    replica: &LocalReplica,
    from: ReplicaSlot,
    file: ObjectId,
) -> Result<()> {
    // One piece at a time.
    let _giving_way = replica.state.giving_way.lock().await;
    let best = best_elsewhere(replica, file);
    let best = best.filter(|best| best.slot == from).ok_or(Error::Delay)?;
    let to = (from, replica.lease.view().epoch.0);
    if best.of_members.iter().any(|(of, _)| *of == replica.slot()) {
        // This replica's own data is nowhere else.
        return Err(Error::Delay);
    }
    let mut lacks = best.lacks;
    lacks.extend(best.of_members);
    lacks.retain(|(lost, _)| !replica.state.given_way.gave_way((*lost, file), to));
    let known = replica.store.lacks_data_of(file);
    let is_here = |lost: &ReplicaSlot| !known.contains(lost);
    if lacks.iter().any(|(lost, _)| is_here(lost)) {
        keep_aside(replica, file).await?;
    }
    for (lost, lack) in lacks {
        let lacking = (lack.through, (lack.at, lack.follows));
        note_given_way(replica, (lost, file), lacking, to).await?;
        if is_here(&lost)
            && let Some(equalling) = replica.state.losses.equalling().get_mut(&lost)
        {
            equalling.own.insert(file, lack);
            // The others are told soon.
            equalling.pause = Duration::ZERO;
        }
        // If the lost replica is in contact, it takes this copy for complete, or sends only what it had not sent yet.
        conversing::want(replica, lost, &[file]);
    }
    Ok(())
}

/// Another replica changed the file later than what `from` sends: does not store that, and asks the last writer for the whole file. Until the last
/// writer has sent it, its data here counts only as the version before that data, should the last writer be lost (counterexample 75).
///
/// # Errors
/// [`vfs::Error::Delay`] if the last writer is unknown: the sender must read the file again.
pub(crate) async fn leave_to_last_writer(
    replica: &LocalReplica,
    from: ReplicaSlot,
    file: ObjectId,
) -> Result<()> {
    let writer = replica.state.writers.last(file).ok_or(Error::Delay)?;
    let to = (from, replica.lease.view().epoch.0);
    let _giving_way = replica.state.giving_way.lock().await;
    let store = &replica.store;
    let is_missing = store.is_to_fetch(file) || store.lacks_data_of(file).contains(&from);
    if is_missing && !replica.state.given_way.gave_way((writer, file), to) {
        let at = store.applied(writer)?;
        let before = (at, store.version_before(file, from));
        note_given_way(replica, (writer, file), (0, before), to).await?;
    }
    conversing::want(replica, writer, &[file]);
    Ok(())
}

/// The supplier of a copy lacks data of these makers of a file, which do not answer it or are outside the view (counterexamples 101 and 104). Nothing
/// that is here of the file counts until one of them sends all of it, or the survivors have found the best copy.
///
/// # Errors
/// [`vfs::Error::Delay`] if a maker is unknown here, or the supplier knows another settlement: what one of them has given up must not be marked as
/// missing at the other, and the reverse; storage errors.
pub(crate) async fn leave_to_makers(
    replica: &LocalReplica,
    from: ReplicaSlot,
    head: &PieceHead,
) -> Result<()> {
    let (store, file) = (&replica.store, head.file);
    let to = (from, replica.lease.view().epoch.0);
    let _giving_way = replica.state.giving_way.lock().await;
    if !store.is_to_fetch(file) {
        // It came from another member.
        return Ok(());
    }
    if settled::known(replica)?.unwrap_or_default() != head.settlements {
        return Err(Error::Delay);
    }
    for maker in head.without.iter().map(|slot| ReplicaSlot(*slot)) {
        if replica.state.inboxes.get(maker).is_none() {
            return Err(Error::Delay);
        }
        if !replica.state.given_way.gave_way((maker, file), to) {
            let nothing = (0, (store.applied(maker)?, 0));
            note_given_way(replica, (maker, file), nothing, to).await?;
        }
        conversing::want(replica, maker, &[file]);
    }
    Ok(())
}

/// From now on, a replica's data of a file that is here does not count. Only the data it sends after this replica asks for the whole file counts.
async fn note_given_way(
    replica: &LocalReplica,
    (of, file): (ReplicaSlot, ObjectId),
    (through, (at, follows)): (u64, (u64, u64)),
    to: InFavourOf,
) -> Result<()> {
    let given_way = &replica.state.given_way;
    given_way.begin((of, file));
    let store = &replica.store;
    store
        .note_lacking((file, of), (through, at), follows)
        .await?;
    given_way.noted((of, file), to);
    Ok(())
}

async fn keep_aside(replica: &LocalReplica, file: ObjectId) -> Result<()> {
    let label = format!("replaced-{}-{:x}", unix_seconds(), file.as_u64());
    let reason = "parts of this file that lost servers had written were in different copies";
    match replica.store.save_aside(&label, reason, &[file]).await {
        // It was kept aside a moment ago.
        Ok(_) | Err(Error::Exists) => {
            let path = replica.store.path_of(file).unwrap_or_default();
            tracing::error!(%path, label, "another copy of a file takes the place of this one, and lacks what is here of a lost server's; see `meridian recovered`");
            Ok(())
        }
        Err(Error::NoSpace) => {
            // The others have the data that is here, except that of this file.
            if let Some(sum) = replica.state.repeats.is_to_tell_of(KEEPING, file.as_u64()) {
                tracing::error!(%file, %sum, "a file whose copy here gives way to another one cannot be kept aside: the disk has no space for it");
            }
            Err(Error::Delay)
        }
        Err(error) => Err(error),
    }
}

/// Whether a peer supplies a file because it has the best copy, while a lost replica's data of the file is missing here.
pub(crate) fn needs_from(replica: &LocalReplica, from: ReplicaSlot, file: ObjectId) -> bool {
    let view = replica.lease.view();
    let mut missing = replica.store.lacks_data_of(file).into_iter();
    missing.any(|maker| !view.active.contains(&maker)) && is_supplied_by(replica, from, file)
}

/// Whether another replica, whose data of a file is missing here, is in contact: it sends that data itself, and the sender's copy of the data would
/// replace what has come. Two exceptions: data of members that the sender has completely (`whole`), because they may wait for it themselves
/// (counterexample 64); and replicas whose stream is closed here (counterexample 69).
pub(crate) fn is_back(
    replica: &LocalReplica,
    file: ObjectId,
    from: ReplicaSlot,
    whole: bool,
) -> bool {
    let view = replica.lease.view();
    let comes = |maker: &ReplicaSlot| match view.active.contains(maker) {
        true => !whole,
        false => {
            let closed = replica.state.losses.closing.has_begun(*maker);
            !closed && replica.state.outbound.is_connected(*maker, Lane::Control)
        }
    };
    let missing = replica.store.lacks_data_of(file).into_iter();
    missing
        .filter(|maker| *maker != from)
        .any(|maker| comes(&maker))
}

/// Marks a file whose contents are here as complete. If the sender sent the contents because this replica had asked for them in this turn, they count
/// even if such contents had given way to another copy before.
pub(crate) async fn settle_flagged(
    replica: &LocalReplica,
    from: ReplicaSlot,
    file: ObjectId,
    (position, asked): (u64, Option<u64>),
) {
    let (given_way, of) = (&replica.state.given_way, (from, file));
    let store = &replica.store;
    let noted = match asked.is_some_and(|turn| given_way.brings_back(of, turn)) {
        true => {
            let noted = store.note_complete_again(file, from, position).await;
            if noted.is_ok() {
                given_way.end(of);
            }
            noted
        }
        false => store.note_complete(file, from, position).await,
    };
    if let Err(error) = noted {
        tracing::error!(%error, %file, "a file cannot be marked complete");
    }
}

//! File contents of a lost replica that are not complete on all survivors.
//!
//! A file is marked incomplete in the batch of the update that changed its data. It is marked complete again when the primary says that
//! everything up to a position has arrived. When the primary is lost, the replica with the best copy (`state::losses`) supplies the others, so
//! that all have the same. A file that is complete nowhere stays marked, because the lost replica may come back with it. If the set does not
//! wait for that, see `adopting`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use peer::Lane;
use tokio::time::{Duration, Instant};
use vfs::{ObjectId, ReplicaSlot, Result};

use super::level::{applied_by_others, late};
use crate::driver::local_replica::LocalReplica;
use crate::frontend::durability;
use crate::replication::conversing;
use crate::replication::withheld;
use crate::state::lists::List;
use crate::state::losses::{
    Equalling, Lacks, OfMembers, Quality, Report, Reports, Supplying, Told, best, lacking,
    told_of_all,
};
use crate::state::wire::{self, Completed, Incomplete, Lack, Supplied};

/// At most this many files are listed in one message.
const FILES_AT_ONCE: usize = 1000;
/// A report is repeated after this time until all copies are level; the pause doubles each time.
const AGAIN: Duration = Duration::from_secs(2);
const AGAIN_MAX: Duration = Duration::from_secs(64);

/// Takes one more step.
pub(super) async fn equal(replica: &Arc<LocalReplica>, lost: ReplicaSlot) {
    let here = replica.state.inboxes.acknowledged(lost);
    let level = applied_by_others(replica, lost)
        .is_some_and(|others| others.values().all(|applied| *applied == here));
    let settled = replica.engine.is_settled();
    if !level || !settled {
        return;
    }
    // Read before the search for missing data: after the close, no more of it arrives.
    let closed = replica.state.losses.closing.closed().contains(&lost);
    let Ok(own) = lacks(replica, lost).await else {
        return;
    };
    let late = late(replica, lost);
    let (all_lost, others) = (replica.lost(), replica.holders());
    let active = replica.lease.view().active;
    let (due, newly_whole) = {
        let mut all = replica.state.losses.equalling();
        let equalling = all.entry(lost).or_default();
        if equalling.applied != here || equalling.closed != closed || equalling.said.is_none() {
            *equalling = Equalling {
                applied: here,
                closed,
                own: own.clone(),
                late,
                reports: std::mem::take(&mut equalling.reports),
                ..Equalling::default()
            };
        }
        let told = equalling.own_of_members.len();
        for (of, lack) in of_members(replica, &active, equalling) {
            // Never taken back: after another verdict, copies would count as level that are not.
            equalling.own_of_members.entry(of).or_insert(lack);
        }
        if equalling.own_of_members.len() > told {
            equalling.has_looked = false;
            // The others are told soon.
            equalling.pause = Duration::ZERO;
        }
        let level = &equalling.level;
        let is_level = own.keys().all(|file| level.contains(file));
        let gives_way = gives_way((&all, &own), &all_lost, (replica, &others), lost);
        let Some(equalling) = all.get_mut(&lost) else {
            return;
        };
        let is_whole = is_level && !gives_way;
        let newly_whole = is_whole && !equalling.whole;
        equalling.whole &= is_whole;
        let pause = equalling.pause.max(AGAIN);
        let due = equalling.said.is_none_or(|said| said.elapsed() > pause);
        if due {
            equalling.pause = match equalling.said {
                Some(_) => (pause * 2).min(AGAIN_MAX),
                None => AGAIN,
            };
            equalling.said = Some(Instant::now());
        }
        (due, newly_whole)
    };
    // A file that is complete here, and was taken for incomplete again after a crash, would be torn by this replica alone.
    if newly_whole
        && replica.store.wait_committed().await.is_ok()
        && let Some(equalling) = replica.state.losses.equalling().get_mut(&lost)
    {
        equalling.whole = true;
    }
    if due {
        report(replica, lost);
    }
    supply(replica, lost);
    take_over_sent(replica, lost).await;
}

/// Whether a copy that lacks data of this lost replica may still replace a local one: the best copy lacks some, or is not known yet.
fn gives_way(
    (all, missing): (&BTreeMap<ReplicaSlot, Equalling>, &Lacks),
    all_lost: &[ReplicaSlot],
    (replica, others): (&LocalReplica, &[ReplicaSlot]),
    lost: ReplicaSlot,
) -> bool {
    let own = (replica.slot(), others);
    let of_this = told_of_all(all, &[lost], own);
    let Some(files) = of_this.and_then(|told| told.get(&lost).map(Reports::files)) else {
        return true;
    };
    if files.is_empty() {
        return false;
    }
    let (Some(told), Some(equalling)) = (told_of_all(all, all_lost, own), all.get(&lost)) else {
        return true;
    };
    let lacks = |file| best(&told, file).is_some_and(|best| best.lack(lost).is_some());
    // Data that arrived after the report. It is reported again before any decision.
    let has_come =
        |file: &ObjectId| equalling.own.contains_key(file) && !missing.contains_key(file);
    let mut not_level = files
        .into_iter()
        .filter(|file| !equalling.level.contains(file) && !has_come(file));
    not_level.any(lacks)
}

/// Members' data that is missing here, in files that are incomplete somewhere.
fn of_members(
    replica: &LocalReplica,
    active: &BTreeSet<ReplicaSlot>,
    equalling: &Equalling,
) -> OfMembers {
    let store = &replica.store;
    let mut lacks = OfMembers::new();
    for file in equalling.in_question() {
        let missing = store.lacks_data_of(file).into_iter();
        for member in missing.filter(|maker| active.contains(maker)) {
            let Some((through, at)) = store.missing_of(file, member) else {
                continue;
            };
            let lack = Lack {
                file,
                through,
                at,
                follows: store.version_before(file, member),
                whole: None,
                majority: false,
            };
            lacks.insert((file, member), lack);
        }
    }
    lacks
}

/// Data that is missing here in a lost replica's files.
async fn lacks(replica: &LocalReplica, lost: ReplicaSlot) -> Result<Lacks> {
    let mut lacks = Lacks::new();
    for (file, through, at) in replica.store.incomplete_files(lost)? {
        let lack = Lack {
            file,
            through,
            at,
            follows: replica.store.version_before(file, lost),
            whole: replica.store.whole_before(file, lost),
            majority: durability::is_held_by_majority(replica, file).await,
        };
        lacks.insert(file, lack);
    }
    Ok(lacks)
}

/// Tells the others what was incomplete here when all were level.
fn report(replica: &Arc<LocalReplica>, lost: ReplicaSlot) {
    let (applied, closed, files) = {
        let all = replica.state.losses.equalling();
        let Some(equalling) = all.get(&lost) else {
            return;
        };
        let of_lost = equalling.own.values().map(|lack| (lost.0, *lack));
        let of_members = equalling.own_of_members.iter();
        let of_members = of_members.map(|((_, member), lack)| (member.0, *lack));
        let files: Vec<(u16, Lack)> = of_lost.chain(of_members).collect();
        (equalling.applied, equalling.closed, files)
    };
    let epoch = replica.lease.view().epoch.0;
    let count = files.len().div_ceil(FILES_AT_ONCE).max(1);
    for slot in replica.holders() {
        let parts = (0..count).map(|part| {
            let first = part * FILES_AT_ONCE;
            let last = files.len().min(first + FILES_AT_ONCE);
            let message = Incomplete {
                of: lost.0,
                applied,
                epoch,
                closed,
                first: part == 0,
                files: files[first..last].to_vec(),
                last: part + 1 == count,
            };
            wire::payload(wire::Kind::Incomplete, &message)
        });
        let list = List::Incomplete(lost);
        conversing::send_list(replica, slot, list, parts.collect());
    }
}

/// Another survivor reports what is incomplete there.
pub(crate) fn incomplete(replica: &Arc<LocalReplica>, from: ReplicaSlot, said: Incomplete) {
    if said.epoch != replica.lease.view().epoch.0 {
        return;
    }
    if replica.state.inboxes.get(ReplicaSlot(said.of)).is_none() {
        // Nothing is left to decide about this replica.
        return;
    }
    let mut all = replica.state.losses.equalling();
    let equalling = all.entry(ReplicaSlot(said.of)).or_default();
    let report = equalling.reports.entry(from).or_default();
    if said.first {
        *report = Report::default();
    }
    report.applied = said.applied;
    report.closed = said.closed;
    for (maker, lack) in said.files {
        if maker == said.of {
            report.files.insert(lack.file, lack);
        } else {
            let of = (lack.file, ReplicaSlot(maker));
            report.of_members.insert(of, lack);
        }
    }
    report.complete = said.last;
    for equalling in all.values_mut() {
        equalling.has_looked = false;
    }
}

/// After all have reported on all lost replicas: ships the files with their best copy here to the replicas that lack them. A later report that
/// this copy lacks data of a member may make another copy the best.
fn supply(replica: &Arc<LocalReplica>, lost: ReplicaSlot) {
    let epoch = replica.lease.view().epoch.0;
    let (all_lost, others) = (replica.lost(), replica.holders());
    let (mine, new) = {
        let all = replica.state.losses.equalling();
        let Some(equalling) = all.get(&lost).filter(|one| !one.has_looked) else {
            return;
        };
        let Some(told) = told_of_all(&all, &all_lost, (replica.slot(), &others)) else {
            return;
        };
        let files = files_to_supply(&told, replica.slot(), lost);
        let known = equalling.supplying.as_ref();
        let mut new = files.clone();
        new.retain(|file, to| known.and_then(|known| known.files.get(file)) != Some(to));
        let closed = || {
            let closed = all.iter().filter(|(_, one)| one.closed);
            closed.map(|(slot, _)| slot.0).collect()
        };
        let mine = Supplying {
            epoch,
            // An earlier shipment counts with the streams that were closed then.
            closed: known.map_or_else(closed, |known| known.closed.clone()),
            files,
        };
        (mine, new)
    };
    // First, because files noted as supplied must be sent.
    replica.engine.supply(&new);
    if let Some(equalling) = replica.state.losses.equalling().get_mut(&lost) {
        let incomplete = mine.files.keys();
        let incomplete = incomplete.filter(|file| equalling.own.contains_key(file));
        equalling.level.extend(incomplete);
        equalling.supplying = Some(mine);
        equalling.has_looked = true;
    }
}

/// Files that lack data of this lost replica somewhere and have their best copy here, each with the replicas that lack some of it.
fn files_to_supply(
    told: &Told<'_>,
    own: ReplicaSlot,
    lost: ReplicaSlot,
) -> BTreeMap<ObjectId, BTreeSet<ReplicaSlot>> {
    let files = told.get(&lost).map(Reports::files).unwrap_or_default();
    let mine = files.into_iter().filter(|file| {
        let best = best(told, *file);
        best.is_some_and(|best| best.slot == own)
    });
    mine.map(|file| (file, lacking(told, file))).collect()
}

/// The position in a lost replica's stream up to which every file's best copy is complete.
pub(super) fn complete_through(replica: &LocalReplica, lost: ReplicaSlot) -> u64 {
    let (all_lost, others) = (replica.lost(), replica.holders());
    let all = replica.state.losses.equalling();
    let own = (replica.slot(), &others[..]);
    let of_this = told_of_all(&all, &[lost], own);
    let Some(files) = of_this.and_then(|told| told.get(&lost).map(Reports::files)) else {
        return 0;
    };
    if files.is_empty() {
        return u64::MAX;
    }
    let Some(told) = told_of_all(&all, &all_lost, own) else {
        return 0;
    };
    let through = files.into_iter().map(|file| {
        let lack = best(&told, file).and_then(|best| best.lack(lost));
        lack.map_or(u64::MAX, |lack| lack.through)
    });
    through.min().unwrap_or(u64::MAX)
}

/// Takes over files from the replica with the best copy: they are complete, or as good as possible.
async fn take_over_sent(replica: &Arc<LocalReplica>, lost: ReplicaSlot) {
    let (all_lost, others) = (replica.lost(), replica.holders());
    let sent: Vec<(ObjectId, Quality)> = {
        let all = replica.state.losses.equalling();
        let Some(equalling) = all.get(&lost) else {
            return;
        };
        let Some(told) = told_of_all(&all, &all_lost, (replica.slot(), &others)) else {
            return;
        };
        let sent = equalling.sent.iter();
        sent.filter_map(|(file, by)| Some((*file, best(&told, *file)?, *by)))
            .filter(|(file, best, by)| best.slot == *by && !equalling.level.contains(file))
            .map(|(file, best, _)| (file, best.quality(lost)))
            .collect()
    };
    for (file, quality) in sent {
        let whole = match quality {
            Quality::Complete => {
                // The best copy has it, no matter when this copy gave way.
                let again = Some(u64::MAX);
                withheld::settle_flagged(replica, lost, file, (u64::MAX, again)).await;
                // A replica that takes part again may wait for it.
                replica.engine.notify();
                if let Some(equalling) = replica.state.losses.equalling().get_mut(&lost) {
                    equalling.sent.remove(&file);
                }
                continue;
            }
            Quality::Before(size) => Some(size),
            Quality::Mixed => None,
        };
        replica.store.note_level(file, lost, whole);
        if let Some(equalling) = replica.state.losses.equalling().get_mut(&lost) {
            equalling.level.insert(file);
        }
    }
}

/// Files that a lost replica had sent only in part, and that a thaw changes. Each comes with the size of the previous version, if that is still
/// whole.
pub(crate) fn at_stake(replica: &LocalReplica, lost: ReplicaSlot) -> Vec<(ObjectId, Option<u64>)> {
    let majority: BTreeSet<ObjectId> = {
        let all = replica.state.losses.equalling();
        let own = all.get(&lost).into_iter().flat_map(|one| one.own.values());
        let majority = own.filter(|lack| lack.majority);
        majority.map(|lack| lack.file).collect()
    };
    let marked = replica.store.incomplete_files(lost).unwrap_or_default();
    let marked = marked.into_iter().map(|(file, _, _)| file);
    let lacking = marked.filter(|file| !majority.contains(file));
    lacking
        .map(|file| (file, replica.store.whole_before(file, lost)))
        .collect()
}

/// A peer says that these files of its stream are complete here.
pub(crate) async fn completed(replica: Arc<LocalReplica>, from: ReplicaSlot, completed: Completed) {
    if replica.state.losses.closing.has_begun(from) {
        // The set is deciding which of its contents count. If this still matters, the peer repeats it.
        return;
    }
    let asked: BTreeMap<ObjectId, u64> = completed.asked.into_iter().collect();
    let (mut complete, mut fetched) = (Vec::new(), Vec::new());
    for (file, position) in completed.files {
        let asked = asked.get(&file).copied();
        withheld::settle_flagged(&replica, from, file, (position, asked)).await;
        complete.push((file, position));
        // Without a request it sent only its changes, maybe a part of what a copy lacks (counterexample 80).
        fetched.extend(asked.map(|_| file));
    }
    for supplied in completed.supplied {
        note_supplied(&replica, from, &supplied);
    }
    let noted = replica.store.note_fetched(&fetched).await;
    if let Err(error) = noted.and(until_stable(&replica, &complete).await) {
        return tracing::error!(%error, "complete files cannot be noted");
    }
    // The sender repeats the others.
    let applied = replica.state.inboxes.acknowledged(from);
    complete.retain(|(file, position)| {
        *position <= applied && !withheld::is_in_vain(&replica, from, *file)
    });
    if complete.is_empty() {
        return;
    }
    let answers = complete
        .iter()
        .filter_map(|(file, _)| Some((*file, *asked.get(file)?)));
    let noted = Completed {
        asked: answers.collect(),
        files: complete,
        ..Completed::default()
    };
    let message = wire::payload(wire::Kind::Noted, &noted);
    replica.state.outbound.send(from, Lane::Metadata, message);
}

/// Returns when it is stable that these files are complete: soon if an operation may wait for a majority that has one of them.
async fn until_stable(replica: &LocalReplica, files: &[(ObjectId, u64)]) -> Result<()> {
    for (file, _) in files {
        if durability::is_held_by_majority(replica, *file).await {
            return replica.store.wait_committed().await;
        }
    }
    replica.store.wait_committed_lazily().await
}

/// A peer has supplied this replica with files. What the peer reports about other files or earlier transfers does not count.
fn note_supplied(replica: &LocalReplica, from: ReplicaSlot, supplied: &Supplied) {
    if supplied.epoch != replica.lease.view().epoch.0 {
        return;
    }
    let mut all = replica.state.losses.equalling();
    for (slot, equalling) in &mut *all {
        if equalling.closed && !supplied.closed.contains(&slot.0) {
            continue;
        }
        // This replica waits for no other files.
        let files = supplied.files.iter();
        let awaited = files.filter(|file| equalling.own.contains_key(file));
        equalling.sent.extend(awaited.map(|file| (*file, from)));
    }
}

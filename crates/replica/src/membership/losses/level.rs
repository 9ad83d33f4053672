//! Which survivors have equally much of a lost replica's stream, by their latest reports, and which one acts for all.
//!
//! What must never enter: what follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use control::Moment;
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::clock::lease_time;
use crate::driver::local_replica::LocalReplica;
use crate::state::losses::Equalling;
use crate::state::wire::{LackingFiles, LeaseRequest};

/// The other active members.
fn others(replica: &LocalReplica) -> Vec<ReplicaSlot> {
    let mut others = replica.lease.view().active;
    others.remove(&replica.slot());
    others.into_iter().collect()
}

/// Whether this replica is the first active member that holds contents. That member does what only one should do.
pub(crate) fn is_first(replica: &LocalReplica) -> bool {
    let own = replica.slot();
    replica.holders().into_iter().all(|slot| slot > own)
}

/// How far each other survivor, witnesses included, has applied a lost replica's stream, by its latest report in this view. `None` before all of
/// them have reported.
pub(super) fn applied_by_others(
    replica: &LocalReplica,
    lost: ReplicaSlot,
) -> Option<BTreeMap<ReplicaSlot, u64>> {
    let reported = applied_by_reported(replica, lost);
    (reported.len() == others(replica).len()).then_some(reported)
}

/// The same of those that have reported. A member may never do so: it was lost, too, and cannot be excluded before another one takes its place.
pub(super) fn applied_by_reported(
    replica: &LocalReplica,
    lost: ReplicaSlot,
) -> BTreeMap<ReplicaSlot, u64> {
    let epoch = replica.lease.view().epoch.0;
    let news = replica.state.peers.news();
    let others = others(replica).into_iter();
    let reported = others.filter_map(|slot| {
        let (request, _) = news.get(&slot)?.said.as_ref()?;
        let mut applied = request.applied.iter();
        let applied = applied.find(|(of, _)| *of == lost.0)?.1;
        (request.epoch == epoch).then_some((slot, applied))
    });
    reported.collect()
}

/// The members admitted to the view when the lost replica left, or later.
pub(super) fn late(replica: &LocalReplica, lost: ReplicaSlot) -> BTreeSet<ReplicaSlot> {
    let state = replica.view_state();
    let gone = state
        .as_ref()
        .and_then(|state| state.members.get(&lost))
        .map_or(u64::MAX, |member| member.since_epoch);
    let since = replica.lease.view().since;
    let late = since.into_iter().filter(|(_, since)| since.0 >= gone);
    late.map(|(slot, _)| slot).collect()
}

/// A replica outside the view, or absent from it, of whose stream a member holds more than this replica. What only a witness has received does
/// not count.
pub(crate) fn lacking_of_lost(
    replica: &LocalReplica,
    absent: &BTreeSet<ReplicaSlot>,
) -> Option<ReplicaSlot> {
    let view = replica.lease.view();
    let witnesses = replica.engine.witnesses();
    let news = replica.state.peers.news();
    let others = replica.state.inboxes.followed().into_iter();
    let gone = |slot: &ReplicaSlot| !view.active.contains(slot) || absent.contains(slot);
    let mut lost = others.filter(gone);
    lost.find(|lost| {
        let here = replica.state.inboxes.acknowledged(*lost);
        let said = view
            .active
            .difference(&witnesses)
            .filter_map(|slot| news.get(slot)?.said.as_ref());
        let applied = said.flat_map(|(request, _)| &request.applied);
        let mut applied = applied.filter(|(of, _)| *of == lost.0);
        applied.any(|(_, applied)| *applied > here)
    })
}

/// Replicas with contents that are missing here, in contact or not: others may not hear them, and what they had sent may never arrive.
pub(crate) fn lacks_here(replica: &LocalReplica) -> Vec<(u16, u64)> {
    // A store that has failed ends the server elsewhere.
    let makers = replica.store.makers_of_incomplete().unwrap_or_default();
    let makers = makers.into_iter();
    makers.map(|(slot, through)| (slot.0, through)).collect()
}

/// At most this many files are named, as the report is sent several times a lease. Of a replica with more there is a sum (counterexample 107): those that
/// lack the same lack all that the replica changed before it was lost.
const NAMED_MAX: usize = 1024;

/// Which files those are, of replicas that are not in the view or do not answer.
pub(crate) fn lacking_here(
    replica: &LocalReplica,
    lacks: &[(u16, u64)],
    silent: &BTreeSet<ReplicaSlot>,
) -> Vec<(u16, LackingFiles)> {
    let view = replica.lease.view();
    let makers = lacks.iter().map(|(slot, _)| ReplicaSlot(*slot));
    let gone = makers.filter(|slot| !view.active.contains(slot) || silent.contains(slot));
    let mut left = NAMED_MAX;
    gone.map(|slot| (slot.0, told(missing_of(replica, slot), &mut left)))
        .collect()
}

/// Tells of these files, of which at most `left` may be named.
fn told(missing: BTreeMap<ObjectId, u64>, left: &mut usize) -> LackingFiles {
    match left.checked_sub(missing.len()) {
        Some(now_left) => {
            *left = now_left;
            LackingFiles::Named(missing.into_iter().collect())
        }
        None => LackingFiles::Sum(sum(&missing)),
    }
}

/// A checksum of these files and places.
fn sum(missing: &BTreeMap<ObjectId, u64>) -> [u8; blake3::OUT_LEN] {
    let mut hasher = blake3::Hasher::new();
    for (file, through) in missing {
        hasher.update(&file.as_u64().to_be_bytes());
        hasher.update(&through.to_be_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// The files of which contents of a replica are missing here, each with the place up to which they are here.
fn missing_of(replica: &LocalReplica, of: ReplicaSlot) -> BTreeMap<ObjectId, u64> {
    // A store that has failed ends the server elsewhere.
    let files = replica.store.incomplete_files(of).unwrap_or_default();
    let files = files.into_iter();
    files.map(|(file, through, _)| (file, through)).collect()
}

/// Whether a replica may lack contents of a stream that are here (counterexample 102). `knows`: whether a file is here at all.
fn lacks_what_is_here(
    request: &LeaseRequest,
    here: &Here,
    knows: &impl Fn(ObjectId) -> bool,
) -> bool {
    if !lacks_some_of(request, here.of, here.applied) {
        return false;
    }
    let mut named = request.lacking.iter();
    let Some((_, files)) = named.find(|(slot, _)| *slot == here.of.0) else {
        return true;
    };
    let more_is_here = |(file, there): &(ObjectId, u64)| {
        let through = here.missing.get(file).copied();
        knows(*file) && through.unwrap_or(here.applied) > *there
    };
    match files {
        LackingFiles::Named(files) => files.iter().any(more_is_here),
        LackingFiles::Sum(there) => *there != sum(&here.missing),
    }
}

/// Whether a replica reports missing contents of a stream before the position applied here. Later contents are not here either.
fn lacks_some_of(request: &LeaseRequest, of: ReplicaSlot, here: u64) -> bool {
    let mut lacks = request.lacks.iter();
    lacks.any(|(slot, through)| *slot == of.0 && *through < here)
}

/// Whether other members in contact hold contents, and for each replica outside the view one of them has all its updates that are here, with their
/// contents. Replicas that the set gave up do not count. A member that is lost, too, stays in a view that cannot do without it, and so does its last
/// report.
pub(crate) fn others_have_all(replica: &LocalReplica) -> bool {
    let survivors = replica.holders_in_contact();
    let news = replica.state.peers.news();
    let knows = |file| replica.store.file_size(file).is_ok();
    let lacks = |by: &ReplicaSlot, here: &Here| {
        let said = news.get(by).and_then(|news| news.said.as_ref());
        said.is_some_and(|(request, _)| lacks_what_is_here(request, here, &knows))
    };
    let view = replica.lease.view();
    let others = replica.state.inboxes.followed().into_iter();
    let mut gone = others.filter(|slot| !view.active.contains(slot) && !replica.is_given_up(*slot));
    let has_all = |lost| {
        let here = here_of(replica, lost);
        let others = applied_by_reported(replica, lost);
        let with_contents = |slot: &&ReplicaSlot| !lacks(slot, &here);
        let having = survivors.iter().filter(with_contents);
        let mut applied = having.filter_map(|slot| others.get(slot));
        applied.any(|applied| *applied >= here.applied)
    };
    !survivors.is_empty() && gone.all(has_all)
}

/// How much of another replica's stream is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Here {
    of: ReplicaSlot,
    applied: u64,
    /// Files without all of their contents, each with the place up to which they are here.
    missing: BTreeMap<ObjectId, u64>,
}

fn here_of(replica: &LocalReplica, of: ReplicaSlot) -> Here {
    Here {
        of,
        applied: replica.state.inboxes.acknowledged(of),
        missing: missing_of(replica, of),
    }
}

/// How much of all other streams is here, and since when, on this replica's lease clock.
#[derive(Clone, Debug)]
pub(crate) struct Stood {
    since: Moment,
    here: Vec<Here>,
}

/// How much of all other streams is here.
pub(crate) fn here(replica: &LocalReplica) -> Stood {
    let streams = replica.state.inboxes.followed().into_iter();
    let here = streams.map(|of| here_of(replica, of)).collect();
    // Everything here was changed before.
    let since = lease_time();
    Stood { since, here }
}

/// What a member lacks of a copy that is to be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lacking {
    /// A member may just not have been heard yet, or has not reported in this view that its copy is complete.
    Report,
    /// Updates of one replica that another one lacks.
    Updates { of: ReplicaSlot, by: ReplicaSlot },
    /// Contents of one replica that another one lacks.
    Contents { of: ReplicaSlot, by: ReplicaSlot },
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lacking::Report => write!(
                f,
                "not all members have reported that their copies are complete"
            ),
            Lacking::Updates { of, by } => {
                write!(f, "replica {} lacks updates of replica {}", by.0, of.0)
            }
            Lacking::Contents { of, by } if of == by => {
                write!(
                    f,
                    "replica {} has not sent all that it changed to all members",
                    of.0
                )
            }
            Lacking::Contents { of, by } => {
                write!(f, "replica {} lacks contents of replica {}", by.0, of.0)
            }
        }
    }
}

/// What a member that holds contents and reported within `fresh` lacks of these streams; `None` if nothing. Streams that the set gave up do not
/// count. A member without a complete copy, or without a report in this view, counts as lacking.
pub(crate) fn lacking_of_present(
    replica: &LocalReplica,
    stood: &Stood,
    fresh: Duration,
) -> Option<Lacking> {
    let news = replica.state.peers.news();
    let epoch = replica.lease.view().epoch.0;
    let holders = replica.holders();
    let present = holders.iter().filter_map(|slot| {
        let (request, at) = news.get(slot)?.said.as_ref()?;
        (at.elapsed() < fresh).then_some((*slot, request))
    });
    let present: Vec<(ReplicaSlot, &LeaseRequest)> = present.collect();
    if present.len() < holders.len() && lease_time() < stood.since.after(fresh) {
        // A silent member may just not have been heard yet.
        return Some(Lacking::Report);
    }
    let mut words = present.iter();
    if words.any(|(_, request)| request.epoch != epoch || !request.complete) {
        return Some(Lacking::Report);
    }
    let has_shipped = |slot: ReplicaSlot| {
        let shipped = news.get(&slot).and_then(|news| news.shipped.as_ref());
        // A member that does not answer there, and answers here, may lack some.
        let is_present = |left_out: &u16| present.iter().any(|(by, _)| by.0 == *left_out);
        shipped.is_some_and(|shipped| {
            let counts = shipped.epoch == epoch && shipped.before >= stood.since;
            counts && !shipped.without.iter().any(is_present)
        })
    };
    let here = stood.here.iter();
    let here = here.filter(|here| here.applied > 0 && !replica.is_given_up(here.of));
    let knows = |file| replica.store.file_size(file).is_ok();
    lacking_of(&present, has_shipped, knows, here)
}

/// What one of these reports lacks of these streams; `None` if nothing. Then the loss of the maker, or of any other replica, takes away nothing
/// that counts because it is here. A present maker itself reports whether it has shipped its contents to all.
fn lacking_of<'h>(
    present: &[(ReplicaSlot, &LeaseRequest)],
    has_shipped: impl Fn(ReplicaSlot) -> bool,
    knows: impl Fn(ObjectId) -> bool,
    mut here: impl Iterator<Item = &'h Here>,
) -> Option<Lacking> {
    if present.is_empty() {
        return Some(Lacking::Report);
    }
    let is_present = |slot| present.iter().any(|(by, _)| *by == slot);
    let lacks = |(by, request): &(ReplicaSlot, &LeaseRequest), here: &Here| {
        let (of, by) = (here.of, *by);
        let mut applied = request.applied.iter();
        if !applied.any(|(slot, there)| *slot == of.0 && *there >= here.applied) {
            return Some(Lacking::Updates { of, by });
        }
        // This replica may have the contents of some files of a present maker and lack those of others.
        match is_present(of) {
            true => (!has_shipped(of)).then_some(Lacking::Contents { of, by: of }),
            false => {
                lacks_what_is_here(request, here, &knows).then_some(Lacking::Contents { of, by })
            }
        }
    };
    here.find_map(|here| {
        let mut others = present.iter().filter(|(by, _)| *by != here.of);
        others.find_map(|one| lacks(one, here))
    })
}

/// Lost replicas whose streams are applied here up to this position, with all contents. A stream that is being closed counts only after its
/// close.
pub(crate) fn whole_here(replica: &LocalReplica) -> Vec<(u16, u64)> {
    let closing = replica.state.losses.closing.begun();
    let equalling = replica.state.losses.equalling();
    let counts = |slot: &ReplicaSlot, one: &Equalling| one.closed || !closing.contains(slot);
    let whole = equalling
        .iter()
        .filter(|(slot, equalling)| equalling.is_whole() && counts(slot, equalling));
    whole
        .map(|(slot, equalling)| (slot.0, equalling.applied()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of three replicas the first acknowledged an update because the third has it. The first is lost. The third is outside the view and needs a
    /// copy.
    #[test]
    fn a_copy_that_alone_has_an_update_of_a_lost_replica_is_not_given_up() {
        let (first, second) = (ReplicaSlot(1), ReplicaSlot(2));
        let here = |of, applied| Here {
            of,
            applied,
            missing: BTreeMap::new(),
        };
        let here = [here(first, 7), here(second, 3)];
        let have_all =
            |present: &[_]| lacking_of(present, |_| true, |_| true, here.iter()).is_none();
        let says = |applied: &[(u16, u64)], lacks: &[(u16, u64)]| LeaseRequest {
            applied: applied.to_vec(),
            lacks: lacks.to_vec(),
            ..LeaseRequest::default()
        };
        let (behind, level) = (says(&[(1, 6)], &[]), says(&[(1, 7)], &[]));
        assert!(!have_all(&[(second, &behind)]));
        assert!(have_all(&[(second, &level)]));
        let without_contents = says(&[(1, 7)], &[(1, 6)]);
        assert!(!have_all(&[(second, &without_contents)]));
        let without_later_ones = says(&[(1, 9)], &[(1, 7)]);
        assert!(have_all(&[(second, &without_later_ones)]));
        let maker = says(&[(2, 3)], &[]);
        assert!(have_all(&[(first, &maker)]), "its maker alone is there");
        let both = [(first, &maker), (second, &behind)];
        assert!(!have_all(&both), "when the first is lost nobody has it");
        assert!(have_all(&[(first, &maker), (second, &level)]));
        assert!(have_all(&[(first, &maker), (second, &without_contents)]));
        assert!(!have_all(&[]), "nobody is there to say so");
    }

    /// The first acknowledged a write because the third had it. The second has all its updates, but not the contents.
    #[test]
    fn counterexample_58_a_copy_that_alone_has_contents_of_one_that_is_there_is_not_given_up() {
        let (first, second) = (ReplicaSlot(1), ReplicaSlot(2));
        let file = ObjectId::from_u64(9);
        let here = |whole: bool| Here {
            of: first,
            applied: 7,
            missing: (!whole).then_some((file, 3)).into_iter().collect(),
        };
        let says = LeaseRequest {
            applied: vec![(1, 7)],
            ..LeaseRequest::default()
        };
        let both = [(first, &LeaseRequest::default()), (second, &says)];
        let have_all = |shipped, whole| {
            lacking_of(&both, |_| shipped, |_| true, [here(whole)].iter()).is_none()
        };
        assert!(!have_all(false, true));
        assert!(have_all(true, true));
        assert!(
            !have_all(false, false),
            "others of the same replica may be here"
        );
    }

    /// A lost replica's file is here as a whole, and another one of it is not. A member has the second one no more than this replica, and lacks the first.
    #[test]
    fn counterexample_102_a_copy_without_some_contents_may_be_the_only_one_with_others() {
        let (lost, member) = (ReplicaSlot(1), ReplicaSlot(2));
        let [first, second] = [1, 2].map(ObjectId::from_u64);
        let here = Here {
            of: lost,
            applied: 20,
            missing: [(second, 15)].into(),
        };
        let says = |lacks, files: Option<&[(ObjectId, u64)]>| LeaseRequest {
            applied: vec![(1, 20)],
            lacks: vec![(1, lacks)],
            lacking: files
                .map(|files| (1, LackingFiles::Named(files.to_vec())))
                .into_iter()
                .collect(),
            ..LeaseRequest::default()
        };
        let lacks = |request: &LeaseRequest| {
            let present = [(member, request)];
            lacking_of(&present, |_| true, |_| true, [&here].into_iter()).is_some()
        };
        assert!(lacks(&says(10, Some(&[(first, 10), (second, 15)]))));
        assert!(!lacks(&says(15, Some(&[(second, 15)]))), "nobody has it");
        assert!(
            lacks(&says(10, Some(&[(second, 10)]))),
            "less of it is there"
        );
        assert!(lacks(&says(10, None)), "many are missing there");
        let unknown = says(10, Some(&[(first, 10)]));
        let present = [(member, &unknown)];
        let knows = |file: ObjectId| file != first;
        let lacking = lacking_of(&present, |_| true, knows, [&here].into_iter());
        assert!(lacking.is_none(), "the file is not here at all");
    }

    /// A member wrote many files before it was lost, and nobody got their contents. The one that was to take its place kept its copy, as nothing said
    /// that the others lack no more.
    #[test]
    fn counterexample_107_of_many_files_both_may_lack_the_same() {
        let lost = ReplicaSlot(1);
        let count = NAMED_MAX as u64 + 1;
        let missing: BTreeMap<ObjectId, u64> = (1..=count)
            .map(|number| (ObjectId::from_u64(number), 10))
            .collect();
        let here = Here {
            of: lost,
            applied: 20,
            missing: missing.clone(),
        };
        let lacks = |missing: BTreeMap<ObjectId, u64>| {
            let said = LeaseRequest {
                applied: vec![(1, 20)],
                lacks: vec![(1, 10)],
                lacking: vec![(1, told(missing, &mut { NAMED_MAX }))],
                ..LeaseRequest::default()
            };
            lacks_what_is_here(&said, &here, &|_| true)
        };
        assert!(!lacks(missing.clone()));
        let mut more = missing.clone();
        more.insert(ObjectId::from_u64(count + 1), 10);
        assert!(lacks(more));
        let mut earlier = missing;
        earlier.insert(ObjectId::from_u64(1), 9);
        assert!(lacks(earlier));
    }
}

//! Problems that need a person's attention, derived from the rest of a status. `docs/operating.md` says for each alarm
//! what to do.
//!
//! What must never enter: questions to other servers; an alarm follows from data in the status.

use std::collections::BTreeMap;
use std::fmt;

use replica::Durability;
use serde::{Deserialize, Serialize};

use super::called;
use super::clocks;
use super::replication::REMOVED;
use super::text::{moment, size};
use super::{
    ExportStatus, PoolServerStatus, PoolStatus, ReplicaStatus, ScrubView, ShortView, SpaceStatus,
    ViewStatus, is_nearly_full,
};
use crate::set::{MAJORITY_OF_TWO, TWO_VOTERS};
use vfs::{Counted, ShownText};

/// When an update arrives, pending control is granted within a few round trips, or frozen within a lease.
const UPDATE_WAITS_MS: u64 = 60_000;

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// The name of the alarm: one of a fixed list of short names, such as `member-away`.
    pub name: String,
    /// The tree that it is about.
    pub tree: String,
    /// The problem, in words.
    pub what: String,
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.what)
    }
}

/// All problems of one export.
pub(crate) fn alarms(export: &ExportStatus) -> Vec<Alarm> {
    let mut found = Vec::new();
    if export.store.failed {
        found.push((
            "storage-failed",
            "stable storage has failed; see the log".to_owned(),
        ));
    }
    if export.space.is_nearly_full() {
        found.push(("disk-nearly-full", who_has_how_much(&export.space)));
    }
    if let Some(replication) = &export.replication {
        found.extend(of_replica(replication));
    }
    let alarm = |(name, what): (&str, String)| Alarm {
        name: name.to_owned(),
        tree: export.tree.clone(),
        what,
    };
    found.into_iter().map(alarm).collect()
}

/// All problems of a server's pool.
pub(crate) fn of_pool(pool: &PoolStatus) -> Vec<Alarm> {
    let wrong = pool.servers.iter().filter(|server| !server.is_well());
    let alarm = |server: &PoolServerStatus| Alarm {
        name: "pool-server-away".to_owned(),
        tree: String::new(),
        what: format!(
            "{} {} {}{}",
            server.role,
            server.number,
            match server.connected {
                true => "does not serve",
                false => "is not connected",
            },
            server.because(),
        ),
    };
    let not_moved = pool.moving.as_ref();
    let not_moved = not_moved.and_then(|moving| moving.trouble.as_deref());
    let not_moved = not_moved.map(|trouble| Alarm {
        name: "pool-files-not-moved".to_owned(),
        tree: String::new(),
        what: format!(
            "files stay where they are instead of moving to other data servers; they are tried again: {}",
            ShownText(trouble)
        ),
    });
    let alarms = wrong.map(alarm).chain(full_servers(pool));
    alarms.chain(not_moved).collect()
}

/// Data servers with almost no free space, this one included.
fn full_servers(pool: &PoolStatus) -> impl Iterator<Item = Alarm> + '_ {
    let own = pool
        .holding
        .map(|holding| (format!("{} {}", pool.role, pool.number), holding));
    let others = pool.servers.iter().filter_map(|server| {
        let name = match server.name.as_str() {
            "" => String::new(),
            name => format!(" ({})", ShownText(name)),
        };
        let who = format!("{} {}{name}", server.role, server.number);
        Some((who, server.holding?))
    });
    let all = own.into_iter().chain(others);
    let full = all.filter(|(_, holding)| is_nearly_full(holding));
    full.map(|(who, holding)| Alarm {
        name: "pool-server-full".to_owned(),
        tree: String::new(),
        what: format!(
            "{who} has {} of {} left; writing to files that are striped over it is refused (ENOSPC) when that is used up",
            size(holding.available_bytes),
            size(holding.total_bytes),
        ),
    })
}

/// The free space of a nearly full disk, and what uses the rest.
fn who_has_how_much(space: &SpaceStatus) -> String {
    let (available, total) = (space.available_bytes, space.total_bytes);
    let left = format!("{} of {} are left", size(available), size(total));
    let Some(tree_bytes) = space.tree_bytes else {
        return left;
    };
    let others_bytes = total
        .saturating_sub(space.free_bytes)
        .saturating_sub(tree_bytes);
    format!(
        "{left}; this tree has {}, everything else on the disk {}",
        size(tree_bytes),
        size(others_bytes)
    )
}

fn of_replica(replica: &ReplicaStatus) -> Vec<(&'static str, String)> {
    if replica.removed {
        // All its other knowledge of the set is outdated.
        return vec![("removed", REMOVED.to_owned())];
    }
    let mut found = rolled_back(replica);
    found.extend(nonsense(replica));
    found.extend(slow(replica));
    found.extend(replica.scrub.iter().flat_map(of_scrub));
    found.extend(torn(replica));
    found.extend(short(replica));
    found.extend(clocks::apart(replica).map(|what| ("clocks-differ", what)));
    let Some(view) = &replica.view else {
        return found;
    };
    if !view.takes_part {
        let why = view.obstacle.as_deref().unwrap_or("it asks to be admitted");
        found.push((
            "outside-the-view",
            format!("this server does not take part: {why}"),
        ));
    } else if view.lease_ms == Some(0) {
        let what = "no majority of the set is in contact, so clients are not answered";
        found.push(("no-lease", what.to_owned()));
    }
    for member in view.members.iter().filter(|member| !member.active) {
        if let (Some(at), Some(reason)) = (member.excluded_at_unix_s, &member.reason)
            && member.slot != replica.slot
        {
            let (who, since) = (called::replica(&replica.names, member.slot), moment(at));
            found.push((
                "member-away",
                format!("{who} left the view at {since}: {reason}"),
            ));
        }
    }
    found.extend(frozen(view));
    if view.takes_part {
        found.extend(waiting_updates(replica));
    }
    if view.has_two_voters() {
        let what = match replica.durability {
            Durability::Majority => MAJORITY_OF_TWO,
            Durability::Relaxed => TWO_VOTERS,
        };
        found.push(("two-voters", what.to_owned()));
    }
    found
}

/// The disks that have too little space.
fn short(replica: &ReplicaStatus) -> Option<(&'static str, String)> {
    let mut disks: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for ShortView { by, of } in &replica.short {
        disks.entry(*of).or_default().push(by.to_string());
    }
    let told = disks.into_iter().map(|(of, by)| {
        let peer = replica.peers.iter().find(|peer| peer.slot == of);
        let left = peer.and_then(|peer| peer.available_bytes).map(size);
        let left = left.map_or(String::new(), |left| format!(" ({left} can be filled there)"));
        let whose = match of == replica.slot {
            true => "this server's disk".to_owned(),
            false => format!("the disk of replica {of}"),
        };
        let by = by.join(" ");
        format!("{whose} has too little space{left}, so changes that need some are refused at replicas {by}, or soon will be")
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| ("space", told.join("; ")))
}

/// Older copies were restored: here, and at other members.
fn rolled_back(replica: &ReplicaStatus) -> Vec<(&'static str, String)> {
    let own = replica.rolled_back.iter();
    let own = own.map(|why| ("copy-rolled-back", why.clone()));
    let peers = replica.peers.iter().filter_map(|peer| {
        let why = peer.rolled_back.as_ref()?;
        let who = called::replica(&replica.names, peer.slot);
        let what = match peer.connected {
            // No copy has to be replaced.
            true => format!(
                "besides {who}, which is in contact, a server has called itself so with an older copy of its data directory, and is refused; find that one and stop it"
            ),
            false => why.clone(),
        };
        Some(("member-rolled-back", what))
    });
    own.chain(peers).collect()
}

/// The members that sent invalid data.
fn nonsense(replica: &ReplicaStatus) -> Vec<(&'static str, String)> {
    let said = replica.peers.iter().filter_map(|peer| {
        let (who, what) = (called::replica(&replica.names, peer.slot), &peer.nonsense);
        let what = what.as_ref()?;
        let what = format!("{who} sent what makes no sense, and is not listened to: {what}");
        Some(("member-malformed", what))
    });
    said.collect()
}

/// The members whose updates cannot be applied here, although this server has no other problem.
fn waiting_updates(replica: &ReplicaStatus) -> Vec<(&'static str, String)> {
    let told = replica.peers.iter().filter_map(|peer| {
        let waits = peer.update_waits_ms.filter(|waits| *waits >= UPDATE_WAITS_MS)?;
        let (who, waits) = (called::replica(&replica.names, peer.slot), waits / 1000);
        let what = format!(
            "an update of {who} has been waiting here for {waits} s, and all later ones behind it: what it was made under is not granted here"
        );
        Some(("updates-wait", what))
    });
    told.collect()
}

/// Members of the view that lack more than is kept for them. If the others can continue without such a member, it leaves the view within moments.
fn slow(replica: &ReplicaStatus) -> Option<(&'static str, String)> {
    let who = called::replica(&replica.names, replica.too_slow?);
    let what = format!(
        "{who} takes what others change too slowly, and too few would be left without it: changes here wait until it lacks less"
    );
    Some(("member-slow", what))
}

fn torn(replica: &ReplicaStatus) -> Option<(&'static str, String)> {
    let (count, named) = (replica.torn_files, replica.torn_paths.join(", "));
    let files = Counted(count, "file");
    let more = count.saturating_sub(replica.torn_paths.len() as u64);
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!(
        "part of the contents of {files} was lost with a server and cannot be read: {named}{more}"
    );
    (count > 0).then_some(("torn-files", what))
}

fn of_scrub(scrub: &ScrubView) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let (damaged, undecided) = (scrub.damaged, scrub.undecided);
    let (files, objects) = (Counted(damaged, "file"), Counted(undecided, "object"));
    if damaged > 0 {
        let what = format!(
            "the disk has changed the contents of {files} here; `meridian scrub --show` names what is damaged"
        );
        found.push(("damaged-content", what));
    }
    if undecided > 0 {
        let what = format!(
            "copies differ in {objects}, and nobody knows which is right; `meridian scrub --show` names what differs"
        );
        found.push(("copies-differ", what));
    }
    found
}

fn frozen(view: &ViewStatus) -> Option<(&'static str, String)> {
    let lost: Vec<String> = view
        .losses
        .iter()
        .filter(|loss| loss.frozen_controls > 0)
        .map(|loss| loss.slot.to_string())
        .collect();
    let (count, lost) = (view.frozen_controls(), lost.join(" "));
    let what = format!(
        "{count} controls of lost replicas ({lost}) keep objects frozen; `meridian frozen` lists them"
    );
    (count > 0).then_some(("frozen-objects", what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::examples;
    use crate::status::replication::ReplicaText;
    use crate::status::{ClockDifference, Status};

    fn names(export: &ExportStatus) -> Vec<String> {
        alarms(export).into_iter().map(|alarm| alarm.name).collect()
    }

    #[test]
    fn each_alarm_follows_from_the_status() {
        let mut export = Status::example().exports.remove(0);
        assert!(names(&export).is_empty());
        export.space.available_bytes = 100 << 20;
        export.store.failed = true;
        assert_eq!(names(&export), ["storage-failed", "disk-nearly-full"]);
        export.space.tree_bytes = Some(1 << 30);
        let told = alarms(&export).pop().unwrap().what;
        assert!(
            told.contains("this tree has 1.0 GiB, everything else on the disk 5.0 GiB"),
            "{told}"
        );
        let mut export = Status::example().exports.remove(0);
        let mut replica = examples::replica();
        replica.view = Some(examples::view());
        export.replication = Some(replica.clone());
        assert_eq!(names(&export), ["member-away", "frozen-objects"]);
        let mut torn = export.clone();
        if let Some(replica) = &mut torn.replication {
            (replica.torn_files, replica.torn_paths) = (3, vec!["/src/a".to_owned()]);
        }
        let first = alarms(&torn).remove(0);
        assert_eq!(first.name, "torn-files");
        assert!(first.what.ends_with("/src/a and 2 more"), "{first}");
        let mut full = export.clone();
        if let Some(replica) = &mut full.replication {
            let short = |by, of| ShortView { by, of };
            replica.short = vec![short(1, 2), short(2, 1), short(3, 2)];
            replica.peers[0].available_bytes = Some(64 << 20);
        }
        let first = alarms(&full).remove(0);
        assert_eq!(first.name, "space");
        for part in [
            "this server's disk has too little space, so changes that need some are refused at replicas 1 3, or soon",
            "the disk of replica 1 has too little space (64.0 MiB can be filled there), so changes",
            "are refused at replicas 2, or soon",
        ] {
            assert!(first.what.contains(part), "{part}: {first}");
        }
        let mut apart = export.clone();
        if let Some(replica) = &mut apart.replication {
            replica.peers[0].clock = Some(ClockDifference {
                ahead_us: 2_000_000,
                within_us: 100,
            });
        }
        assert_eq!(alarms(&apart).remove(0).name, "clocks-differ");
        let mut view = examples::view();
        view.losses.clear();
        view.members.truncate(2);
        view.lease_ms = Some(0);
        replica.view = Some(view.clone());
        export.replication = Some(replica.clone());
        assert_eq!(names(&export), ["no-lease", "two-voters"]);
        replica.scrub = Some(ScrubView {
            damaged: 1,
            undecided: 2,
            ..ScrubView::default()
        });
        export.replication = Some(replica.clone());
        assert_eq!(names(&export)[..2], ["damaged-content", "copies-differ"]);
        replica.scrub = None;
        view.takes_part = false;
        view.obstacle = Some("its copy of the tree is not complete".to_owned());
        replica.view = Some(view);
        export.replication = Some(replica);
        let mut put_back = export.clone();
        if let Some(replica) = &mut put_back.replication {
            replica.rolled_back = Some("replica 1 knows more of it".to_owned());
            replica.peers[0].rolled_back = Some("it lacks updates".to_owned());
        }
        assert_eq!(
            names(&put_back)[..2],
            ["copy-rolled-back", "member-rolled-back"]
        );
        assert!(alarms(&put_back)[1].what.contains("find that one"));
        if let Some(replica) = &mut put_back.replication {
            replica.peers[0].connected = false;
        }
        assert_eq!(alarms(&put_back)[1].what, "it lacks updates");
        let mut senseless = export.clone();
        if let Some(replica) = &mut senseless.replication {
            replica.peers[0].nonsense = Some("a message cannot be decoded".to_owned());
        }
        let told = alarms(&senseless).remove(0);
        assert_eq!(told.name, "member-malformed");
        assert!(told.what.contains("replica 1"), "{}", told.what);
        let first = alarms(&export).remove(0);
        assert_eq!(first.name, "outside-the-view");
        assert!(first.what.ends_with("its copy of the tree is not complete"));
    }

    #[test]
    fn an_update_that_waits_is_told_of_by_a_server_that_takes_part() {
        let mut export = Status::example().exports.remove(0);
        let mut replica = examples::replica();
        replica.peers[0].update_waits_ms = Some(UPDATE_WAITS_MS);
        let told = |export: &ExportStatus| {
            let mut told = alarms(export).into_iter();
            told.find(|alarm| alarm.name == "updates-wait")
        };
        let mut view = examples::view();
        for takes_part in [false, true] {
            view.takes_part = takes_part;
            replica.view = Some(view.clone());
            export.replication = Some(replica.clone());
            assert_eq!(told(&export).is_some(), takes_part);
        }
        let what = told(&export).map(|alarm| alarm.what).unwrap_or_default();
        let part = "replica 1 (alpha) has been waiting here for 60 s";
        assert!(what.contains(part), "{what}");
        replica.peers[0].update_waits_ms = Some(UPDATE_WAITS_MS - 1);
        export.replication = Some(replica);
        assert_eq!(told(&export), None, "it may be granted soon");
    }

    #[test]
    fn a_removed_server_says_that_and_nothing_else_of_its_set() {
        let mut export = Status::example().exports.remove(0);
        let mut replica = examples::replica();
        replica.view = Some(examples::view());
        replica.removed = true;
        let shown = ReplicaText(&replica).to_string();
        assert!(shown.contains("REMOVED FROM THE SET"), "{shown}");
        assert!(!shown.contains("peer"), "{shown}");
        export.replication = Some(replica);
        assert_eq!(names(&export), ["removed"]);
    }

    #[test]
    fn what_cannot_be_told_raises_no_alarm() {
        let mut export = Status::example().exports.remove(0);
        export.space = crate::status::SpaceStatus::default();
        assert!(names(&export).is_empty());
    }
}

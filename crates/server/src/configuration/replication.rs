//! `[replication]`: how the replicas of a set keep the replicated tree equal.
//!
//! What must never enter: the effect of the settings, and the set's own files.

use std::time::Duration;

use control::{Contention, Strategies};
use replica::{Durability, Frozen, NameSpace, WithoutMajority};

use super::address::PeerListenAddress;
use super::duration::format_duration;
use super::section::Section;
use super::{Configuration, DEFAULT_TREE, file};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The behaviour of one replica of a set. It has no effect without a set in the data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationConfiguration {
    /// The name of the tree that the set keeps; all other trees belong to this server only.
    pub tree: String,
    /// Where to listen for the other replicas. `None` means all addresses, at the port that the others were given.
    pub listen: Option<PeerListenAddress>,
    /// The settings of the replica. Missing ones have its default values.
    pub replica: replica::Settings,
}

impl Default for ReplicationConfiguration {
    fn default() -> ReplicationConfiguration {
        ReplicationConfiguration {
            tree: DEFAULT_TREE.to_owned(),
            listen: None,
            replica: replica::Settings::default(),
        }
    }
}

/// Reads the table.
pub(super) fn read(section: &Section<'_>, all: &mut Configuration) {
    tree(section, all);
    all.replication.listen = section.parsed("listen", PeerListenAddress::WANTED);
    let own = &mut all.replication.replica;
    let lanes = section.integer("data_lanes", 1..=64);
    let lanes = lanes.and_then(|lanes| u32::try_from(lanes).ok());
    own.peer.data_lanes = lanes.unwrap_or(own.peer.data_lanes);
    let compression = section.switch("compression");
    own.peer.compression = compression.unwrap_or(own.peer.compression);
    own.merging = section.switch("merging").unwrap_or(own.merging);
    let contentions = [("forward", Contention::Forward), ("wait", Contention::Wait)];
    let contention = section.choice("directory_contention", &contentions);
    own.control.directory_contention = contention.unwrap_or(own.control.directory_contention);
    let lookups = [
        ("strict", NameSpace::Strict),
        ("relaxed", NameSpace::Relaxed),
    ];
    own.name_space = section
        .choice("namespace", &lookups)
        .unwrap_or(own.name_space);
    let durabilities = [
        ("relaxed", Durability::Relaxed),
        ("majority", Durability::Majority),
    ];
    let durability = section.choice("durability", &durabilities);
    own.durability = durability.unwrap_or(own.durability);
    times(section, own);
    losses(section, own);
    disks(section, own);
    if let Some(switches) = section.table("strategies") {
        strategies(&switches, &mut own.control.strategies);
        switches.finish();
    }
}

fn tree(section: &Section<'_>, all: &mut Configuration) {
    let Some((tree, place)) = section.text("tree", file::TREE_WANTED) else {
        return;
    };
    if !all.exports.iter().any(|export| export.tree == tree) {
        let what = format!("`tree` is \"{tree}\", and no export shows a tree of that name");
        let trees: Vec<_> = all.exports.iter().map(|export| &*export.tree).collect();
        let remedy = format!("write one of \"{}\"", trees.join("\", \""));
        section.complain(place, what, remedy);
    }
    tree.clone_into(&mut all.replication.tree);
}

fn times(section: &Section<'_>, own: &mut replica::Settings) {
    let hour = 3600 * SECOND;
    for (key, range, field) in [
        (
            "data_delay",
            Duration::ZERO..=60 * SECOND,
            &mut own.data_delay,
        ),
        (
            "busy_data_delay",
            Duration::ZERO..=60 * SECOND,
            &mut own.busy_data_delay,
        ),
        (
            "deep_control_idle",
            MILLISECOND..=hour,
            &mut own.control.deep_control_idle,
        ),
        (
            "file_control_idle",
            MILLISECOND..=hour,
            &mut own.control.file_control_idle,
        ),
        (
            "open_file_control_idle",
            MILLISECOND..=hour,
            &mut own.control.open_file_control_idle,
        ),
        (
            "revoke_grace",
            Duration::ZERO..=60 * SECOND,
            &mut own.control.revoke_grace,
        ),
        (
            "standing_back",
            Duration::ZERO..=60 * SECOND,
            &mut own.control.standing_back,
        ),
    ] {
        *field = section.duration(key, range).unwrap_or(*field);
    }
}

/// How a set handles members that are away.
fn losses(section: &Section<'_>, own: &mut replica::Settings) {
    let lease = section.duration("site_lease", 500 * MILLISECOND..=600 * SECOND);
    own.site_lease = lease.unwrap_or(own.site_lease);
    own.suspicion = suspicion(section, own.site_lease);
    let drift = section.integer("clock_drift_ppm", 1..=200_000);
    let drift = drift.and_then(|drift| u32::try_from(drift).ok());
    own.clock_drift_ppm = drift.unwrap_or(own.clock_drift_ppm);
    let answers = [
        ("wait", WithoutMajority::Wait),
        ("error", WithoutMajority::Error),
        ("stale-reads", WithoutMajority::StaleReads),
    ];
    let answer = section.choice("without_majority", &answers);
    own.without_majority = answer.unwrap_or(own.without_majority);
    own.frozen = frozen(section);
    let kept = section.integer("kept_updates", 1..=1_000_000_000);
    own.kept_updates = kept.unwrap_or(own.kept_updates);
    let memory = section.size("kept_memory", 16 << 20..=1 << 40);
    own.kept_memory = memory.unwrap_or(own.kept_memory);
    own.return_bytes_per_second = section.size("return_rate", 64 << 10..=1 << 40);
}

/// How the copies are kept equal and handle full disks.
fn disks(section: &Section<'_>, own: &mut replica::Settings) {
    own.space_reserve = section.size("space_reserve", 0..=1 << 50);
    let interval = section.duration("scrub_interval", Duration::ZERO..=365 * DAY);
    own.scrub_interval = interval.unwrap_or(own.scrub_interval);
    let rate = section.size("scrub_rate", 64 << 10..=1 << 40);
    own.scrub_rate = rate.unwrap_or(own.scrub_rate);
}

/// Three fifths of the lease, unless it is configured.
fn suspicion(section: &Section<'_>, lease: Duration) -> Duration {
    let range = 100 * MILLISECOND..=600 * SECOND;
    let Some(suspicion) = section.duration("suspicion", range) else {
        return lease * 3 / 5;
    };
    if suspicion >= lease {
        let (written, lease) = (format_duration(suspicion), format_duration(lease));
        section.complain(
            section.place_of("suspicion"),
            format!("`suspicion` is \"{written}\", and `site_lease` is \"{lease}\""),
            "write a `suspicion` that is shorter than the `site_lease`, which else runs out before anybody is missed",
        );
    }
    suspicion
}

fn frozen(section: &Section<'_>) -> Frozen {
    let fails = section.choice("frozen_access", &[("wait", false), ("error", true)]);
    let reads = [("refuse", false), ("last-synchronised", true)];
    let reads = section.choice("frozen_reads", &reads).unwrap_or(false);
    match (fails.unwrap_or(false), reads) {
        (false, false) => Frozen::Wait,
        (true, false) => Frozen::Error,
        (false, true) => Frozen::LastSynchronised,
        (true, true) => {
            section.complain(
                section.place_of("frozen_reads"),
                "`frozen_reads` is \"last-synchronised\", and `frozen_access` is \"error\"",
                "write `frozen_access = \"wait\"`, with which changes wait and reads are answered, or `frozen_reads = \"refuse\"`",
            );
            Frozen::Error
        }
    }
}

fn strategies(section: &Section<'_>, own: &mut Strategies) {
    for (key, field) in [
        ("idle_timer", &mut own.idle_timer),
        ("revoke", &mut own.revoke),
        ("file_control", &mut own.file_control_under_deep),
        ("upgrade", &mut own.upgrade),
        ("deep_control", &mut own.deep_control),
    ] {
        *field = section.switch(key).unwrap_or(*field);
    }
}

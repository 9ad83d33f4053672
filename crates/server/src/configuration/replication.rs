//! `[replication]`: how the replicated tree of a set is kept equal at all its replicas.
//!
//! What must never enter: what the settings do, and the set's own files.

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

/// How one replica of a set behaves. Without a set in the data directory none of it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationConfiguration {
    /// The name of the tree that the set keeps; all others are this server's alone.
    pub tree: String,
    /// Where the other replicas are listened for; `None` stands for all addresses, at the port that the others
    /// were told of.
    pub listen: Option<PeerListenAddress>,
    /// Connections for file contents to each replica.
    pub data_lanes: u32,
    /// Whether file contents are compressed on their way where that pays.
    pub compression: bool,
    /// Whether consecutive updates of names and attributes are made one before they are sent.
    pub merging: bool,
    /// How long changed file contents rest before they are sent.
    pub data_delay: Duration,
    /// What an update of a directory does that another replica controls.
    pub directory_contention: Contention,
    /// Where names of such a directory are looked up.
    pub namespace: NameSpace,
    /// When updates are answered, where a directory has no setting of its own.
    pub durability: Durability,
    /// How long deep control outlives the last update below it.
    pub deep_control_idle: Duration,
    /// How long a file's control outlives the last write.
    pub file_control_idle: Duration,
    /// The same while a client has it open for writing.
    pub open_file_control_idle: Duration,
    /// How long updates go on after another replica has asked for the control.
    pub revoke_grace: Duration,
    /// How long this replica asks for nothing that another one needs for which it has given something up.
    pub standing_back: Duration,
    /// Which strategies are in use.
    pub strategies: Strategies,
    /// How long a majority promises to do nothing without a replica.
    pub site_lease: Duration,
    /// How much faster or slower than true time clocks may run, in millionths.
    pub clock_drift_ppm: u32,
    /// After so much silence it is proposed that a replica leaves the view. Shorter than the lease.
    pub suspicion: Duration,
    /// What clients are told while this server may not answer.
    pub without_majority: WithoutMajority,
    /// What clients are told of objects whose primary was lost.
    pub frozen: Frozen,
    /// Updates kept for a replica that is away.
    pub kept_updates: u64,
    /// Bytes of memory for what is kept of files that the others lack contents of.
    pub kept_memory: u64,
    /// Bytes a second sent at most to replicas on their way back into the view; `None` is no limit.
    pub return_rate: Option<u64>,
    /// Bytes left free at each other replica; `None`: 64 MiB, or less where disks are small.
    pub space_reserve: Option<u64>,
    /// From one comparison of the copies to the next; zero: only when somebody asks for it.
    pub scrub_interval: Duration,
    /// Bytes a second that it reads at most.
    pub scrub_rate: u64,
}

impl Default for ReplicationConfiguration {
    fn default() -> ReplicationConfiguration {
        ReplicationConfiguration {
            tree: DEFAULT_TREE.to_owned(),
            listen: None,
            data_lanes: 4,
            compression: true,
            merging: true,
            data_delay: Duration::from_millis(200),
            directory_contention: Contention::Forward,
            namespace: NameSpace::Strict,
            durability: Durability::Relaxed,
            deep_control_idle: SECOND,
            file_control_idle: 2 * SECOND,
            open_file_control_idle: 30 * SECOND,
            revoke_grace: Duration::from_millis(100),
            standing_back: 3 * SECOND,
            strategies: Strategies::default(),
            site_lease: 5 * SECOND,
            clock_drift_ppm: 110_000,
            suspicion: 3 * SECOND,
            without_majority: WithoutMajority::Wait,
            frozen: Frozen::Wait,
            kept_updates: 1_000_000,
            kept_memory: 1 << 30,
            return_rate: None,
            space_reserve: None,
            scrub_interval: 7 * DAY,
            scrub_rate: 16 << 20,
        }
    }
}

/// Reads the table.
pub(super) fn read(section: &Section<'_>, all: &mut Configuration) {
    tree(section, all);
    let own = &mut all.replication;
    own.listen = section.parsed("listen", PeerListenAddress::WANTED);
    let lanes = section.integer("data_lanes", 1..=64);
    let lanes = lanes.and_then(|lanes| u32::try_from(lanes).ok());
    own.data_lanes = lanes.unwrap_or(own.data_lanes);
    own.compression = section.switch("compression").unwrap_or(own.compression);
    own.merging = section.switch("merging").unwrap_or(own.merging);
    let contentions = [("forward", Contention::Forward), ("wait", Contention::Wait)];
    let contention = section.choice("directory_contention", &contentions);
    own.directory_contention = contention.unwrap_or(own.directory_contention);
    let lookups = [
        ("strict", NameSpace::Strict),
        ("relaxed", NameSpace::Relaxed),
    ];
    own.namespace = section
        .choice("namespace", &lookups)
        .unwrap_or(own.namespace);
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
        strategies(&switches, &mut own.strategies);
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

fn times(section: &Section<'_>, own: &mut ReplicationConfiguration) {
    let hour = 3600 * SECOND;
    for (key, range, field) in [
        (
            "data_delay",
            Duration::ZERO..=60 * SECOND,
            &mut own.data_delay,
        ),
        (
            "deep_control_idle",
            MILLISECOND..=hour,
            &mut own.deep_control_idle,
        ),
        (
            "file_control_idle",
            MILLISECOND..=hour,
            &mut own.file_control_idle,
        ),
        (
            "open_file_control_idle",
            MILLISECOND..=hour,
            &mut own.open_file_control_idle,
        ),
        (
            "revoke_grace",
            Duration::ZERO..=60 * SECOND,
            &mut own.revoke_grace,
        ),
        (
            "standing_back",
            Duration::ZERO..=60 * SECOND,
            &mut own.standing_back,
        ),
    ] {
        *field = section.duration(key, range).unwrap_or(*field);
    }
}

/// What a set does about members that are away.
fn losses(section: &Section<'_>, own: &mut ReplicationConfiguration) {
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
    own.return_rate = section.size("return_rate", 64 << 10..=1 << 40);
}

/// What keeps the copies equal and lets them fill together.
fn disks(section: &Section<'_>, own: &mut ReplicationConfiguration) {
    own.space_reserve = section.size("space_reserve", 0..=1 << 50);
    let interval = section.duration("scrub_interval", Duration::ZERO..=365 * DAY);
    own.scrub_interval = interval.unwrap_or(own.scrub_interval);
    let rate = section.size("scrub_rate", 64 << 10..=1 << 40);
    own.scrub_rate = rate.unwrap_or(own.scrub_rate);
}

/// Three fifths of the lease unless it is written down.
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

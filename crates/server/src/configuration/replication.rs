//! `[replication]`: how the replicated tree of a set is kept equal at all its replicas.
//!
//! What must never enter: what the settings do, and the set's own files.

use std::time::Duration;

use super::address::PeerListenAddress;
use super::section::Section;
use super::{Configuration, DEFAULT_TREE, file};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

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
    /// How long changed file contents rest before they are sent.
    pub data_delay: Duration,
    /// What an update of a directory does that another replica controls.
    pub directory_contention: Contention,
    /// Where names of such a directory are looked up.
    pub namespace: NameLookup,
    /// When updates are answered, where a directory has no setting of its own.
    pub durability: Durability,
    /// How long deep control outlives the last update below it.
    pub deep_control_idle: Duration,
    /// How long a file's control outlives the last write.
    pub file_control_idle: Duration,
    /// How long updates go on after another replica has asked for the control.
    pub revoke_grace: Duration,
    /// How long this replica asks for nothing that another one needs for which it has given something up.
    pub standing_back: Duration,
    /// Which strategies are in use.
    pub strategies: Strategies,
}

/// What an update of a directory does that another replica controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contention {
    /// It is handed to that replica.
    Forward,
    /// It waits until that replica has given the control up.
    Wait,
}

/// Where names are looked up in a directory that another replica controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameLookup {
    /// At that replica.
    Strict,
    /// In the own copy; at that replica if they are missing there.
    Relaxed,
}

/// When an update is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Once this server has it.
    Relaxed,
    /// Once a majority of the replicas has it.
    Majority,
}

/// The strategies of replication control that can be switched off, to see what each is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own, and any combination makes sense"
)]
pub struct Strategies {
    /// Deep control is kept for a while after the last update.
    pub idle_timer: bool,
    /// Who needs a control asks for it, which shortens that while.
    pub revoke: bool,
    /// A file written under deep control gets control of its own.
    pub file_control: bool,
    /// Many small controls below one directory become deep control of it.
    pub upgrade: bool,
    /// Deep control at all.
    pub deep_control: bool,
}

impl Default for Strategies {
    fn default() -> Strategies {
        Strategies {
            idle_timer: true,
            revoke: true,
            file_control: true,
            upgrade: true,
            deep_control: true,
        }
    }
}

impl Default for ReplicationConfiguration {
    fn default() -> ReplicationConfiguration {
        ReplicationConfiguration {
            tree: DEFAULT_TREE.to_owned(),
            listen: None,
            data_lanes: 4,
            compression: true,
            data_delay: Duration::from_millis(200),
            directory_contention: Contention::Forward,
            namespace: NameLookup::Strict,
            durability: Durability::Relaxed,
            deep_control_idle: SECOND,
            file_control_idle: 2 * SECOND,
            revoke_grace: Duration::from_millis(100),
            standing_back: 3 * SECOND,
            strategies: Strategies::default(),
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
    let contentions = [("forward", Contention::Forward), ("wait", Contention::Wait)];
    let contention = section.choice("directory_contention", &contentions);
    own.directory_contention = contention.unwrap_or(own.directory_contention);
    let lookups = [
        ("strict", NameLookup::Strict),
        ("relaxed", NameLookup::Relaxed),
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

fn strategies(section: &Section<'_>, own: &mut Strategies) {
    for (key, field) in [
        ("idle_timer", &mut own.idle_timer),
        ("revoke", &mut own.revoke),
        ("file_control", &mut own.file_control),
        ("upgrade", &mut own.upgrade),
        ("deep_control", &mut own.deep_control),
    ] {
        *field = section.switch(key).unwrap_or(*field);
    }
}

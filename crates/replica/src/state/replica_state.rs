//! All that a replica knows in memory, but for what lies below the core's lock (`ledger`): one struct of data.
//!
//! Each part locks itself, and has its behaviour with it. What a replica works with stands beside this in `driver::local_replica`: the core, the
//! lease, the store, and connections.
//!
//! What must never enter: behaviour.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use vfs::ReplicaSlot;

use crate::state::arrivals::Inboxes;
use crate::state::clients::Servers;
use crate::state::conversations::Conversations;
use crate::state::copies::{Copies, Held};
use crate::state::free_space::FreeSpace;
use crate::state::given_way::GivenWay;
use crate::state::lag::Lag;
use crate::state::lineage::Lineage;
use crate::state::load::Load;
use crate::state::lock_listeners::LockListeners;
use crate::state::locks::{BeforeCore, Table};
use crate::state::losses::Losses;
use crate::state::members::Members;
use crate::state::opens::Opens;
use crate::state::outbound::Outbound;
use crate::state::outcomes::Outcomes;
use crate::state::pace::Pace;
use crate::state::peers::Peers;
use crate::state::removed::Removed;
use crate::state::repeats::Repeats;
use crate::state::scrub::Scrub;
use crate::state::segments::Segments;
use crate::state::settings::Settings;
use crate::state::told::Told;
use crate::state::views::{Arrival, Debt, Fit};
use crate::state::writers::Writers;

/// At most this many may wait at once, of all peers. Fewer than a peer may have carried out at
/// once, lest reads hold up everything else.
const WAITING_AT_ONCE: usize = 128;

/// Counts for people and metrics.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) forwarded: AtomicU64,
    pub(crate) served: AtomicU64,
    pub(crate) record_bytes: AtomicU64,
    pub(crate) content_bytes: AtomicU64,
    /// Files whose contents this replica asked for when it began with a copy.
    pub(crate) to_fetch: AtomicU64,
    /// Files that a crash may have damaged and that have to get a new version.
    pub(crate) recovering: AtomicU64,
    /// Messages of relayed updates that were dropped.
    pub(crate) relays_refused: AtomicU64,
}

/// See the module.
pub(crate) struct ReplicaState {
    pub(crate) settings: Settings,
    /// The number of this start; later ones have larger ones.
    pub(crate) incarnation: u64,
    /// When this incarnation began.
    pub(crate) began: Instant,
    /// This replica is a witness: it follows the rows, keeps no contents, and serves nobody.
    pub(crate) is_witness: bool,
    /// Who is in the set.
    pub(crate) members: Members,
    pub(crate) lineage: Arc<Lineage>,

    // Of clients and their operations.
    pub(crate) opens: Opens,
    pub(crate) removed: Removed,
    pub(crate) told: Told,
    pub(crate) outcomes: Outcomes,
    pub(crate) servers: Servers,
    /// The others may have given up what clients of this server held before its start.
    pub(crate) others_went_on: AtomicBool,
    pub(crate) lock_listeners: LockListeners,
    pub(crate) load: Load,
    /// Numbers the operations that are forwarded.
    pub(crate) requests: AtomicU64,
    /// Taken while a read of a peer's waits for contents to arrive there.
    pub(crate) fetches: Semaphore,
    /// How many wait until a majority knows to be complete.
    pub(crate) majority_awaited: AtomicU64,
    /// Held while the copy of a file here gives way to another one.
    pub(crate) giving_way: tokio::sync::Mutex<()>,
    pub(crate) given_way: GivenWay,
    /// What may be filled at the others.
    pub(crate) free_space: FreeSpace,
    /// Who of the view lacked more than is kept when that was looked at last.
    pub(crate) slow: watch::Sender<Option<Lag>>,

    // Of the other members.
    pub(crate) peers: Peers,
    pub(crate) inboxes: Inboxes,
    pub(crate) conversations: Conversations,
    pub(crate) outbound: Outbound,
    /// For what those are sent who are not in the view.
    pub(crate) pace: Pace,
    pub(crate) segments: Segments,
    /// The last record of the own stream that is not kept any more.
    pub(crate) trimmed: AtomicU64,
    /// Copies that others are being sent.
    pub(crate) copies: Copies,
    /// Held while it is found out what somebody lacks whose account was given up.
    pub(crate) balancing: BeforeCore<()>,

    // Of this replica's copy.
    /// How much of the tree is here; clients are answered when it is everything.
    pub(crate) held: watch::Sender<Held>,
    /// Held while a page of the copy that this replica takes is taken in.
    pub(crate) copying: tokio::sync::Mutex<()>,
    /// Somebody does not keep any more what this replica lacks.
    pub(crate) needs_copy: AtomicBool,
    pub(crate) writers: Writers,
    pub(crate) scrub: Scrub,
    /// What cannot be stored here at present, for people.
    pub(crate) trouble: Table<Option<String>>,

    // Of taking part.
    pub(crate) losses: Losses,
    /// What those lack who take part anew.
    pub(crate) debts: BeforeCore<BTreeMap<ReplicaSlot, Debt>>,
    pub(crate) arrival: Table<Arrival>,
    /// What keeps this replica outside the view, for people.
    pub(crate) obstacle: Table<Option<String>>,
    /// This copy is complete as long as this replica takes part, see `driver::complete`.
    pub(crate) complete: AtomicBool,
    /// Without whom this replica could take part.
    pub(crate) fit: Table<Option<Fit>>,

    pub(crate) metrics: Metrics,
    /// What is told in the log of what fails again and again.
    pub(crate) repeats: Repeats,
}

/// What [`ReplicaState::new`] is made of.
pub(crate) struct Parts {
    pub(crate) slot: ReplicaSlot,
    pub(crate) settings: Settings,
    pub(crate) incarnation: u64,
    pub(crate) is_witness: bool,
    pub(crate) held: Held,
    pub(crate) lineage: Arc<Lineage>,
    pub(crate) outcomes: Outcomes,
}

impl ReplicaState {
    pub(crate) fn new(parts: Parts) -> ReplicaState {
        let settings = parts.settings;
        ReplicaState {
            pace: Pace::new(settings.return_bytes_per_second),
            free_space: FreeSpace::new(settings.space_reserve),
            scrub: Scrub::new(settings.scrub_rate),
            settings,
            incarnation: parts.incarnation,
            began: Instant::now(),
            is_witness: parts.is_witness,
            members: Members::new(parts.slot),
            lineage: parts.lineage,
            opens: Opens::default(),
            removed: Removed::default(),
            told: Told::default(),
            outcomes: parts.outcomes,
            servers: Servers::default(),
            others_went_on: AtomicBool::new(false),
            lock_listeners: LockListeners::default(),
            load: Load::default(),
            requests: AtomicU64::new(0),
            fetches: Semaphore::new(WAITING_AT_ONCE),
            majority_awaited: AtomicU64::new(0),
            giving_way: tokio::sync::Mutex::default(),
            given_way: GivenWay::default(),
            slow: watch::Sender::new(None),
            peers: Peers::default(),
            inboxes: Inboxes::default(),
            conversations: Conversations::default(),
            outbound: Outbound::default(),
            segments: Segments::default(),
            trimmed: AtomicU64::new(0),
            copies: Copies::default(),
            held: watch::Sender::new(parts.held),
            balancing: BeforeCore::default(),
            copying: tokio::sync::Mutex::default(),
            needs_copy: AtomicBool::new(false),
            writers: Writers::default(),
            trouble: Table::default(),
            losses: Losses::default(),
            debts: BeforeCore::default(),
            arrival: Table::default(),
            obstacle: Table::default(),
            complete: AtomicBool::new(false),
            fit: Table::default(),
            metrics: Metrics::default(),
            repeats: Repeats::default(),
        }
    }
}

//! Everything that a replica knows in memory, except what the core's lock protects (`ledger`): one struct of data.
//!
//! Each part has its own lock and behaviour. `driver::local_replica` holds this together with what a replica works with: the core, the lease, the
//! store, and connections.
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
use crate::state::interest::Interest;
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

/// At most this many reads of all peers may wait at once. The limit is less than what one peer may have carried out at once, so that reads do not
/// block everything else.
const WAITING_AT_ONCE: usize = 128;

/// Counts for display and metrics.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) forwarded: AtomicU64,
    pub(crate) served: AtomicU64,
    pub(crate) record_bytes: AtomicU64,
    pub(crate) content_bytes: AtomicU64,
    /// Files whose contents this replica requested when it began with a copy.
    pub(crate) to_fetch: AtomicU64,
    /// Files that a crash may have damaged and that need a new version.
    pub(crate) recovering: AtomicU64,
    /// Messages of relayed updates that were dropped.
    pub(crate) relays_refused: AtomicU64,
}

/// See the module.
pub(crate) struct ReplicaState {
    pub(crate) settings: Settings,
    /// The number of this incarnation; later ones have larger numbers.
    pub(crate) incarnation: u64,
    /// When this incarnation began.
    pub(crate) began: Instant,
    /// This replica is a witness: it follows the rows, keeps no contents, and serves no client.
    pub(crate) is_witness: bool,
    /// The members of the set.
    pub(crate) members: Members,
    pub(crate) lineage: Arc<Lineage>,

    // About clients and their operations.
    pub(crate) opens: Opens,
    pub(crate) removed: Removed,
    pub(crate) told: Told,
    pub(crate) outcomes: Outcomes,
    pub(crate) servers: Servers,
    /// The others may have given up what clients of this server held before its start.
    pub(crate) others_went_on: AtomicBool,
    pub(crate) lock_listeners: LockListeners,
    pub(crate) load: Load,
    /// Whether it matters when updates arrive.
    pub(crate) interest: Interest,
    /// Counts the operations that are forwarded.
    pub(crate) requests: AtomicU64,
    /// Taken while a peer's read waits for contents to arrive there.
    pub(crate) fetches: Semaphore,
    /// How many operations wait until a majority knows that it is complete.
    pub(crate) majority_awaited: AtomicU64,
    /// Held while a local copy of a file gives way to another one.
    pub(crate) giving_way: tokio::sync::Mutex<()>,
    pub(crate) given_way: GivenWay,
    /// How much may be written at the others.
    pub(crate) free_space: FreeSpace,
    /// The member of the view that lacked more than is kept, by the last check.
    pub(crate) slow: watch::Sender<Option<Lag>>,

    // About the other members.
    pub(crate) peers: Peers,
    pub(crate) inboxes: Inboxes,
    pub(crate) conversations: Conversations,
    pub(crate) outbound: Outbound,
    /// Limits what is sent to replicas outside the view.
    pub(crate) pace: Pace,
    pub(crate) segments: Segments,
    /// The last record of this replica's stream that is no longer kept.
    pub(crate) trimmed: AtomicU64,
    /// Copies that are being sent to others.
    pub(crate) copies: Copies,
    /// Held while this replica finds out what is missing at a peer after its account was given up.
    pub(crate) balancing: BeforeCore<()>,

    // About this replica's copy.
    /// How much of the tree is here; clients are answered when it is everything.
    pub(crate) held: watch::Sender<Held>,
    /// Held while this replica applies a page of the copy that it takes: whose page that was last, and when.
    pub(crate) copying: tokio::sync::Mutex<Option<(ReplicaSlot, Instant)>>,
    /// Another replica no longer keeps what this replica lacks.
    pub(crate) needs_copy: AtomicBool,
    pub(crate) writers: Writers,
    pub(crate) scrub: Scrub,
    /// What cannot be stored here at present, for display.
    pub(crate) trouble: Table<Option<String>>,

    // About taking part.
    pub(crate) losses: Losses,
    /// What newly admitted replicas lack.
    pub(crate) debts: BeforeCore<BTreeMap<ReplicaSlot, Debt>>,
    pub(crate) arrival: Table<Arrival>,
    /// What keeps this replica outside the view, for display.
    pub(crate) obstacle: Table<Option<String>>,
    /// This copy is complete as long as this replica takes part, see `driver::complete`.
    pub(crate) complete: AtomicBool,
    /// The members without which this replica could take part.
    pub(crate) fit: Table<Option<Fit>>,

    pub(crate) metrics: Metrics,
    /// Limits log lines about repeated failures.
    pub(crate) repeats: Repeats,
}

/// The arguments of [`ReplicaState::new`].
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
            interest: Interest::default(),
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

//! What can be decided about a set, and what came of it: the entries of the log, as values.
//!
//! What must never enter: what a decision does; that is `state`. The order of variants and fields is the
//! format on disk and between replicas, that of a decision in `encoded`: new ones are added at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

use crate::encoded::Encoded;
use crate::state::Kind;

/// At most this many names fit into one settlement.
pub const SETTLEMENT_NAMES_MAX: usize = 1024;

/// A change of the view or the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Encoded", into = "Encoded")]
pub struct Decision {
    /// The replica in whose name it is made.
    pub by: ReplicaSlot,
    /// When, in seconds since 1970 by the clock of who decides.
    pub at_unix_s: u64,
    /// The epoch that it was judged in. Refused in any other where the kind says so; other kinds do not keep it, so that it reads as 0 at
    /// other replicas.
    pub seen_epoch: u64,
    /// What is decided.
    pub kind: DecisionKind,
}

/// What is decided. Unless it says otherwise, only an active replica can decide it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionKind {
    /// An active replica is active no longer. Refused when that would leave no majority of the configured, and in any epoch but the one
    /// it was judged in.
    Exclude {
        /// Who is excluded; may be who decides it.
        slot: ReplicaSlot,
        /// Why, for people; cut at [`crate::REASON_BYTES_MAX`].
        reason: String,
    },
    /// A configured replica is active from now on; its [`crate::Loss`] is over. Also tells that an active
    /// replica goes on as a later incarnation. The first one makes a newcomer a voter. A replica can ask for itself.
    /// Refused in any epoch but the one it was judged in.
    Admit {
        /// Who is admitted.
        slot: ReplicaSlot,
        /// The incarnation that is admitted.
        incarnation: u64,
    },
    /// Adds a member, inactive: a *newcomer*. Refused while another newcomer has never been active.
    Configure {
        /// The new member; a slot that was never used.
        slot: ReplicaSlot,
        /// What it holds.
        kind: Kind,
    },
    /// Takes a member out of the configuration, for ever. Refused of one with a copy as long as it takes part beside
    /// others with a copy, or as its [`crate::Loss`] is not settled.
    Remove {
        /// Who is removed.
        slot: ReplicaSlot,
    },
    /// Controls of a replica that was lost end. The epoch stays as it is. Refused in any epoch but the one it was judged in.
    Settle {
        /// The replica that was lost.
        slot: ReplicaSlot,
        /// What ends. Its `id` is given when it is applied.
        settlement: Settlement,
    },
    /// An administrator's word that all but the survivors are gone for ever, said at one of them, which becomes active if no
    /// survivor was. See [`crate::force`].
    Recover {
        /// Who remains configured.
        survivors: BTreeSet<ReplicaSlot>,
    },
    /// Active replicas are active no longer, and others take their places, in one step. Refused where
    /// [`DecisionKind::Exclude`] would do, when no majority of the configured would be active, and in any
    /// epoch but the one it was judged in.
    Replace {
        /// Who is excluded; not who decides it, and not every active replica that holds data.
        out: BTreeSet<ReplicaSlot>,
        /// Who is admitted, as which incarnation; voters that are not active.
        admitted: BTreeMap<ReplicaSlot, u64>,
        /// Why those of `out` are excluded, for people; cut at [`crate::REASON_BYTES_MAX`].
        reason: String,
    },
    /// A person has done something at a replica that needs nobody's consent. The epoch stays as it is.
    Note {
        /// What, for people; cut at [`crate::REASON_BYTES_MAX`].
        what: String,
    },
    /// A name in the root of the domain leads to trees of other servers from now on. The epoch stays as it is. Refused
    /// beyond [`JUNCTIONS_MAX`] names and [`JUNCTION_BYTES_MAX`].
    Junction {
        /// The name.
        name: String,
        /// Where it leads, in the order of preference; nowhere when the name is to be gone.
        to: Vec<Referral>,
    },
    /// A newcomer, which has never been active, is configured no longer, so that another one can be; it may be configured
    /// again.
    Withdraw {
        /// The newcomer.
        slot: ReplicaSlot,
    },
}

/// At most this many names can lead to other servers.
pub const JUNCTIONS_MAX: usize = 256;

/// Bytes of a junction, its name included: clients are told all of it in one page.
pub const JUNCTION_BYTES_MAX: usize = 3072;

/// A tree of another server, as clients reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Referral {
    /// Name or address of the server, as clients reach it at the standard port of NFS.
    pub server: String,
    /// The path of the tree there.
    pub path: String,
}

/// As people write it, an address of IPv6 in brackets.
impl fmt::Display for Referral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_bare = self.server.contains(':') && !self.server.starts_with('[');
        match is_bare {
            true => write!(f, "[{}]:{}", self.server, self.path),
            false => write!(f, "{}:{}", self.server, self.path),
        }
    }
}

/// Controls of a lost replica that end: by takeover, or because an administrator gives up what it alone had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// The last position in the lost replica's stream that the survivors keep.
    pub through: u64,
    /// Without `names`: all controls of smaller incarnations end.
    pub incarnation_below: u64,
    /// The controls that end, by incarnation and number; at most [`SETTLEMENT_NAMES_MAX`].
    pub names: Option<Vec<(u64, u64)>>,
    /// On whose word.
    pub by: SettledBy,
    /// When, in seconds since 1970.
    pub at_unix_s: u64,
    /// Settlements of a set are numbered from 1 in the order of their decisions.
    pub id: u64,
}

/// On whose word controls of a lost replica end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SettledBy {
    /// The survivors have taken over; nothing answered is lost.
    Takeover,
    /// An administrator gave up what the lost replica alone had.
    Administrator {
        /// Why, for people; cut at [`crate::REASON_BYTES_MAX`].
        reason: String,
    },
}

/// What came of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It holds.
    Applied,
    /// It changed nothing; why, for people.
    Refused(String),
}

impl DecisionKind {
    /// Whether the view has a new epoch afterwards.
    pub(crate) fn begins_an_epoch(&self) -> bool {
        !matches!(
            self,
            DecisionKind::Settle { .. } | DecisionKind::Note { .. } | DecisionKind::Junction { .. }
        )
    }
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Command {
    /// The first entry of a set: its first members, all active.
    Found {
        founders: BTreeMap<ReplicaSlot, Kind>,
        by: ReplicaSlot,
        at_unix_s: u64,
    },
    /// Everything after.
    Decide(Decision),
}

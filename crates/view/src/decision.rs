//! The decisions about a set, and their outcomes: the entries of the log, as values.
//!
//! What must never enter: the effect of a decision, which is in `state`. The order of variants and fields is the format
//! on disk and between replicas; for decisions, that of `encoded` is. New ones are added at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use vfs::ReplicaSlot;

use crate::encoded::Encoded;
use crate::state::Kind;

/// The maximum number of names in one settlement.
pub const SETTLEMENT_NAMES_MAX: usize = 1024;

/// A change of the view or the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Encoded", into = "Encoded")]
pub struct Decision {
    /// The replica that makes the decision.
    pub by: ReplicaSlot,
    /// The time in seconds since 1970, by the clock of the deciding replica.
    pub at_unix_s: u64,
    /// The epoch in which the decision was judged. Kinds that say so are refused in any other epoch. The other kinds do
    /// not store it, so it is 0 at other replicas.
    pub seen_epoch: u64,
    /// What is decided.
    pub kind: DecisionKind,
}

/// The kinds of decision. Unless a kind says otherwise, only an active replica can decide it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionKind {
    /// Makes an active replica inactive. Refused when no majority of the configured replicas would remain, and in any
    /// epoch except the one in which it was judged.
    Exclude {
        /// The excluded replica; it may be the deciding one.
        slot: ReplicaSlot,
        /// Why, for people; cut at [`crate::REASON_BYTES_MAX`].
        reason: String,
    },
    /// Makes a configured replica active and ends its [`crate::Loss`]. Also records that an active replica continues as
    /// a later incarnation. The first admission makes a newcomer a voter. A replica can ask for its own admission.
    /// Refused in any epoch except the one in which it was judged.
    Admit {
        /// The admitted replica.
        slot: ReplicaSlot,
        /// The incarnation that is admitted.
        incarnation: u64,
    },
    /// Adds a member, inactive: a *newcomer*. Refused while another newcomer has never been active.
    Configure {
        /// The new member; a slot that was never used.
        slot: ReplicaSlot,
        /// The kind of the new member.
        kind: Kind,
    },
    /// Removes a member from the configuration for ever. A member with a copy is refused while it is active beside
    /// other members with a copy, and until its [`crate::Loss`] is settled.
    Remove {
        /// The removed replica.
        slot: ReplicaSlot,
    },
    /// Ends controls of a lost replica. The epoch does not change. Refused in any epoch except the one in which it was judged.
    Settle {
        /// The lost replica.
        slot: ReplicaSlot,
        /// The controls that end. Its `id` is assigned when it is applied.
        settlement: Settlement,
    },
    /// An administrator states at one survivor that all replicas except the survivors are gone for ever. That survivor
    /// becomes active if no survivor was. See [`crate::force`].
    Recover {
        /// The replicas that remain configured.
        survivors: BTreeSet<ReplicaSlot>,
    },
    /// Makes active replicas inactive and others active, in one step. Refused where [`DecisionKind::Exclude`] is
    /// enough, when no majority of the configured replicas would be active, and in any epoch except the one in which it
    /// was judged.
    Replace {
        /// The excluded replicas: not the deciding one, and not every active replica with data.
        out: BTreeSet<ReplicaSlot>,
        /// The admitted replicas with their incarnations; inactive voters.
        admitted: BTreeMap<ReplicaSlot, u64>,
        /// Why the replicas in `out` are excluded, for people; cut at [`crate::REASON_BYTES_MAX`].
        reason: String,
    },
    /// Records an action of a person at a replica that needs no agreement. The epoch does not change.
    Note {
        /// The action, for people; cut at [`crate::REASON_BYTES_MAX`].
        what: String,
    },
    /// Makes a name in the root of the domain lead to trees of other servers. The epoch does not change. Refused beyond
    /// [`JUNCTIONS_MAX`] names and [`JUNCTION_BYTES_MAX`].
    Junction {
        /// The name.
        name: String,
        /// The trees in the order of preference; none removes the name.
        to: Vec<Referral>,
    },
    /// Takes a newcomer that has never been active out of the configuration, so that another one can be configured. It
    /// may be configured again.
    Withdraw {
        /// The newcomer.
        slot: ReplicaSlot,
    },
}

/// The maximum number of names that lead to other servers.
pub const JUNCTIONS_MAX: usize = 256;

/// The maximum size of a junction, its name included: clients get it in one page.
pub const JUNCTION_BYTES_MAX: usize = 3072;

/// A tree of another server, with the address that clients use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Referral {
    /// Name or address of the server for clients, at the standard port of NFS.
    pub server: String,
    /// The path of the tree on that server.
    pub path: String,
}

/// For people; an IPv6 address is in brackets.
impl fmt::Display for Referral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_bare = self.server.contains(':') && !self.server.starts_with('[');
        match is_bare {
            true => write!(f, "[{}]:{}", self.server, self.path),
            false => write!(f, "{}:{}", self.server, self.path),
        }
    }
}

/// Controls of a lost replica that end: by a takeover, or because an administrator gives up data that only that replica had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// The last position in the lost replica's stream that the survivors keep.
    pub through: u64,
    /// Without `names`: all controls of smaller incarnations end.
    pub incarnation_below: u64,
    /// The controls that end, by incarnation and number; at most [`SETTLEMENT_NAMES_MAX`].
    pub names: Option<Vec<(u64, u64)>>,
    /// The authority for the settlement.
    pub by: SettledBy,
    /// The time, in seconds since 1970.
    pub at_unix_s: u64,
    /// The number of the settlement. They are numbered from 1 in the order of their decisions.
    pub id: u64,
}

/// On which authority controls of a lost replica end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SettledBy {
    /// The survivors have taken over; no answered operation is lost.
    Takeover,
    /// An administrator gave up data that only the lost replica had.
    Administrator {
        /// Why, for people; cut at [`crate::REASON_BYTES_MAX`].
        reason: String,
    },
}

/// The outcome of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was applied.
    Applied,
    /// It changed nothing; the reason, for people.
    Refused(String),
}

impl DecisionKind {
    /// Whether the decision begins a new epoch.
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
    /// Every later entry.
    Decide(Decision),
}

//! The questions to a running server over its socket, and its answers: one line of JSON in each direction.
//!
//! What must never enter: how questions are answered, and how they are sent.

use std::fmt;

use replica::Durability;
use serde::{Deserialize, Serialize};

use crate::configuration::ReloadAnswer;

use super::{
    ClientStatus, DrainAnswer, DrainDataAnswer, DrainDataQuestion, DrainQuestion, EvictQuestion,
    ForgetAnswer, ForgetQuestion, FrozenView, JunctionAnswer, JunctionView, JunctionsStatus,
    RebalanceAnswer, RebalanceQuestion, Rows, ScrubQuestion, ScrubView, Status, ThawAnswer,
    ThawQuestion, ViewStatus, Whereabouts,
};

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    /// The state of the server.
    Status,
    /// When updates of this object are answered.
    Durability(DurabilityQuestion),
    /// Move the clients to other servers.
    Drain(DrainQuestion),
    /// The view and its history.
    View,
    /// The frozen objects.
    Frozen,
    /// Give up data that only a lost replica had.
    Thaw(ThawQuestion),
    /// The state of the comparison of the copies.
    Scrub(ScrubQuestion),
    /// Move the set's authority to this replica.
    MoveAuthority(u16),
    /// The connected clients.
    Clients,
    /// Evict these clients.
    Evict(EvictQuestion),
    /// Read the configuration again.
    Reload,
    /// The names that lead to other servers.
    Junctions,
    /// Make a name lead to other servers.
    Junction(JunctionView),
    /// The location of the file at this path from the root of the tree.
    Where(String),
    /// Remove a data server from the pool.
    RemoveDataServer(u16),
    /// Stop giving new files to a data server.
    DrainData(DrainDataQuestion),
    /// Spread files over added data servers.
    Rebalance(RebalanceQuestion),
    /// Give up a lost data server.
    ForgetDataServer(ForgetQuestion),
    /// Let a data server serve again, although an older copy of its contents was detected.
    ReadmitDataServer(u16),
}

/// A question about durability, with the new setting if it is to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurabilityQuestion {
    /// A path in the replicated tree, from its root.
    pub path: String,
    /// What to set for this directory.
    pub set: Option<DurabilitySetting>,
}

/// The setting of a directory for the updates in it and below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DurabilitySetting {
    /// They are answered once this server has them.
    Relaxed,
    /// They are answered once a majority of the replicas has them.
    Majority,
    /// The setting of the parent directory.
    Inherit,
}

impl DurabilitySetting {
    /// The word on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            DurabilitySetting::Relaxed => "relaxed",
            DurabilitySetting::Majority => "majority",
            DurabilitySetting::Inherit => "inherit",
        }
    }
}

/// The setting that applies to an object, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurabilityAnswer {
    /// The object in the question.
    pub path: String,
    /// When updates are answered there.
    pub durability: Durability,
    /// The directory with this setting; `None` if it comes from the configuration.
    pub from: Option<String>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The state of the server.
    Status(Box<Status>),
    /// The setting of an object, after the change if there was one.
    Durability(DurabilityAnswer),
    /// The number of remaining clients.
    Drain(DrainAnswer),
    /// The view, with the decisions that led to it.
    View(Box<ViewStatus>),
    /// Everything that is frozen.
    Frozen(Rows<FrozenView>),
    /// What is given up.
    Thaw(ThawAnswer),
    /// The comparison of the copies.
    Scrub(ScrubView),
    /// The names that lead to other servers.
    Junctions(JunctionsStatus),
    /// A name leads to other servers, or no longer.
    Junction(JunctionAnswer),
    /// The authority was moved, and whether its new keeper has confirmed it.
    AuthorityMoved(bool),
    /// Where a file lies.
    Whereabouts(Whereabouts),
    /// The data server was removed from the pool.
    DataServerRemoved,
    /// The contents of the data server.
    DataDrained(DrainDataAnswer),
    /// The data servers over which files are spread.
    Rebalanced(RebalanceAnswer),
    /// The data server was given up, or what that would mean.
    DataServerForgotten(ForgetAnswer),
    /// The data server was readmitted, and whether it serves already.
    DataServerReadmitted(bool),
    /// The connected or evicted clients.
    Clients(Rows<ClientStatus>),
    /// What has changed in the configuration.
    Reloaded(ReloadAnswer),
    /// The problems in the configuration; the one in force stays.
    Misconfigured(Vec<String>),
    /// Why there is no other answer, and what to do next.
    Refused(String),
}

impl fmt::Display for DurabilityAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, durability) = (&self.path, self.durability.name());
        match &self.from {
            Some(from) if from == path => write!(f, "{path}: {durability}, set for this directory"),
            Some(from) => write!(f, "{path}: {durability}, set for {from}"),
            None => write!(
                f,
                "{path}: {durability}, as `durability` in [replication] says, since no directory above it is set"
            ),
        }
    }
}

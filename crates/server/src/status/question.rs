//! What a running server can be asked over its socket, and what it answers: one line of JSON each way.
//!
//! What must never enter: how questions are answered, and how they travel.

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
    /// How are you?
    Status,
    /// When are updates of this object answered?
    Durability(DurabilityQuestion),
    /// Send your clients away.
    Drain(DrainQuestion),
    /// Who takes part, and since when?
    View,
    /// What is frozen?
    Frozen,
    /// Give up what a lost replica alone had.
    Thaw(ThawQuestion),
    /// How is the comparison of the copies?
    Scrub(ScrubQuestion),
    /// Have this replica keep the set's authority.
    MoveAuthority(u16),
    /// Who is connected?
    Clients,
    /// Send these clients away.
    Evict(EvictQuestion),
    /// Read your configuration again.
    Reload,
    /// Which names lead to other servers?
    Junctions,
    /// Have a name lead to other servers.
    Junction(JunctionView),
    /// Where does the file at this path from the root of the tree lie?
    Where(String),
    /// Remove a data server from the pool.
    RemoveDataServer(u16),
    /// Have a data server get no new files.
    DrainData(DrainDataQuestion),
    /// Spread files over data servers that were added.
    Rebalance(RebalanceQuestion),
    /// Give up a data server that is lost.
    ForgetDataServer(ForgetQuestion),
    /// Have a data server serve again, though an older copy of its contents was seen.
    ReadmitDataServer(u16),
}

/// A question about durability, and what it is to be from now on, if it is to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurabilityQuestion {
    /// A path in the replicated tree, from its root.
    pub path: String,
    /// What to set for this directory.
    pub set: Option<DurabilitySetting>,
}

/// What a directory can say of the updates in it and below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DurabilitySetting {
    /// They are answered once this server has them.
    Relaxed,
    /// They are answered once a majority of the replicas has them.
    Majority,
    /// What the directory above says.
    Inherit,
}

impl DurabilitySetting {
    /// As on the command line.
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
    /// The object, as it was asked for.
    pub path: String,
    /// When updates are answered there.
    pub durability: Durability,
    /// The directory that says so; none when no directory does and the configuration decides.
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
    /// How many clients are left.
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
    /// The authority was moved, and whether its new keeper has said that it keeps it.
    AuthorityMoved(bool),
    /// Where a file lies.
    Whereabouts(Whereabouts),
    /// The data server was removed from the pool.
    DataServerRemoved,
    /// What lies on the data server.
    DataDrained(DrainDataAnswer),
    /// Over which data servers files are spread.
    Rebalanced(RebalanceAnswer),
    /// The data server was given up, or what that would mean.
    DataServerForgotten(ForgetAnswer),
    /// The data server was readmitted, and whether it serves already.
    DataServerReadmitted(bool),
    /// Who is connected, or was sent away.
    Clients(Rows<ClientStatus>),
    /// What has changed in the configuration.
    Reloaded(ReloadAnswer),
    /// What is wrong with the configuration; the one in force goes on.
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

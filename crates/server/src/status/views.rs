//! What a running server says about who takes part in its set, and about what those left behind who do not.
//!
//! What must never enter: the counting; the replica knows them, and here they only get a form
//! that travels.

use std::fmt;

use replica::{AuditView, LossView, MemberView};
use serde::{Deserialize, Serialize};

use super::called;
use super::called::MemberNames;
use super::text::moment;

/// The view that is in force here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewStatus {
    /// The number of the view; 0 when this server has heard of none yet.
    pub epoch: u64,
    /// The replica that leads the agreement on views, if it is known.
    pub leader: Option<u16>,
    /// Whether this server is in the view.
    pub takes_part: bool,
    /// Whether its copy has everything that its clients may ask for.
    pub up_to_date: bool,
    /// What keeps it out of the view.
    pub obstacle: Option<String>,
    /// For how long it may answer if the others promise nothing more, in milliseconds; absent when it needs no
    /// promise.
    pub lease_ms: Option<u64>,
    /// What they are called, by slot; absent in what older servers say.
    #[serde(default)]
    pub names: MemberNames,
    /// The replicas that count for majorities, by slot; one that was removed does until the others have agreed on that. Empty in what
    /// older servers say.
    #[serde(default)]
    pub voters: Vec<u64>,
    /// That is being changed: until it is done, a majority is needed of those before and of those after.
    #[serde(default)]
    pub voters_change: bool,
    /// The configured replicas, by slot.
    pub members: Vec<MemberView>,
    /// Replicas that left the view with controls that may still stand.
    pub losses: Vec<LossView>,
    /// What was decided lately, oldest first; only when it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audit: Vec<AuditView>,
}

impl ViewStatus {
    /// What a replica says, with the decisions.
    pub(crate) fn with_audit(view: replica::ViewStatus) -> ViewStatus {
        let audit = view.audit.clone();
        ViewStatus {
            audit,
            ..ViewStatus::new(view)
        }
    }

    /// What a replica says.
    pub(crate) fn new(view: replica::ViewStatus) -> ViewStatus {
        ViewStatus {
            epoch: view.epoch,
            leader: view.leader,
            takes_part: view.takes_part,
            up_to_date: view.up_to_date,
            obstacle: view.obstacle,
            // Casts saturate.
            lease_ms: view.lease_seconds.map(|seconds| (seconds * 1e3) as u64),
            names: MemberNames::new(),
            voters: view.voters.into_iter().collect(),
            voters_change: view.voters_change,
            members: view.members,
            losses: view.losses,
            audit: Vec::new(),
        }
    }

    /// With what the members are called.
    pub(crate) fn with_names(self, names: MemberNames) -> ViewStatus {
        ViewStatus { names, ..self }
    }

    /// Controls that keep objects frozen.
    #[must_use]
    pub fn frozen_controls(&self) -> u64 {
        self.losses.iter().map(|loss| loss.frozen_controls).sum()
    }

    /// Whether the set has exactly two members, be one of them a witness: neither can go on without the other.
    #[must_use]
    pub fn has_two_voters(&self) -> bool {
        self.members.len() == 2
    }
}

/// Slots, as people write them.
fn listed<'s>(members: impl Iterator<Item = &'s MemberView>) -> String {
    let slots: Vec<String> = members.map(|member| member.slot.to_string()).collect();
    slots.join(" ")
}

/// One line for `meridian status`.
pub(super) struct Summary<'s>(pub(super) &'s ViewStatus);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary(view) = self;
        let takes_part = match (view.takes_part, view.up_to_date) {
            (true, true) => "takes part",
            (true, false) => "takes part as soon as it is up to date",
            (false, _) => "DOES NOT TAKE PART",
        };
        let active = listed(view.members.iter().filter(|member| member.active));
        write!(f, "{}, {takes_part}; replicas {active}", view.epoch)?;
        let away = listed(view.members.iter().filter(|member| !member.active));
        if !away.is_empty() {
            write!(f, ", away {away}")?;
        }
        match view.lease_ms {
            Some(0) => write!(f, "; NO LEASE"),
            Some(ms) => write!(f, "; lease for {}.{} s", ms / 1000, ms % 1000 / 100),
            None => Ok(()),
        }
    }
}

/// The answer to `meridian view`.
impl fmt::Display for ViewStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "view {}", Summary(self))?;
        match self.leader {
            Some(leader) => write!(f, "\n  led by {}", called::replica(&self.names, leader))?,
            None => write!(f, "\n  led by nobody that is known here")?,
        }
        if let Some(obstacle) = &self.obstacle {
            write!(f, "\n  kept outside: {obstacle}")?;
        }
        for member in &self.members {
            write!(f, "\n{}", MemberLine(member, &self.names))?;
        }
        for loss in self.losses.iter().filter(|loss| !loss.settled) {
            write!(f, "\n{}", LossLine(loss, &self.names))?;
        }
        if !self.audit.is_empty() {
            write!(f, "\ndecisions, the last one last")?;
        }
        for entry in &self.audit {
            let AuditView {
                epoch, by, what, ..
            } = entry;
            let at = moment(entry.at_unix_s);
            let by = called::replica(&self.names, *by);
            write!(f, "\n  {at}  view {epoch:<5} by {by}: {what}")?;
        }
        Ok(())
    }
}

/// A member, and what all are called.
struct MemberLine<'s>(&'s MemberView, &'s MemberNames);

impl fmt::Display for MemberLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemberLine(member, names) = self;
        let kind = if member.kind == "witness" {
            "  witness"
        } else {
            ""
        };
        let who = called::short(names, member.slot);
        write!(f, "  replica {who:<5}{kind}")?;
        if member.active {
            return write!(f, " in the view since {}", member.since_epoch);
        }
        match (member.excluded_at_unix_s, &member.reason) {
            (Some(at), Some(reason)) => {
                write!(f, " AWAY since {}: {reason}", moment(at))?;
                member.excluded_by.map_or(Ok(()), |by| {
                    write!(f, " (said {})", called::replica(names, by))
                })
            }
            _ => write!(f, " not taken in yet"),
        }
    }
}

/// A lost member, and what all are called.
struct LossLine<'s>(&'s LossView, &'s MemberNames);

impl fmt::Display for LossLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LossLine(loss, names) = self;
        let since = moment(loss.since_unix_s);
        write!(
            f,
            "  {} is lost since {since}, and {} of its controls keep objects frozen",
            called::replica(names, loss.slot),
            loss.frozen_controls
        )?;
        match &loss.waits_for {
            Some(what) => write!(f, "; nothing can be decided yet: {what}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
impl ViewStatus {
    /// A view of three that one has left with something.
    pub(crate) fn example() -> ViewStatus {
        let present = MemberView {
            slot: 1,
            kind: "data".to_owned(),
            active: true,
            since_epoch: 1,
            excluded_at_unix_s: None,
            excluded_by: None,
            reason: None,
        };
        let away = MemberView {
            slot: 3,
            active: false,
            since_epoch: 6,
            excluded_at_unix_s: Some(1_790_000_000),
            excluded_by: Some(1),
            reason: Some("it does not answer".to_owned()),
            ..present.clone()
        };
        ViewStatus {
            epoch: 6,
            leader: Some(1),
            takes_part: true,
            up_to_date: true,
            obstacle: None,
            lease_ms: Some(4230),
            names: [(3, "gamma".to_owned())].into(),
            voters: Vec::new(),
            voters_change: false,
            members: vec![present.clone(), MemberView { slot: 2, ..present }, away],
            losses: vec![LossView {
                slot: 3,
                since_unix_s: 1_790_000_000,
                frozen_controls: 2,
                leaves_something: true,
                settled: false,
                ready_to_settle: true,
                waits_for: None,
            }],
            audit: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_reads_well() {
        let mut view = ViewStatus::example();
        view.audit.push(AuditView {
            epoch: 6,
            at_unix_s: 1_790_000_000,
            by: 1,
            what: "replica 3 left: it does not answer".to_owned(),
        });
        assert_eq!(
            view.to_string(),
            "view 6, takes part; replicas 1 2, away 3; lease for 4.2 s
  led by replica 1
  replica 1     in the view since 1
  replica 2     in the view since 1
  replica 3 (gamma) AWAY since 2026-09-21 14:13:20 UTC: it does not answer (said replica 1)
  replica 3 (gamma) is lost since 2026-09-21 14:13:20 UTC, and 2 of its controls keep objects frozen
decisions, the last one last
  2026-09-21 14:13:20 UTC  view 6     by replica 1: replica 3 left: it does not answer"
        );
    }

    #[test]
    fn a_witness_makes_two_replicas_three_voters() {
        let mut view = ViewStatus::example();
        view.members[2].kind = "witness".to_owned();
        assert!(!view.has_two_voters());
        let line = MemberLine(&view.members[2], &MemberNames::new()).to_string();
        assert!(line.starts_with("  replica 3      witness AWAY"), "{line}");
        view.members.truncate(2);
        assert!(view.has_two_voters());
    }
}

//! The status of the members of the set, and what those that left hold, for people.
//!
//! What must never enter: counting; the replica knows the numbers.

use std::fmt;

use replica::{AuditEntry, LossView, MemberNames, MemberView, ViewStatus};

use super::called;
use super::text::moment;

/// Slots, for people.
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

/// The answer to `meridian view`, for people.
pub struct ViewText<'s>(pub &'s ViewStatus);

impl fmt::Display for ViewText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ViewText(view) = self;
        write!(f, "view {}", Summary(view))?;
        match view.leader {
            Some(leader) => write!(f, "\n  led by {}", called::replica(&view.names, leader))?,
            None => write!(f, "\n  led by nobody that is known here")?,
        }
        if let Some(obstacle) = &view.obstacle {
            write!(f, "\n  kept outside: {obstacle}")?;
        }
        for member in &view.members {
            write!(f, "\n{}", MemberLine(member, &view.names))?;
        }
        for loss in view.losses.iter().filter(|loss| !loss.settled) {
            write!(f, "\n{}", LossLine(loss, &view.names))?;
        }
        if !view.audit.is_empty() {
            write!(f, "\ndecisions, the last one last")?;
        }
        for entry in &view.audit {
            let AuditEntry {
                epoch, by, what, ..
            } = entry;
            let at = moment(entry.at_unix_s);
            let by = called::replica(&view.names, by.0);
            write!(f, "\n  {at}  view {epoch:<5} by {by}: {what}")?;
        }
        Ok(())
    }
}

/// A member, with the names of all members.
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

/// A lost member, with the names of all members.
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
mod tests {
    use vfs::ReplicaSlot;

    use super::*;
    use crate::status::examples;

    #[test]
    fn a_view_reads_well() {
        let mut view = examples::view();
        view.audit.push(AuditEntry {
            epoch: 6,
            at_unix_s: 1_790_000_000,
            by: ReplicaSlot(1),
            what: "replica 3 left: it does not answer".to_owned(),
        });
        assert_eq!(
            ViewText(&view).to_string(),
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
        let mut view = examples::view();
        view.members[2].kind = "witness".to_owned();
        assert!(!view.has_two_voters());
        let line = MemberLine(&view.members[2], &MemberNames::new()).to_string();
        assert!(line.starts_with("  replica 3      witness AWAY"), "{line}");
        view.members.truncate(2);
        assert!(view.has_two_voters());
    }
}

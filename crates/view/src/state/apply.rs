//! The effect of each decision about members, and when it is refused.

use std::collections::BTreeMap;

use vfs::ReplicaSlot;

use super::{Exclusion, Kind, Loss, MEMBERS_MAX, MemberState, ViewState};
use crate::audit::{AuditEntry, record, shortened};
use crate::decision::{Command, Decision, DecisionKind, Outcome};

/// `Ok` with the words for the audit, or refused with the reason.
pub(super) type Verdict = Result<String, String>;

impl ViewState {
    /// Applies the next entry of the log.
    pub(crate) fn apply(&mut self, command: &Command) -> Outcome {
        match command {
            Command::Found {
                founders,
                by,
                at_unix_s,
            } => {
                let verdict = self.found(founders);
                self.conclude(verdict, *by, *at_unix_s)
            }
            Command::Decide(decision) => self.decide(decision),
        }
    }

    /// Applies a decision.
    pub fn decide(&mut self, decision: &Decision) -> Outcome {
        if self.epoch == 0 {
            return Outcome::Refused("the set has not been founded".to_owned());
        }
        let Decision {
            by,
            at_unix_s,
            seen_epoch,
            ref kind,
        } = *decision;
        let verdict = match kind {
            DecisionKind::Exclude { slot, reason } => {
                let exclusion = Exclusion::of(by, at_unix_s, reason);
                self.judged(by, seen_epoch)
                    .and_then(|()| self.exclude(*slot, exclusion))
            }
            DecisionKind::Admit { slot, incarnation } => {
                let judge = if by == *slot {
                    self.current(seen_epoch)
                } else {
                    self.judged(by, seen_epoch)
                };
                judge.and_then(|()| self.admit(*slot, *incarnation))
            }
            DecisionKind::Configure { slot, kind } => self
                .require_active(by)
                .and_then(|()| self.configure(*slot, *kind)),
            DecisionKind::Remove { slot } => self
                .require_active(by)
                .and_then(|()| self.remove(*slot, by)),
            DecisionKind::Settle { slot, settlement } => self
                .judged(by, seen_epoch)
                .and_then(|()| self.settle(*slot, settlement)),
            DecisionKind::Recover { survivors } => self.recover(survivors, by, at_unix_s),
            DecisionKind::Replace {
                out,
                admitted,
                reason,
            } => {
                let exclusion = Exclusion::of(by, at_unix_s, reason);
                self.judged(by, seen_epoch)
                    .and_then(|()| self.replace(out, admitted, &exclusion))
            }
            DecisionKind::Note { what } => match self.members.contains_key(&by) {
                true => Ok(shortened(what)),
                false => Err(format!("replica {} is not configured", by.0)),
            },
            DecisionKind::Junction { name, to } => self
                .require_active(by)
                .and_then(|()| self.junction(name, to))
                .map(|what| shortened(&what)),
            DecisionKind::Withdraw { slot } => {
                self.require_active(by).and_then(|()| self.withdraw(*slot))
            }
        };
        match kind.begins_an_epoch() {
            true => self.conclude(verdict, by, at_unix_s),
            false => self.note(verdict, by, at_unix_s),
        }
    }

    /// Begins the next epoch if something was changed, and adds an entry to the audit.
    fn conclude(&mut self, verdict: Verdict, by: ReplicaSlot, at_unix_s: u64) -> Outcome {
        if verdict.is_ok() {
            self.epoch = self.next_epoch();
        }
        self.note(verdict, by, at_unix_s)
    }

    fn note(&mut self, verdict: Verdict, by: ReplicaSlot, at_unix_s: u64) -> Outcome {
        let what = match verdict {
            Ok(what) => what,
            Err(reason) => return Outcome::Refused(reason),
        };
        let epoch = self.epoch;
        let entry = AuditEntry {
            epoch,
            at_unix_s,
            by,
            what,
        };
        record(&mut self.audit, entry);
        Outcome::Applied
    }

    pub(super) fn next_epoch(&self) -> u64 {
        self.epoch.saturating_add(1)
    }

    fn current(&self, seen_epoch: u64) -> Result<(), String> {
        if seen_epoch == self.epoch {
            return Ok(());
        }
        let epoch = self.epoch;
        Err(format!(
            "judged in epoch {seen_epoch}, but the epoch is {epoch}; try again"
        ))
    }

    fn require_active(&self, by: ReplicaSlot) -> Result<(), String> {
        if self.is_active(by) {
            return Ok(());
        }
        Err(format!("replica {} is not active", by.0))
    }

    fn judged(&self, by: ReplicaSlot, seen_epoch: u64) -> Result<(), String> {
        self.current(seen_epoch)?;
        self.require_active(by)
    }

    fn found(&mut self, founders: &BTreeMap<ReplicaSlot, Kind>) -> Verdict {
        if self.epoch != 0 {
            return Err("the set was founded before".to_owned());
        }
        if founders.is_empty() || founders.len() > MEMBERS_MAX {
            return Err(format!("a set has one to {MEMBERS_MAX} members"));
        }
        if founders.contains_key(&ReplicaSlot(0)) {
            return Err("slot 0 belongs to no replica".to_owned());
        }
        if !founders.values().any(|kind| *kind == Kind::Data) {
            return Err("one member at least must hold data".to_owned());
        }
        for (slot, kind) in founders {
            let member = MemberState {
                kind: *kind,
                active: true,
                since_epoch: 1,
                incarnation: 0,
                was_active: true,
                excluded: None,
            };
            self.members.insert(*slot, member);
        }
        Ok(format!("founded the set with {}", listed(founders.keys())))
    }

    fn exclude(&mut self, slot: ReplicaSlot, exclusion: Exclusion) -> Verdict {
        if !self.is_active(slot) {
            return Err(format!("replica {} is not active", slot.0));
        }
        self.can_do_without(slot, self.majority())?;
        let what = format!("excluded replica {}: {}", slot.0, exclusion.reason);
        self.put_out(slot, exclusion);
        Ok(what)
    }

    /// Makes an active replica inactive.
    pub(super) fn put_out(&mut self, slot: ReplicaSlot, exclusion: Exclusion) {
        let epoch = self.next_epoch();
        self.lose(slot, exclusion.at_unix_s);
        self.settled_before.remove(&slot);
        if let Some(member) = self.members.get_mut(&slot) {
            member.active = false;
            member.since_epoch = epoch;
            member.excluded = Some(exclusion);
        }
    }

    /// Whether enough active replicas remain without `slot`, at least one of them with data.
    pub(super) fn can_do_without(&self, slot: ReplicaSlot, majority: usize) -> Result<(), String> {
        let rest = self
            .members
            .iter()
            .filter(|(other, member)| **other != slot && member.active);
        let kinds: Vec<Kind> = rest.map(|(_, member)| member.kind).collect();
        if kinds.len() < majority {
            let left = kinds.len();
            return Err(format!(
                "{left} active replicas would be left, and a majority is {majority}"
            ));
        }
        if !kinds.contains(&Kind::Data) {
            return Err("no active replica that holds data would be left".to_owned());
        }
        Ok(())
    }

    pub(super) fn lose(&mut self, slot: ReplicaSlot, at_unix_s: u64) {
        let member = self.members.get(&slot);
        let incarnation = member.map_or(0, |member| member.incarnation);
        let loss = Loss {
            slot,
            incarnation,
            since_unix_s: at_unix_s,
            settled: Vec::new(),
        };
        self.losses.insert(slot, loss);
    }

    pub(super) fn admit(&mut self, slot: ReplicaSlot, incarnation: u64) -> Verdict {
        let epoch = self.next_epoch();
        let Some(member) = self.members.get_mut(&slot) else {
            return Err(format!("replica {} is not configured", slot.0));
        };
        let known = member.incarnation;
        if incarnation < known {
            return Err(format!(
                "incarnation {incarnation} of replica {} is over; {known} was admitted",
                slot.0
            ));
        }
        if member.active && incarnation == known {
            return Err(format!("replica {} is active", slot.0));
        }
        if !member.active {
            self.settled_before.insert(slot, self.settlements);
        }
        member.since_epoch = epoch;
        member.active = true;
        member.was_active = true;
        member.incarnation = incarnation;
        member.excluded = None;
        self.losses.remove(&slot);
        Ok(format!(
            "admitted replica {}, incarnation {incarnation}",
            slot.0
        ))
    }

    fn configure(&mut self, slot: ReplicaSlot, kind: Kind) -> Verdict {
        if slot == ReplicaSlot(0) || self.removed.contains(&slot) {
            return Err(format!("slot {} cannot be used", slot.0));
        }
        if self.members.contains_key(&slot) {
            return Err(format!("replica {} is configured", slot.0));
        }
        if self.members.len() >= MEMBERS_MAX {
            return Err(format!("a set has at most {MEMBERS_MAX} members"));
        }
        if let Some(newcomer) = self.newcomer() {
            return Err(format!(
                "replica {} was configured before and is not active yet",
                newcomer.0
            ));
        }
        let member = MemberState {
            kind,
            active: false,
            since_epoch: self.next_epoch(),
            incarnation: 0,
            was_active: false,
            excluded: None,
        };
        self.members.insert(slot, member);
        let kind = match kind {
            Kind::Data => "replica",
            Kind::Witness => "witness",
        };
        Ok(format!("configured {kind} {}", slot.0))
    }
}

impl Exclusion {
    fn of(by: ReplicaSlot, at_unix_s: u64, reason: &str) -> Exclusion {
        Exclusion {
            at_unix_s,
            by,
            reason: shortened(reason),
        }
    }
}

/// Lists slots, for people.
pub(super) fn listed<'a>(slots: impl Iterator<Item = &'a ReplicaSlot>) -> String {
    let words: Vec<String> = slots.map(|slot| slot.0.to_string()).collect();
    if words.is_empty() {
        return "nobody".to_owned();
    }
    let word = if words.len() == 1 {
        "replica"
    } else {
        "replicas"
    };
    format!("{word} {}", words.join(", "))
}

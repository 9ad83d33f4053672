//! Some members leave and others come in one step, when there would be too few members in between.

use std::collections::{BTreeMap, BTreeSet};

use vfs::ReplicaSlot;

use super::apply::{Verdict, listed};
use super::{Exclusion, Kind, ViewState};

impl ViewState {
    /// Excludes some active replicas and admits others.
    pub(super) fn replace(
        &mut self,
        out: &BTreeSet<ReplicaSlot>,
        admitted: &BTreeMap<ReplicaSlot, u64>,
        exclusion: &Exclusion,
    ) -> Verdict {
        self.can_replace(out, admitted, exclusion.by)?;
        for slot in out {
            self.put_out(*slot, exclusion.clone());
        }
        for (slot, incarnation) in admitted {
            self.admit(*slot, *incarnation)?;
        }
        Ok(format!(
            "excluded {} and admitted {} in one step: {}",
            listed(out.iter()),
            listed(admitted.keys()),
            exclusion.reason
        ))
    }

    fn can_replace(
        &self,
        out: &BTreeSet<ReplicaSlot>,
        admitted: &BTreeMap<ReplicaSlot, u64>,
        by: ReplicaSlot,
    ) -> Result<(), String> {
        if out.is_empty() || out.contains(&by) {
            return Err("somebody else must be excluded".to_owned());
        }
        if let Some(slot) = out.iter().find(|slot| !self.is_active(**slot)) {
            return Err(format!("replica {} is not active", slot.0));
        }
        for (slot, incarnation) in admitted {
            self.can_take_a_place(*slot, *incarnation)?;
        }
        let rest = self.active().filter(|slot| !out.contains(slot));
        let rest: BTreeSet<ReplicaSlot> = rest.collect();
        let (left, majority) = (rest.len(), self.majority());
        if left >= majority {
            return Err(format!(
                "{left} active replicas would be left, which is a majority; nobody need be admitted"
            ));
        }
        let then = left + admitted.len();
        if then < majority {
            return Err(format!(
                "{then} replicas would be active, and a majority is {majority}"
            ));
        }
        let data = |slot: &ReplicaSlot| {
            let member = self.members.get(slot);
            member.is_some_and(|member| member.kind == Kind::Data)
        };
        if !rest.iter().any(data) {
            return Err("no active replica that holds data would be left".to_owned());
        }
        Ok(())
    }

    fn can_take_a_place(&self, slot: ReplicaSlot, incarnation: u64) -> Result<(), String> {
        let slot_number = slot.0;
        let Some(member) = self.members.get(&slot) else {
            return Err(format!("replica {slot_number} is not configured"));
        };
        if member.active {
            return Err(format!("replica {slot_number} is active"));
        }
        if !member.was_active {
            return Err(format!(
                "replica {slot_number} was never active, and does not vote"
            ));
        }
        if incarnation < member.incarnation {
            let known = member.incarnation;
            return Err(format!(
                "incarnation {incarnation} of replica {slot_number} is over; {known} was admitted"
            ));
        }
        Ok(())
    }
}

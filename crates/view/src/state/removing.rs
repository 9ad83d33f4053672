//! Members that leave for ever: one is removed at a time, or an administrator gives several up together.
//!
//! A loss is settled before its replica is removed. A replica that joins or restarts later knows nothing about the
//! stream of a removed replica, so nothing could be settled then (counterexample 41).

use std::collections::BTreeSet;

use vfs::ReplicaSlot;

use super::apply::{Verdict, listed};
use super::{Kind, StreamEnd, ViewState};

impl ViewState {
    pub(super) fn remove(&mut self, slot: ReplicaSlot, by: ReplicaSlot) -> Verdict {
        let Some(member) = self.members.get(&slot) else {
            return Err(format!("replica {} is not configured", slot.0));
        };
        let (was_active, kind) = (member.was_active, member.kind);
        let mut voters = self.voters();
        voters.remove(&slot);
        self.can_do_without(slot, voters.len() / 2 + 1)?;
        if kind == Kind::Data {
            self.leaves_nothing_open(slot, by)?;
        }
        self.members.remove(&slot);
        self.settled_before.remove(&slot);
        self.removed.insert(slot);
        if was_active {
            self.conclude_loss(slot);
        }
        Ok(format!("removed replica {}", slot.0))
    }

    /// Takes a newcomer out of the configuration for now.
    pub(super) fn withdraw(&mut self, slot: ReplicaSlot) -> Verdict {
        if self.newcomer() != Some(slot) {
            return Err(format!("replica {} is no newcomer", slot.0));
        }
        self.members.remove(&slot);
        Ok(format!(
            "replica {} waits with its admission, because it is not there and another one is",
            slot.0
        ))
    }

    /// Whether nothing about a replica remains to be decided. If no other active replica with data exists beside the
    /// deciding one, there is no replica to agree with about what is valid.
    fn leaves_nothing_open(&self, slot: ReplicaSlot, by: ReplicaSlot) -> Result<(), String> {
        let number = slot.0;
        if self.is_active(slot) {
            let mut others = self.active().filter(|other| *other != slot && *other != by);
            return match others.any(|other| self.holds_data(other)) {
                true => Err(format!(
                    "replica {number} takes part; it has to leave the view before"
                )),
                false => Ok(()),
            };
        }
        match self.losses.contains_key(&slot) && !self.ends_all(slot) {
            true => Err(format!(
                "replica {number} is lost, and it is not decided what becomes of that which it alone had"
            )),
            false => Ok(()),
        }
    }

    /// Whether the end of all controls of a lost replica was decided.
    fn ends_all(&self, slot: ReplicaSlot) -> bool {
        let settled = self.losses.get(&slot).into_iter();
        let mut settled = settled.flat_map(|loss| &loss.settled);
        settled.any(|settlement| settlement.names.is_none())
    }

    /// For a removed replica, only the end of its stream is remembered.
    pub(super) fn conclude_loss(&mut self, slot: ReplicaSlot) {
        let loss = self.losses.remove(&slot);
        let settled = loss.and_then(|mut loss| loss.settled.pop());
        let end = match settled {
            Some(last) => StreamEnd {
                through: last.through,
                settlement: last.id,
            },
            None => {
                self.settlements = self.settlements.saturating_add(1);
                StreamEnd {
                    through: u64::MAX,
                    settlement: self.settlements,
                }
            }
        };
        self.stream_ends.insert(slot, end);
    }

    pub(super) fn recover(
        &mut self,
        survivors: &BTreeSet<ReplicaSlot>,
        by: ReplicaSlot,
        at_unix_s: u64,
    ) -> Verdict {
        let is_member = |slot: &ReplicaSlot| self.members.contains_key(slot);
        if !survivors.contains(&by) || !survivors.iter().all(is_member) {
            return Err("survivors must be configured, the deciding one among them".to_owned());
        }
        if !self.holds_data(by) {
            return Err(format!("replica {} is a witness; it holds no data", by.0));
        }
        let configured: Vec<ReplicaSlot> = self.members.keys().copied().collect();
        let gone: Vec<ReplicaSlot> = configured
            .into_iter()
            .filter(|slot| !survivors.contains(slot))
            .collect();
        for slot in &gone {
            self.give_up(*slot, at_unix_s);
        }
        let epoch = self.next_epoch();
        let holders = self.active().filter(|slot| self.holds_data(*slot));
        if holders.count() == 0
            && let Some(member) = self.members.get_mut(&by)
        {
            member.active = true;
            member.was_active = true;
            member.since_epoch = epoch;
            member.excluded = None;
            self.losses.remove(&by);
        }
        let (survivors, gone) = (listed(survivors.iter()), listed(gone.iter()));
        Ok(format!(
            "went on with {survivors}, given up for ever: {gone}"
        ))
    }

    /// Removes a member whose loss could not be agreed on yet. It remains a loss until that is settled.
    fn give_up(&mut self, slot: ReplicaSlot, at_unix_s: u64) {
        if self.is_active(slot) {
            self.lose(slot, at_unix_s);
        }
        let open = self.holds_data(slot) && self.losses.contains_key(&slot) && !self.ends_all(slot);
        let member = self.members.remove(&slot);
        self.settled_before.remove(&slot);
        self.removed.insert(slot);
        if member.is_some_and(|member| member.was_active) && !open {
            self.conclude_loss(slot);
        }
    }
}

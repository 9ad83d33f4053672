//! Settlements end controls of a lost replica: their effect, and when they are refused.

use vfs::ReplicaSlot;

use super::apply::Verdict;
use super::{Loss, ViewState};
use crate::audit::shortened;
use crate::decision::{SETTLEMENT_NAMES_MAX, SettledBy, Settlement};

/// The maximum number of settlements for one loss. After that, only a settlement that ends everything is accepted.
const SETTLEMENTS_MAX: usize = 256;

/// The maximum number of names in all settlements together.
const NAMES_MAX: usize = 64 * SETTLEMENT_NAMES_MAX;

impl ViewState {
    pub(super) fn settle(&mut self, slot: ReplicaSlot, settlement: &Settlement) -> Verdict {
        self.can_settle(slot, settlement)?;
        let Some(loss) = self.losses.get_mut(&slot) else {
            return Err(format!("replica {} is not lost", slot.0));
        };
        let mut settlement = settlement.clone();
        if let SettledBy::Administrator { reason } = &mut settlement.by {
            *reason = shortened(reason);
        }
        self.settlements = self.settlements.saturating_add(1);
        settlement.id = self.settlements;
        let what = told(slot, &settlement);
        let ends_all = settlement.names.is_none();
        loss.settled.push(settlement);
        if ends_all && self.removed.contains(&slot) {
            self.conclude_loss(slot);
        }
        Ok(what)
    }

    fn can_settle(&self, slot: ReplicaSlot, settlement: &Settlement) -> Result<(), String> {
        let Some(loss) = self.losses.get(&slot) else {
            return Err(format!("replica {} is not lost", slot.0));
        };
        let kept = loss.settled.iter().map(|earlier| earlier.through).max();
        if kept.is_some_and(|kept| settlement.through < kept) {
            return Err("an earlier settlement keeps more of the stream".to_owned());
        }
        let Some(names) = &settlement.names else {
            return Self::can_settle_all(loss, settlement);
        };
        if names.len() > SETTLEMENT_NAMES_MAX {
            return Err(format!(
                "a settlement has at most {SETTLEMENT_NAMES_MAX} names"
            ));
        }
        let all = self.losses.values().flat_map(|loss| &loss.settled);
        let named: usize = all.filter_map(|one| one.names.as_ref()).map(Vec::len).sum();
        if loss.settled.len() >= SETTLEMENTS_MAX || named + names.len() > NAMES_MAX {
            return Err("too many settlements by name; settle all controls at once".to_owned());
        }
        Ok(())
    }

    fn can_settle_all(loss: &Loss, settlement: &Settlement) -> Result<(), String> {
        let covers = |earlier: &Settlement| {
            earlier.names.is_none()
                && earlier.incarnation_below >= settlement.incarnation_below
                && earlier.through == settlement.through
        };
        if loss.settled.iter().any(covers) {
            return Err("settled before".to_owned());
        }
        if loss.settled.len() >= 2 * SETTLEMENTS_MAX {
            return Err("too many settlements".to_owned());
        }
        Ok(())
    }
}

/// A settlement, for people.
fn told(slot: ReplicaSlot, settlement: &Settlement) -> String {
    let what = match &settlement.names {
        None => "all controls".to_owned(),
        Some(names) => format!("{} controls", names.len()),
    };
    let by = match &settlement.by {
        SettledBy::Takeover => "taken over".to_owned(),
        SettledBy::Administrator { reason } => format!("given up: {reason}"),
    };
    let (slot, through) = (slot.0, settlement.through);
    format!("ended {what} of replica {slot} after position {through}, {by}")
}

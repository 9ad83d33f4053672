//! Data of the core and its ledger for display and metrics: controls, how far peers lag, and how much is kept.
//!
//! What must never enter: how it is shown.

use std::collections::BTreeMap;
use std::time::Duration;

use control::{ControlName, Proposal};
use vfs::ReplicaSlot;

use crate::driver::engine::Engine;

/// How far one peer is behind.
pub(crate) struct Lag {
    pub(crate) updates: u64,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) resting: u64,
    pub(crate) seconds: f64,
}

impl Engine {
    /// How far each peer with an account is behind.
    pub(crate) fn lags(&self) -> BTreeMap<ReplicaSlot, Lag> {
        self.with_core(|guard| {
            let ledger = &guard.ledger;
            let peers = ledger.unshipped.peers();
            let lags = peers.map(|(slot, backlog)| {
                let since = backlog
                    .oldest()
                    .map(|oldest| guard.now.0 - oldest.0.min(guard.now.0));
                let lag = Lag {
                    updates: ledger.last_position.saturating_sub(ledger.applied_by(slot)),
                    bytes: backlog.bytes(),
                    files: backlog.files() as u64,
                    resting: backlog.resting() as u64,
                    seconds: since
                        .map_or(0.0, |micros| Duration::from_micros(micros).as_secs_f64()),
                };
                (slot, lag)
            });
            lags.collect()
        })
    }

    /// How many entries are kept of what others lack, or may not know.
    pub(crate) fn entries_kept(&self) -> usize {
        self.with_core(|guard| guard.ledger.entries_kept())
    }

    /// At most `most` of the controls that are acknowledged here, each with its age in seconds, and how many there are.
    pub(crate) fn controls(&self, most: usize) -> (Vec<(Proposal, f64)>, usize) {
        self.with_core(|guard| {
            let mut total = 0;
            let mut found: Vec<(Proposal, f64)> = Vec::new();
            for proposal in guard.acknowledged() {
                total += 1;
                if found.len() < most {
                    let age = guard.ledger.ages.of(proposal.name, guard.now);
                    found.push((proposal.clone(), age));
                }
            }
            (found, total)
        })
    }

    /// Why each of these controls of this replica has not ended.
    pub(crate) fn held_because(
        &self,
        names: impl Iterator<Item = ControlName>,
    ) -> Vec<Option<&'static str>> {
        self.with_core(|guard| names.map(|name| guard.held_because(name)).collect())
    }
}

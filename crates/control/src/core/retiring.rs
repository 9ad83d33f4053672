//! Before a replica stops, it gives up its controls, so that nothing is frozen while it is away.
//!
//! `may_end` decides as usual when a control may end. Controls that cannot end in time are frozen, as for a lost replica.

use std::collections::BTreeSet;

use vfs::ReplicaSlot;

use super::ControlCore;
use crate::moment::Moment;
use crate::own::State;
use crate::tree::{Remembered, Tree};

impl ControlCore {
    /// This replica is about to stop. Every own control ends as soon as it may, including controls that operations get
    /// from now on. Repeated calls are harmless.
    pub fn handle_retiring(&mut self, now: Moment, tree: &impl Tree) {
        let tree = &Remembered::new(tree);
        self.retiring = true;
        let numbers: Vec<u64> = self.own.iter().map(|(number, _)| number).collect();
        for number in numbers {
            let held = self.own.find_mut(number);
            let Some(control) = held.filter(|own| own.state != State::Undecided) else {
                continue;
            };
            control.state = State::Draining;
            self.candidates.add(number);
        }
        self.run(now, tree);
    }

    /// Whether no own control is left, and each of these peers has noted the end of every one.
    #[must_use]
    pub fn has_retired(&self, peers: &BTreeSet<ReplicaSlot>) -> bool {
        let mut endings = self.endings.values();
        self.own.len() == 0 && endings.all(|ending| ending.unaware.is_disjoint(peers))
    }
}

//! Standing back for a waiter that needs more than one replica can give up at once.
//!
//! A group, or deep control of a directory that several sites are changing, is free only when all of them have given up
//! what it covers. Without this module, each site would take its part again before the others have given up theirs: a
//! replica with one operation after the other would keep such a waiter out for ever. So a replica that has given
//! something up for a waiter proposes nothing that the waiter needs, for a while. Only time ends this: no replica waits
//! longer than that, whatever the others do.

use super::ControlCore;
use crate::moment::Moment;
use crate::name::ControlName;
use crate::own::Waiting;
use crate::tree::Tree;
use crate::update::Need;

/// If standing back did not help, this multiple of its time passes before the next time.
const REST: u32 = 8;

/// Operations that are not proposed yet, because they stand back for another replica.
#[derive(Clone, Debug, Default)]
pub(super) struct StandingBack {
    operations: Vec<Waiting>,
    /// When to submit them again, at the latest.
    pub(super) until: Option<Moment>,
}

impl StandingBack {
    pub(super) fn len(&self) -> usize {
        self.operations.len()
    }

    pub(super) fn add(&mut self, operation: Waiting, until: Moment) {
        self.operations.push(operation);
        self.until = Some(self.until.map_or(until, |earlier| earlier.min(until)));
    }
}

impl ControlCore {
    /// A control has been given up for `next`, which waits for more.
    pub(super) fn favour(&mut self, now: Moment, next: ControlName) {
        let until = now.after(self.settings.standing_back);
        let again = until.after(self.settings.standing_back * REST);
        self.acceptor.favour(now, next, until, again);
    }

    /// Until when an operation has to stand back.
    pub(super) fn stands_back_until(
        &self,
        now: Moment,
        tree: &impl Tree,
        needs: &[Need],
    ) -> Option<Moment> {
        if !self.acceptor.has_waiting() {
            return None;
        }
        let question = self.question_of(tree, needs);
        self.acceptor.favoured_against(now, tree, &question)
    }

    /// Submits the operations that stand back again. Returns whether any of them went ahead.
    pub(super) fn step_forward(&mut self, now: Moment, tree: &impl Tree) -> bool {
        if self.standing_back.operations.is_empty() {
            return false;
        }
        let before = std::mem::take(&mut self.standing_back);
        let count = before.operations.len();
        for operation in before.operations {
            self.submit(now, tree, operation);
        }
        self.standing_back.len() < count
    }
}

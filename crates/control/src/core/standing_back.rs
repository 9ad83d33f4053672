//! Standing back for somebody who wants more than one replica can give up at a time.
//!
//! A group, or deep control of a directory that several sites are changing, is free only when all
//! of them have given up what it covers. Each would be back before the others are done: a replica
//! that keeps changing something one operation after the other would keep such a waiter out for
//! ever. So a replica that has given something up for a waiter asks for nothing that the waiter
//! needs, for a while. It is a matter of time alone: nobody waits for anybody longer than that,
//! whatever the others do.

use super::ControlCore;
use crate::moment::Moment;
use crate::name::ControlName;
use crate::own::Waiting;
use crate::tree::Tree;
use crate::update::Need;

/// After standing back for somebody in vain, this many times as long passes before the next time.
const REST: u32 = 8;

/// Operations that are not proposed yet, for the sake of somebody else.
#[derive(Clone, Debug, Default)]
pub(super) struct StandingBack {
    operations: Vec<Waiting>,
    /// When to look at them again, at the latest.
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
    /// Something has been given up for `next`, which waits for more.
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

    /// Looks at what stands back again. Whether anything came of it.
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

//! Operations that take time: the controls that they were admitted under do not end before the operations do.
//!
//! What must never enter: whether an operation may be admitted, and the other conditions for the end of a control.

use super::ControlCore;
use crate::moment::Moment;
use crate::name::ControlName;
use crate::tree::{Remembered, Tree};
use crate::update::Update;

impl ControlCore {
    /// An operation that was admitted under these controls is still running. The controls do not end before it lets
    /// them go. It may report updates under them even when nothing more is admitted. The same holds for the control of
    /// a file or directory that is moved out of their reach in the meantime.
    pub fn hold(&mut self, under: &[ControlName]) {
        for name in under {
            let number = self.own_number(*name);
            if let Some(control) = number.and_then(|number| self.own.find_mut(number)) {
                control.held += 1;
            }
        }
    }

    /// The operation that held these controls is over.
    pub fn handle_let_go(&mut self, now: Moment, tree: &impl Tree, under: &[ControlName]) {
        let tree = &Remembered::new(tree);
        let numbers = under.iter().filter_map(|name| self.own_number(*name));
        let mut over: Vec<u64> = numbers.collect();
        while let Some(number) = over.pop() {
            if let Some(control) = self.own.find_mut(number) {
                control.held = control.held.saturating_sub(1);
                if control.held == 0 {
                    over.append(&mut control.hold_with);
                }
            }
            self.candidates.wake(number);
        }
        self.run(now, tree);
    }

    /// A rename or a link moves an object out of the reach of deep control, and the object may be written under that
    /// control now. The object's own control must then last until the writing ends.
    pub(super) fn pass_holds_on(
        &mut self,
        tree: &impl Tree,
        update: &Update,
        under: &[ControlName],
    ) {
        let (object, left) = match *update {
            Update::Rename { from, moved, .. } => (moved.object(), self.deep_reaching(tree, from)),
            Update::Link { file, .. } => (file, self.own.deep_above(tree, file)),
            _ => return,
        };
        let numbers = under.iter().filter_map(|name| self.own_number(*name));
        let claims_it = |number: &u64| {
            let control = self.own.find(*number);
            control.is_some_and(|control| control.claims_object(object))
        };
        let outlasting: Vec<u64> = numbers.filter(claims_it).collect();
        for wide in left {
            let held = self.own.find(wide).is_some_and(|control| control.held > 0);
            for narrow in outlasting.iter().filter(|narrow| held && **narrow != wide) {
                self.hold_along(wide, *narrow);
            }
        }
    }

    fn hold_along(&mut self, wide: u64, narrow: u64) {
        if let Some(control) = self.own.find_mut(wide) {
            control.hold_with.push(narrow);
        }
        if let Some(control) = self.own.find_mut(narrow) {
            control.held += 1;
        }
    }
}

//! Giving control up: when idle, and when asked.
//!
//! Timers and revokes only say that a control *should* end; `may_end` decides whether it *may*.

use super::ControlCore;
use crate::moment::Moment;
use crate::name::Position;
use crate::own::{OwnControl, State};
use crate::tree::{Remembered, Tree};
use crate::update::{Need, NeedKind};
use std::time::Duration;
use vfs::{ObjectId, ReplicaSlot};

/// The maximum number of directories in back-off from deep control. When there are more, the oldest leave it first.
const BACK_OFF_LIMIT: usize = 1024;

impl ControlCore {
    /// The alarm went off. Early or unnecessary calls are harmless.
    pub fn handle_timer(&mut self, now: Moment, tree: &impl Tree) {
        let tree = &Remembered::new(tree);
        self.armed = None;
        if self.links_unsettled {
            self.settle_links(tree);
        }
        while let Some((at, number)) = self.deadlines.first().copied() {
            if at > now {
                break;
            }
            self.deadlines.pop_first();
            self.expire(now, number);
        }
        self.back_off.retain(|_, until| *until > now);
        self.run(now, tree);
    }

    fn expire(&mut self, now: Moment, number: u64) {
        if let Some(control) = self.own.find_mut(number) {
            control.scheduled = None;
        }
        let Some(due) = self.due(number) else {
            return;
        };
        if due > now {
            self.schedule(number);
            return;
        }
        if let Some(control) = self.own.find_mut(number) {
            if control.revoked_until.is_some_and(|until| until <= now) {
                control.state = State::Draining;
            }
            self.candidates.add(number);
        }
    }

    /// When a control in force should end.
    fn due(&self, number: u64) -> Option<Moment> {
        let control = self
            .own
            .find(number)
            .filter(|own| own.state != State::Undecided)?;
        if self.retiring {
            return Some(control.last_used);
        }
        let open = control
            .objects()
            .any(|object| self.open_for_writing.contains_key(&object));
        let idle_time = match open {
            true => self
                .idle_time(control)
                .max(self.settings.open_file_control_idle),
            false => self.idle_time(control),
        };
        let idle = control.last_used.after(idle_time);
        Some(control.revoked_until.map_or(idle, |until| until.min(idle)))
    }

    fn idle_time(&self, control: &OwnControl) -> Duration {
        let directory = |need: &Need| need.kind == NeedKind::Directory;
        if !control.is_deep() && !control.needs.iter().any(directory) {
            return self.settings.file_control_idle;
        }
        match control.is_deep() {
            true if !self.settings.strategies.idle_timer => Duration::ZERO,
            true => self.settings.deep_control_idle,
            false => self.settings.directory_control_idle,
        }
    }

    /// Schedules the next examination of a control when it is due, unless an earlier one is scheduled.
    pub(super) fn schedule(&mut self, number: u64) {
        let due = self.due(number);
        let (Some(due), Some(control)) = (due, self.own.find_mut(number)) else {
            return;
        };
        match control.scheduled {
            Some(at) if at <= due => return,
            Some(at) => self.deadlines.remove(&(at, number)),
            None => false,
        };
        control.scheduled = Some(due);
        self.deadlines.insert((due, number));
    }

    /// An update uses the control nearest to the object, which therefore lasts longer.
    pub(super) fn touch(&mut self, now: Moment, tree: &impl Tree, need: &Need) {
        let nearest = self
            .own
            .meeting(tree, need)
            .first()
            .map(|(number, _)| *number);
        let Some(number) = nearest else {
            return;
        };
        let postponed = now.after(self.settings.revoke_grace);
        let fixed = self.settings.rules.revoke_deadline_fixed();
        let Some(control) = self.own.find_mut(number) else {
            return;
        };
        control.last_used = now;
        if !fixed && control.revoked_until.is_some() {
            control.revoked_until = Some(postponed);
        }
    }

    /// Section 3.3, second: another replica wants what this control covers. The first revoke fixes the time at which
    /// updates stop, and prevents new deep control here for a while.
    pub(super) fn revoke(&mut self, now: Moment, number: u64) {
        if !self.settings.strategies.revoke {
            return;
        }
        let until = now.after(self.settings.revoke_grace);
        let back_off = now.after(self.settings.deep_back_off);
        let Some(control) = self.own.find_mut(number) else {
            return;
        };
        if control.state != State::Held || control.revoked_until.is_some() {
            return;
        }
        control.revoked_until = Some(until);
        let deep = control.deep_objects();
        self.back_off.extend(deep.map(|object| (object, back_off)));
        while self.back_off.len() > BACK_OFF_LIMIT {
            let oldest = self.back_off.iter().min_by_key(|(_, until)| **until);
            let oldest = *oldest.expect("a map over its limit is not empty").0;
            self.back_off.remove(&oldest);
        }
        self.schedule(number);
    }

    /// Whether another replica waits for the end of an own control that covers an object, or this replica is about to
    /// stop. Then the conditions for that end should be met soon.
    pub fn is_awaited(&self, tree: &impl Tree, object: ObjectId) -> bool {
        let at = self.own.at(object).map(|(number, _)| number);
        let mut covering = at.chain(self.own.deep_above(tree, object));
        self.retiring
            || covering.any(|number| {
                let control = self.own.find(number);
                control.is_some_and(|control| control.revoked_until.is_some())
            })
    }

    /// A client has the file open for writing here. While it does, the control of the file outlives the last write by
    /// [`Settings::open_file_control_idle`](crate::Settings::open_file_control_idle).
    pub fn handle_opened_for_writing(&mut self, file: ObjectId) {
        *self.open_for_writing.entry(file).or_default() += 1;
    }

    /// One open for writing has ended.
    pub fn handle_closed_for_writing(&mut self, now: Moment, tree: &impl Tree, file: ObjectId) {
        let tree = &Remembered::new(tree);
        if let Some(count) = self.open_for_writing.get_mut(&file) {
            *count -= 1;
            if *count == 0 {
                self.open_for_writing.remove(&file);
            }
        }
        let numbers: Vec<u64> = self.own.at(file).map(|(number, _)| number).collect();
        for number in numbers {
            if let Some(control) = self.own.find_mut(number) {
                control.last_used = control.last_used.max(now);
            }
            self.schedule(number);
        }
        self.run(now, tree);
    }

    /// A peer has durably applied this replica's stream up to `position`.
    pub fn handle_applied(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        peer: ReplicaSlot,
        position: Position,
    ) {
        let tree = &Remembered::new(tree);
        self.note_applied(peer, position);
        self.run(now, tree);
    }
}

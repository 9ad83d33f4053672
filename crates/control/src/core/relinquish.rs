//! Giving control up: when idle, when asked, and only when nobody can miss what was done under it.
//!
//! Timers and revokes only say that a control *should* end; the conditions at the end of this file say
//! that it *may*.

use super::ControlCore;
use crate::claim::Depth;
use crate::moment::Moment;
use crate::name::{ControlName, Position};
use crate::own::{Origin, OwnControl, State};
use crate::tree::{Tree, ancestors};
use crate::update::{Need, NeedKind};
use std::time::Duration;
use vfs::{ObjectId, ReplicaSlot};

/// No more directories than this are kept from deep control at a time; the oldest are let off first.
const BACK_OFF_LIMIT: usize = 1024;

impl ControlCore {
    /// The alarm went off. Early or superfluous calls do no harm.
    pub fn handle_timer(&mut self, now: Moment, tree: &impl Tree) {
        self.armed = None;
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
        let Some(due) = self.due(number) else {
            return;
        };
        if due > now {
            self.deadlines.insert((due, number));
            return;
        }
        if let Some(control) = self.own.find_mut(number) {
            if control.revoked_until.is_some_and(|until| until <= now) {
                control.state = State::Draining;
            }
            self.relinquishing.insert(number);
        }
    }

    /// When a control in force should end; `None` while it is in use without a limit.
    fn due(&self, number: u64) -> Option<Moment> {
        let control = self
            .own
            .find(number)
            .filter(|own| own.state != State::Undecided)?;
        let claims = &control.proposal.claims;
        let open = claims
            .iter()
            .any(|claim| self.open_for_writing.contains_key(&claim.object));
        let idle = (!open).then(|| control.last_used.after(self.idle_time(control)));
        [idle, control.revoked_until].into_iter().flatten().min()
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

    pub(super) fn schedule(&mut self, number: u64) {
        if let Some(due) = self.due(number) {
            self.deadlines.insert((due, number));
        }
    }

    /// An update makes use of the control nearest to the object, which therefore stays longer.
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
        if control.state == State::Held && self.relinquishing.remove(&number) {
            self.schedule(number);
        }
    }

    /// Section 3.3, second: somebody wants what this control covers. The first revoke fixes when updates
    /// stop, and keeps deep control away from here for a while.
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
        let claims = control.proposal.claims.iter();
        let deep = claims.filter(|claim| claim.depth == Depth::Deep);
        self.back_off
            .extend(deep.map(|claim| (claim.object, back_off)));
        while self.back_off.len() > BACK_OFF_LIMIT {
            let oldest = self.back_off.iter().min_by_key(|(_, until)| **until);
            let oldest = *oldest.expect("a map over its limit is not empty").0;
            self.back_off.remove(&oldest);
        }
        self.schedule(number);
    }

    /// A client has the file open for writing here; its control does not idle out meanwhile.
    pub fn handle_opened_for_writing(&mut self, file: ObjectId) {
        *self.open_for_writing.entry(file).or_default() += 1;
    }

    /// One open for writing has ended.
    pub fn handle_closed_for_writing(&mut self, now: Moment, tree: &impl Tree, file: ObjectId) {
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

    /// A peer has applied this replica's stream up to `position`, stably.
    pub fn handle_applied(
        &mut self,
        now: Moment,
        tree: &impl Tree,
        peer: ReplicaSlot,
        position: Position,
    ) {
        let applied = self.applied.entry(peer).or_default();
        *applied = position.max(*applied);
        self.run(now, tree);
    }

    /// A file has content, written under these controls, that some active replica lacks.
    pub fn handle_data_unshipped(&mut self, file: ObjectId, under: &[ControlName]) {
        let numbers: Vec<u64> = under
            .iter()
            .filter_map(|name| self.own_number(*name))
            .collect();
        self.unshipped.entry(file).or_default().extend(numbers);
    }

    /// Every active replica has the content of the file.
    pub fn handle_data_shipped(&mut self, now: Moment, tree: &impl Tree, file: ObjectId) {
        self.unshipped.remove(&file);
        self.run(now, tree);
    }

    /// Ends every control that should end and may.
    pub(super) fn relinquish_what_can_be(&mut self, now: Moment, tree: &impl Tree) {
        let candidates: Vec<u64> = self.relinquishing.iter().copied().collect();
        let mut ended = false;
        for number in candidates {
            if self.may_end(tree, number) {
                self.release(tree, number);
                ended = true;
            }
        }
        if ended {
            self.run(now, tree);
        }
    }

    fn release(&mut self, tree: &impl Tree, number: u64) {
        let name = self.name_of(number);
        let next = self.acceptor.longest_waiter(tree, name).cloned();
        self.withdraw(tree, number, Some(next));
    }

    fn may_end(&self, tree: &impl Tree, number: u64) -> bool {
        let Some(control) = self.own.find(number) else {
            return false;
        };
        let rules = self.settings.rules;
        control.held == 0
            && (!rules.release_when_applied()
                || self.is_applied(control) && !self.has_unshipped_data(tree, number, control))
            && (!rules.release_when_narrower_known()
                || self.remaining_are_known(tree, number, control))
    }

    /// Every active replica has applied every update made under the control.
    fn is_applied(&self, control: &OwnControl) -> bool {
        let mut others = self.view.active.iter().filter(|peer| **peer != self.slot);
        others.all(|peer| self.applied_by(*peer) >= control.last_update)
    }

    pub(super) fn applied_by(&self, peer: ReplicaSlot) -> Position {
        self.applied.get(&peer).copied().unwrap_or_default()
    }

    /// Files written under the control, or covered by it now: a moved directory keeps its explicit control
    /// for the sake of what was written below it under the former one. A file whose own control everyone
    /// knows holds up nothing, so deep control need not wait until a large file is everywhere.
    fn has_unshipped_data(&self, tree: &impl Tree, number: u64, control: &OwnControl) -> bool {
        self.unshipped.iter().any(|(file, under)| {
            (under.contains(&number) || covers(tree, control, *file))
                && !self.has_other_control(number, *file)
        })
    }

    fn has_other_control(&self, number: u64, file: ObjectId) -> bool {
        let narrower_count = self.settings.rules.release_when_narrower_known();
        self.own.at(file).any(|(other, own)| {
            other != number
                && (!narrower_count || own.election.acknowledged_by_all(&self.view.active))
        })
    }

    /// Every active replica has acknowledged the controls that remain for anything this one covers:
    /// narrower and inherited ones, and others of the same or of a larger extent, under which updates may
    /// have been made that are not everywhere yet. Proposals that operations still wait for cover nothing.
    fn remaining_are_known(&self, tree: &impl Tree, number: u64, control: &OwnControl) -> bool {
        let name = self.name_of(number);
        let mut remaining = self.own.iter().filter(|(other, own)| {
            let in_use = own.state != State::Undecided || own.origin != Origin::Demanded;
            *other != number
                && in_use
                && (own.origin == Origin::Inherited(name)
                    || overlap(tree, own, control)
                    || overlap(tree, control, own))
        });
        remaining.all(|(_, own)| own.election.acknowledged_by_all(&self.view.active))
    }
}

/// Whether some claim of `narrower` is covered by `wider`.
fn overlap(tree: &impl Tree, narrower: &OwnControl, wider: &OwnControl) -> bool {
    let mut claims = narrower.proposal.claims.iter();
    claims.any(|claim| covers(tree, wider, claim.object))
}

fn covers(tree: &impl Tree, control: &OwnControl, object: ObjectId) -> bool {
    if control.claims_object(object) {
        return true;
    }
    if !control.is_deep() {
        return false;
    }
    let above = ancestors(tree, object);
    let mut claims = control.proposal.claims.iter();
    claims.any(|claim| claim.depth == Depth::Deep && above.contains(&claim.object))
}

//! One simulated replica: a control core, a copy of the tree, and the part of distribution that control
//! depends on: one ordered stream of updates for each primary, and separate file contents.
//!
//! It stands in for the replicated file system; it decides nothing that the core should decide. State for
//! crashes, leases and views only is in its [`Site`].

use crate::site::{Heads, Site, Stable};
use crate::tree::{Copy, Edit};
use control::{
    ControlCore, ControlName, Incarnation, Moment, Position, Proposal, ReplicaSlot, Settings,
    Subject, View,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vfs::ObjectId;

/// One update on its way: changes that have to happen together.
#[derive(Clone, Debug)]
pub struct StreamUpdate {
    /// The controls it was made under.
    pub under: Vec<ControlName>,
    /// What it changes.
    pub edits: Vec<Edit>,
    /// The operation it comes from.
    pub origin: u64,
    /// The control that a new object was born with.
    pub inherited: Option<Proposal>,
}

/// The content of a file on its way.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    /// The file.
    pub file: ObjectId,
    /// The version this content belongs to.
    pub version: u64,
    /// It follows this update of the same primary.
    pub follows: Position,
}

/// A replica and its state.
#[derive(Clone, Debug)]
pub struct Replica {
    /// Its slot.
    pub slot: ReplicaSlot,
    /// Its control core.
    pub core: ControlCore,
    /// Its copy of the tree.
    pub tree: Copy,
    /// Its own stream, from the first update.
    pub stream: Vec<Arc<StreamUpdate>>,
    /// How far it has applied the streams of others.
    pub applied: BTreeMap<ReplicaSlot, u64>,
    /// Updates of others that wait for an earlier one or for a grant.
    pub arrived: BTreeMap<(ReplicaSlot, u64), Arc<StreamUpdate>>,
    /// Contents that wait for the update they follow.
    pub contents: Vec<(ReplicaSlot, Content)>,
    /// Own contents, and the peers that have yet to confirm them.
    pub unshipped: BTreeMap<ObjectId, (Content, Vec<ReplicaSlot>)>,
    /// Where in the own stream each object was created.
    pub births: BTreeMap<ObjectId, Position>,
    /// Operations whose update has been made or applied here.
    pub done: BTreeSet<u64>,
    pub(crate) next_object: u64,
    /// State for crashes, leases and views only.
    pub(crate) site: Site,
}

impl Replica {
    /// A replica with an empty tree.
    #[must_use]
    pub fn new(slot: ReplicaSlot, view: View, settings: Settings) -> Replica {
        Replica {
            slot,
            core: ControlCore::new(slot, Incarnation(1), view, settings),
            tree: Copy::default(),
            stream: Vec::new(),
            applied: BTreeMap::new(),
            arrived: BTreeMap::new(),
            contents: Vec::new(),
            unshipped: BTreeMap::new(),
            births: BTreeMap::new(),
            done: BTreeSet::new(),
            next_object: 1,
            site: Site::new(slot),
        }
    }

    /// An identifier for a new object, allocated without asking another replica.
    pub fn fresh_object(&mut self) -> ObjectId {
        let object = ObjectId::new(self.slot, self.next_object).expect("few objects are made");
        self.next_object += 1;
        object
    }

    /// Makes the changes of one update here, and tells the core of every added or removed link. `false` when the copy
    /// lacks what the update builds on.
    pub fn apply(&mut self, now: Moment, edits: &[Edit]) -> bool {
        let made = edits.iter().filter(|edit| self.tree.apply(edit));
        let made: Vec<&Edit> = made.collect();
        for edit in &made {
            match **edit {
                Edit::Enter { parent, object, .. } => {
                    self.core.handle_linked(now, &self.tree, object, parent);
                }
                Edit::Leave { parent, object, .. } => {
                    self.core.handle_unlinked(now, &self.tree, object, parent);
                }
                Edit::Version { .. } | Edit::Lock { .. } => {}
            }
        }
        for edit in edits {
            if let Edit::Leave { object, .. } = *edit {
                self.tree.forget_nameless(object);
            }
        }
        made.len() == edits.len()
    }

    /// The next update of another primary's stream that may be applied now.
    pub fn next_applicable(&mut self) -> Option<(ReplicaSlot, u64, Arc<StreamUpdate>)> {
        if !self.site.applies() {
            return None;
        }
        let ready = self.arrived.iter().find(|((origin, position), update)| {
            let applied = self.applied.get(origin).copied().unwrap_or(0);
            *position == applied + 1 && self.core.may_apply(&update.under)
        });
        let (origin, position) = *ready?.0;
        let update = self.arrived.remove(&(origin, position))?;
        Some((origin, position, update))
    }

    /// Tells the core the controls of the updates that wait here. Whether it was news.
    pub fn report_waiting_updates(&mut self, now: Moment) -> bool {
        let mut news = false;
        if !self.site.applies() {
            return false;
        }
        for ((origin, position), update) in &self.arrived {
            if *position == self.applied.get(origin).copied().unwrap_or(0) + 1 {
                news |= self
                    .core
                    .handle_update_waiting(now, &self.tree, &update.under);
            }
        }
        news
    }

    /// Contents whose place in their primary's stream has been reached.
    pub fn ready_contents(&mut self) -> Vec<(ReplicaSlot, Content)> {
        if !self.site.applies() {
            return Vec::new();
        }
        let applied = &self.applied;
        let waits = |(origin, content): &(ReplicaSlot, Content)| {
            applied.get(origin).copied().unwrap_or(0) < content.follows.0
        };
        let (waiting, ready) = std::mem::take(&mut self.contents)
            .into_iter()
            .partition(waits);
        self.contents = waiting;
        ready
    }

    /// Whether it is up.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.site.up
    }

    /// Its copy of the tree; while it does not run, the copy on its disk.
    pub(crate) fn kept_tree(&self) -> &Copy {
        match self.site.up {
            true => &self.tree,
            false => &self.site.stable.tree,
        }
    }

    /// The same for the operations whose updates it has.
    pub(crate) fn kept_done(&self) -> &BTreeSet<u64> {
        match self.site.up {
            true => &self.done,
            false => &self.site.stable.done,
        }
    }

    /// How far every stream has been applied here, including its own.
    pub(crate) fn heads(&self) -> Heads {
        let mut heads = self.applied.clone();
        heads.insert(self.slot, self.stream.len() as u64);
        heads
    }

    /// Replaces its copy by a copy from stable storage of this or another replica.
    pub(crate) fn take_copy(&mut self, copy: &Stable) {
        self.tree = self.tree.replaced_by(&copy.tree);
        self.applied = copy.heads.clone();
        self.applied.remove(&self.slot);
        self.done = copy.done.clone();
        let own = copy.history.iter().filter(|logged| logged.0 == self.slot);
        self.stream = own.map(|(_, _, update)| update.clone()).collect();
        self.births.clear();
        for (position, update) in (1..).zip(&self.stream) {
            for edit in &update.edits {
                if let Edit::Enter {
                    object,
                    birth: Some(_),
                    ..
                } = *edit
                {
                    self.births.insert(object, Position(position));
                }
            }
        }
    }

    /// Whether this replica would admit an update of the object.
    #[must_use]
    pub fn is_primary(&self, object: ObjectId) -> bool {
        let subject = self.tree.subject(object);
        let subject = subject.unwrap_or(Subject::File(object));
        self.core.controls(&self.tree, subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Claim, Depth, Epoch};

    /// A lost replica's update that was made differently may remove a link that was never here.
    #[test]
    fn an_update_that_cannot_be_applied_tells_of_no_link() {
        let view = View::whole(Epoch(1), [ReplicaSlot(1), ReplicaSlot(2)].into());
        let mut replica = Replica::new(ReplicaSlot(2), view, Settings::default());
        let [directory, file] = [1, 2].map(|number| ObjectId::new(ReplicaSlot(1), number).unwrap());
        let enter = |object, name, birth| Edit::Enter {
            parent: ObjectId::ROOT,
            name,
            object,
            birth: Some(birth),
        };
        let made = [enter(directory, 1, true), enter(file, 2, false)];
        assert!(replica.apply(Moment(0), &made));
        let name = ControlName {
            holder: ReplicaSlot(1),
            incarnation: Incarnation(1),
            number: 1,
        };
        let control = Proposal {
            name,
            claims: vec![Claim {
                object: file,
                depth: Depth::Shallow,
                ancestors: Vec::new(),
            }],
            downgradable: false,
            behind: Vec::new(),
        };
        replica.core.restore(&replica.tree, control);
        let elsewhere = Edit::Leave {
            parent: directory,
            name: 2,
            object: file,
        };
        assert!(!replica.apply(Moment(0), &[elsewhere]));
        assert!(replica.core.ancestry_is_exact(&replica.tree));
    }
}

//! How a replica comes back: it sends what only it has, fetches what it lacks, and is admitted.
//!
//! All messages about this come from stable storage. Other modules decide what it may answer, and when.

use super::{Stamp, World};
use crate::history::Decision;
use crate::packet::{Hello, Packet, Reply};
use crate::site::{Change, Deferred, Heads, Logged, Stable, Waiting, head};
use crate::tree::Edit;
use control::{Position, ReplicaSlot};
use std::collections::BTreeSet;
use std::sync::Arc;
use vfs::ObjectId;

impl World {
    /// Continues the return of a replica, if it has to return.
    pub(super) fn synchronise(&mut self, slot: ReplicaSlot) {
        let replica = &self.replicas[&slot];
        if !replica.site.begun {
            return;
        }
        if replica.site.caught_up || !replica.site.up {
            self.try_to_renounce(slot);
            return;
        }
        let active = replica.core.view().active.contains(&slot);
        if active && replica.site.admitted != replica.site.incarnation {
            let view = self.agreed.anew(slot);
            if self.decide(slot, Decision::View(view)) {
                return;
            }
        }
        let replica = &self.replicas[&slot];
        let site = &replica.site;
        let whole = (site.cut || (site.stale && site.renounced)) && self.is_spared(slot);
        let brings = !active && !site.cut && !site.full;
        let unfit = active || site.cut || site.stale || site.full || !self.knows_everything(slot);
        let level_with = match unfit {
            true => BTreeSet::new(),
            false => site.level_with.clone(),
        };
        let replaced = site.replaced;
        let heads = replica.heads();
        if self.others(slot).is_empty() {
            self.conclude(slot);
        }
        for peer in self.others(slot) {
            if brings {
                self.say_again(slot, peer);
            }
            let hello = Hello {
                heads: heads.clone(),
                whole,
                replaced,
                level_with: level_with.clone(),
            };
            self.send(slot, peer, Packet::Hello(Box::new(hello)));
        }
        self.settle(slot);
    }

    pub(super) fn answer_hello(
        &mut self,
        slot: ReplicaSlot,
        from: ReplicaSlot,
        hello: &Hello,
        stamp: Stamp,
    ) {
        if stamp.entered == self.replicas[&slot].site.entered {
            let waiting = Waiting {
                incarnation: stamp.from,
                heads: hello.heads.clone(),
                level_with: hello.level_with.clone(),
            };
            self.replica(slot).site.waiting.insert(from, waiting);
        }
        let replica = &self.replicas[&slot];
        let site = &replica.site;
        let view = replica.core.view();
        let takes_part = view.active.contains(&from);
        let mut at_entry = site.heads_at_entry.iter();
        let stable = at_entry.all(|(origin, entry)| head(&site.stable.heads, *origin) >= *entry);
        let fits = stamp.entered == site.entered && stable && view.active.contains(&slot);
        if !fits || (!takes_part && !self.is_up_to_date(slot)) {
            return;
        }
        let until = takes_part.then_some(&site.heads_at_entry);
        let reply = Reply {
            settled: replica.core.is_settled(),
            updates: site.stable.missing(&hello.heads, until),
            contents: match self.holds_data(slot) {
                true => site.stable.contents(),
                false => Vec::new(),
            },
            yours: head(&site.stable.heads, from),
            whole: (hello.whole && !takes_part && self.holds_data(slot))
                .then(|| Arc::new(site.stable.clone())),
            replaced: hello.replaced,
        };
        self.send(slot, from, Packet::Reply(Box::new(reply)));
    }

    pub(super) fn take_reply(
        &mut self,
        slot: ReplicaSlot,
        from: ReplicaSlot,
        reply: Reply,
        stamp: Stamp,
    ) {
        let replica = self.replica(slot);
        let active = replica.core.view().active.contains(&slot);
        let ready = !active || replica.core.is_settled();
        let follows_nobody = !active && self.model.who_has_more_follows_nobody;
        let replica = self.replica(slot);
        let site = &mut replica.site;
        if stamp.entered != site.entered || site.caught_up || site.full || !ready {
            return;
        }
        if reply.replaced != site.replaced {
            // The answer refers to a copy that was replaced since.
            return;
        }
        let known = site.acknowledged.entry(from).or_default();
        *known = reply.yours.max(*known);
        let confirmed = active || reply.settled;
        match reply.whole {
            Some(copy) => self.take_whole(slot, &copy),
            // Later updates build on the part of the stream that the other members kept.
            None if site.cut || (site.stale && (site.renounced || follows_nobody)) => {
                return self.try_to_renounce(slot);
            }
            None => self.take_missing(slot, reply.updates, &reply.contents),
        }
        let site = &mut self.replica(slot).site;
        site.level_with.insert(from);
        if confirmed {
            site.heard.insert(from);
        }
        self.try_to_renounce(slot);
        self.conclude(slot);
    }

    /// Whether the copy of a replica outside the view may be given up. For each stream, unless its rest was given up by a decision, all members
    /// with contents that reported recently must have at least the same part.
    fn is_spared(&self, slot: ReplicaSlot) -> bool {
        let replica = &self.replicas[&slot];
        let (site, view) = (&replica.site, replica.core.view());
        if view.active.contains(&slot) || !self.model.copies_are_spared || !self.holds_data(slot) {
            return true;
        }
        let now = self.local(slot);
        let keepers: Vec<&ReplicaSlot> = view
            .active
            .iter()
            .filter(|peer| self.holds_data(**peer))
            .collect();
        let present = keepers.iter().copied().filter_map(|peer| {
            let (at, heads) = site.said.get(peer)?;
            (at.after(self.lease.length) >= now).then_some((*peer, heads))
        });
        let present: Vec<(ReplicaSlot, &Heads)> = present.collect();
        let mut counting = site.stable.heads.iter().filter(|(origin, here)| {
            **origin != slot && !self.agreed.is_given_up(**origin, **here, site.entered)
        });
        // A silent member may only not have reported yet.
        let known = present.len() == keepers.len() || site.since.after(self.lease.length) <= now;
        // Without any report the copy is kept. Streams from which the replica has nothing need no report, as at a newcomer.
        counting.all(|(origin, here)| {
            let has = |(peer, heads): &(ReplicaSlot, &Heads)| {
                peer == origin || head(heads, *origin) >= *here
            };
            *here == 0 || known && !present.is_empty() && present.iter().all(has)
        })
    }

    /// Whether an active member has everything that the others had when it came into the view.
    #[must_use]
    pub fn is_up_to_date(&self, slot: ReplicaSlot) -> bool {
        self.replicas[&slot].site.caught_up || self.was_up_to_date(slot)
    }

    /// Whether a replica takes part, and was up to date at some time since it came from outside. Everything that it acknowledged is
    /// on its disk, so a restart loses nothing: the other members tell it which controls it has acknowledged.
    fn was_up_to_date(&self, slot: ReplicaSlot) -> bool {
        let site = &self.replicas[&slot].site;
        let since = site.stable.up_to_date_at;
        let mut views = (since.max(1)..=site.entered).map(|count| self.agreed.view(count));
        self.model.starts_take_nothing
            && since > 0
            && !site.cut
            && !site.stale
            && views.all(|view| view.active.contains(&slot))
    }

    /// A replica that has heard from all others is up to date, or may be admitted.
    fn conclude(&mut self, slot: ReplicaSlot) {
        let replica = &self.replicas[&slot];
        let site = &replica.site;
        let active = &replica.core.view().active;
        if active.is_empty() {
            // No member is left that could say what is missing here.
            return;
        }
        let mut others = active.iter();
        if !others.all(|peer| *peer == slot || site.heard.contains(peer)) {
            return;
        }
        if replica.core.view().active.contains(&slot) {
            if replica.core.is_settled() && site.admitted == site.incarnation {
                let site = &mut self.replica(slot).site;
                site.caught_up = true;
                let entered = site.entered;
                self.store(slot, Change::UpToDate(entered));
                self.note_shipped_to_all(slot);
                self.settle(slot);
            }
        } else if site.renounced
            && !site.cut
            && site.copy_is_stable()
            && !site.stale
            && !site.full
            && self.knows_everything(slot)
            && let Some(view) = self.agreed.with(slot)
        {
            let present = self.agreed.present();
            let active: Vec<ReplicaSlot> = present.active.iter().copied().collect();
            if present.configured.contains(&slot) || self.is_steady(&active) {
                self.decide(slot, Decision::View(view));
            }
        }
    }

    fn take_missing(
        &mut self,
        slot: ReplicaSlot,
        updates: Vec<Logged>,
        contents: &[(ObjectId, u64)],
    ) {
        let now = self.local(slot);
        for (origin, position, update) in updates {
            let replica = self.replica(slot);
            if origin == slot || position != replica.applied.get(&origin).unwrap_or(&0) + 1 {
                continue;
            }
            if !replica.apply(now, &update.edits) {
                let sight = format!(
                    "replica {} cannot fetch update {position} of replica {}: {:?}",
                    slot.0, origin.0, update.edits
                );
                self.report("I4 (updates can be applied)", sight);
            }
            let replica = self.replica(slot);
            replica.applied.insert(origin, position);
            replica.done.insert(update.origin);
            self.store(slot, Change::Update((origin, position, update)));
        }
        for (object, version) in contents.iter().copied() {
            let replica = self.replica(slot);
            if replica
                .tree
                .version(object)
                .is_some_and(|own| own < version)
            {
                replica.tree.apply(&Edit::Version { object, version });
                self.store(slot, Change::Stored(object, version));
            }
        }
        self.forget_applied(slot);
        self.settle(slot);
    }

    /// Drops waiting updates that have been applied, and reports the progress to every primary.
    fn forget_applied(&mut self, slot: ReplicaSlot) {
        let replica = self.replica(slot);
        let applied = replica.applied.clone();
        let arrived = &mut replica.arrived;
        arrived.retain(|(origin, position), _| *position > head(&applied, *origin));
        for (origin, position) in applied {
            let packet = Packet::Applied(Position(position));
            self.when_stable(slot, Deferred::Send(origin, packet));
        }
    }

    fn take_whole(&mut self, slot: ReplicaSlot, copy: &Arc<Stable>) {
        self.store(slot, Change::Replaced(copy.clone()));
        let now = self.local(slot);
        let replica = self.replica(slot);
        replica.take_copy(copy);
        replica.unshipped.clear();
        replica.site.previous_head = replica.stream.len() as u64;
        replica.site.cut = false;
        replica.site.stale = false;
        replica.site.replaced += 1;
        replica.core.handle_tree_replaced(now, &replica.tree);
        self.settle(slot);
    }

    /// Ends the controls of earlier incarnations once all members have everything made under them.
    pub(super) fn try_to_renounce(&mut self, slot: ReplicaSlot) {
        if !self.failures || self.replicas[&slot].site.renounced || !self.knows_everything(slot) {
            return;
        }
        let others = self.others(slot);
        let now = self.local(slot);
        let replica = self.replica(slot);
        let site = &mut replica.site;
        let mut heads = others.iter().map(|peer| head(&site.acknowledged, *peer));
        let everywhere = heads.all(|applied| applied >= site.previous_head);
        let mut unshipped = replica.unshipped.values();
        let lacking = unshipped.any(|(_, missing)| !missing.is_empty());
        if site.cut || !everywhere || lacking {
            return;
        }
        site.renounced = true;
        replica.core.handle_previous_settled(now, &replica.tree);
        self.settle(slot);
    }
}

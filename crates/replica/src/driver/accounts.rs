//! The accounts of other replicas: what each lacks of files' contents, from the moment this replica hears of it until it is removed.
//!
//! What must never enter: what the accounts consist of (`ledger` and `shipping` of `state`), and pieces on their way (`shipping`).

use std::collections::{BTreeMap, BTreeSet};

use control::Position;
use vfs::{ObjectId, ReplicaSlot};

use crate::driver::engine::{Engine, Guard};
use crate::state::shipping::Backlog;

/// How much one peer lacks.
pub(crate) struct Lacking {
    /// How far it has applied this replica's stream.
    pub(crate) applied: u64,
    /// How many updates it lacks.
    pub(crate) updates: u64,
    /// How many bytes of contents; [`u64::MAX`] if some file counts as a whole.
    pub(crate) bytes: u64,
    pub(crate) files: usize,
    /// The files, if they are to be checked one by one.
    pub(crate) listed: Option<Vec<ObjectId>>,
}

impl Engine {
    /// Opens the accounts of these members, unless they exist; the flag marks members without contents.
    pub(crate) fn open_accounts(&self, members: &[(ReplicaSlot, bool)]) {
        self.with_core(|guard| {
            for (slot, witness) in members {
                guard.open_account(*slot, *witness);
            }
            guard.notifies = true;
        });
    }

    /// Forgets what was kept for a replica that has left the set.
    pub(crate) fn close_account(&self, slot: ReplicaSlot) {
        self.with_core(|guard| {
            let ledger = &mut guard.ledger;
            ledger.applied.remove(&slot);
            ledger.unconfirmed.retain(|(of, _), _| *of != slot);
            ledger.forget_answers_of(slot);
            ledger.complete.retain(|(of, _), _| *of != slot);
            for file in ledger.unshipped.remove_peer(slot) {
                guard.settle_content(file);
            }
            guard.settle_previous();
            guard.notifies = true;
        });
        self.notify_of_contents();
    }

    /// The given replicas outside the view that lack contents of more files than are kept, not counting a number for each.
    pub(crate) fn overdrawn(
        &self,
        beyond: Vec<(ReplicaSlot, usize)>,
        kept: usize,
    ) -> BTreeSet<ReplicaSlot> {
        self.with_core(|guard| {
            let overdrawn = beyond.into_iter().filter(|(slot, beyond)| {
                let backlog = guard.ledger.unshipped.backlog(*slot);
                let away = !guard.ledger.active.contains(slot);
                away && backlog.is_some_and(|backlog| backlog.files() > kept + beyond)
            });
            overdrawn.map(|(slot, _)| slot).collect()
        })
    }

    /// Notes nothing more for replicas in `slots` outside the view that lack updates up to `trimmed`, which are not kept. An `overdrawn` replica that
    /// has not reported its position counts as lacking all. Returns the replicas whose accounts are given up now.
    pub(crate) fn give_up_accounts(
        &self,
        slots: Vec<ReplicaSlot>,
        overdrawn: &BTreeSet<ReplicaSlot>,
        trimmed: u64,
    ) -> Vec<ReplicaSlot> {
        self.with_core(|guard| {
            let ledger = &guard.ledger;
            let is_overdue = |slot: &ReplicaSlot| {
                let applied = ledger.applied.get(slot).copied();
                let applied = applied.or_else(|| overdrawn.contains(slot).then_some(0));
                let backlog = ledger.unshipped.backlog(*slot);
                let noted = backlog.is_some_and(|one| one.keeps_contents() && !one.is_given_up());
                noted && !ledger.active.contains(slot) && applied.is_some_and(|at| at < trimmed)
            };
            let overdue: Vec<ReplicaSlot> = slots.into_iter().filter(is_overdue).collect();
            for slot in &overdue {
                for file in guard.ledger.unshipped.give_up(*slot) {
                    guard.settle_content(file);
                }
                // It learns with its copy what it has.
                guard.ledger.unconfirmed.retain(|(of, _), _| of != slot);
                guard.ledger.complete.retain(|(of, _), _| of != slot);
                guard.ledger.forget_answers_of(*slot);
            }
            overdue
        })
    }

    /// Opens an account again that was given up. Returns whether it was.
    pub(crate) fn reopen_account(&self, slot: ReplicaSlot) -> bool {
        self.with_core(|guard| {
            let backlog = guard.ledger.unshipped.peer(slot);
            let given_up = backlog.filter(|backlog| backlog.is_given_up());
            given_up.map(Backlog::reopen).is_some()
        })
    }

    /// From now on a peer's account is right; `whole`: it has all of the tree.
    pub(crate) fn balance_account(&self, slot: ReplicaSlot, whole: bool) {
        self.with_core(|guard| {
            if let Some(backlog) = guard.ledger.unshipped.peer(slot) {
                backlog.balance(whole);
            }
            guard.notifies = true;
        });
        self.notify_of_contents();
    }

    /// A peer begins without any contents.
    pub(crate) fn begins_empty_handed(&self, slot: ReplicaSlot) {
        self.with_core(|guard| {
            if let Some(backlog) = guard.ledger.unshipped.peer(slot) {
                backlog.is_empty_handed();
            }
            // Its copy may be older than its previous one.
            guard.ledger.applied.remove(&slot);
            guard.core.forget_applied(slot);
        });
    }

    /// A peer may lack all of these files, as they were after these places of this replica's stream.
    pub(crate) fn suspect(&self, slot: ReplicaSlot, files: Vec<(ObjectId, Position)>) {
        self.with_core(|guard| {
            let now = guard.now;
            if let Some(backlog) = guard.ledger.unshipped.peer(slot) {
                for (file, follows) in files {
                    backlog.suspected(now, file, follows);
                }
            }
        });
    }

    /// A peer may lack all of these files, which are marked as not being everywhere, and stay marked.
    pub(crate) fn suspect_marked(&self, slot: ReplicaSlot, marked: Vec<ObjectId>) {
        self.with_core(|guard| {
            let (now, follows) = (guard.now, Position(guard.ledger.last_position));
            if let Some(backlog) = guard.ledger.unshipped.peer(slot) {
                for file in &marked {
                    backlog.suspected(now, *file, follows);
                }
            }
            for file in marked {
                guard.ledger.shipped.remove(&file);
            }
        });
        self.notify_of_contents();
    }

    /// A peer asks for the contents of these files, in this turn. What is sent from now on answers the request.
    pub(crate) fn owe_files(&self, slot: ReplicaSlot, files: &[ObjectId], turn: u64) {
        self.with_core(|guard| {
            let (now, follows) = (guard.now, Position(guard.ledger.last_position));
            let Some(backlog) = guard.ledger.unshipped.peer(slot) else {
                return;
            };
            for file in files {
                backlog.suspected(now, *file, follows);
                backlog.owe_file(*file);
            }
            let asked = files.iter().map(|file| ((slot, *file), turn));
            guard.ledger.asked.extend(asked);
        });
    }

    /// Those of these files of which nothing is left to send to a peer.
    pub(crate) fn lacks_none_of(
        &self,
        slot: ReplicaSlot,
        mut files: Vec<ObjectId>,
    ) -> Vec<ObjectId> {
        self.with_core(|guard| {
            let backlog = guard.ledger.unshipped.backlog(slot);
            files.retain(|file| backlog.is_some_and(|backlog| !backlog.lacks(*file)));
        });
        files
    }

    /// Those of these files that a peer has asked for in this session and that were sent since, with the turns of its last requests.
    pub(crate) fn sent_as_asked(
        &self,
        slot: ReplicaSlot,
        files: &[(ObjectId, u64)],
    ) -> Vec<(ObjectId, u64)> {
        self.with_core(|guard| {
            let (asked, backlog) = (&guard.ledger.asked, guard.ledger.unshipped.backlog(slot));
            let lacks = |file| backlog.is_none_or(|backlog| backlog.lacks(file));
            let files = files.iter().map(|(file, _)| *file);
            let sent = files.filter(|file| !lacks(*file));
            sent.filter_map(|file| Some((file, *asked.get(&(slot, file))?)))
                .collect()
        })
    }

    /// A session begins: a peer repeats its earlier requests.
    pub(crate) fn forget_wishes(&self, slot: ReplicaSlot) {
        self.with_core(|guard| guard.ledger.asked.retain(|(of, _), _| *of != slot));
    }

    /// Those of these files of which nothing is owed to a peer any more.
    pub(crate) fn owed_no_more(&self, slot: ReplicaSlot, files: Vec<ObjectId>) -> Vec<ObjectId> {
        self.with_core(|guard| {
            let Some(backlog) = guard.ledger.unshipped.peer(slot) else {
                return Vec::new();
            };
            let files = files.into_iter();
            files.filter(|file| !backlog.owes(*file)).collect()
        })
    }

    /// Sends the contents of these files soon to the replicas that lack them.
    pub(crate) fn supply(&self, files: &BTreeMap<ObjectId, BTreeSet<ReplicaSlot>>) {
        self.with_core(|guard| {
            let (now, follows) = (guard.now, Position(guard.ledger.last_position));
            for (file, lacking) in files {
                for slot in lacking {
                    if let Some(backlog) = guard.ledger.unshipped.peer(*slot) {
                        backlog.suspected(now, *file, follows);
                        backlog.expedite(now, *file);
                    }
                }
            }
        });
        self.notify_of_contents();
    }

    /// How much a peer lacks; `None` if it has no account. The files are listed if it lacks more than `many` bytes of at most `most` files.
    pub(crate) fn lacking(&self, slot: ReplicaSlot, many: u64, most: usize) -> Option<Lacking> {
        self.with_core(|guard| {
            let ledger = &guard.ledger;
            let applied = ledger.applied_by(slot);
            let backlog = ledger.unshipped.backlog(slot)?;
            let (bytes, files) = (backlog.bytes(), backlog.files());
            let is_listed = bytes > many && files <= most;
            Some(Lacking {
                applied,
                updates: ledger.last_position.saturating_sub(applied),
                bytes,
                files,
                listed: is_listed.then(|| backlog.lacking().collect()),
            })
        })
    }

    /// Takes the files of which all replicas have all content: their durable marks can go, after another check.
    pub(crate) fn take_shipped(&self) -> Vec<ObjectId> {
        self.with_core(|guard| {
            let known = guard.ledger.known_to_active();
            guard.ledger.births.known(known);
            guard.ledger.look_at_untold(&guard.tree);
            let shipped = std::mem::take(&mut guard.ledger.shipped);
            shipped.into_iter().collect()
        })
    }

    /// Whether all replicas still have all content of a file, and it is not being changed.
    pub(crate) fn is_shipped(&self, file: ObjectId) -> bool {
        self.with_core(|guard| {
            guard.ledger.unshipped.complete_everywhere(file)
                && !guard.ledger.pins.contains_key(&file)
        })
    }
}

impl Guard<'_> {
    /// The supplier of a new member's copy may lack what is on its way from here, so the new member also gets that from here.
    fn open_account(&mut self, slot: ReplicaSlot, witness: bool) {
        if self.ledger.unshipped.backlog(slot).is_some() {
            return;
        }
        if witness {
            return self.ledger.unshipped.add_witness(slot);
        }
        let lacking = self.ledger.unshipped.peers();
        let mut files: BTreeSet<ObjectId> = lacking.flat_map(|(_, peer)| peer.lacking()).collect();
        let own = self.own_controls();
        files.extend(own.flat_map(|(_, control)| control.claims.iter().map(|claim| claim.object)));
        let (now, follows) = (self.now, Position(self.ledger.last_position));
        let backlog = self.ledger.unshipped.add_peer(slot);
        backlog.reopen();
        for file in files {
            backlog.suspected(now, file, follows);
        }
    }
}

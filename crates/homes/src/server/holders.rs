//! The home's side of copies: who has them, who was told, and whose lease has run out (rules 13 and 14).

use super::{MetadataServer, Turn};
use crate::message::Body;
use control::Moment;
use pool::HomeNumber;
use vfs::ObjectId;

/// So much is said again at once to one who takes nothing.
const REPEATED: usize = 64;

impl MetadataServer {
    /// Tells everybody with a copy that it does not count any more, once.
    pub(super) fn tell(&mut self, turn: &mut Turn<'_>, object: ObjectId) {
        let mut told = Vec::new();
        for (home, peer) in &mut self.peers {
            if peer.holds.remove(&object) {
                peer.told += 1;
                peer.telling.insert(peer.told, object);
                told.push((*home, peer.told));
            }
        }
        for (home, number) in told {
            self.send(turn, home, Body::Tell { number, object });
        }
    }

    /// Whether nobody relies on a copy of the object any more, all holders having been told (rule 14).
    pub(super) fn is_revoked(&self, now: Moment, object: ObjectId) -> bool {
        if !self.settings.rules.told_before_commit() {
            return true;
        }
        self.peers.values().all(|peer| {
            let is_told = !peer.telling.values().any(|told| *told == object);
            let may_be_forgotten = !peer.has_met && now < self.forgotten_until;
            (is_told || now >= peer.leased_until) && !may_be_forgotten
        })
    }

    /// Whether an answer may be kept by who asks, and the lease that goes with it.
    pub(super) fn grant(
        &mut self,
        now: Moment,
        to: HomeNumber,
        asked: Moment,
        object: ObjectId,
    ) -> (u64, Option<Moment>, bool) {
        let (settings, is_free) = (self.settings, self.locks.is_free(object));
        let Some(peer) = self.peers.get_mut(&to) else {
            return (0, None, false);
        };
        if !peer.has_been_told() && settings.rules.told_before_lease() {
            return (peer.told, None, false);
        }
        peer.leased_until = settings.lease.promised_until(now).max(peer.leased_until);
        let has_room = peer.holds.len() < settings.copies_max || peer.holds.contains(&object);
        let keep = is_free && has_room;
        if keep {
            peer.holds.insert(object);
        }
        (peer.told, Some(asked), keep)
    }

    pub(super) fn repeat_tellings(&self, turn: &mut Turn<'_>) {
        for (home, peer) in &self.peers {
            for (number, object) in peer.telling.iter().take(REPEATED) {
                let (number, object) = (*number, *object);
                self.send(turn, *home, Body::Tell { number, object });
            }
        }
    }
}

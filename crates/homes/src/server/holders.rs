//! The home's side of copies: their holders, what the holders were told, and when their leases end (rules 13 and 14).

use super::{Context, MetadataServer};
use crate::holder::Terms;
use crate::message::Body;
use control::Moment;
use pool::HomeNumber;
use vfs::ObjectId;

/// At most this number of invalidations is repeated at once to a holder that does not acknowledge.
const REPEATED: usize = 64;

impl MetadataServer {
    /// Tells each holder of a copy, once, that it does not count any more.
    pub(super) fn tell(&mut self, context: &mut Context<'_>, object: ObjectId) {
        let mut told = Vec::new();
        for (home, peer) in &mut self.peers {
            told.extend(peer.holder.tell(object).map(|number| (*home, number)));
        }
        for (home, number) in told {
            self.send(context, home, Body::Tell { number, object });
        }
    }

    /// Whether no server relies on a copy of the object any more after all holders were told (rule 14).
    pub(super) fn is_revoked(&self, now: Moment, object: ObjectId) -> bool {
        if !self.settings.rules.told_before_commit() {
            return true;
        }
        self.peers.values().all(|peer| {
            let may_be_forgotten = !peer.has_met && now < self.forgotten_until;
            !peer.holder.relies_on(now, object) && !may_be_forgotten
        })
    }

    /// Whether the asker may keep an answer, and the lease that goes with it.
    pub(super) fn grant(
        &mut self,
        context: &mut Context<'_>,
        to: HomeNumber,
        asked: Moment,
        object: ObjectId,
    ) -> (u64, Option<Moment>, bool) {
        let (settings, is_free) = (self.settings, self.locks.is_free(object));
        let Some(peer) = self.peers.get_mut(&to) else {
            return (0, None, false);
        };
        let terms = Terms {
            lease: settings.lease,
            copies_max: settings.copies_max,
            told_before_lease: settings.rules.told_before_lease(),
        };
        let grant = peer.holder.grant(context.now, &[object], is_free, terms);
        for (number, object) in grant.evicted {
            self.send(context, to, Body::Tell { number, object });
        }
        (grant.told, grant.leased.then_some(asked), grant.keep)
    }

    pub(super) fn repeat_tellings(&self, context: &mut Context<'_>) {
        for (home, peer) in &self.peers {
            for (number, object) in peer.holder.telling().take(REPEATED) {
                self.send(context, *home, Body::Tell { number, object });
            }
        }
    }
}

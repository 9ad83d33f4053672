//! Another metadata server: which run of it, what it has copies of, and what copies there are of its rows and names.

use super::{MetadataServer, Turn};
use crate::message::{Body, Message};
use crate::tree::{Entry, Row};
use control::Moment;
use pool::HomeNumber;
use std::collections::{BTreeMap, BTreeSet};
use vfs::{Name, ObjectId};

/// What there is of another home's rows and names.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    /// They count until then, by this server's clock.
    pub(super) valid_until: Moment,
    /// The last that it has told.
    pub(super) told: u64,
    pub(super) rows: BTreeMap<ObjectId, Row>,
    /// Missing names are here only if a test says so.
    pub(super) names: BTreeMap<(ObjectId, Name), Option<Entry>>,
}

/// Another metadata server.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    /// The latest of its runs that was heard of. 0: none.
    pub(super) run: u64,
    /// It knows this run.
    pub(super) has_met: bool,
    /// Its operations below are over for everybody.
    pub(super) oldest: u64,
    pub(super) copies: Copies,
    /// What it has copies of.
    pub(super) holds: BTreeSet<ObjectId>,
    /// What it was told and has not taken.
    pub(super) telling: BTreeMap<u64, ObjectId>,
    /// How often it was told something.
    pub(super) told: u64,
    /// It may rely on its copies until then, by this server's clock.
    pub(super) leased_until: Moment,
}

impl Peer {
    /// Whether it has taken everything that it was told.
    pub(super) fn has_been_told(&self) -> bool {
        self.telling.is_empty()
    }

    pub(super) fn has_taken(&mut self, number: u64) {
        self.telling.remove(&number);
    }

    /// It was started anew: it has no copies, and what it kept is void.
    fn restart(&mut self, run: u64) {
        *self = Peer {
            run,
            told: self.told,
            ..Peer::default()
        };
    }
}

impl MetadataServer {
    /// Whether a message counts (rule 15): both runs are the present ones.
    pub(super) fn admits(
        &mut self,
        turn: &mut Turn<'_>,
        from: HomeNumber,
        message: &Message,
    ) -> bool {
        let (run, is_checked) = (self.run, self.settings.rules.sessions_checked());
        let Some(peer) = self.peers.get_mut(&from) else {
            return false;
        };
        if message.from_run < peer.run && is_checked {
            return false;
        }
        let is_new = message.from_run > peer.run;
        if is_new {
            peer.restart(message.from_run);
            let (run, number) = (message.from_run, from);
            self.finished
                .retain(|name| name.decider != number || name.run == run);
        }
        if message.to_run != run && is_checked {
            self.send(turn, from, Body::Hello);
            return false;
        }
        let Some(peer) = self.peers.get_mut(&from) else {
            return false;
        };
        if message.from_run == peer.run {
            peer.has_met |= message.to_run == run;
            if message.oldest > peer.oldest {
                peer.oldest = message.oldest;
                self.finished
                    .retain(|name| name.decider != from || name.number >= message.oldest);
            }
        }
        if is_new {
            // What waited for its copies, or was lost with the run before.
            self.repeat_questions(turn);
            self.go_on(turn);
        }
        true
    }
}

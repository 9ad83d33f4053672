//! Another metadata server: its run, the copies that it has, and the copies of its rows and names.

use super::{Context, MetadataServer};
use crate::copies::Copies;
use crate::holder::Holder;
use crate::message::{Body, Message};
use crate::wish::Answer;
use pool::HomeNumber;
use vfs::Name;

/// The part of an object that is copied: its row (`None`), or the entry of a name in it.
pub(super) type Kept = Option<Name>;

/// Another metadata server.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// Its latest known run. 0: none.
    pub(super) run: u64,
    /// It knows this run.
    pub(super) has_met: bool,
    /// Its operations with smaller numbers are over for all servers.
    pub(super) oldest: u64,
    /// The copies of its rows and names. They include missing names only if a test says so.
    pub(super) copies: Copies<Kept, Answer>,
    /// The copies that it has of this home's rows and names.
    pub(super) holder: Holder,
}

impl Peer {
    pub(super) fn new(copies_max: usize) -> Peer {
        Peer {
            run: 0,
            has_met: false,
            oldest: 0,
            copies: Copies::new(copies_max),
            holder: Holder::default(),
        }
    }

    /// It was restarted: it has no copies, and the copies of its rows and names are void.
    fn restart(&mut self, run: u64, copies_max: usize) {
        self.holder.restart();
        *self = Peer {
            run,
            holder: std::mem::take(&mut self.holder),
            ..Peer::new(copies_max)
        };
    }
}

impl MetadataServer {
    /// Whether a message counts (rule 15): both runs are the present ones.
    pub(super) fn admits(
        &mut self,
        context: &mut Context<'_>,
        from: HomeNumber,
        message: &Message,
    ) -> bool {
        let (run, is_checked) = (self.run, self.settings.rules.sessions_checked());
        let copies_max = self.settings.copies_max;
        let Some(peer) = self.peers.get_mut(&from) else {
            return false;
        };
        if message.from_run < peer.run && is_checked {
            return false;
        }
        let is_new = message.from_run > peer.run;
        if is_new {
            peer.restart(message.from_run, copies_max);
            let (run, number) = (message.from_run, from);
            self.finished
                .retain(|name| name.decider != number || name.run == run);
        }
        if message.to_run != run && is_checked {
            self.send(context, from, Body::Hello);
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
            // Answers may have waited for its copies, or may have been lost with the earlier run.
            self.repeat_questions(context);
            self.go_on(context);
        }
        true
    }
}

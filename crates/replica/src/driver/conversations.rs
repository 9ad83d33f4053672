//! What happens to a member that sends invalid messages, and to the conversation with it.

use peer::Sender;
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;

impl LocalReplica {
    /// An incarnation of a peer sent an invalid message: this replica stops listening to it, and reports it as missing to the others.
    pub(crate) fn refuse_nonsense(&self, from: Sender, what: &str) {
        let is_news = self
            .state
            .peers
            .with(from.slot, |peer| peer.nonsense.note(from.incarnation, what));
        if !is_news {
            return;
        }
        tracing::error!(
            peer = from.slot.0,
            incarnation = %from.incarnation,
            what,
            "a peer sends what makes no sense, and is not listened to any more; look at its server"
        );
        let endpoint = self.endpoint.get();
        if endpoint.is_some_and(|endpoint| endpoint.end_session(from)) {
            self.end_conversation(from.slot);
        }
    }

    /// Ends the conversation with a peer. Its unprocessed messages no longer count.
    pub(crate) fn end_conversation(&self, slot: ReplicaSlot) {
        self.state.outbound.end(slot);
        self.end_relays(slot);
        self.state.conversations.end(slot);
        if let Some(inbox) = self.state.inboxes.get(slot) {
            inbox.drop_pieces();
        }
        self.engine.with_core(|guard| {
            let now = guard.now;
            if let Some(backlog) = guard.ledger.unshipped.peer(slot) {
                backlog.lost(now);
            }
            guard.notifies = true;
        });
    }

    /// A peer has another session: relayed updates on their way to it are lost.
    fn end_relays(&self, to: ReplicaSlot) {
        let inboxes = self.state.inboxes.all();
        inboxes.iter().for_each(|inbox| inbox.end_relay(to));
    }
}

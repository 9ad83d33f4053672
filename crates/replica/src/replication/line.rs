//! Messages of one stream on their way to be applied, in their order.
//!
//! What must never enter: how they are applied (`streams`).

use std::collections::VecDeque;

use tokio::sync::mpsc;
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::state::arrivals::{Inbox, StreamMessage};

/// Whether this replica accepts no updates directly from a lost replica for now. The survivors are agreeing what counts of it, or decided to continue
/// without what only it had. The lost replica may be back by now, and a server that was away learns old decisions first (counterexample 76); or it
/// takes part again in the same session (counterexample 68).
pub(super) fn is_closed(replica: &LocalReplica, from: ReplicaSlot) -> bool {
    replica.state.losses.closing.has_begun(from) || replica.is_given_up(from)
}

/// Messages of a stream in their order. While the stream of a lost replica is closed, its own messages wait with their credit, and relayed messages
/// go first. Relayed messages of a replica that was given up come again.
#[derive(Default)]
pub(super) struct Line(VecDeque<(u64, StreamMessage)>);

impl Line {
    /// The next message to apply.
    pub(super) async fn next(
        &mut self,
        replica: &LocalReplica,
        inbox: &Inbox,
        queue: &mut mpsc::UnboundedReceiver<(u64, StreamMessage)>,
    ) -> Option<(u64, StreamMessage)> {
        loop {
            let first = self.0.front().map(|(session, _)| *session);
            // Messages of an earlier session come again, and are removed from the line.
            let is_over = || first.is_some_and(|session| session != inbox.session());
            let open = || is_over() || !is_closed(replica, inbox.from);
            let opened = replica.engine.until(|| open().then_some(()));
            tokio::select! {
                biased;
                () = opened, if first.is_some() => return self.0.pop_front(),
                next = queue.recv() => {
                    let (session, received) = next?;
                    inbox.note_taken(&received);
                    match received {
                        StreamMessage::Own(_) => {
                            let is_closed = is_closed(replica, inbox.from);
                            let own = (session, received);
                            if let Some(next) = behind_others(&mut self.0, own, is_closed) {
                                return Some(next);
                            }
                        }
                        StreamMessage::Relayed(_) if replica.is_given_up(inbox.from) => {}
                        _ => return Some((session, received)),
                    }
                }
            }
        }
    }

    /// The stream was closed, or its maker given up, while this message was being applied.
    pub(super) fn put_off(&mut self, next: (u64, StreamMessage)) {
        self.0.push_front(next);
    }
}

/// The message that has arrived, if its turn has come; otherwise it waits behind the others. The stream may have been opened a moment ago, with messages
/// still in the line (counterexample 90).
fn behind_others<M>(line: &mut VecDeque<M>, next: M, is_closed: bool) -> Option<M> {
    if is_closed || !line.is_empty() {
        line.push_back(next);
        return None;
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A joining server learned that a lost member was back just when that one's next message arrived, which went before one that waited. It followed
    /// updates that followed the one that waited.
    #[test]
    fn counterexample_90_what_arrives_when_a_stream_is_opened_waits_behind_what_is_in_line() {
        let mut line = VecDeque::new();
        assert_eq!(behind_others(&mut line, 1, true), None);
        assert_eq!(behind_others(&mut line, 2, false), None);
        assert_eq!(line, [1, 2]);
        line.clear();
        assert_eq!(behind_others(&mut line, 3, false), Some(3));
    }
}

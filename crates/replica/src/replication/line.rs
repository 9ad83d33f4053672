//! Messages of one stream on their way to be applied, in their order.
//!
//! What must never enter: how they are applied (`streams`).

use std::collections::VecDeque;

use tokio::sync::mpsc;

use crate::driver::local_replica::LocalReplica;
use crate::state::arrivals::{Inbox, StreamMessage};

/// Whether a message comes from a lost replica itself, of which nothing more is taken in for now.
fn is_closed_to(replica: &LocalReplica, inbox: &Inbox, received: &StreamMessage) -> bool {
    matches!(received, StreamMessage::Own(_)) && replica.state.losses.closing.has_begun(inbox.from)
}

/// Messages of a stream in their order, but for those of a lost replica itself while its stream is closed: they keep their
/// credit, and those that others relay go before.
#[derive(Default)]
pub(super) struct Line(VecDeque<(u64, StreamMessage)>);

impl Line {
    /// What is to be taken in next.
    pub(super) async fn next(
        &mut self,
        replica: &LocalReplica,
        inbox: &Inbox,
        queue: &mut mpsc::UnboundedReceiver<(u64, StreamMessage)>,
    ) -> Option<(u64, StreamMessage)> {
        loop {
            let put_off = !self.0.is_empty();
            // What it was decided to go on without is taken off the line, too.
            let open = || {
                !replica.state.losses.closing.has_begun(inbox.from)
                    || replica.is_given_up(inbox.from)
            };
            let opened = replica.engine.until(|| open().then_some(()));
            tokio::select! {
                biased;
                () = opened, if put_off => return self.0.pop_front(),
                next = queue.recv() => {
                    let (session, received) = next?;
                    inbox.note_taken(&received);
                    if !is_closed_to(replica, inbox, &received) {
                        return Some((session, received));
                    }
                    self.0.push_back((session, received));
                }
            }
        }
    }

    /// The stream was closed while this was being taken in.
    pub(super) fn put_off(&mut self, next: (u64, StreamMessage)) {
        self.0.push_front(next);
    }
}

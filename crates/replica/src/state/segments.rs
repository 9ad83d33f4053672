//! Recent messages of this replica's stream: what was read, merged, encoded and signed for one peer is reused for the others.
//!
//! A message belongs behind a position, and also says what this replica knew when it was made. A task may send it again only if that knowledge is
//! unchanged; otherwise the task makes its own message.

use std::collections::VecDeque;
use std::sync::Arc;

use peer::Message;

use crate::state::locks::{Table, TableGuard};

/// At most this many messages are kept: peers that keep pace want the same few.
const KEPT: usize = 8;
/// At most this many bytes of messages are kept, plus one message.
const KEPT_BYTES: usize = 1 << 20;

/// What a message says about its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) settlements: u64,
    pub(crate) epoch: u64,
}

/// A message with the updates of an interval of positions.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The position before the interval.
    pub(crate) behind: u64,
    /// The last position of the interval, which may have no update.
    pub(crate) through: u64,
    pub(crate) known: Known,
    /// Bytes of the updates.
    pub(crate) bytes: usize,
    pub(crate) message: Message,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Segments(Table<VecDeque<Arc<Segment>>>);

impl Segments {
    /// The newest message that continues behind a position.
    pub(crate) fn find(&self, behind: u64, known: Known) -> Option<Arc<Segment>> {
        let kept = self.kept();
        let goes_on = |one: &&Arc<Segment>| one.behind == behind && one.through > behind;
        let found = (kept.iter().rev()).find(|one| goes_on(one) && one.known == known);
        found.cloned()
    }

    pub(crate) fn keep(&self, segment: Arc<Segment>) {
        let mut kept = self.kept();
        kept.push_back(segment);
        let size = |one: &Arc<Segment>| one.message.payload.len();
        let mut bytes: usize = kept.iter().map(size).sum();
        while kept.len() > KEPT || (kept.len() > 1 && bytes > KEPT_BYTES) {
            bytes -= kept.pop_front().map_or(0, |oldest| size(&oldest));
        }
    }

    fn kept(&self) -> TableGuard<'_, VecDeque<Arc<Segment>>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    const NOW: Known = Known {
        settlements: 1,
        epoch: 5,
    };

    fn segment(behind: u64, through: u64, bytes: usize) -> Arc<Segment> {
        let message = Message::new(1, Bytes::new()).with_payload(vec![0; bytes]);
        Arc::new(Segment {
            behind,
            through,
            known: NOW,
            bytes,
            message,
        })
    }

    #[test]
    fn only_what_would_be_said_now_is_said_again() {
        let segments = Segments::default();
        segments.keep(segment(3, 7, 10));
        segments.keep(segment(3, 9, 10));
        let through = |behind, known| segments.find(behind, known).map(|found| found.through);
        assert_eq!(through(3, NOW), Some(9));
        assert_eq!(through(4, NOW), None);
        segments.keep(segment(9, 9, 10));
        assert_eq!(through(9, NOW), None, "it goes nowhere");
        assert_eq!(through(3, Known { epoch: 6, ..NOW }), None);
        let settled = Known {
            settlements: 2,
            ..NOW
        };
        assert_eq!(through(3, settled), None);
    }

    #[test]
    fn few_messages_are_kept_and_one_at_least() {
        let segments = Segments::default();
        for number in 0..100 {
            segments.keep(segment(number, number + 1, 1));
        }
        assert_eq!(segments.kept().len(), KEPT);
        assert!(segments.find(99, NOW).is_some());
        segments.keep(segment(100, 101, 2 * KEPT_BYTES));
        assert_eq!(segments.kept().len(), 1);
        assert!(segments.find(100, NOW).is_some());
    }
}

//! One-way messages to peers, in order, from code that cannot wait.
//!
//! Messages to an incarnation of a peer end with it. They wait here while there is no connection. Each kind of lane has its own queue, so that
//! traffic on one lane does not delay the other. Memory is bounded: of messages that tell a current state only the newest waits. When too much waits,
//! everything that a new conversation repeats is dropped. It is repeated when there is a connection, at once the first time, then after growing
//! pauses: if the repetition itself is too long, it does not block the line for ever.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use peer::{Lane, Message, Session};
use tokio::sync::Notify;
use tokio::time::{Duration, Instant};
use vfs::ReplicaSlot;

use crate::state::locks::{Inner, InnerGuard, Table, TableGuard};
use crate::state::wire::Kind;

/// At most this many bytes wait on one lane for a peer with a connection, which gets them as fast as the connection allows.
const CONNECTED_BYTES_MAX: usize = 32 << 20;
/// A peer has at most this many pieces in flight, by its credit (64 MiB, and 256 bytes for each), so it waits for at most this many answers.
const OWED_MAX: usize = 1 << 18;
/// The same without a connection.
const AWAY_BYTES_MAX: usize = 2 << 20;

/// The first pause before the next repetition. It doubles each time, until nothing has been dropped for long.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// What may be done with a message that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// It tells a current state: the newest replaces the earlier one.
    Newest,
    /// A new conversation repeats what matters of it.
    SaidAgain,
    /// The peer relies on it, and has bounded the number: one for each piece that it has sent.
    Owed,
}

fn waiting(kind: u32) -> Waiting {
    match Kind::of(kind) {
        Some(
            Kind::LeaseRequest
            | Kind::LeaseGrant
            | Kind::Applied
            | Kind::Members
            | Kind::Joined
            | Kind::CaughtUp
            | Kind::Remainder
            | Kind::HeldOpen
            | Kind::TooFar,
        ) => Waiting::Newest,
        Some(Kind::PieceDone | Kind::Base) => Waiting::Owed,
        _ => Waiting::SaidAgain,
    }
}

/// A place in a queue.
enum Entry {
    Message(Message),
    /// The newest message of this kind.
    Newest(u32),
}

/// What waits for one lane.
#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    newest: BTreeMap<u32, Message>,
    bytes: usize,
    /// How many of the entries the peer relies on.
    owed: usize,
    /// Something was dropped.
    dropped: bool,
    /// When dropped messages were last repeated, and the pause before the next repetition.
    said_again: Option<(Instant, Duration)>,
}

/// What to do next for a queue.
#[derive(Debug)]
enum Step {
    Send(Message),
    SayAgain,
    /// Nothing before this moment, unless something new comes.
    Wait(Option<Instant>),
}

impl Queue {
    /// Appends a message, or replaces an older message of a current state. The new one may overtake messages queued in between, because it was true
    /// when it was made.
    fn push(&mut self, message: Message, bytes_max: usize) {
        let kind = message.kind;
        match waiting(kind) {
            Waiting::Newest => {
                self.bytes += size(&message);
                match self.newest.insert(kind, message) {
                    Some(older) => self.bytes -= size(&older),
                    None => self.entries.push_back(Entry::Newest(kind)),
                }
            }
            Waiting::Owed => {
                self.owed += 1;
                self.append(message);
            }
            Waiting::SaidAgain => {
                if self.bytes + size(&message) > bytes_max {
                    self.drop_what_is_said_again();
                }
                if !self.dropped {
                    self.append(message);
                    self.acknowledge_after(kind);
                }
            }
        }
    }

    /// The first greeting in a session makes the peer forget what was acknowledged before. So the newest acknowledgement comes behind a greeting that
    /// was made before it (counterexample 87).
    fn acknowledge_after(&mut self, kind: u32) {
        let acknowledgement = Kind::Applied.number();
        if kind == Kind::Greeting.number() && self.newest.contains_key(&acknowledgement) {
            self.entries
                .retain(|entry| !matches!(entry, Entry::Newest(kind) if *kind == acknowledgement));
            self.entries.push_back(Entry::Newest(acknowledgement));
        }
    }

    fn append(&mut self, message: Message) {
        self.bytes += size(&message);
        self.entries.push_back(Entry::Message(message));
    }

    fn drop_what_is_said_again(&mut self) {
        self.dropped = true;
        let bytes = &mut self.bytes;
        self.entries.retain(|entry| match entry {
            Entry::Message(message) if waiting(message.kind) == Waiting::SaidAgain => {
                *bytes -= size(message);
                false
            }
            _ => true,
        });
    }

    fn next(&mut self, now: Instant) -> Step {
        if let Some(message) = self.pop() {
            return Step::Send(message);
        }
        if !self.dropped {
            return Step::Wait(None);
        }
        let due = self.said_again.map(|(at, pause)| at + pause);
        if let Some(due) = due.filter(|due| now < *due) {
            return Step::Wait(Some(due));
        }
        let pause = match self.said_again {
            Some((at, pause)) if now < at + pause + PAUSE_MAX => (pause * 2).min(PAUSE_MAX),
            _ => PAUSE_MIN,
        };
        self.said_again = Some((now, pause));
        self.dropped = false;
        Step::SayAgain
    }

    fn pop(&mut self) -> Option<Message> {
        let message = match self.entries.pop_front()? {
            Entry::Message(message) => message,
            Entry::Newest(kind) => self.newest.remove(&kind)?,
        };
        self.bytes -= size(&message);
        if waiting(message.kind) == Waiting::Owed {
            self.owed -= 1;
        }
        Some(message)
    }
}

fn size(message: &Message) -> usize {
    usize::try_from(message.cost()).unwrap_or(usize::MAX)
}

/// Messages to one incarnation of a peer.
pub(crate) struct Outbox {
    session: Session,
    control: Inner<Queue>,
    metadata: Inner<Queue>,
    /// One for each lane: a delivery task ignores messages of the other lane.
    control_changed: Notify,
    metadata_changed: Notify,
}

/// Why a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// The session is over.
    Ended,
    /// Something was dropped, and may be repeated now.
    SayAgain,
}

impl Outbox {
    fn queue(&self, lane: Lane) -> InnerGuard<'_, Queue> {
        let queue = match lane {
            Lane::Metadata => &self.metadata,
            Lane::Control | Lane::Data => &self.control,
        };
        queue.lock()
    }

    fn changed(&self, lane: Lane) -> &Notify {
        match lane {
            Lane::Metadata => &self.metadata_changed,
            Lane::Control | Lane::Data => &self.control_changed,
        }
    }

    fn push(&self, lane: Lane, message: Message) {
        let bytes_max = match self.session.is_connected(lane) {
            true => CONNECTED_BYTES_MAX,
            false => AWAY_BYTES_MAX,
        };
        self.queue(lane).push(message, bytes_max);
        self.changed(lane).notify_waiters();
    }

    /// Sends what waits for one lane, while there is a connection, until the session ends or something must be repeated.
    pub(crate) async fn deliver(&self, lane: Lane) -> Delivered {
        loop {
            let changed = self.changed(lane).notified();
            tokio::pin!(changed);
            // Registered before the check; otherwise a message that is queued in between would go unnoticed.
            changed.as_mut().enable();
            if !self.session.connected(lane).await {
                return Delivered::Ended;
            }
            let step = self.queue(lane).next(Instant::now());
            match step {
                Step::Send(message) => {
                    if let Err(error) = self.session.send(lane, message).await {
                        let peer = self.session.peer().slot.0;
                        tracing::debug!(peer, %error, "a message was not sent");
                    }
                }
                Step::SayAgain => return Delivered::SayAgain,
                Step::Wait(None) => changed.await,
                // A timeout and a new message are handled alike.
                Step::Wait(Some(due)) => drop(tokio::time::timeout_at(due, changed).await),
            }
        }
    }
}

/// What waits for all peers that have a session.
#[derive(Default)]
pub(crate) struct Outbound(Table<BTreeMap<ReplicaSlot, Arc<Outbox>>>);

impl Outbound {
    fn outboxes(&self) -> TableGuard<'_, BTreeMap<ReplicaSlot, Arc<Outbox>>> {
        self.0.lock()
    }

    /// A session has begun. Messages of the session before are forgotten.
    pub(crate) fn begin(&self, session: Session) -> Arc<Outbox> {
        let slot = session.peer().slot;
        let outbox = Arc::new(Outbox {
            session,
            control: Inner::default(),
            metadata: Inner::default(),
            control_changed: Notify::new(),
            metadata_changed: Notify::new(),
        });
        self.outboxes().insert(slot, outbox.clone());
        outbox
    }

    /// The session is over.
    pub(crate) fn end(&self, peer: ReplicaSlot) {
        self.outboxes().remove(&peer);
    }

    pub(crate) fn is_in_session(&self, peer: ReplicaSlot) -> bool {
        self.outboxes().contains_key(&peer)
    }

    /// Whether a peer has a connection now that carries messages of this lane.
    pub(crate) fn is_connected(&self, peer: ReplicaSlot, lane: Lane) -> bool {
        let outbox = self.outboxes().get(&peer).cloned();
        outbox.is_some_and(|outbox| outbox.session.is_connected(lane))
    }

    /// Whether more answers wait for a peer than it can have asked for.
    pub(crate) fn owes_too_much(&self, peer: ReplicaSlot) -> bool {
        let outbox = self.outboxes().get(&peer).cloned();
        outbox.is_some_and(|outbox| outbox.queue(Lane::Control).owed > OWED_MAX)
    }

    /// Bytes that wait here for a peer.
    pub(crate) fn waiting_bytes(&self, peer: ReplicaSlot) -> u64 {
        let outbox = self.outboxes().get(&peer).cloned();
        let bytes = |outbox: &Outbox, lane| outbox.queue(lane).bytes as u64;
        outbox.map_or(0, |outbox| {
            bytes(&outbox, Lane::Control) + bytes(&outbox, Lane::Metadata)
        })
    }

    /// Queues a message behind the earlier ones of that lane; without a session, drops it.
    pub(crate) fn send(&self, to: ReplicaSlot, lane: Lane, message: Message) {
        let outbox = self.outboxes().get(&to).cloned();
        if let Some(outbox) = outbox {
            outbox.push(lane, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn message(kind: u32, body: &'static [u8]) -> Message {
        Message::new(kind, Bytes::from_static(body))
    }

    fn kinds(queue: &mut Queue) -> Vec<(u32, Bytes)> {
        std::iter::from_fn(|| queue.pop().map(|one| (one.kind, one.body))).collect()
    }

    /// The peer counted the acknowledgement first, and then the greeting, which was older.
    #[test]
    fn counterexample_87_an_acknowledgement_does_not_overtake_a_greeting() {
        let (applied, greeting) = (Kind::Applied.number(), Kind::Greeting.number());
        let mut queue = Queue::default();
        for (kind, body) in [(applied, &b"1"[..]), (greeting, b"1"), (applied, b"2")] {
            queue.push(message(kind, body), AWAY_BYTES_MAX);
        }
        let expected = [(greeting, &b"1"[..]), (applied, b"2")];
        let expected = expected.map(|(kind, body)| (kind, Bytes::from_static(body)));
        assert_eq!(kinds(&mut queue), expected);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn of_what_tells_how_something_is_now_the_newest_waits() {
        let mut queue = Queue::default();
        for body in [&b"1"[..], b"2", b"3"] {
            queue.push(message(Kind::LeaseRequest.number(), body), AWAY_BYTES_MAX);
            queue.push(message(Kind::Control.number(), body), AWAY_BYTES_MAX);
        }
        let expected = [
            (Kind::LeaseRequest.number(), &b"3"[..]),
            (Kind::Control.number(), b"1"),
            (Kind::Control.number(), b"2"),
            (Kind::Control.number(), b"3"),
        ];
        let expected = expected.map(|(kind, body)| (kind, Bytes::from_static(body)));
        assert_eq!(kinds(&mut queue), expected);
        assert_eq!(queue.bytes, 0);
    }

    /// The repetition is longer than what may wait, so it is dropped again.
    #[test]
    fn what_is_dropped_time_and_again_is_said_again_more_and_more_seldom() {
        let (mut queue, begin) = (Queue::default(), Instant::now());
        let mut times = Vec::new();
        for second in 0..600 {
            while queue.bytes <= AWAY_BYTES_MAX && !queue.dropped {
                queue.push(message(Kind::Control.number(), &[7; 4096]), AWAY_BYTES_MAX);
            }
            let now = begin + Duration::from_secs(second);
            if matches!(queue.next(now), Step::SayAgain) {
                times.push(second);
            }
        }
        assert_eq!(
            times,
            [
                0, 1, 3, 7, 15, 31, 63, 127, 191, 255, 319, 383, 447, 511, 575
            ]
        );
        // After a long rest it is repeated at once, and again soon after.
        queue.dropped = true;
        let late = begin + Duration::from_secs(3600);
        assert!(matches!(queue.next(late), Step::SayAgain));
        queue.dropped = true;
        assert!(matches!(queue.next(late + PAUSE_MIN), Step::SayAgain));
    }

    #[test]
    fn counterexample_45_what_waits_for_a_peer_that_is_away_is_bounded() {
        let mut queue = Queue::default();
        queue.push(message(Kind::PieceDone.number(), b"owed"), AWAY_BYTES_MAX);
        for _ in 0..100_000 {
            queue.push(
                message(Kind::LeaseRequest.number(), b"how it is now"),
                AWAY_BYTES_MAX,
            );
            queue.push(
                message(Kind::Control.number(), b"proposed, ended"),
                AWAY_BYTES_MAX,
            );
            assert!(queue.bytes <= AWAY_BYTES_MAX + 1024);
        }
        assert!(queue.dropped);
        assert_eq!(queue.owed, 1);
        let left: Vec<u32> = kinds(&mut queue)
            .into_iter()
            .map(|(kind, _)| kind)
            .collect();
        assert_eq!(
            left,
            [Kind::PieceDone.number(), Kind::LeaseRequest.number()]
        );
    }
}

//! The outcome of forwarded operations that were never answered (rule 18).
//!
//! The replica that should have carried one out died or was cut off, perhaps after it did. Its update names the forward in its origin, so this
//! replica recognises the update when it applies it; and once this replica has everything that the lost one left, it need not wait any more. Until
//! then a client that asks again is not served a second time: its operation may have been carried out.
//!
//! What must never enter: how operations travel, and which replica is primary.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use control::Epoch;
use peer::Sender;
use tokio::time::Instant;
use vfs::{ReplicaSlot, RequestId};

use crate::state::forward::{Operation, Value};
use crate::state::locks::{Table, TableGuard};
use crate::state::wire::Origin;

/// At most this many operations are remembered whose clients were told to try again.
const REMEMBERED: usize = 1024;
/// A client that was told to try again and has not done so by then has given up.
const GIVEN_UP: Duration = Duration::from_secs(60);

/// What is known of this replica's forwards.
#[derive(Debug, Default)]
struct Known {
    /// Forwards under way, or with an unknown outcome; if the update was applied here, with its place in the stream of the replica that carried it
    /// out.
    applied: BTreeMap<u64, Option<u64>>,
    /// The last incarnation of each peer in contact, and the place of its last update when it first reported one.
    said: BTreeMap<ReplicaSlot, (u64, Option<u64>)>,
    /// Forwards for requests whose clients were told to try again, and when. Each belongs to exactly one request, even if another client asks for the
    /// same.
    told: VecDeque<(RequestId, Unanswered, Instant)>,
}

/// The result of handing an operation over.
#[derive(Debug)]
pub(crate) enum Handed {
    /// It was carried out.
    Done(Value),
    /// The other replica is not primary, or never got it; nothing has happened.
    NotPrimary,
    /// There will be no answer. It may have been carried out.
    Unanswered(Unanswered),
}

/// This replica's forwards, as long as their outcome matters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcomes(Arc<Table<Known>>);

/// A forward whose update is watched for as long as this value lives.
#[derive(Debug)]
pub(crate) struct Watch {
    number: u64,
    outcomes: Outcomes,
}

/// A forward that has not been answered and never will be.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub(crate) watch: Watch,
    /// The replica that should have carried it out.
    pub(crate) by: Sender,
    /// The view in force when that became certain.
    pub(crate) epoch: Epoch,
}

/// The outcome of a forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Carried out, with the update at this place of the stream.
    Done(u64),
    /// It was not carried out, and never will be.
    Nothing,
}

impl Outcomes {
    fn known(&self) -> TableGuard<'_, Known> {
        self.0.lock()
    }

    /// Watches for the update of this replica's forward with this number.
    pub(crate) fn watch(&self, number: u64) -> Watch {
        self.known().applied.insert(number, None);
        Watch {
            number,
            outcomes: self.clone(),
        }
    }

    /// An update is applied here that carries out these forwards; some may be of `own`.
    pub(crate) fn note_applied(&self, own: (ReplicaSlot, u64), origins: &[Origin], position: u64) {
        let ours = |origin: &&Origin| (ReplicaSlot(origin.slot), origin.incarnation) == own;
        let mut ours = origins.iter().filter(ours).peekable();
        if ours.peek().is_none() {
            return;
        }
        let mut known = self.known();
        for origin in ours {
            if let Some(applied) = known.applied.get_mut(&origin.number) {
                *applied = Some(position);
            }
        }
    }

    /// An incarnation of a peer is in contact.
    pub(crate) fn note_began(&self, peer: Sender) {
        let incarnation = peer.incarnation.0;
        let mut known = self.known();
        let said = known.said.entry(peer.slot).or_insert((incarnation, None));
        if said.0 != incarnation {
            *said = (incarnation, None);
        }
    }

    /// A peer reports the place of its last update.
    pub(crate) fn note_said(&self, by: Sender, position: u64) {
        self.note_began(by);
        if let Some((_, first)) = self.known().said.get_mut(&by.slot) {
            first.get_or_insert(position);
        }
    }

    /// The first place in the stream that a later incarnation than this one has reported: everything that the earlier one left lies before it.
    pub(crate) fn left_behind(&self, by: Sender) -> Option<u64> {
        let said = self.known().said.get(&by.slot).copied();
        said.filter(|(incarnation, _)| *incarnation > by.incarnation.0)
            .and_then(|(_, position)| position)
    }

    /// Whether a forward comes from an incarnation of its replica that has ended, because a later one has been in contact here. Its clients have
    /// learned, or will learn, the outcome of their requests by other means.
    pub(crate) fn is_over(&self, origin: &Origin) -> bool {
        let said = self.known().said.get(&ReplicaSlot(origin.slot)).copied();
        said.is_some_and(|(incarnation, _)| incarnation > origin.incarnation)
    }

    /// Whether a peer is in contact in the same incarnation as then.
    pub(crate) fn is_still(&self, then: Sender) -> bool {
        let said = self.known().said.get(&then.slot).copied();
        said.is_some_and(|(incarnation, _)| incarnation == then.incarnation.0)
    }

    /// Keeps a forward until its request comes again.
    pub(crate) fn remember(&self, request: RequestId, unanswered: Unanswered, now: Instant) {
        let mut gone = self.forget_given_up(now);
        let mut known = self.known();
        if known.told.len() >= REMEMBERED {
            gone.extend(known.told.pop_front());
        }
        known.told.push_back((request, unanswered, now));
        // Dropping them takes the lock.
        drop(known);
        drop(gone);
    }

    /// The forward of a request that has come again, if any.
    pub(crate) fn take(
        &self,
        operation: impl Fn() -> Operation,
        now: Instant,
    ) -> Option<Unanswered> {
        if self.known().told.is_empty() {
            return None;
        }
        drop(self.forget_given_up(now));
        let mut operation = operation();
        let request = operation.request()?;
        let mut known = self.known();
        let at = (known.told.iter()).position(|(told, _, _)| told.is_repeat_of(request))?;
        let (_, unanswered, _) = known.told.remove(at)?;
        Some(unanswered)
    }

    /// Removes the forwards whose clients have not tried again for long.
    fn forget_given_up(&self, now: Instant) -> Vec<(RequestId, Unanswered, Instant)> {
        let mut known = self.known();
        let is_old = |since: Instant| now.duration_since(since) > GIVEN_UP;
        let old = known.told.iter().take_while(|(_, _, since)| is_old(*since));
        let old = old.count();
        known.told.drain(..old).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.outcomes.known().applied.remove(&self.number);
    }
}

impl Watch {
    /// The position of the update, once it is applied here.
    pub(crate) fn applied(&self) -> Option<u64> {
        let known = self.outcomes.known();
        known.applied.get(&self.number).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::{Credentials, Name, ObjectId};

    fn peer(incarnation: u64) -> Sender {
        Sender {
            slot: ReplicaSlot(2),
            incarnation: peer::Incarnation(incarnation),
        }
    }

    fn request(series: u8) -> RequestId {
        RequestId {
            series: [series; RequestId::SERIES_BYTES],
            number: 4,
            part: 1,
            digest: 9,
            repeat_only: false,
        }
    }

    /// All ask for the same, as users of the same name.
    fn removal(request: Option<RequestId>) -> Operation {
        let name = Name::new(b"shared".to_vec()).unwrap();
        let who = Credentials::root().with_request(request);
        Operation::Remove(who, ObjectId::ROOT, name)
    }

    fn origin(number: u64) -> Origin {
        Origin {
            slot: 1,
            incarnation: 7,
            number,
        }
    }

    #[test]
    fn an_update_is_recognised_by_its_origin_while_it_is_watched() {
        let (outcomes, own) = (Outcomes::default(), (ReplicaSlot(1), 7));
        let (first, second) = (outcomes.watch(1), outcomes.watch(2));
        outcomes.note_applied((ReplicaSlot(1), 8), &[origin(1)], 40);
        assert_eq!(first.applied(), None, "an earlier incarnation forwarded it");
        outcomes.note_applied(own, &[origin(1), origin(3)], 41);
        assert_eq!((first.applied(), second.applied()), (Some(41), None));
        drop((first, second));
        assert!(outcomes.known().applied.is_empty(), "nothing is left");
    }

    #[test]
    fn only_a_later_incarnation_tells_what_an_earlier_one_left() {
        let outcomes = Outcomes::default();
        assert_eq!(outcomes.left_behind(peer(4)), None);
        outcomes.note_said(peer(4), 10);
        assert_eq!(outcomes.left_behind(peer(4)), None, "it may do it yet");
        assert!(outcomes.is_still(peer(4)));
        outcomes.note_began(peer(5));
        assert!(!outcomes.is_still(peer(4)));
        assert_eq!(outcomes.left_behind(peer(4)), None, "not known yet");
        outcomes.note_said(peer(5), 12);
        outcomes.note_said(peer(5), 20);
        assert_eq!(outcomes.left_behind(peer(4)), Some(12));
    }

    #[test]
    fn a_forward_is_over_when_its_replica_has_started_anew() {
        let outcomes = Outcomes::default();
        let of = |incarnation| Origin {
            slot: 2,
            incarnation,
            number: 1,
        };
        assert!(!outcomes.is_over(&of(4)));
        outcomes.note_began(peer(5));
        assert!(outcomes.is_over(&of(4)));
        assert!(!outcomes.is_over(&of(5)));
    }

    #[test]
    fn who_comes_again_finds_the_forward_once_and_not_too_late() {
        let outcomes = Outcomes::default();
        let unanswered = |number| Unanswered {
            watch: outcomes.watch(number),
            by: peer(4),
            epoch: Epoch(3),
        };
        let now = Instant::now();
        outcomes.remember(request(1), unanswered(1), now);
        outcomes.remember(request(2), unanswered(2), now);
        let later = RequestId {
            number: 5,
            ..request(1)
        };
        for stranger in [None, Some(request(3)), Some(later)] {
            assert!(outcomes.take(|| removal(stranger), now).is_none());
        }
        let repeat = RequestId {
            repeat_only: true,
            ..request(1)
        };
        assert!(outcomes.take(|| removal(Some(repeat)), now).is_some());
        assert!(outcomes.take(|| removal(Some(repeat)), now).is_none());
        let late = now + GIVEN_UP + Duration::from_secs(1);
        assert!(outcomes.take(|| removal(Some(request(2))), late).is_none());
        for number in 0..2 * REMEMBERED as u64 {
            outcomes.remember(request(4), unanswered(number), late);
        }
        assert_eq!(outcomes.known().told.len(), REMEMBERED);
        assert_eq!(outcomes.known().applied.len(), REMEMBERED);
    }
}

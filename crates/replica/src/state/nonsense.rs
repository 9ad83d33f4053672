//! Members that sent what no member sends.
//!
//! Such bytes cost their sender its session, and its place in the view as if it were silent; they cost the receiver nothing. The
//! same start of the sender gets no other session, lest it send them again; a later start is heard.
//!
//! What must never enter: what makes sense (`wire`), and how a session ends.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use peer::{Incarnation, Sender};
use vfs::ReplicaSlot;

/// What somebody sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Offence {
    /// Which start of it; `None` when others relayed it, so that nobody knows.
    by: Option<Incarnation>,
    what: String,
}

/// Who sent what makes no sense, since this replica started: one entry at most for each member.
#[derive(Debug, Default)]
pub(crate) struct Nonsense(Mutex<BTreeMap<ReplicaSlot, Offence>>);

impl Nonsense {
    fn all(&self) -> MutexGuard<'_, BTreeMap<ReplicaSlot, Offence>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One start of a member sent this. Whether that is the first such thing of that start, and of none before a later one's.
    pub(crate) fn note(&self, from: Sender, what: &str) -> bool {
        let mut all = self.all();
        let known = all.get(&from.slot).and_then(|offence| offence.by);
        let is_news = known.is_none_or(|known| known < from.incarnation);
        if is_news {
            let by = Some(from.incarnation);
            let what = what.to_owned();
            all.insert(from.slot, Offence { by, what });
        }
        is_news
    }

    /// Others relayed this of a member's making. Whether nothing was known of it.
    pub(crate) fn note_relayed(&self, of: ReplicaSlot, what: &str) -> bool {
        let mut all = self.all();
        let is_news = !all.contains_key(&of);
        all.entry(of).or_insert_with(|| Offence {
            by: None,
            what: what.to_owned(),
        });
        is_news
    }

    /// A session with a member begins: an earlier start of it is past.
    pub(crate) fn begin(&self, with: Sender) {
        let mut all = self.all();
        let earlier = |offence: &Offence| offence.by.is_none_or(|by| by < with.incarnation);
        if all.get(&with.slot).is_some_and(earlier) {
            all.remove(&with.slot);
        }
    }

    /// What this start of a member sent, if it is to have no session any more.
    pub(crate) fn refuses(&self, peer: Sender) -> Option<String> {
        let all = self.all();
        let offence = all.get(&peer.slot)?;
        (offence.by >= Some(peer.incarnation)).then(|| offence.what.clone())
    }

    /// Whether the latest start of a member that was met is refused.
    pub(crate) fn is_refused(&self, slot: ReplicaSlot) -> bool {
        self.all()
            .get(&slot)
            .is_some_and(|offence| offence.by.is_some())
    }

    /// What a member sent, for people.
    pub(crate) fn of(&self, slot: ReplicaSlot) -> Option<String> {
        self.all().get(&slot).map(|offence| offence.what.clone())
    }

    /// A member was removed.
    pub(crate) fn forget(&self, slot: ReplicaSlot) {
        self.all().remove(&slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(number: u64) -> Sender {
        Sender {
            slot: ReplicaSlot(3),
            incarnation: Incarnation(number),
        }
    }

    #[test]
    fn a_start_that_sent_nonsense_is_refused_and_a_later_one_is_heard() {
        let known = Nonsense::default();
        assert!(known.note(start(5), "junk"));
        assert!(!known.note(start(5), "more junk"), "it is told once");
        assert_eq!(known.refuses(start(5)), Some("junk".to_owned()));
        assert_eq!(known.refuses(start(4)), Some("junk".to_owned()));
        assert_eq!(known.refuses(start(6)), None);
        known.begin(start(5));
        assert!(known.is_refused(ReplicaSlot(3)));
        known.begin(start(6));
        assert!(!known.is_refused(ReplicaSlot(3)));
        // What came before and is looked at now is of the earlier start.
        assert!(known.note(start(5), "late"));
        assert_eq!(known.refuses(start(6)), None);
    }

    #[test]
    fn what_others_relayed_is_told_and_refuses_nobody() {
        let known = Nonsense::default();
        assert!(known.note_relayed(ReplicaSlot(3), "junk"));
        assert!(!known.note_relayed(ReplicaSlot(3), "junk"));
        assert_eq!(known.refuses(start(5)), None);
        assert!(!known.is_refused(ReplicaSlot(3)));
        assert_eq!(known.of(ReplicaSlot(3)), Some("junk".to_owned()));
    }
}

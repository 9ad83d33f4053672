//! The slot table of a session, as its client keeps it (RFC 8881, section 2.10.6.1): which slots
//! are free, and which sequence number each uses next.
//!
//! What must never enter: requests and connections. A slot does not know the requests on it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nfs4::{SequenceArgs, SessionId4};
use tokio::sync::Notify;

use crate::error::Error;

/// The slots of one session.
#[derive(Debug)]
pub(crate) struct Slots {
    session: SessionId4,
    table: Mutex<Table>,
    freed: Notify,
}

#[derive(Debug)]
struct Table {
    entries: Vec<Entry>,
    /// Slots at this index and above are not used because the server wants fewer used.
    limit: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    next_sequence: u32,
    taken: bool,
    /// It is never given back.
    abandoned: bool,
}

impl Slots {
    /// The slots of a session that was just created.
    pub(crate) fn new(session: SessionId4, count: u32) -> Self {
        let unused = Entry {
            next_sequence: 1,
            taken: false,
            abandoned: false,
        };
        let entries = vec![unused; count as usize];
        Self {
            session,
            table: Mutex::new(Table {
                limit: entries.len(),
                entries,
            }),
            freed: Notify::new(),
        }
    }

    /// Takes the lowest free slot, after waiting for one. Low ones come first so that a server can
    /// shrink the table from above.
    ///
    /// # Errors
    /// When no slot can become free any more, because the server's state of each is not known.
    pub(crate) async fn take(self: &Arc<Self>) -> Result<Slot, Error> {
        loop {
            let freed = self.freed.notified();
            if let Some((id, sequence)) = self.take_free() {
                return Ok(Slot {
                    slots: Arc::clone(self),
                    id,
                    sequence,
                    usable: true,
                });
            }
            if self.lock().is_used_up() {
                return Err(Error::used_up());
            }
            freed.await;
        }
    }

    fn take_free(&self) -> Option<(u32, u32)> {
        let mut table = self.lock();
        let taken = table.take_lowest()?;
        // Two slots freed in sequence may have woken only one waiter; it wakes the next.
        if table.lowest_free().is_some() {
            self.freed.notify_one();
        }
        Some(taken)
    }

    /// Follows the server's target, `sr_target_highest_slotid` (RFC 8881, section 18.46.2).
    pub(crate) fn follow_target(&self, highest: u32) {
        let mut table = self.lock();
        let wanted = (highest as usize).saturating_add(1);
        let limit = wanted.min(table.entries.len());
        if limit != table.limit {
            table.limit = limit;
            self.freed.notify_waiters();
        }
    }

    fn give_back(&self, id: u32, next_sequence: u32) {
        self.lock().entries[id as usize] = Entry {
            next_sequence,
            taken: false,
            abandoned: false,
        };
        self.freed.notify_one();
    }

    fn abandon(&self, id: u32) {
        let mut table = self.lock();
        table.entries[id as usize].abandoned = true;
        if table.is_used_up() {
            // All who wait for a slot give up.
            self.freed.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // No change leaves the table half done, so a panic elsewhere does no harm.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn take_lowest(&mut self) -> Option<(u32, u32)> {
        let index = self.lowest_free()?;
        self.entries[index].taken = true;
        let id = u32::try_from(index).ok()?;
        Some((id, self.entries[index].next_sequence))
    }

    fn lowest_free(&self) -> Option<usize> {
        self.entries[..self.limit]
            .iter()
            .position(|entry| !entry.taken)
    }

    fn is_used_up(&self) -> bool {
        self.entries[..self.limit].iter().all(|it| it.abandoned)
    }

    fn highest_taken(&self) -> u32 {
        let highest = self.entries.iter().rposition(|entry| entry.taken);
        highest.map_or(0, |index| u32::try_from(index).unwrap_or(u32::MAX))
    }
}

/// A slot for the exclusive use of its holder. Dropping it gives it back.
///
/// The sequence number moves only by [`advance`](Self::advance), so a test that does not call it
/// repeats a request, and one that calls it twice leaves a gap.
pub struct Slot {
    slots: Arc<Slots>,
    id: u32,
    sequence: u32,
    usable: bool,
}

impl Slot {
    /// The number of the slot.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The sequence number that the next new request on this slot has.
    pub fn sequence(&self) -> u32 {
        self.sequence
    }

    /// The SEQUENCE operation for the next request on this slot.
    pub fn sequence_args(&self, cachethis: bool) -> SequenceArgs {
        SequenceArgs {
            sessionid: self.slots.session,
            sequenceid: self.sequence,
            slotid: self.id,
            highest_slotid: self.slots.lock().highest_taken(),
            cachethis,
        }
    }

    /// The server has executed the request with the current sequence number.
    pub fn advance(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Never gives the slot back: the server's result for its last request is not known, so no
    /// further request would be safe on it.
    pub(crate) fn abandon(mut self) {
        self.usable = false;
        self.slots.abandon(self.id);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.usable {
            self.slots.give_back(self.id, self.sequence);
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({}:{})", self.id, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(count: u32) -> Arc<Slots> {
        Arc::new(Slots::new(SessionId4::default(), count))
    }

    #[tokio::test]
    async fn the_lowest_free_slot_is_taken_and_keeps_its_sequence() {
        let slots = slots(3);
        let mut first = slots.take().await.unwrap();
        let second = slots.take().await.unwrap();
        assert_eq!((first.id(), first.sequence(), second.id()), (0, 1, 1));
        assert_eq!(first.sequence_args(true).highest_slotid, 1);
        first.advance();
        drop(first);
        let again = slots.take().await.unwrap();
        assert_eq!((again.id(), again.sequence()), (0, 2));
        drop(second);
        assert_eq!(again.sequence_args(false).highest_slotid, 0);
    }

    #[tokio::test]
    async fn a_request_waits_while_all_slots_are_taken() {
        let slots = slots(1);
        let mut held = slots.take().await.unwrap();
        let waiting = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.take().await.unwrap().sequence() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        held.advance();
        drop(held);
        assert_eq!(waiting.await.unwrap(), 2);
    }

    #[tokio::test]
    async fn the_servers_wish_bounds_the_slots_in_use() {
        let slots = slots(4);
        slots.follow_target(0);
        let only = slots.take().await.unwrap();
        assert_eq!(slots.lock().take_lowest(), None);
        slots.follow_target(99);
        assert_eq!(slots.take().await.unwrap().id(), 1);
        drop(only);
    }

    #[tokio::test]
    async fn an_abandoned_slot_is_never_used_again() {
        let slots = slots(2);
        slots.take().await.unwrap().abandon();
        assert_eq!(slots.take().await.unwrap().id(), 1);
    }

    /// A server stood still for longer than a client waits, with a request on every slot. Requests that waited for a slot waited for ever.
    #[tokio::test]
    async fn nobody_waits_for_slots_that_are_all_abandoned() {
        let slots = slots(2);
        let held = [slots.take().await.unwrap(), slots.take().await.unwrap()];
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let slots = Arc::clone(&slots);
                tokio::spawn(async move { slots.take().await.map(drop) })
            })
            .collect();
        tokio::task::yield_now().await;
        for slot in held {
            slot.abandon();
        }
        for one in waiting {
            assert!(one.await.unwrap().is_err());
        }
        assert!(slots.take().await.is_err());
    }
}

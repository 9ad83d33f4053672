//! Numbers that are never issued twice, even after a crash: object ids, versions, update positions.
//!
//! A range is reserved on stable storage before a number of it is used; a restart skips the rest of
//! the range. So a version that a client saw just before a crash is not used again for
//! another state, and an update that a replica received just before is not mistaken for a later one.

use bytes::BufMut;
use fields::Fields;

use crate::committer::Ticket;
use crate::malformed::Malformed;

/// How many numbers are reserved at a time.
const RANGE: u64 = 1 << 16;

/// The kinds of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// Object identifiers, the part below the replica's slot.
    Objects = 0,
    /// Versions of objects, the part below the count of takeovers.
    Changes = 1,
    /// Positions of update records.
    Positions = 2,
}

const SEQUENCES: usize = 3;

/// The row with the upper limits of numbers that may have been used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserved([u64; SEQUENCES]);

impl Reserved {
    pub(crate) fn decode(row: &[u8]) -> Result<Reserved, Malformed> {
        let mut fields = Fields::new(row);
        let reserved = Reserved([fields.u64()?, fields.u64()?, fields.u64()?]);
        fields.end()?;
        Ok(reserved)
    }

    /// A reservation well beyond: numbers that were shown and lost lie within a few ranges after the remaining ones.
    pub(crate) fn with_margin(self) -> Reserved {
        Reserved(self.0.map(|limit| limit.max(16).saturating_add(16 * RANGE)))
    }

    /// A reservation beyond all numbers that lost journals can have used: a journal has space for fewer operations.
    pub(crate) fn behind_lost(self) -> Reserved {
        Reserved(self.0.map(|limit| limit.saturating_add(1 << 24)))
    }

    /// A version that this reservation leaves free for the caller that makes it.
    pub(crate) fn first_change(self) -> vfs::ChangeAttribute {
        vfs::ChangeAttribute(self.0[Sequence::Changes as usize])
    }

    /// A reservation after numbers that may have been used.
    pub(crate) fn behind(objects: u64, changes: u64, positions: u64) -> Reserved {
        Reserved([objects, changes, positions])
    }

    /// Whether every number below those of `used` is reserved.
    pub(crate) fn covers(self, used: Reserved) -> bool {
        self.0
            .iter()
            .zip(used.0)
            .all(|(limit, used)| *limit >= used)
    }

    pub(crate) fn encode(self) -> Vec<u8> {
        let mut row = Vec::with_capacity(8 * SEQUENCES);
        self.0.into_iter().for_each(|limit| row.put_u64(limit));
        row
    }
}

/// The numbers in use.
#[derive(Debug)]
pub(crate) struct Counters {
    next: [u64; SEQUENCES],
    /// Numbers below this are reserved on stable storage.
    limit: Reserved,
    /// A reservation that was written; it is stable once its ticket is.
    pending: Option<(Ticket, Reserved)>,
}

impl Counters {
    /// The first reservation of a new store. The first identifiers belong to objects that every tree
    /// has, the first version to the root.
    pub(crate) fn first_reserved() -> Reserved {
        Reserved([16, 2, 1])
    }

    /// Continues after all numbers that may have been used before. No number can be issued until
    /// [`Counters::wanted`] was written and made stable.
    pub(crate) fn resume(reserved: Reserved) -> Counters {
        Counters {
            next: reserved.0,
            limit: reserved,
            pending: None,
        }
    }

    /// The next number, or `None` when the reservation has to be extended first.
    pub(crate) fn take(&mut self, sequence: Sequence) -> Option<u64> {
        let next = &mut self.next[sequence as usize];
        let free = *next < self.limit.0[sequence as usize];
        free.then(|| {
            *next += 1;
            *next - 1
        })
    }

    /// Continues after a number that was used elsewhere.
    pub(crate) fn raise(&mut self, sequence: Sequence, used: u64) {
        let next = &mut self.next[sequence as usize];
        *next = (*next).max(used.saturating_add(1));
    }

    /// The last number of a sequence that may have been issued.
    pub(crate) fn last(&self, sequence: Sequence) -> u64 {
        self.next[sequence as usize].saturating_sub(1)
    }

    /// The reservation to write in the next batch, when one of the ranges runs low.
    pub(crate) fn wanted(&self) -> Option<Reserved> {
        let low = match &self.pending {
            // Only numbers that other replicas have used can exceed a pending reservation.
            Some((_, pending)) => !pending.covers(Reserved(self.next)),
            None => {
                (0..SEQUENCES).any(|at| self.limit.0[at] < self.next[at].saturating_add(RANGE / 2))
            }
        };
        low.then(|| Reserved(self.next.map(|next| next.saturating_add(RANGE))))
    }

    /// Notes that the reservation was written with the batch of this ticket.
    pub(crate) fn written(&mut self, ticket: Ticket, reserved: Reserved) {
        self.pending = Some((ticket, reserved));
    }

    /// Notes that everything up to this ticket is stable.
    pub(crate) fn stable(&mut self, ticket: Ticket) {
        if let Some((written, reserved)) = self.pending
            && written <= ticket
        {
            self.limit = reserved;
            self.pending = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_given_out_before_its_reservation_is_stable() {
        let mut counters = Counters::resume(Counters::first_reserved());
        assert_eq!(counters.take(Sequence::Objects), None);
        let reserved = counters.wanted().unwrap();
        counters.written(Ticket(5), reserved);
        counters.stable(Ticket(4));
        assert_eq!(counters.take(Sequence::Objects), None);
        counters.stable(Ticket(5));
        assert_eq!(counters.take(Sequence::Objects), Some(16));
        assert_eq!(counters.take(Sequence::Objects), Some(17));
        assert_eq!(counters.take(Sequence::Changes), Some(2));
    }

    #[test]
    fn a_restart_goes_on_behind_the_reservation() {
        let mut before = Counters::resume(Counters::first_reserved());
        let reserved = before.wanted().unwrap();
        before.written(Ticket(1), reserved);
        before.stable(Ticket(1));
        let used = before.take(Sequence::Positions).unwrap();
        let mut after = Counters::resume(Reserved::decode(&reserved.encode()).unwrap());
        after.written(Ticket(1), after.wanted().unwrap());
        after.stable(Ticket(1));
        assert!(after.take(Sequence::Positions).unwrap() > used);
    }

    #[test]
    fn numbers_used_elsewhere_are_passed_and_reserved() {
        let mut counters = Counters::resume(Counters::first_reserved());
        counters.written(Ticket(1), counters.wanted().unwrap());
        counters.raise(Sequence::Changes, 10 * RANGE);
        let reserved = counters.wanted().unwrap();
        assert!(reserved.0[Sequence::Changes as usize] > 10 * RANGE);
        assert_eq!(counters.take(Sequence::Changes), None);
        counters.written(Ticket(2), reserved);
        assert_eq!(counters.wanted(), None);
        counters.stable(Ticket(2));
        assert_eq!(counters.take(Sequence::Changes), Some(10 * RANGE + 1));
    }

    #[test]
    fn a_range_is_extended_well_before_it_ends() {
        let mut counters = Counters::resume(Counters::first_reserved());
        let mut tickets = 0;
        for _ in 0..3 * RANGE {
            if let Some(reserved) = counters.wanted() {
                tickets += 1;
                counters.written(Ticket(tickets), reserved);
                counters.stable(Ticket(tickets));
            }
            assert!(counters.take(Sequence::Changes).is_some());
        }
        assert!(tickets < 10, "{tickets} reservations");
    }
}

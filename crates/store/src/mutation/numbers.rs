//! Numbers for changes, and waiting for stable storage while holding the writer's lock.

use vfs::{ChangeAttribute, ObjectId, Result};

use super::{Mutation, RESERVED_KEY, Writer};
use crate::committer::Ticket;
use crate::counters::Sequence;
use crate::metadata::Table;
use crate::open_store::OpenStore;

impl Mutation<'_> {
    /// Makes all numbers issued from here on larger than this one, which another replica has used. Only the
    /// lower bits count here; the upper bits identify the replica.
    pub(crate) fn raise(&mut self, sequence: Sequence, number: u64) {
        let counter = match sequence {
            Sequence::Positions => number,
            Sequence::Objects | Sequence::Changes => number & ObjectId::MAX_COUNTER,
        };
        self.writer.counters.raise(sequence, counter);
    }

    /// The last number of a sequence that may have been issued.
    pub(crate) fn last(&self, sequence: Sequence) -> u64 {
        self.writer.counters.last(sequence)
    }

    /// A version newer than `old` that no client has seen. The takeover count in the upper bits stays.
    pub(super) fn next_change(&mut self, old: ChangeAttribute) -> Result<ChangeAttribute> {
        let counter = self.take(Sequence::Changes)?;
        Ok(ChangeAttribute(counter.max(old.0 + 1)))
    }

    pub(super) fn take(&mut self, sequence: Sequence) -> Result<u64> {
        if let Some(number) = self.writer.counters.take(sequence) {
            return Ok(number);
        }
        self.store.reserve_now(&mut self.writer)?;
        self.writer
            .counters
            .take(sequence)
            .ok_or_else(|| self.store.fail("numbers have run out"))
    }
}

impl OpenStore {
    /// Reserves numbers and waits for stable storage; called at start, and when a burst of changes used up a
    /// range before the group commit made the next one stable.
    pub(crate) fn reserve_now(&self, writer: &mut Writer) -> Result<()> {
        if let Some(reserved) = writer.counters.wanted() {
            let ticket = Ticket(writer.committed.0 + 1);
            let mut batch = self.metadata.batch();
            batch.put(Table::System, RESERVED_KEY, &reserved.encode());
            batch
                .commit()
                .map_err(|error| self.fail(&error.to_string()))?;
            writer.counters.written(ticket, reserved);
            writer.committed = ticket;
            self.commits.set_committed(ticket);
        }
        self.persist_held(writer)
    }

    /// Makes every batch so far stable; for the holder of the writer's lock.
    pub(crate) fn persist_held(&self, writer: &mut Writer) -> Result<()> {
        self.persist_through(writer.committed)?;
        writer.counters.stable(writer.committed);
        Ok(())
    }

    /// Makes every batch up to this committed one stable. Other tasks can commit meanwhile.
    pub(crate) fn persist_through(&self, ticket: Ticket) -> Result<()> {
        self.health.check()?;
        let trip = self.commits.trip();
        let persisted = self.metadata.persist();
        drop(trip);
        persisted.map_err(|error| self.fail(&error.to_string()))?;
        self.statistics.group_commits.add(1);
        self.commits.announce(ticket);
        Ok(())
    }
}

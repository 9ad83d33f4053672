//! What a home does for an operation that another home decides (rule 15).

use super::looking::Waiter;
use super::{Context, MetadataServer};
use crate::message::{Body, OperationName};
use crate::part::{self, Part};
use crate::tree::Record;
use crate::wish::Refusal;
use pool::HomeNumber;
use vfs::ObjectId;

impl MetadataServer {
    pub(super) fn prepare(
        &mut self,
        context: &mut Context<'_>,
        from: HomeNumber,
        (operation, index): (OperationName, u8),
        part: Part,
    ) {
        if operation.decider != from || self.is_over(operation) {
            return;
        }
        let parts = self.prepared.get(&operation);
        if parts.is_some_and(|parts| parts.contains_key(&index)) {
            let result = part.verify(context.tree);
            let prepared = Body::Prepared {
                operation,
                index,
                result,
            };
            return self.send(context, from, prepared);
        }
        if self.preparing.contains_key(&(operation, index)) {
            return;
        }
        let (object, claim) = (part.object(), part.claim());
        if self.book.home(object) != Some(self.number) {
            return;
        }
        if self.locks.conflicts(operation, object, &claim) {
            return self.wait(object, Waiter::Prepare(from, (operation, index), part));
        }
        let result = part.verify(context.tree);
        if result == Err(Refusal::Changed) {
            let prepared = Body::Prepared {
                operation,
                index,
                result,
            };
            return self.send(context, from, prepared);
        }
        self.locks.take(operation, object, claim);
        if result.is_ok() {
            // Also if no operation waits for it: otherwise copies stay until the outcome comes.
            self.tell(context, object);
        }
        self.preparing.insert((operation, index), part);
        self.make_prepared(context, (operation, index));
    }

    /// Whether nothing may be prepared for the operation any more.
    fn is_over(&self, operation: OperationName) -> bool {
        if !self.settings.rules.finished_remembered() {
            return false;
        }
        let peer = self.peers.get(&operation.decider);
        self.finished.contains(&operation)
            || peer.is_some_and(|peer| {
                operation.run < peer.run
                    || operation.run == peer.run && operation.number < peer.oldest
            })
    }

    /// Prepares a part once no server relies on a copy.
    pub(super) fn make_prepared(
        &mut self,
        context: &mut Context<'_>,
        (operation, index): (OperationName, u8),
    ) {
        let Some(part) = self.preparing.get(&(operation, index)) else {
            return;
        };
        let (object, result) = (part.object(), part.verify(context.tree));
        let revokes = result.is_ok() && part.revokes();
        if revokes && !self.is_revoked(context.now, object) {
            return;
        }
        let Some(part) = self.preparing.remove(&(operation, index)) else {
            return;
        };
        self.locks.prepared(operation, object, &part.claim());
        if self.settings.rules.prepared_is_stable() {
            let record = Record::Prepared(operation, index, part.clone());
            context.tree.commit(vec![record]);
        }
        self.prepared
            .entry(operation)
            .or_default()
            .insert(index, part);
        let prepared = Body::Prepared {
            operation,
            index,
            result,
        };
        self.send(context, operation.decider, prepared);
    }

    pub(super) fn finish(
        &mut self,
        context: &mut Context<'_>,
        from: HomeNumber,
        operation: OperationName,
        done: bool,
    ) {
        if operation.decider != from {
            return;
        }
        for waiting in self.waiting.values_mut() {
            waiting.retain(
                |waiter| !matches!(waiter, Waiter::Prepare(_, (name, _), _) if *name == operation),
            );
        }
        self.preparing.retain(|(name, _), _| *name != operation);
        if let Some(parts) = self.prepared.remove(&operation) {
            let mut batch = Vec::new();
            if done {
                batch = part::effects(parts.values(), context.tree);
            }
            batch.push(Record::Settled(operation));
            context.tree.commit(batch);
            if done {
                let changed: Vec<ObjectId> = parts.values().map(Part::object).collect();
                changed
                    .into_iter()
                    .for_each(|object| self.tell(context, object));
                self.finished.insert(operation);
            }
        }
        self.release(operation);
        if done {
            self.send(context, from, Body::Finished { operation });
        }
    }

    /// Asks again for the outcomes of what is prepared.
    pub(super) fn ask_for_outcomes(&self, context: &mut Context<'_>) {
        for operation in self.prepared.keys() {
            let ask = Body::OutcomeRequest {
                operation: *operation,
            };
            self.send(context, operation.decider, ask);
        }
    }
}

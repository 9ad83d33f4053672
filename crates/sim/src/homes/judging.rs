//! Compares the answers to clients, and the state at the end, with the model.

use super::client::REMEMBERED;
use super::model::{Model, at_once, plain};
use super::world::{Asked, Event, LEASE, World, micros};
use crate::Violation;
use ::homes::{Answer, Call, Look, Origin};
use control::Moment;
use std::collections::BTreeMap;

impl World {
    pub(super) fn check_end(&mut self) -> Result<(), Violation> {
        let (mut rows, mut entries) = (BTreeMap::new(), BTreeMap::new());
        for home in &self.homes {
            let shelf = &home.disk.stable;
            rows.extend(
                shelf
                    .rows
                    .iter()
                    .map(|(object, row)| (*object, plain(Answer::Row(*row)))),
            );
            entries.extend(shelf.entries.clone());
            if !shelf.recovered.prepared.is_empty() || !shelf.recovered.decided.is_empty() {
                let at = (self.plan.seed, Moment(self.now));
                let sight = format!("{:?}", shelf.recovered);
                return Err(Violation {
                    invariant: "no debts",
                    sight,
                    at,
                });
            }
        }
        let model = self.latest();
        let expected: BTreeMap<_, _> = model
            .rows
            .iter()
            .map(|(object, row)| (*object, plain(Answer::Row(*row))))
            .collect();
        if rows != expected || entries != model.entries {
            let sight = format!(
                "rows {rows:?}\nexpected {expected:?}\nnames {entries:?}\nexpected {:?}",
                model.entries
            );
            self.broken("same tree", sight);
        }
        self.violation.take().map_or(Ok(()), Err)
    }

    /// An operation happens at this moment.
    pub(super) fn is_stable(&mut self, record: &homes::Record) {
        let homes::Record::Answered(origin, answer) = record else {
            return;
        };
        if let Some((at, before)) = self.done.insert(*origin, (self.now, *answer)) {
            return self.broken(
                "once",
                format!("{origin:?} done at {at} ({before:?}) and again ({answer:?})"),
            );
        }
        let client = usize::try_from(origin.client)
            .ok()
            .and_then(|client| self.clients.get(client));
        let asked = client
            .filter(|client| client.number == origin.number)
            .and_then(|client| client.asked.clone());
        let (
            Some(Asked {
                call: Call::Change(wish),
                ..
            }),
            Answer::Done(made),
        ) = (asked, *answer)
        else {
            return self.broken("asked", format!("{origin:?} is not under way: {answer:?}"));
        };
        self.count += 1;
        let mut model = self.latest().clone();
        let refusals = model.refusals(&wish);
        if !refusals.is_empty() {
            return self.broken(
                "possible",
                format!("{wish:?} was done in spite of {refusals:?}"),
            );
        }
        model.apply(&wish, made);
        if self.traced {
            eprintln!("{} DONE {origin:?} {wish:?} {made:?}", self.now);
        }
        self.states.push_back((self.now, model));
        self.forget_states();
    }

    /// The present tree.
    pub(super) fn latest(&self) -> &Model {
        // Invariant: a run begins with a state, and the last one is never removed.
        &self.states[self.states.len() - 1].1
    }

    /// Keeps only the states that answers to active or later requests are compared with, and the states whose objects clients
    /// remember.
    fn forget_states(&mut self) {
        let asked = self
            .clients
            .iter()
            .filter_map(|client| client.asked.as_ref());
        let since = asked.map(|asked| asked.since).min().unwrap_or(self.now);
        let remembered = self.states.len().saturating_sub(REMEMBERED);
        let first = self.first_state(oldest_seen(since)).min(remembered);
        self.states.drain(..first);
    }

    /// The index of the state at a moment.
    fn first_state(&self, since: u64) -> usize {
        let earlier = self.states.iter().rposition(|(at, _)| *at < since);
        earlier.unwrap_or(0)
    }

    /// The state at a moment, and all later ones.
    pub(super) fn between(&self, since: u64) -> impl Iterator<Item = &Model> {
        let first = self.first_state(since);
        self.states.iter().skip(first).map(|(_, model)| model)
    }

    pub(super) fn is_answered(&mut self, origin: Origin, answer: Answer) {
        let place = usize::try_from(origin.client).unwrap_or(0);
        let client = &mut self.clients[place];
        if client.number != origin.number {
            return;
        }
        let Some(asked) = client.asked.take() else {
            return;
        };
        let delay = self.random.below(60_000);
        self.at(delay, Event::Client(place));
        let since = asked.since;
        let (invariant, is_right) = match (&asked.call, answer) {
            (Call::Change(_), Answer::Done(_)) => {
                let done = self.done.get(&origin);
                (
                    "answered is done",
                    done.is_some_and(|(at, done)| *at >= since && *done == answer),
                )
            }
            (Call::Change(wish), Answer::Refused(refusal)) => {
                let is_seen = self
                    .between(since)
                    .any(|model| model.refusals(wish).contains(&refusal));
                ("refusal", is_seen && !self.done.contains_key(&origin))
            }
            (Call::Look(look @ Look::Attributes(_)), _) => {
                let is_now = self
                    .between(since)
                    .any(|model| at_once(model.look(look)) == at_once(answer));
                let is_known = self
                    .between(oldest_seen(since))
                    .any(|model| plain(model.look(look)) == plain(answer));
                ("seen", is_now && is_known)
            }
            (Call::Look(look), _) => (
                "seen",
                self.between(since)
                    .any(|model| plain(model.look(look)) == plain(answer)),
            ),
            _ => ("sense", false),
        };
        if !is_right {
            let now = match &asked.call {
                Call::Look(look) => format!("{:?}", self.latest().look(look)),
                Call::Change(wish) => format!("{:?}", self.latest().refusals(wish)),
            };
            self.broken(
                invariant,
                format!("{origin:?} {asked:?}: {answer:?}; now {now}"),
            );
        }
    }
}

/// The moment of the oldest state that a client may still see if it asks at this moment.
fn oldest_seen(since: u64) -> u64 {
    since.saturating_sub(2 * micros(LEASE))
}

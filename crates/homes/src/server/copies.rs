//! The asker's side of copies: what may be answered from them, and what is kept (rule 13).

use super::peer::Copies;
use super::{MetadataServer, Turn};
use crate::message::Body;
use crate::rules::Rules;
use crate::wish::{Answer, Look, Refusal};
use control::Moment;
use pool::HomeNumber;
use vfs::ObjectId;

impl Copies {
    /// What may be answered without asking the home.
    fn answer(&self, now: Moment, look: &Look, rules: Rules) -> Option<Answer> {
        if now >= self.valid_until && rules.lease_checked() {
            return None;
        }
        match look {
            Look::Lookup(directory, name) => {
                let entry = self.names.get(&(*directory, name.clone()))?;
                Some(entry.map_or(Answer::Refused(Refusal::NotFound), Answer::Entry))
            }
            Look::Attributes(object) => self.rows.get(object).copied().map(Answer::Row),
            Look::Place(_) => None,
            Look::Acquire(_) if rules.acquire_asks() => None,
            Look::Acquire(object) => self.rows.get(object).copied().map(Answer::Row),
        }
    }

    fn keep(&mut self, look: Look, answer: Answer, rules: Rules) {
        match (look, answer) {
            (Look::Lookup(directory, name), Answer::Entry(entry)) => {
                self.names.insert((directory, name), Some(entry));
            }
            (Look::Lookup(directory, name), Answer::Refused(Refusal::NotFound))
                if !rules.missing_asked() =>
            {
                self.names.insert((directory, name), None);
            }
            (Look::Attributes(object) | Look::Acquire(object), Answer::Row(row)) => {
                self.rows.insert(object, row);
            }
            _ => {}
        }
    }

    fn drop_object(&mut self, object: ObjectId) {
        self.rows.remove(&object);
        self.names.retain(|(directory, _), _| *directory != object);
    }
}

impl MetadataServer {
    pub(super) fn copied(&self, now: Moment, home: HomeNumber, look: &Look) -> Option<Answer> {
        let peer = self.peers.get(&home)?;
        peer.copies.answer(now, look, self.settings.rules)
    }

    pub(super) fn fetched(
        &mut self,
        turn: &mut Turn<'_>,
        from: HomeNumber,
        (number, answer): (u64, Answer),
        (told, lease, keep): (u64, Option<Moment>, bool),
    ) {
        let is_asked = |of: &HomeNumber| *of == from;
        if !self
            .questions
            .get(&number)
            .is_some_and(|question| is_asked(&question.home))
        {
            return;
        }
        let Some(question) = self.questions.remove(&number) else {
            return;
        };
        let settings = self.settings;
        if let Some(peer) = self.peers.get_mut(&from) {
            let copies = &mut peer.copies;
            let has_crossed = told < copies.told && settings.rules.crossed_not_kept();
            copies.told = copies.told.max(told);
            if let Some(asked) = lease {
                let until = settings.lease.relied_upon_until(asked);
                copies.valid_until = copies.valid_until.max(until);
            }
            if keep && !has_crossed {
                copies.keep(question.look.clone(), answer, settings.rules);
            }
        }
        self.looked(turn, question.purpose, answer);
    }

    pub(super) fn told_by(
        &mut self,
        turn: &mut Turn<'_>,
        from: HomeNumber,
        number: u64,
        object: ObjectId,
    ) {
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.copies.told = peer.copies.told.max(number);
            peer.copies.drop_object(object);
        }
        self.send(turn, from, Body::Told { number });
    }
}

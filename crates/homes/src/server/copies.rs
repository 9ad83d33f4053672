//! The asker's side of copies: which answers may come from them, and which are kept (rule 13).

use super::peer::{Kept, Peer};
use super::{Context, MetadataServer};
use crate::message::Body;
use crate::rules::Rules;
use crate::wish::{Answer, Look, Refusal};
use control::Moment;
use pool::HomeNumber;
use vfs::ObjectId;

impl Peer {
    /// The answer from a copy, if the home need not be asked.
    fn copied(&mut self, now: Moment, look: &Look, rules: Rules) -> Option<Answer> {
        if !self.copies.is_valid(now) && rules.lease_checked() {
            return None;
        }
        let kept: Kept = match look {
            Look::Lookup(_, name) => Some(name.clone()),
            Look::Attributes(_) => None,
            Look::Place(_) => return None,
            Look::Acquire(_) if rules.acquire_asks() => return None,
            Look::Acquire(_) => None,
        };
        self.copies.get(look.object(), &kept).copied()
    }

    fn keep(&mut self, look: Look, answer: Answer, rules: Rules) {
        let object = look.object();
        match (look, answer) {
            (Look::Lookup(_, name), Answer::Entry(_)) => {
                self.copies.keep(object, Some(name), answer, 1);
            }
            (Look::Lookup(_, name), Answer::Refused(Refusal::NotFound))
                if !rules.missing_asked() =>
            {
                self.copies.keep(object, Some(name), answer, 1);
            }
            (Look::Attributes(_) | Look::Acquire(_), Answer::Row(_)) => {
                self.copies.keep(object, None, answer, 1);
            }
            _ => {}
        }
    }
}

impl MetadataServer {
    pub(super) fn copied(&mut self, now: Moment, home: HomeNumber, look: &Look) -> Option<Answer> {
        let rules = self.settings.rules;
        self.peers.get_mut(&home)?.copied(now, look, rules)
    }

    pub(super) fn fetched(
        &mut self,
        context: &mut Context<'_>,
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
            let has_crossed = peer.copies.has_crossed(told) && settings.rules.crossed_not_kept();
            if let Some(asked) = lease {
                peer.copies.lease(settings.lease.relied_upon_until(asked));
            }
            if keep && !has_crossed {
                peer.keep(question.look.clone(), answer, settings.rules);
            }
        }
        self.looked(context, question.purpose, answer);
    }

    pub(super) fn told_by(
        &mut self,
        context: &mut Context<'_>,
        from: HomeNumber,
        number: u64,
        object: ObjectId,
    ) {
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.copies.told(number, object);
        }
        self.send(context, from, Body::Told { number });
    }
}

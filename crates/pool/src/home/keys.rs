//! The keys that handles are sealed with (rule 3): changed after a time, and layouts that were sealed with an older one are taken back before
//! that counts no more.
//!
//! A key is told first, with leases, and sealed with when every lease says it that a data server may still have. Half a life later the
//! holders of layouts under the key before are asked for them, some files at a time. When nobody has one, and the key has had its life, the
//! next is told, and the key before counts no more.

use super::Home;
use super::command::Record;
use super::file::{File, Job};
use crate::keys::{HandleKey, HandleKeys, KeySource};
use crate::message::Act;
use crate::numbers::KeyNumber;
use control::Moment;
use std::time::Duration;
use vfs::ObjectId;

/// Files whose layouts are taken back at a time because of their key.
const AT_ONCE: usize = 32;

/// How often it is looked whether more of them can be.
const LOOK: Duration = Duration::from_secs(1);

/// The keys of one run of a home.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    source: KeySource,
    /// What leases say.
    told: HandleKeys,
    /// When the newest was first told.
    since: Moment,
    /// From then on every lease says the newest, and handles are sealed with it.
    sealed_from: Option<Moment>,
    /// When there is something to be done.
    due: Moment,
}

impl Keys {
    pub(super) fn new(first: KeyNumber, source: KeySource, now: Moment, life: Duration) -> Keys {
        Keys {
            told: HandleKeys::new(source.key(first)),
            source,
            since: now,
            sealed_from: None,
            due: now.after(life / 2),
        }
    }

    /// What leases say.
    pub(super) fn told(&self) -> &HandleKeys {
        &self.told
    }

    /// The key to seal with.
    pub(super) fn sealing(&self) -> &HandleKey {
        let before = self.sealed_from.and(self.told.previous());
        before.unwrap_or(self.told.current())
    }

    /// No handle of what is removed now is sealed with a key behind this one. A caller that has read the row before may have
    /// one sealed a moment later, so it is not the newest.
    pub(super) fn last_of_removed(&self) -> KeyNumber {
        self.told.current().number().next()
    }
}

impl Home {
    /// When something is to be done about keys.
    pub(super) fn keys_wake(&self) -> Moment {
        self.keys.due
    }

    /// Goes on with the change of keys.
    pub(super) fn change_keys(&mut self, now: Moment) {
        if now < self.keys.due {
            return;
        }
        let life = self.settings.key_life;
        let half = self.keys.since.after(life / 2);
        if self.keys.sealed_from.is_some_and(|from| now >= from) {
            self.keys.sealed_from = None;
        }
        if let Some(from) = self.keys.sealed_from {
            self.keys.due = from;
        } else if now < half {
            self.keys.due = half;
        } else if self.take_back_older(now) || now < self.keys.since.after(life) {
            self.keys.due = now.after(LOOK);
        } else {
            self.tell_next(now);
        }
    }

    fn tell_next(&mut self, now: Moment) {
        let number = self.keys.told.current().number().next();
        let until = self.settings.lease.granted_until(now);
        let keys = &mut self.keys;
        keys.told.rotate(keys.source.key(number));
        keys.since = now;
        keys.sealed_from = Some(until);
        keys.due = until;
        self.record(Record::Key(number));
    }

    /// Asks for layouts that were sealed with an older key, of as many files as may be at a time. Whether there are any.
    fn take_back_older(&mut self, now: Moment) -> bool {
        let sealing = self.keys.sealing().number();
        let has_older = |file: &File| file.holders.values().any(|held| held.key < sealing);
        let files = self.files.iter();
        let older: Vec<ObjectId> = files
            .filter(|(_, file)| has_older(file))
            .map(|(object, _)| *object)
            .collect();
        let is_asked = |object: &&ObjectId| {
            let file = self.files.get(*object);
            file.is_some_and(|file| matches!(file.job, Some(Job::Recalling(_) | Job::Carrying(_))))
        };
        let (asked, others): (Vec<ObjectId>, Vec<ObjectId>) =
            older.iter().partition(|object| is_asked(object));
        let more = AT_ONCE.saturating_sub(asked.len());
        for object in others.into_iter().take(more) {
            self.take_back(now, object);
        }
        !older.is_empty()
    }

    /// A question that is under way is asked again behind it: a data server that is away does not keep a key in force.
    fn take_back(&mut self, now: Moment, object: ObjectId) {
        self.put_questions_off(object);
        let file = self.files.get(&object);
        if file.is_some_and(|file| file.job.is_none()) {
            self.recall(now, object, None, Act::Fence);
        }
    }
}

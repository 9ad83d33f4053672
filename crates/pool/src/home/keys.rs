//! The keys that seal handles (rule 3). The home changes its key after a time. Before an old key stops counting, the home recalls the layouts that
//! it sealed.
//!
//! Leases first announce a new key. The home seals with it once every lease that a data server may still have announces it. After half the key's
//! life, the home recalls layouts under the previous key, some files at a time. When none is left, and the key has had its life, leases announce
//! the next key, and the previous key stops counting.

use super::Home;
use super::command::Record;
use super::file::{File, Job};
use crate::keys::{HandleKey, HandleKeys, KeySource};
use crate::message::Act;
use crate::numbers::KeyNumber;
use control::Moment;
use std::time::Duration;
use vfs::ObjectId;

/// The maximum number of files whose layouts are recalled at a time because of their key.
const AT_ONCE: usize = 32;

/// The interval between checks whether more of them can be recalled.
const LOOK: Duration = Duration::from_secs(1);

/// The keys of one run of a home.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    source: KeySource,
    /// The keys that leases announce.
    told: HandleKeys,
    /// When the newest key was first announced.
    since: Moment,
    /// From then on every lease announces the newest key, and handles are sealed with it.
    sealed_from: Option<Moment>,
    /// The time of the next step.
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

    /// The keys that leases announce.
    pub(super) fn told(&self) -> &HandleKeys {
        &self.told
    }

    /// The key to seal with.
    pub(super) fn sealing(&self) -> &HandleKey {
        let before = self.sealed_from.and(self.told.previous());
        before.unwrap_or(self.told.current())
    }

    /// Handles of contents that are removed now are never sealed with a later key than this one. A caller that has read the row before may
    /// still get one sealed, so it is not the newest key.
    pub(super) fn last_of_removed(&self) -> KeyNumber {
        self.told.current().number().next()
    }
}

impl Home {
    /// The time of the next step of the key change.
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

    /// Recalls layouts that were sealed with an older key, of at most [`AT_ONCE`] files at a time. Whether there are any.
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

    /// Recalls the layouts of a file. An active question is asked again afterwards: an absent data server does not keep a key in force.
    fn take_back(&mut self, now: Moment, object: ObjectId) {
        self.put_questions_off(object);
        let file = self.files.get(&object);
        if file.is_some_and(|file| file.job.is_none()) {
            self.recall(now, object, None, Act::Fence);
        }
    }
}

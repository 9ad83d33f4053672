//! How long contents rest before they are sent: a moment in which they may be overwritten or removed, longer while the server is busy, and
//! no more when somebody waits for them.
//!
//! What must never enter: how busy the server is, and who waits.

use super::Backlog;
use control::Moment;
use std::time::Duration;
use vfs::ObjectId;

/// What rests on is looked at again after this time.
const LOOK: Duration = Duration::from_millis(200);

impl Backlog {
    /// Somebody waits for `file`: it does not rest until the peer has all that it lacks of it now, and until then its pieces go before those of
    /// files that nobody waits for, unless these have been due for as long as its head start. What of it is changed later may rest again, so
    /// that one that is written all the time is not waited for for ever.
    pub fn expedite(&mut self, now: Moment, file: ObjectId) {
        let now = self.tell(now);
        let news = self.update(file, |state| {
            let news = state.expedite();
            state.due = state.due.min(state.due_from(now));
            news
        });
        self.awaited += usize::from(news == Some(true));
        self.resting.remove(&file);
    }

    /// Another site changes `file`: what is lacking of it does not rest on. What is too little for that rests for
    /// [`Settings::delay`](super::Settings) like any other.
    pub fn expedite_much(&mut self, now: Moment, file: ObjectId) -> bool {
        let is_much = self.bytes_of(file) >= u128::from(self.settings.resting_bytes);
        if is_much {
            self.expedite(now, file);
        }
        is_much
    }

    /// Somebody waits for everything that is lacking (what changes in the same moment included).
    pub fn expedite_all(&mut self, now: Moment) {
        let now = self.tell(now);
        self.expedited = Some(now);
        for file in std::mem::take(&mut self.resting) {
            self.update(file, |state| state.due = state.due.min(now));
        }
    }

    /// Whether what is due then was lacking already when somebody last waited for everything.
    pub(super) fn was_expedited(&self, due: Moment) -> bool {
        let rested = self
            .expedited
            .map(|expedited| expedited.after(self.settings.delay));
        rested >= Some(due)
    }

    /// The file whose turn it is, if its contents may rest on now: much of it is lacking, nobody waits for any of that, it has not rested for
    /// [`Settings::busy_delay`](super::Settings), and what is sent would be in the way, because clients keep this server busy (`is_busy`) or
    /// somebody waits for other contents that go to this peer. What the peer may have, or is owed, does not rest.
    #[must_use]
    pub fn would_rest(&mut self, now: Moment, is_busy: bool) -> Option<ObjectId> {
        let now = self.tell(now);
        let (&(due, _), &file) = self.queue.first_key_value()?;
        let state = self.files.get(&file)?;
        let is_in_the_way = is_busy || self.awaited > 0;
        let rests = is_in_the_way
            && due <= now
            && now < state.since.after(self.settings.busy_delay)
            && self.expedited < Some(state.since)
            && !(state.is_expedited() || state.offers || state.owes())
            && state.bytes() >= u128::from(self.settings.resting_bytes);
        rests.then_some(file)
    }

    /// A file rests on for a moment.
    pub fn put_off(&mut self, file: ObjectId) {
        let now = self.now;
        let longest = self.settings.busy_delay;
        self.update(file, |state| {
            state.due = now.after(LOOK).min(state.since.after(longest));
        });
        self.resting.insert(file);
    }

    /// How many files rest on.
    #[must_use]
    pub fn resting(&self) -> usize {
        self.resting.len()
    }
}

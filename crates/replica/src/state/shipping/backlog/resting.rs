//! How long contents rest before they are sent: briefly, because they may be overwritten or removed; longer while the server is busy; and not at all
//! once an operation waits for them.
//!
//! What must never enter: how busy the server is, and what waits.

use super::Backlog;
use control::Moment;
use std::time::Duration;
use vfs::ObjectId;

/// Contents that rest longer are checked again after this time.
const LOOK: Duration = Duration::from_millis(200);

impl Backlog {
    /// An operation waits for `file`: it does not rest until the peer has everything that it lacks of the file now. Until then its pieces go before
    /// those of other files, unless these have been due for as long as its head start. Later changes of the file may rest again, so that no operation
    /// waits for ever for a file that is always being written.
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

    /// Another site changes `file`: what is lacking of it stops resting longer, and the result is true. If too little is lacking to rest longer, it
    /// rests for [`Settings::delay`](super::Settings) like any other file.
    pub fn expedite_much(&mut self, now: Moment, file: ObjectId) -> bool {
        let is_much = self.bytes_of(file) >= u128::from(self.settings.resting_bytes);
        if is_much {
            self.expedite(now, file);
        }
        is_much
    }

    /// An operation waits for everything that is lacking, including what changes in the same moment.
    pub fn expedite_all(&mut self, now: Moment) {
        let now = self.tell(now);
        self.expedited = Some(now);
        for file in std::mem::take(&mut self.resting) {
            self.update(file, |state| state.due = state.due.min(now));
        }
    }

    /// Whether what is due then was already lacking when an operation last waited for everything.
    pub(super) fn was_expedited(&self, due: Moment) -> bool {
        let rested = self
            .expedited
            .map(|expedited| expedited.after(self.settings.delay));
        rested >= Some(due)
    }

    /// The file whose turn it is, if its contents may rest longer. Conditions: the peer lacks much of it; nothing waits for any of that; it has not
    /// rested for [`Settings::busy_delay`](super::Settings); and sending it would be in the way, because clients keep this server busy (`is_busy`) or
    /// an operation waits for other contents that go to this peer. Offered and owed contents do not rest.
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

    /// The file rests a moment longer.
    pub fn put_off(&mut self, file: ObjectId) {
        let now = self.now;
        let longest = self.settings.busy_delay;
        self.update(file, |state| {
            state.due = now.after(LOOK).min(state.since.after(longest));
        });
        self.resting.insert(file);
    }

    /// How many files rest longer.
    #[must_use]
    pub fn resting(&self) -> usize {
        self.resting.len()
    }
}

//! Lines that repeat: from one place in the program a limited number a minute is written, then how many were not.
//!
//! Code that logs what may fail often asks `throttle` and logs sums. This is for all the rest: whatever peers, clients or disks do,
//! the log stays readable and does not fill its disk.
//!
//! What must never enter: what lines look like.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Lines are counted over this time.
const WINDOW: Duration = Duration::from_secs(60);
/// At most this many of one place are written in that time.
const WRITTEN_MAX: u32 = 100;

/// What was written lately, by place in the program.
#[derive(Debug)]
pub(super) struct Repeats<P> {
    places: HashMap<P, Lately>,
}

#[derive(Debug)]
struct Lately {
    since: Instant,
    written: u32,
    left_out: u64,
    /// What the lines that were left out are about.
    about: String,
}

impl<P: Hash + Eq> Repeats<P> {
    pub(super) fn new() -> Repeats<P> {
        Repeats {
            places: HashMap::new(),
        }
    }

    /// Whether a line of this place is to be written now; `about` says in words what it is about, if it is not.
    pub(super) fn admits(
        &mut self,
        place: P,
        now: Instant,
        about: impl FnOnce() -> String,
    ) -> bool {
        let lately = self.places.entry(place).or_insert_with(|| Lately::new(now));
        // What was left out before is told by `left_out` first.
        if lately.is_over(now) && lately.left_out == 0 {
            *lately = Lately::new(now);
        }
        if lately.written < WRITTEN_MAX {
            lately.written += 1;
            return true;
        }
        if lately.left_out == 0 {
            lately.about = about();
        }
        lately.left_out += 1;
        false
    }

    /// How many lines were left out in the time that is over now, and what they are about. To be told before the next line.
    pub(super) fn left_out(&mut self, now: Instant) -> Vec<(String, u64)> {
        let places = self.places.values_mut();
        let over = places.filter(|lately| lately.left_out > 0 && lately.is_over(now));
        over.map(|lately| {
            let lately = std::mem::replace(lately, Lately::new(now));
            (lately.about, lately.left_out)
        })
        .collect()
    }
}

impl Lately {
    fn new(now: Instant) -> Lately {
        Lately {
            since: now,
            written: 0,
            left_out: 0,
            about: String::new(),
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= WINDOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_fills_no_log_and_what_it_left_out_is_told() {
        let (mut repeats, began) = (Repeats::new(), Instant::now());
        let write = |repeats: &mut Repeats<&str>, place, count: u32| {
            let about = || format!("about {place}");
            let admitted = (0..count).filter(|_| repeats.admits(place, began, about));
            admitted.count()
        };
        assert_eq!(write(&mut repeats, "noisy", 250), 100);
        assert_eq!(
            write(&mut repeats, "quiet", 5),
            5,
            "others are not affected"
        );
        assert_eq!(repeats.left_out(began), [], "it is not over yet");
        let later = began + WINDOW;
        assert_eq!(repeats.left_out(later), [("about noisy".to_owned(), 150)]);
        assert_eq!(repeats.left_out(later), [], "it is told once");
        assert!(repeats.admits("noisy", later, String::new));
    }
}

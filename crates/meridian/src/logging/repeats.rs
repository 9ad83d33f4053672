//! Repeated log lines: a limited number per minute is written for each place in the program, then the number left out.
//!
//! Code that often logs the same failure uses `throttle` and logs counts. This is for all other code: whatever peers,
//! clients or disks do, the log stays readable and does not fill its disk.
//!
//! What must never enter: the format of lines.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Lines are counted over this time.
const WINDOW: Duration = Duration::from_secs(60);
/// The maximum number of lines from one place in that time.
const WRITTEN_MAX: u32 = 100;

/// The recent lines, by place in the program.
#[derive(Debug)]
pub(super) struct Repeats<P> {
    places: HashMap<P, Lately>,
}

#[derive(Debug)]
struct Lately {
    since: Instant,
    written: u32,
    left_out: u64,
    /// The subject of the lines that were left out.
    about: String,
}

impl<P: Hash + Eq> Repeats<P> {
    pub(super) fn new() -> Repeats<P> {
        Repeats {
            places: HashMap::new(),
        }
    }

    /// Whether to write a line of this place now; otherwise `about` describes its subject.
    pub(super) fn admits(
        &mut self,
        place: P,
        now: Instant,
        about: impl FnOnce() -> String,
    ) -> bool {
        let lately = self.places.entry(place).or_insert_with(|| Lately::new(now));
        // Earlier lines that were left out are reported by `left_out` first.
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

    /// The number of lines left out in the past period, with their subjects. Written before the next line.
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

//! Log lines about repeated failures: one at the beginning, a summary at intervals, one at the end.
//!
//! A full disk, or an absent peer, makes the same operation fail many times a second as long as it lasts. Code
//! that logs such a failure asks here first. Time is an argument.
//!
//! What must never enter: what is logged, and how.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The interval between summaries while an operation continues to fail.
const INTERVAL: Duration = Duration::from_secs(60);
/// A failure that did not occur for this time has ended, unless the operation worked before.
const QUIET: Duration = Duration::from_secs(120);
/// The maximum number of known failures, so that remote input cannot fill memory. Beyond that, each failure is
/// logged.
const KNOWN_MAX: usize = 256;

/// The failing thing: a fixed name, and the number of what it is about.
pub type Subject = (&'static str, u64);

/// A number for a message, independent of the figures in it: for what a subject is about.
#[must_use]
pub fn kind_of(words: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let letters = words.bytes().filter(|byte| !byte.is_ascii_digit());
    letters.for_each(|letter| hasher.write_u8(letter));
    hasher.finish()
}

/// A present failure.
#[derive(Clone, Copy, Debug)]
struct Episode {
    began: Instant,
    last: Instant,
    told: Instant,
    /// How often it has failed.
    times: u64,
    /// How often since the last log line.
    untold: u64,
}

/// A summary of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// How often since it began.
    pub times: u64,
    /// How often since the last log line.
    pub untold: u64,
    /// How long it has lasted.
    pub lasting: Duration,
}

/// Decides which failures are logged.
#[derive(Debug, Default)]
pub struct Throttle {
    episodes: Mutex<BTreeMap<Subject, Episode>>,
}

impl Throttle {
    /// A throttle without known failures.
    #[must_use]
    pub const fn new() -> Throttle {
        Throttle {
            episodes: Mutex::new(BTreeMap::new()),
        }
    }

    /// An operation has failed. Returns the summary to log, if it is time to log.
    pub fn failed(&self, subject: Subject, now: Instant) -> Option<Sum> {
        let mut episodes = self.episodes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = episodes.get_mut(&subject);
        let Some(episode) = known.filter(|episode| !episode.is_over(now)) else {
            let first = Episode {
                began: now,
                last: now,
                told: now,
                times: 1,
                untold: 0,
            };
            if episodes.len() < KNOWN_MAX || episodes.contains_key(&subject) {
                episodes.insert(subject, first);
            }
            return Some(Sum {
                untold: 1,
                ..first.sum(now)
            });
        };
        episode.times += 1;
        episode.untold += 1;
        episode.last = now;
        if now.saturating_duration_since(episode.told) < INTERVAL {
            return None;
        }
        let sum = episode.sum(now);
        (episode.told, episode.untold) = (now, 0);
        Some(sum)
    }

    /// An operation works. Returns the whole summary if it had failed before.
    pub fn works(&self, subject: Subject, now: Instant) -> Option<Sum> {
        let mut episodes = self.episodes.lock().unwrap_or_else(PoisonError::into_inner);
        episodes.remove(&subject).map(|episode| episode.sum(now))
    }

    /// Returns failures that did not occur for two minutes, with their summaries: they have ended. To be called at intervals.
    pub fn ended(&self, now: Instant) -> Vec<(Subject, Sum)> {
        let mut episodes = self.episodes.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = episodes.extract_if(.., |_, episode| episode.is_over(now));
        ended
            .map(|(subject, episode)| (subject, episode.sum(episode.last)))
            .collect()
    }
}

impl Episode {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= QUIET
    }

    fn sum(&self, now: Instant) -> Sum {
        Sum {
            times: self.times,
            untold: self.untold,
            lasting: now.saturating_duration_since(self.began),
        }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.times {
            1 => f.write_str("once"),
            times => write!(f, "{times} times in {} s", self.lasting.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Subject = ("disk", 0);

    /// The number of logged lines, and the last one, when an operation fails this often a second for this long.
    fn lines(throttle: &Throttle, began: Instant, a_second: u32, seconds: u32) -> (usize, String) {
        let moments =
            (0..seconds * a_second).map(|at| began + Duration::from_secs(1) * at / a_second);
        let told: Vec<Sum> = moments
            .filter_map(|now| throttle.failed(DISK, now))
            .collect();
        (told.len(), told.last().unwrap().to_string())
    }

    #[test]
    fn an_hour_of_failures_is_a_line_a_minute_and_one_at_the_end() {
        let (throttle, began) = (Throttle::default(), Instant::now());
        let (count, last) = lines(&throttle, began, 25, 3600);
        assert_eq!((count, last.as_str()), (60, "88501 times in 3540 s"));
        let end = began + Duration::from_secs(3600);
        let sum = throttle.works(DISK, end).unwrap();
        assert_eq!(sum.to_string(), "90000 times in 3600 s");
        assert_eq!(throttle.works(DISK, end), None, "it works already");
        assert_eq!(throttle.failed(DISK, end).unwrap().to_string(), "once");
    }

    #[test]
    fn silence_is_an_end_and_subjects_are_told_apart() {
        let (throttle, began) = (Throttle::default(), Instant::now());
        assert!(throttle.failed(DISK, began).is_some());
        assert!(throttle.failed(("disk", 1), began).is_some());
        let later = began + Duration::from_secs(100);
        assert!(throttle.failed(("disk", 1), later).is_some());
        let quiet = began + QUIET;
        let ended = throttle.ended(quiet);
        assert_eq!(ended.len(), 1);
        assert_eq!((ended[0].0, ended[0].1.times), (DISK, 1));
        assert!(throttle.ended(quiet).is_empty());
        let ended = throttle.ended(later + QUIET);
        assert_eq!(ended[0].1.to_string(), "2 times in 100 s");
        // Without a call of `ended`, it still ends by itself.
        assert!(throttle.failed(DISK, later).is_some());
        assert_eq!(throttle.failed(DISK, later), None);
        assert!(
            throttle
                .failed(DISK, later + QUIET)
                .is_some_and(|sum| sum.times == 1)
        );
    }

    #[test]
    fn figures_do_not_make_another_kind() {
        assert_eq!(
            kind_of("it lacks 7 updates"),
            kind_of("it lacks 12 updates")
        );
        assert_ne!(kind_of("it lacks 7 updates"), kind_of("its disk is full"));
    }

    #[test]
    fn memory_is_bounded() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for about in 0..10_000 {
            assert!(throttle.failed(("word", about), now).is_some());
        }
        assert_eq!(throttle.episodes.lock().unwrap().len(), KNOWN_MAX);
    }
}

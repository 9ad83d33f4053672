//! The progress of a run, and its remaining time.
//!
//! What must never enter: the measurements.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Before this part of the expected time is done, expectations are not corrected by actual times.
const SAYS_NOTHING: Duration = Duration::from_secs(60);

/// Counts finished jobs.
#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    jobs_left: usize,
    expected_done: Duration,
    expected_left: Duration,
}

impl Progress {
    /// For this number of jobs with this total expected time.
    pub(crate) fn of(jobs: usize, expected: Duration) -> Self {
        Self {
            began: Instant::now(),
            state: Mutex::new(State {
                jobs_left: jobs,
                expected_done: Duration::ZERO,
                expected_left: expected,
            }),
        }
    }

    /// Counts a finished job, or one that was given up, and returns what is left.
    pub(crate) fn done(&self, expected: Duration) -> String {
        // A thread that died while it counted has ended the run.
        let Ok(mut state) = self.state.lock() else {
            return String::new();
        };
        state.jobs_left = state.jobs_left.saturating_sub(1);
        state.expected_done += expected;
        state.expected_left = state.expected_left.saturating_sub(expected);
        let left = state.left(self.began.elapsed());
        format!("{} left, about {}", state.jobs_left, in_words(left))
    }
}

impl State {
    /// The remaining time, corrected by the accuracy of earlier expectations.
    fn left(self, took: Duration) -> Duration {
        if self.expected_done < SAYS_NOTHING {
            return self.expected_left;
        }
        let factor = took.as_secs_f64() / self.expected_done.as_secs_f64();
        self.expected_left.mul_f64(factor.clamp(0.01, 100.0))
    }
}

/// `1 h 5 min`, `12 min`, `40 s`.
pub(crate) fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_what_it_took() {
        let seconds = Duration::from_secs;
        let mut state = State {
            jobs_left: 3,
            expected_done: seconds(1),
            expected_left: seconds(100),
        };
        assert_eq!(state.left(seconds(50)), seconds(100));
        state.expected_done = seconds(100);
        assert_eq!(state.left(seconds(200)), seconds(200));
        assert_eq!(in_words(seconds(3905)), "1 h 5 min");
        assert_eq!(in_words(seconds(61)), "1 min");
        assert_eq!(in_words(seconds(9)), "9 s");
    }
}

//! Judges a recorded run against what `docs/semantics.md` promises.
//!
//! Every checker is a pure function, and has a test with a history that is in order and one for each way in which it
//! is not.
//!
//! What must never enter: requests, clocks, and excuses for faults: a promise holds whatever fails.

mod appends;
mod copies;
mod creates;
pub mod invariants;
mod moves;
mod registers;
mod replaces;
mod rights;
mod rounds;
mod searches;
mod sections;
mod stats;
mod versions;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::history::{Event, Time};
use crate::survey::Survey;

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which promise.
    pub promise: &'static str,
    /// What happened.
    pub what: String,
    /// When it was seen; none for what was found at the end.
    pub at: Option<Time>,
}

/// All that was broken, by the time at which it was seen.
pub fn judge(events: &[Event], surveys: &[Survey]) -> Vec<Violation> {
    let mut violations = Vec::new();
    violations.extend(registers::check(events, surveys));
    violations.extend(creates::check(events, surveys));
    violations.extend(replaces::check(events, surveys));
    violations.extend(moves::check(events, surveys));
    violations.extend(rounds::check(events));
    violations.extend(sections::check(events, surveys));
    violations.extend(appends::check(events, surveys));
    violations.extend(copies::check(surveys));
    violations.extend(rights::check(events));
    violations.extend(versions::check(events));
    violations.extend(searches::check(events));
    violations.extend(stats::check(events));
    violations.sort_by_key(|violation| violation.at.unwrap_or(Time::MAX));
    violations
}

impl Violation {
    fn at(promise: &'static str, at: Time, what: String) -> Self {
        Self {
            promise,
            what,
            at: Some(at),
        }
    }

    fn in_the_end(promise: &'static str, what: String) -> Self {
        Self {
            promise,
            what,
            at: None,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{} at {}: {}", self.promise, seconds(at), self.what),
            None => write!(f, "{} in the end: {}", self.promise, self.what),
        }
    }
}

/// A time for people.
fn seconds(time: Time) -> String {
    format!("{:.3} s", time as f64 / 1e6)
}

/// A write of a value, as far as it matters for those who read.
#[derive(Debug, Clone, Copy)]
struct Writing {
    begin: Time,
    /// It was answered as done.
    done: Option<Time>,
    /// Its outcome is not known, and its client went on then.
    given_up: Option<Time>,
    /// It was refused.
    refused: bool,
}

/// The value that a file has before the first write.
const FIRST: u64 = 0;

/// The writings of one file, by value.
#[derive(Debug)]
struct Writings(BTreeMap<u64, Writing>);

impl Writings {
    fn of<'e>(events: impl Iterator<Item = (&'e Event, u64)>) -> Self {
        let first = Writing {
            begin: 0,
            done: Some(0),
            given_up: None,
            refused: false,
        };
        let writing = |(event, value): (&Event, u64)| {
            let writing = Writing {
                begin: event.begin,
                done: event.is_done().then_some(event.end),
                given_up: (!event.is_done() && !event.is_refused()).then_some(event.end),
                refused: event.is_refused(),
            };
            (value, writing)
        };
        Self(
            std::iter::once((FIRST, first))
                .chain(events.map(writing))
                .collect(),
        )
    }

    /// The writing of a value that was read until `end`, or why nobody can have read it.
    fn of_seen(&self, value: u64, end: Time) -> Result<&Writing, String> {
        match self.0.get(&value) {
            None => Err(format!("{value}, which nobody has written")),
            Some(writing) if writing.refused => {
                Err(format!("{value}, the writing of which was refused"))
            }
            Some(writing) if writing.begin > end => {
                Err(format!("{value} before its writing began"))
            }
            Some(writing) => Ok(writing),
        }
    }
}

/// The greatest of `values` among those that became known before a time.
#[derive(Debug, Default)]
struct KnownBefore(Vec<(Time, Time, u64)>);

impl KnownBefore {
    /// From (when known, value, of what).
    fn new(mut entries: Vec<(Time, Time, u64)>) -> Self {
        entries.sort_unstable();
        let mut greatest: Option<(Time, u64)> = None;
        for (_, value, of) in &mut entries {
            match greatest {
                Some((known, which)) if known > *value => (*value, *of) = (known, which),
                _ => greatest = Some((*value, *of)),
            }
        }
        Self(entries)
    }

    fn before(&self, time: Time) -> Option<(Time, u64)> {
        let count = self.0.partition_point(|(known, _, _)| *known < time);
        let (_, value, of) = self.0.get(count.checked_sub(1)?)?;
        Some((*value, *of))
    }
}

#[cfg(test)]
pub(crate) mod made {
    //! Histories made by hand.

    use crate::history::{Act, Event, Outcome, Refusal, Time};

    /// An event that was answered as done.
    pub(crate) fn done(site: usize, [begin, end]: [Time; 2], act: Act) -> Event {
        Event {
            site,
            client: site,
            begin,
            end,
            act,
            outcome: Outcome::Done,
        }
    }

    /// The same, refused.
    pub(crate) fn refused(why: Refusal, event: Event) -> Event {
        Event {
            outcome: Outcome::Refused(why),
            ..event
        }
    }

    /// The same with an outcome that is not known.
    pub(crate) fn unknown(event: Event) -> Event {
        Event {
            outcome: Outcome::Unknown("the connection broke".to_owned()),
            ..event
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_value_known_before_a_time_is_found() {
        let known = KnownBefore::new(vec![(10, 5, 1), (20, 3, 2), (30, 9, 3)]);
        assert_eq!(known.before(10), None);
        assert_eq!(known.before(11), Some((5, 1)));
        assert_eq!(known.before(25), Some((5, 1)));
        assert_eq!(known.before(31), Some((9, 3)));
    }
}

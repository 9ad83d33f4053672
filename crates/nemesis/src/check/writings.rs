//! The writes to one file, and when their outcomes were known.
//!
//! What must never enter: judgement.

use std::collections::BTreeMap;

use crate::history::{Event, Time};

/// A write of a value, as far as it matters for readers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writing {
    pub(super) begin: Time,
    /// When it was answered as done.
    pub(super) done: Option<Time>,
    /// When its client gave up, if its outcome is not known.
    pub(super) given_up: Option<Time>,
    /// Whether it was refused.
    pub(super) refused: bool,
}

/// The value that a file has before the first write.
const FIRST: u64 = 0;

/// The writes to one file, by value.
#[derive(Debug)]
pub(super) struct Writings(pub(super) BTreeMap<u64, Writing>);

impl Writings {
    pub(super) fn of<'e>(events: impl Iterator<Item = (&'e Event, u64)>) -> Self {
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

    /// The write of a value that was read until `end`, or why it cannot have been read.
    pub(super) fn of_seen(&self, value: u64, end: Time) -> Result<&Writing, String> {
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

/// The greatest value among those that became known before a time.
#[derive(Debug, Default)]
pub(super) struct KnownBefore(Vec<(Time, Time, u64)>);

impl KnownBefore {
    /// Takes entries of: when it was known, the value to compare, and the value that it belongs to.
    pub(super) fn new(mut entries: Vec<(Time, Time, u64)>) -> Self {
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

    pub(super) fn before(&self, time: Time) -> Option<(Time, u64)> {
        let count = self.0.partition_point(|(known, _, _)| *known < time);
        let (_, value, of) = self.0.get(count.checked_sub(1)?)?;
        Some((*value, *of))
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

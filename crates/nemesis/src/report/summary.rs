//! Counts and waits of a run.
//!
//! What must never enter: how they are shown.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::history::{Event, Outcome};

/// All operations of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Answered as done.
    pub done: usize,
    /// Refused.
    pub refused: usize,
    /// Of unknown outcome.
    pub unknown: usize,
    /// The median time, in microseconds.
    pub median_us: u64,
    /// The 99th percentile, in microseconds.
    pub most_us: u64,
    /// The longest, in microseconds.
    pub longest_us: u64,
}

/// By kind.
pub fn by_kind(events: &[Event]) -> BTreeMap<&'static str, Line> {
    let mut kinds: BTreeMap<&'static str, Vec<&Event>> = BTreeMap::new();
    for event in events {
        kinds.entry(event.act.kind()).or_default().push(event);
    }
    let lines = kinds.into_iter();
    lines.map(|(kind, events)| (kind, line(&events))).collect()
}

fn line(events: &[&Event]) -> Line {
    let mut took: Vec<u64> = events.iter().map(|event| event.end - event.begin).collect();
    took.sort_unstable();
    let at = |share: f64| {
        let index = (took.len() as f64 * share) as usize;
        took.get(index.min(took.len().saturating_sub(1)))
            .copied()
            .unwrap_or(0)
    };
    let count = |what: fn(&Event) -> bool| events.iter().filter(|event| what(event)).count();
    let (done, refused) = (count(Event::is_done), count(Event::is_refused));
    Line {
        done,
        refused,
        unknown: events.len() - done - refused,
        median_us: at(0.5),
        most_us: at(0.99),
        longest_us: at(1.0),
    }
}

/// Refusals and failures by their words, the most frequent first.
pub fn failures(events: &[Event]) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for event in events {
        let words = match &event.outcome {
            Outcome::Done => continue,
            Outcome::Refused(why) => format!("{}: refused: {why}", event.act.kind()),
            Outcome::Unknown(why) => format!("{}: unknown: {why}", event.act.kind()),
        };
        *counts.entry(words).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// The longest operation of a client at each site.
pub fn longest(events: &[Event], sites: usize) -> Vec<Option<&Event>> {
    let at = |site| {
        let here = events.iter().filter(move |event| event.site == site);
        here.max_by_key(|event| event.end - event.begin)
    };
    (0..sites).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Act, Refusal};

    fn event(took: u64, outcome: Outcome) -> Event {
        Event {
            site: 0,
            client: 0,
            begin: 10,
            end: 10 + took,
            act: Act::Create { name: 1 },
            outcome,
        }
    }

    #[test]
    fn lines_count_outcomes_and_waits() {
        let events = [
            event(5, Outcome::Done),
            event(9, Outcome::Refused(Refusal::Exist)),
            event(100, Outcome::Unknown("lost".to_owned())),
        ];
        let lines = by_kind(&events);
        let expected = Line {
            done: 1,
            refused: 1,
            unknown: 1,
            median_us: 9,
            most_us: 100,
            longest_us: 100,
        };
        assert_eq!(lines["exclusive create"], expected);
        assert_eq!(failures(&events).len(), 2);
        let longest = longest(&events, 2);
        assert_eq!(longest[0].map(|event| event.end), Some(110));
        assert_eq!(longest[1], None);
    }
}

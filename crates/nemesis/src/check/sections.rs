//! Byte-range locks: never two holders at once, and the next holder sees everything written under a lock.
//!
//! A client certainly holds a lock from the arrival of the grant until it sent the last request that succeeded under it.
//! Later requests may come after the end of its lease.
//!
//! What must never enter: fairness.

use std::collections::BTreeMap;

use super::violation::{Violation, seconds};
use super::writings::KnownBefore;
use crate::clients::tree::COUNTER_FILES;
use crate::history::{Act, Event, Section, Seen, Time};
use crate::survey::Survey;

const PROMISE: &str = "byte-range locks";

pub(super) fn check(events: &[Event], surveys: &[Survey]) -> Vec<Violation> {
    (0..COUNTER_FILES)
        .flat_map(|counter| one(counter, events, surveys))
        .collect()
}

fn one(counter: usize, events: &[Event], surveys: &[Survey]) -> Vec<Violation> {
    let mut held: Vec<(&Event, &Section, Time)> = events
        .iter()
        .filter_map(|event| match &event.act {
            Act::Section(section) if section.counter == counter => {
                Some((event, section, section.granted?))
            }
            _ => None,
        })
        .collect();
    held.sort_by_key(|(_, _, granted)| *granted);
    let mut violations = overlaps(counter, &held);
    violations.extend(lost_updates(counter, &held));
    let last = held
        .iter()
        .filter_map(|(_, section, _)| section.wrote)
        .max();
    for survey in surveys {
        let Some(Some(saw)) = survey.counters.get(counter) else {
            continue;
        };
        let is_right = matches!(saw, Seen::Value(value) if last.is_none_or(|last| *value >= last));
        if !is_right {
            let what = format!(
                "counter {counter} is {saw:?} at site {}, although {last:?} was written",
                survey.site
            );
            violations.push(Violation::in_the_end(PROMISE, what));
        }
    }
    violations
}

/// Holders at the same time. `held` is in the order of the grants.
fn overlaps(counter: usize, held: &[(&Event, &Section, Time)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut longest: Option<(&Event, Time)> = None;
    for &(event, section, granted) in held {
        if let Some((other, until)) = longest
            && granted < until
            && granted < section.held_until
        {
            let what = format!(
                "clients {} and {} held the lock of counter {counter} at once, from {} until {}",
                other.client,
                event.client,
                seconds(granted),
                seconds(until.min(section.held_until))
            );
            violations.push(Violation::at(PROMISE, granted, what));
        }
        if longest.is_none_or(|(_, until)| section.held_until > until) {
            longest = Some((event, section.held_until));
        }
    }
    violations
}

/// Values that were written twice, or that a later client did not see.
fn lost_updates(counter: usize, held: &[(&Event, &Section, Time)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut writers: BTreeMap<u64, usize> = BTreeMap::new();
    for (event, section, _) in held {
        let Some(wrote) = section.wrote else { continue };
        if let Some(other) = writers.insert(wrote, event.client) {
            let what = format!(
                "clients {other} and {} both made counter {counter} {wrote}",
                event.client
            );
            violations.push(Violation::at(PROMISE, event.end, what));
        }
    }
    let written = held.iter().filter_map(|(event, section, _)| {
        let wrote = section.wrote?;
        Some((event.end, wrote, wrote))
    });
    let written = KnownBefore::new(written.collect());
    for (event, section, _) in held {
        if let Some(saw) = section.saw
            && let Some((newest, _)) = written.before(section.asked)
            && saw < newest
        {
            let what = format!(
                "client {} saw counter {counter} at {saw}, although {newest} had been written",
                event.client
            );
            violations.push(Violation::at(PROMISE, event.end, what));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::made::{done, unknown};
    use super::*;

    /// A client that asked, got the lock, and held it until `until`; it read `saw`.
    fn section(client: usize, [asked, granted, until]: [Time; 3], saw: u64) -> Event {
        let section = Section {
            counter: 0,
            asked,
            granted: Some(granted),
            held_until: until,
            saw: Some(saw),
            wrote: Some(saw + 1),
        };
        done(client, [asked, until + 1], Act::Section(section))
    }

    #[test]
    fn holders_one_after_the_other_are_in_order() {
        let events = [
            section(0, [1, 2, 10], 0),
            section(1, [3, 12, 20], 1),
            section(0, [22, 23, 30], 2),
        ];
        assert_eq!(check(&events, &[]), []);
    }

    #[test]
    fn a_lock_that_may_have_been_lost_ends_with_the_last_success() {
        let mut lost = unknown(section(0, [1, 2, 5], 0));
        lost.end = 100;
        if let Act::Section(section) = &mut lost.act {
            section.wrote = None;
        }
        assert_eq!(check(&[lost, section(1, [3, 6, 20], 0)], &[]), []);
    }

    #[test]
    fn two_holders_at_once_are_found() {
        let events = [section(0, [1, 2, 10], 0), section(1, [3, 8, 20], 1)];
        let violations = check(&events, &[]);
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].at, Some(8));
    }

    #[test]
    fn lost_updates_are_found() {
        let twice = [section(0, [1, 2, 10], 0), section(1, [3, 12, 20], 0)];
        assert_eq!(check(&twice, &[]).len(), 1);
        let old = [
            section(0, [1, 2, 10], 0),
            section(1, [3, 12, 20], 1),
            section(2, [30, 31, 40], 1),
        ];
        assert_eq!(check(&old, &[]).len(), 2);
    }

    #[test]
    fn a_counter_that_has_gone_back_in_the_end_is_found() {
        let survey = |value| Survey {
            counters: vec![Some(Seen::Value(value))],
            ..Survey::default()
        };
        let events = [section(0, [1, 2, 10], 4)];
        assert_eq!(check(&events, &[survey(5)]), []);
        assert_eq!(check(&events, &[survey(4)]).len(), 1);
    }
}

//! Close-to-open: an open that begins after a close was answered sees the closed content, or newer content.
//!
//! If one write began after another write's close was answered, the two have an order. An open must not see a content that comes before
//! a write that was closed before the open. Concurrent writes have no order. Until a write is closed, an
//! open may see it or not.
//!
//! What must never enter: names that are replaced; see `replaces`.

use super::violation::{Violation, seconds};
use super::writings::{KnownBefore, Writings};
use crate::clients::tree::REGISTERS;
use crate::history::{Act, Event, Seen, Time};
use crate::survey::Survey;

const PROMISE: &str = "close-to-open";

pub(super) fn check(events: &[Event], surveys: &[Survey]) -> Vec<Violation> {
    (0..REGISTERS)
        .flat_map(|register| one(register, events, surveys))
        .collect()
}

/// A content of a register that was read from `begin` to `end`.
struct Sight<'e> {
    who: String,
    begin: Time,
    end: Time,
    saw: &'e Seen,
    at: Option<Time>,
}

fn one(register: usize, events: &[Event], surveys: &[Survey]) -> Vec<Violation> {
    let writings = Writings::of(events.iter().filter_map(|event| match event.act {
        Act::Write {
            register: which,
            value,
        } if which == register => Some((event, value)),
        _ => None,
    }));
    let sights = sights(register, events, surveys);
    let first_seen = |value: u64| {
        let seen = sights
            .iter()
            .filter(|sight| *sight.saw == Seen::Value(value));
        seen.map(|sight| sight.end).min()
    };
    let closed = writings
        .0
        .iter()
        .filter_map(|(&value, writing)| Some((writing.done?, writing.begin, value)));
    let closed = KnownBefore::new(closed.collect());
    let judge = |sight: &Sight| -> Option<String> {
        let value = match sight.saw {
            Seen::Garbage(what) => return Some(format!("what nobody has written: {what}")),
            Seen::Value(value) => *value,
        };
        let writing = match writings.of_seen(value, sight.end) {
            Ok(writing) => writing,
            Err(impossible) => return Some(impossible),
        };
        // A write of unknown outcome that a client has seen was carried out before that, but may have been repeated until its own client
        // gave up.
        let carried_out = writing
            .done
            .or_else(|| Some(first_seen(value)?.max(writing.given_up?)))?;
        let (begin, newer) = closed.before(sight.begin)?;
        (carried_out < begin).then(|| {
            format!(
                "{value}, written until {}, although {newer} was written after that, from {}, and closed before",
                seconds(carried_out),
                seconds(begin)
            )
        })
    };
    let broken = sights.iter().filter_map(|sight| {
        let what = judge(sight)?;
        let what = format!("{} saw in register {register} {what}", sight.who);
        Some(match sight.at {
            Some(at) => Violation::at(PROMISE, at, what),
            None => Violation::in_the_end(PROMISE, what),
        })
    });
    broken.collect()
}

/// The contents that clients saw, and those at the end.
fn sights<'e>(register: usize, events: &'e [Event], surveys: &'e [Survey]) -> Vec<Sight<'e>> {
    let read = events.iter().filter_map(|event| match &event.act {
        Act::Read {
            register: which,
            saw: Some(saw),
        }
        | Act::Version {
            register: which,
            saw,
            ..
        } if *which == register => Some(Sight {
            who: format!("client {} at site {}", event.client, event.site),
            begin: event.begin,
            end: event.end,
            saw,
            at: Some(event.begin),
        }),
        _ => None,
    });
    let in_the_end = surveys.iter().filter_map(|survey| {
        Some(Sight {
            who: format!("everybody at site {}", survey.site),
            begin: Time::MAX,
            end: Time::MAX,
            saw: survey.registers.get(register)?.as_ref()?,
            at: None,
        })
    });
    read.chain(in_the_end).collect()
}

#[cfg(test)]
mod tests {
    use super::super::made::{done, refused, unknown};
    use super::*;
    use crate::history::Refusal;

    fn write(site: usize, times: [Time; 2], value: u64) -> Event {
        done(site, times, Act::Write { register: 1, value })
    }

    fn read(site: usize, times: [Time; 2], value: u64) -> Event {
        let saw = Some(Seen::Value(value));
        done(site, times, Act::Read { register: 1, saw })
    }

    fn broken(events: &[Event]) -> usize {
        check(events, &[]).len()
    }

    #[test]
    fn what_was_closed_before_an_open_is_seen() {
        let events = [
            read(1, [1, 2], 0),
            write(0, [10, 20], 7),
            read(1, [21, 22], 7),
            write(1, [30, 40], 8),
            read(0, [41, 42], 8),
        ];
        assert_eq!(check(&events, &[]), []);
    }

    #[test]
    fn an_open_during_a_write_may_see_either_and_change_its_mind() {
        let events = [
            write(0, [10, 100], 7),
            read(1, [20, 21], 7),
            read(2, [30, 31], 0),
            read(1, [101, 102], 7),
        ];
        assert_eq!(check(&events, &[]), []);
    }

    #[test]
    fn writes_at_the_same_time_have_no_order() {
        let events = [
            write(0, [10, 30], 7),
            write(1, [20, 40], 8),
            read(1, [50, 51], 7),
            read(2, [50, 51], 8),
        ];
        assert_eq!(check(&events, &[]), []);
    }

    #[test]
    fn an_open_that_misses_what_was_closed_is_found() {
        let events = [write(0, [10, 20], 7), read(1, [21, 22], 0)];
        let violations = check(&events, &[]);
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].at, Some(21));
        let events = [
            write(0, [10, 20], 7),
            write(0, [30, 40], 8),
            read(1, [41, 42], 7),
        ];
        assert_eq!(broken(&events), 1);
    }

    #[test]
    fn a_write_of_unknown_outcome_may_appear_later_but_not_again() {
        let lost = unknown(write(0, [10, 20], 7));
        let late = [lost.clone(), write(1, [30, 40], 8), read(1, [50, 51], 7)];
        assert_eq!(check(&late, &[]), []);
        let again = [
            lost,
            read(1, [25, 26], 7),
            write(1, [30, 40], 8),
            read(2, [50, 51], 7),
        ];
        assert_eq!(broken(&again), 1);
    }

    #[test]
    fn values_of_nobody_and_of_refused_writes_are_found() {
        assert_eq!(broken(&[read(1, [1, 2], 99)]), 1);
        let full = refused(Refusal::Other("full".to_owned()), write(0, [10, 20], 7));
        assert_eq!(broken(&[full, read(1, [30, 31], 7)]), 1);
        assert_eq!(broken(&[write(0, [10, 20], 7), read(1, [1, 2], 7)]), 1);
        let saw = Some(Seen::Garbage("half".to_owned()));
        assert_eq!(
            broken(&[done(0, [1, 2], Act::Read { register: 1, saw })]),
            1
        );
    }

    #[test]
    fn an_old_value_in_the_end_is_found() {
        let survey = |value| Survey {
            registers: vec![None, Some(Seen::Value(value))],
            ..Survey::default()
        };
        let events = [write(0, [10, 20], 7)];
        assert_eq!(check(&events, &[survey(7)]), []);
        assert_eq!(check(&events, &[survey(7), survey(0)]).len(), 1);
    }
}

//! Change attributes identify contents: while no client writes, a file with the same attribute has the same content.
//!
//! Each open shows the attribute. Reads without a concurrent write must agree with every other such read under the same attribute. A write of
//! unknown outcome may be carried out late, so reads of its value are not judged.
//!
//! What must never enter: which of two contents is right; see `registers`.

use std::collections::BTreeMap;

use super::violation::Violation;
use crate::history::{Act, Event, Seen};

const PROMISE: &str = "one content under a change attribute";

/// Reads of one register under one attribute.
type Versions<'e> = BTreeMap<(usize, u64), Vec<(&'e Event, &'e Seen)>>;

pub(super) fn check(events: &[Event]) -> Vec<Violation> {
    let mut writes: BTreeMap<usize, Vec<(&Event, u64)>> = BTreeMap::new();
    for event in events {
        if let Act::Write { register, value } = event.act {
            writes.entry(register).or_default().push((event, value));
        }
    }
    let mut versions = Versions::new();
    for event in events {
        if let Act::Version {
            register,
            change,
            saw,
        } = &event.act
            && event.is_done()
        {
            let writes = writes.get(register).map_or(&[][..], Vec::as_slice);
            if !is_touched(writes, event) && !is_late(writes, saw) {
                let sights = versions.entry((*register, *change)).or_default();
                sights.push((event, saw));
            }
        }
    }
    let broken = versions.iter().filter_map(|((register, change), sights)| {
        let (first, others) = sights.split_first()?;
        let other = others.iter().find(|other| other.1 != first.1)?;
        let what = format!(
            "register {register} held {:?} and then {:?} under change {change}",
            first.1, other.1
        );
        Some(Violation::at(PROMISE, other.0.begin, what))
    });
    broken.collect()
}

/// Whether a write may have happened meanwhile, as far as that is known.
fn is_touched(writes: &[(&Event, u64)], sight: &Event) -> bool {
    let mut writes = writes.iter();
    writes.any(|(write, _)| write.begin <= sight.end && sight.begin <= write.end)
}

/// Whether a write of unknown outcome may have put the value there at any time.
fn is_late(writes: &[(&Event, u64)], saw: &Seen) -> bool {
    let mut writes = writes.iter();
    writes.any(|(write, value)| {
        *saw == Seen::Value(*value) && !write.is_done() && !write.is_refused()
    })
}

#[cfg(test)]
mod tests {
    use super::super::made::{done, unknown};
    use super::*;
    use crate::history::Time;

    fn version(times: [Time; 2], change: u64, value: u64) -> Event {
        let saw = Seen::Value(value);
        let register = 1;
        done(
            0,
            times,
            Act::Version {
                register,
                change,
                saw,
            },
        )
    }

    fn write(times: [Time; 2], value: u64) -> Event {
        done(1, times, Act::Write { register: 1, value })
    }

    #[test]
    fn other_contents_have_another_attribute_once_nobody_writes() {
        let events = [
            version([1, 2], 5, 0),
            write([10, 20], 7),
            version([12, 15], 5, 7),
            version([21, 22], 6, 7),
            version([23, 24], 6, 7),
        ];
        assert_eq!(check(&events), []);
    }

    #[test]
    fn other_contents_under_the_same_attribute_are_found() {
        let events = [
            version([1, 2], 5, 0),
            write([10, 20], 7),
            version([21, 22], 5, 7),
        ];
        assert_eq!(check(&events).len(), 1);
        let garbage = Event {
            act: Act::Version {
                register: 1,
                change: 5,
                saw: Seen::Garbage("half".to_owned()),
            },
            ..version([31, 32], 5, 0)
        };
        assert_eq!(check(&[version([1, 2], 5, 0), garbage]).len(), 1);
    }

    #[test]
    fn a_write_of_unknown_outcome_may_come_late() {
        let events = [
            unknown(write([1, 2], 7)),
            version([11, 12], 5, 0),
            version([21, 22], 5, 7),
        ];
        assert_eq!(check(&events), []);
    }
}

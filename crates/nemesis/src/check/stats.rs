//! Attributes are not stale for long: a client that only asks for them sees a change within the lease of copies.
//!
//! What must never enter: opens, which see it at once; see `registers`.

use super::violation::Violation;
use super::writings::KnownBefore;
use crate::clients::content::RECORD_SIZE;
use crate::history::{Act, Event, Time};

const PROMISE: &str = "a stat that is repeated sees a change";

/// The longest time for which copies count, by the clock of the server that has them (`docs/operating.md`).
const LEASE_US: Time = 3_400_000;

pub(super) fn check(events: &[Event]) -> Vec<Violation> {
    let logs = events.iter().filter_map(|event| match event.act {
        Act::Stat { log, .. } => Some(log),
        _ => None,
    });
    let logs: std::collections::BTreeSet<usize> = logs.collect();
    logs.into_iter().flat_map(|log| one(log, events)).collect()
}

fn one(log: usize, events: &[Event]) -> Vec<Violation> {
    let appended = events.iter().filter_map(|event| match event.act {
        Act::Append { log: which, number } if which == log && event.is_done() => {
            let size = (number + 1) * RECORD_SIZE;
            Some((event.end + LEASE_US, size, number))
        }
        _ => None,
    });
    let known = KnownBefore::new(appended.collect());
    let broken = events.iter().filter_map(|event| match event.act {
        Act::Stat { log: which, size } if which == log && event.is_done() => {
            let (least, number) = known.before(event.begin)?;
            let what = format!(
                "log {log} had {size} bytes at site {}, long after record {number} was committed",
                event.site
            );
            (size < least).then(|| Violation::at(PROMISE, event.begin, what))
        }
        _ => None,
    });
    broken.collect()
}

#[cfg(test)]
mod tests {
    use super::super::made::{done, unknown};
    use super::*;

    fn append(end: Time, number: u64) -> Event {
        done(0, [end - 1, end], Act::Append { log: 2, number })
    }

    fn stat(begin: Time, records: u64) -> Event {
        let size = records * RECORD_SIZE;
        done(1, [begin, begin + 1], Act::Stat { log: 2, size })
    }

    #[test]
    fn an_old_size_is_in_order_for_the_length_of_a_lease() {
        let events = [
            append(10, 0),
            append(1_000_000, 1),
            stat(3_000_000, 0),
            stat(3_500_000, 1),
            stat(4_500_000, 2),
            unknown(append(5_000_000, 2)),
            stat(9_900_000, 2),
        ];
        assert_eq!(check(&events), []);
    }

    #[test]
    fn an_old_size_after_that_is_found() {
        assert_eq!(check(&[append(10, 0), stat(3_500_000, 0)]).len(), 1);
        let events = [append(10, 0), append(20, 1), stat(3_500_000, 1)];
        assert_eq!(check(&events).len(), 1);
    }
}

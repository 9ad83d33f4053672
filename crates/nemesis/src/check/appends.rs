//! Durability: a record whose COMMIT was answered is there at the end, at every site.
//!
//! What must never enter: records whose outcome is not known.

use std::collections::BTreeMap;

use super::violation::Violation;
use crate::history::{Act, Event};
use crate::survey::Survey;

const PROMISE: &str = "durability";

pub(super) fn check(events: &[Event], surveys: &[Survey]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for survey in surveys {
        let mut missing: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for event in events.iter().filter(|event| event.is_done()) {
            if let Act::Append { log, number } = event.act
                && !survey.has_record(log, number)
            {
                missing.entry(log).or_default().push(number);
            }
        }
        for (log, numbers) in missing {
            let what = format!(
                "log {log} lacks {} committed records at site {}, the first of them {:?}",
                numbers.len(),
                survey.site,
                &numbers[..numbers.len().min(8)]
            );
            violations.push(Violation::in_the_end(PROMISE, what));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::made::{done, unknown};
    use super::*;

    fn append(number: u64) -> Event {
        done(0, [1, 2], Act::Append { log: 2, number })
    }

    fn with(records: &[bool]) -> Survey {
        Survey {
            logs: vec![Vec::new(), Vec::new(), records.to_vec()],
            ..Survey::default()
        }
    }

    #[test]
    fn committed_records_are_there_and_others_may_be() {
        let events = [append(0), unknown(append(1)), append(2)];
        assert_eq!(check(&events, &[with(&[true, false, true])]), []);
        assert_eq!(check(&events, &[with(&[true, true, true])]), []);
    }

    #[test]
    fn a_committed_record_that_is_missing_at_one_site_is_found() {
        let events = [append(0), append(2)];
        let whole = with(&[true, true, true]);
        assert_eq!(
            check(&events, &[whole.clone(), with(&[true, true])]).len(),
            1
        );
        assert_eq!(
            check(&events, &[with(&[false, true, true]), whole]).len(),
            1
        );
    }
}

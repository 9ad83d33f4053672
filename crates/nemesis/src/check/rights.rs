//! Rights that never existed or have ended: a request that begins after the end was answered is not accepted.
//!
//! What must never enter: requests that began before; they may be accepted or refused.

use super::violation::{Violation, seconds};
use crate::history::{Act, Event, Right};

pub(super) fn check(events: &[Event]) -> Vec<Violation> {
    let broken = events.iter().filter_map(|event| match event.act {
        Act::Old {
            right,
            ended,
            served: true,
        } if event.begin > ended => {
            let what = format!(
                "client {} at site {} was served although that ended at {}",
                event.client,
                event.site,
                seconds(ended)
            );
            Some(Violation::at(promise(right), event.begin, what))
        }
        _ => None,
    });
    broken.collect()
}

fn promise(right: Right) -> &'static str {
    match right {
        Right::RemovedThere => "nothing of a removed file is served by a data server",
        Right::Removed => "a removed file is opened nowhere",
        Right::Narrowed => "who has lost a right opens nothing by it",
        Right::Fenced => "a data server serves nothing that was fenced",
        Right::Forged => "a forged handle is worth nothing",
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::done;
    use super::*;

    fn old(right: Right, begin: u64, ended: u64, served: bool) -> Event {
        let act = Act::Old {
            right,
            ended,
            served,
        };
        done(0, [begin, begin + 5], act)
    }

    const ALL: [Right; 5] = [
        Right::RemovedThere,
        Right::Removed,
        Right::Narrowed,
        Right::Fenced,
        Right::Forged,
    ];

    #[test]
    fn what_is_refused_or_began_before_is_in_order() {
        for right in ALL {
            assert_eq!(check(&[old(right, 20, 10, false)]), []);
            assert_eq!(check(&[old(right, 10, 10, true)]), []);
        }
    }

    #[test]
    fn what_is_served_by_any_right_that_has_ended_is_found() {
        let promises: std::collections::BTreeSet<&str> = ALL
            .iter()
            .map(|right| {
                let violations = check(&[old(*right, 20, 10, true)]);
                assert_eq!(violations.len(), 1, "{right:?}");
                violations[0].promise
            })
            .collect();
        assert_eq!(promises.len(), ALL.len());
    }
}

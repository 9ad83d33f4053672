//! Exactly once. For names that no other client uses, no client gets the answer that a name to make already exists, or that a name
//! to rename or remove does not exist.
//!
//! What must never enter: changes that may not have been carried out at all.

use super::violation::Violation;
use crate::history::{Act, Event, Outcome};

const PROMISE: &str = "exactly once";

pub(super) fn check(events: &[Event]) -> Vec<Violation> {
    let broken = events.iter().filter_map(|event| match &event.outcome {
        Outcome::Refused(why) if matches!(event.act, Act::Round { .. }) => Some((event, why)),
        _ => None,
    });
    let violations = broken.map(|(event, why)| {
        let client = event.client;
        let what = format!("client {client} was told about a change of its own: {why}");
        Violation::at(PROMISE, event.end, what)
    });
    violations.collect()
}

#[cfg(test)]
mod tests {
    use super::super::made::{done, refused, unknown};
    use super::*;
    use crate::history::Refusal;

    fn round() -> Event {
        done(1, [1, 2], Act::Round { name: 5 })
    }

    #[test]
    fn rounds_that_were_answered_or_not_are_in_order() {
        let other = refused(Refusal::Exist, done(0, [1, 2], Act::Create { name: 1 }));
        assert_eq!(check(&[round(), unknown(round()), other]), []);
    }

    #[test]
    fn a_refusal_of_a_change_of_ones_own_is_found() {
        let repeated = refused(Refusal::Other("mkdir: File exists".to_owned()), round());
        assert_eq!(check(&[round(), repeated]).len(), 1);
    }
}

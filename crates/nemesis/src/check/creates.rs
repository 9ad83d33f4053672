//! Exclusive creation: of all clients that create one name, exactly one gets the answer that it did.
//!
//! What must never enter: how the winner uses the file.

use std::collections::BTreeMap;

use super::violation::Violation;
use crate::clients::tree::contest_path;
use crate::history::{Act, Event, Outcome, Refusal};
use crate::survey::Survey;

const PROMISE: &str = "exclusive create";

pub(super) fn check(events: &[Event], surveys: &[Survey]) -> Vec<Violation> {
    let mut contests: BTreeMap<u64, Vec<&Event>> = BTreeMap::new();
    for event in events {
        if let Act::Create { name } = event.act {
            contests.entry(name).or_default().push(event);
        }
    }
    contests
        .iter()
        .flat_map(|(&name, attempts)| one(name, attempts, surveys))
        .collect()
}

fn one(name: u64, attempts: &[&Event], surveys: &[Survey]) -> Vec<Violation> {
    let winners: Vec<&&Event> = attempts.iter().filter(|event| event.is_done()).collect();
    let maybe = attempts.iter().filter(|event| !event.is_refused());
    let earliest = maybe.clone().map(|event| event.begin).min();
    let mut violations = Vec::new();
    if let [_, second, ..] = winners[..] {
        let who: Vec<usize> = winners.iter().map(|event| event.client).collect();
        let what = format!("name {name} was created by clients {who:?}");
        violations.push(Violation::at(PROMISE, second.end, what));
    }
    for event in attempts.iter().filter(|event| says_exist(event)) {
        if earliest.is_none_or(|earliest| event.end < earliest) {
            let what = format!(
                "client {} was told that name {name} exists, which nobody had created",
                event.client
            );
            violations.push(Violation::at(PROMISE, event.end, what));
        }
    }
    let path = contest_path(name);
    let maybe = maybe.count();
    for survey in surveys {
        let is_there = survey.objects.contains_key(&path);
        if (!winners.is_empty() && !is_there) || (maybe == 0 && is_there) {
            let there = if is_there { "is" } else { "is not" };
            let what = format!(
                "name {name}, created by {} clients, {there} at site {}",
                winners.len(),
                survey.site
            );
            violations.push(Violation::in_the_end(PROMISE, what));
        }
    }
    violations
}

fn says_exist(event: &Event) -> bool {
    event.outcome == Outcome::Refused(Refusal::Exist)
}

#[cfg(test)]
mod tests {
    use super::super::made::{done, refused, unknown};
    use super::*;
    use crate::history::Time;
    use crate::survey::Object;

    fn create(site: usize, times: [Time; 2]) -> Event {
        done(site, times, Act::Create { name: 5 })
    }

    fn with(names: &[u64]) -> Survey {
        let objects = names
            .iter()
            .map(|&name| (contest_path(name), Object::default()));
        Survey {
            objects: objects.collect(),
            ..Survey::default()
        }
    }

    #[test]
    fn one_winner_is_in_order_and_so_is_one_that_is_not_known() {
        let events = [
            create(0, [1, 5]),
            refused(Refusal::Exist, create(1, [2, 6])),
        ];
        assert_eq!(check(&events, &[with(&[5])]), []);
        let events = [
            unknown(create(0, [1, 5])),
            refused(Refusal::Exist, create(1, [2, 6])),
        ];
        assert_eq!(check(&events, &[with(&[5])]), []);
        assert_eq!(check(&events, &[with(&[])]), []);
    }

    #[test]
    fn two_winners_are_found() {
        assert_eq!(check(&[create(0, [1, 5]), create(1, [2, 6])], &[]).len(), 1);
    }

    #[test]
    fn a_refusal_without_a_creator_is_found() {
        let early = refused(Refusal::Exist, create(1, [1, 2]));
        assert_eq!(check(&[early.clone(), create(0, [3, 5])], &[]).len(), 1);
        assert_eq!(check(&[early], &[]).len(), 1);
    }

    #[test]
    fn a_name_that_is_lost_or_that_nobody_created_is_found() {
        assert_eq!(
            check(&[create(0, [1, 5])], &[with(&[5]), with(&[])]).len(),
            1
        );
        let full = [refused(
            Refusal::Other("full".to_owned()),
            create(0, [1, 5]),
        )];
        assert_eq!(check(&full, &[with(&[])]), []);
        assert_eq!(check(&full, &[with(&[5])]).len(), 1);
    }
}

//! Atomic rename: a replaced name is never missing, its content is never partial, and at one site it never goes back.
//!
//! Another site may learn of a rename a moment later. So each site is judged only by the events at that site. At the
//! end all sites agree on the last value.
//!
//! What must never enter: moves between directories; see `moves`.

use super::violation::Violation;
use super::writings::{KnownBefore, Writings};
use crate::clients::tree::REPLACED_NAMES;
use crate::history::{Act, Event, Outcome, Refusal, Seen, Time};
use crate::survey::Survey;

const PROMISE: &str = "atomic rename";

pub(super) fn check(events: &[Event], surveys: &[Survey]) -> Vec<Violation> {
    (0..REPLACED_NAMES)
        .flat_map(|name| one(name, events, surveys))
        .collect()
}

fn one(name: usize, events: &[Event], surveys: &[Survey]) -> Vec<Violation> {
    let writings = Writings::of(events.iter().filter_map(|event| match event.act {
        Act::Replace { name: which, value } if which == name => Some((event, value)),
        _ => None,
    }));
    let reads: Vec<(&Event, &Option<Seen>)> = events
        .iter()
        .filter_map(|event| match &event.act {
            Act::ReadReplaced { name: which, saw } if *which == name => Some((event, saw)),
            _ => None,
        })
        .collect();
    let mut violations = Vec::new();
    for (event, _) in &reads {
        if event.outcome == Outcome::Refused(Refusal::NoEnt) {
            let what = format!(
                "client {} at site {} did not find name {name}",
                event.client, event.site
            );
            violations.push(Violation::at(PROMISE, event.begin, what));
        }
    }
    let sites = events.iter().map(|event| event.site + 1).max().unwrap_or(0);
    for site in 0..sites {
        let known = known_at(site, name, &writings, events, &reads);
        for (event, saw) in reads.iter().filter(|(event, _)| event.site == site) {
            let Some(saw) = saw else { continue };
            if let Some(what) = judge(&writings, &known, saw, [event.begin, event.end]) {
                let what = format!(
                    "client {} at site {site} saw as name {name} {what}",
                    event.client
                );
                violations.push(Violation::at(PROMISE, event.begin, what));
            }
        }
    }
    let all = writings.0.iter();
    let all = all.filter_map(|(&value, writing)| Some((writing.done?, writing.begin, value)));
    let all = KnownBefore::new(all.collect());
    for survey in surveys {
        let site = survey.site;
        let what = match survey.replaced.get(name) {
            None => continue,
            Some(None) => Some("nothing".to_owned()),
            Some(Some(saw)) => judge(&writings, &all, saw, [Time::MAX, Time::MAX]),
        };
        if let Some(what) = what {
            let what = format!("at site {site} stands as name {name} {what}");
            violations.push(Violation::in_the_end(PROMISE, what));
        }
    }
    violations
}

/// From when on a site knew a value, and when the rename of that value began.
fn known_at(
    site: usize,
    name: usize,
    writings: &Writings,
    events: &[Event],
    reads: &[(&Event, &Option<Seen>)],
) -> KnownBefore {
    let done = events.iter().filter_map(|event| match event.act {
        Act::Replace { name: which, value } if which == name => {
            (event.site == site && event.is_done()).then_some((event.end, event.begin, value))
        }
        _ => None,
    });
    let seen = reads.iter().filter_map(|(event, saw)| match saw {
        Some(Seen::Value(value)) if event.site == site => {
            Some((event.end, writings.0.get(value)?.begin, *value))
        }
        _ => None,
    });
    KnownBefore::new(done.chain(seen).collect())
}

/// The error in a content that was read, if any.
fn judge(
    writings: &Writings,
    known: &KnownBefore,
    saw: &Seen,
    [begin, end]: [Time; 2],
) -> Option<String> {
    let value = match saw {
        Seen::Garbage(what) => return Some(format!("what nobody has written: {what}")),
        Seen::Value(value) => *value,
    };
    let writing = match writings.of_seen(value, end) {
        Ok(writing) => writing,
        Err(impossible) => return Some(impossible),
    };
    let (newer_begin, newer) = known.before(begin)?;
    let is_older = writing.done.is_some_and(|done| done < newer_begin);
    is_older.then(|| format!("{value} again after {newer}"))
}

#[cfg(test)]
mod tests {
    use super::super::made::{done, refused, unknown};
    use super::*;

    fn replace(site: usize, times: [Time; 2], value: u64) -> Event {
        done(site, times, Act::Replace { name: 0, value })
    }

    fn read(site: usize, times: [Time; 2], value: u64) -> Event {
        let saw = Some(Seen::Value(value));
        done(site, times, Act::ReadReplaced { name: 0, saw })
    }

    fn in_the_end(value: u64) -> Survey {
        Survey {
            replaced: vec![Some(Seen::Value(value))],
            ..Survey::default()
        }
    }

    #[test]
    fn another_site_may_learn_of_a_rename_later() {
        let events = [
            replace(0, [10, 20], 7),
            read(0, [21, 22], 7),
            read(1, [21, 22], 0),
            read(1, [30, 31], 7),
        ];
        assert_eq!(check(&events, &[in_the_end(7)]), []);
    }

    #[test]
    fn a_missing_or_torn_name_is_found() {
        let missing = refused(
            Refusal::NoEnt,
            done(1, [1, 2], Act::ReadReplaced { name: 0, saw: None }),
        );
        assert_eq!(check(&[missing], &[]).len(), 1);
        let saw = Some(Seen::Garbage("half".to_owned()));
        let torn = done(1, [1, 2], Act::ReadReplaced { name: 0, saw });
        assert_eq!(check(&[torn], &[]).len(), 1);
        let gone = Survey {
            replaced: vec![None],
            ..Survey::default()
        };
        assert_eq!(check(&[], &[gone]).len(), 1);
    }

    #[test]
    fn a_name_that_goes_back_at_one_site_is_found() {
        let own = [replace(0, [10, 20], 7), read(0, [21, 22], 0)];
        assert_eq!(check(&own, &[]).len(), 1);
        let seen = [
            replace(0, [10, 20], 7),
            read(1, [21, 22], 7),
            read(1, [23, 24], 0),
        ];
        assert_eq!(check(&seen, &[]).len(), 1);
    }

    #[test]
    fn an_old_name_in_the_end_is_found() {
        let events = [replace(0, [10, 20], 7), replace(0, [30, 40], 8)];
        assert_eq!(check(&events, &[in_the_end(8)]), []);
        assert_eq!(check(&events, &[in_the_end(7)]).len(), 1);
        let last_unknown = [replace(0, [10, 20], 7), unknown(replace(0, [30, 40], 8))];
        assert_eq!(check(&last_unknown, &[in_the_end(7)]), []);
        assert_eq!(check(&last_unknown, &[in_the_end(8)]), []);
    }
}

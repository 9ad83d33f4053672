//! Moves between directories: a name never disappears and is never there twice.
//!
//! What must never enter: names that are replaced; see `replaces`.

use super::violation::Violation;
use crate::clients::tree::{TOKENS, token_paths, token_start};
use crate::history::{Act, Event};
use crate::survey::Survey;

const PROMISE: &str = "atomic move";

pub(super) fn check(events: &[Event], surveys: &[Survey]) -> Vec<Violation> {
    surveys
        .iter()
        .flat_map(|survey| (0..TOKENS).filter_map(|token| one(token, events, survey)))
        .collect()
}

/// Checks a token at one site.
fn one(token: usize, events: &[Event], survey: &Survey) -> Option<Violation> {
    let paths = token_paths(token);
    let is_there = |path: &&String| survey.objects.contains_key(*path);
    let found: Vec<&String> = paths.iter().filter(is_there).collect();
    let [only] = found[..] else {
        let what = format!("token {token} is at site {} as {found:?}", survey.site);
        return Some(Violation::in_the_end(PROMISE, what));
    };
    let place = paths.iter().position(|path| path == only)?;
    let (balance, unknown) = balance(token, events);
    let unbalanced = (0..paths.len()).map(|ring| {
        let expected = i64::from(ring == token_start(token)) + balance[ring];
        (expected - i64::from(ring == place)).unsigned_abs()
    });
    // Every move of unknown outcome can account for one arrival and one departure.
    (unbalanced.sum::<u64>() > 2 * unknown).then(|| {
        let what = format!(
            "token {token} is in {only} at site {}, but answered moves in and out leave {balance:?}",
            survey.site
        );
        Violation::in_the_end(PROMISE, what)
    })
}

/// For each directory: arrivals minus departures of the moves answered as done. Also the number of moves of unknown outcome.
fn balance(token: usize, events: &[Event]) -> ([i64; 3], u64) {
    let mut balance = [0; 3];
    let mut unknown = 0;
    for event in events {
        let Act::Move {
            token: which,
            from,
            to,
        } = event.act
        else {
            continue;
        };
        if which != token || event.is_refused() {
            continue;
        }
        match event.is_done() {
            true => {
                balance[from] -= 1;
                balance[to] += 1;
            }
            false => unknown += 1,
        }
    }
    (balance, unknown)
}

#[cfg(test)]
mod tests {
    use super::super::made::{done, refused, unknown};
    use super::*;
    use crate::history::Refusal;
    use crate::survey::Object;

    fn step(from: usize, to: usize) -> Event {
        done(0, [1, 2], Act::Move { token: 0, from, to })
    }

    /// All tokens at their first places, except the first token, which is in these directories.
    fn with(rings: &[usize]) -> Survey {
        let others = (1..TOKENS).map(|token| token_paths(token)[token_start(token)].clone());
        let first = rings.iter().map(|&ring| token_paths(0)[ring].clone());
        Survey {
            objects: others
                .chain(first)
                .map(|path| (path, Object::default()))
                .collect(),
            ..Survey::default()
        }
    }

    #[test]
    fn a_token_is_where_the_moves_have_brought_it() {
        let events = [
            step(0, 1),
            refused(Refusal::NoEnt, step(0, 2)),
            step(1, 2),
            step(2, 1),
        ];
        assert_eq!(check(&events, &[with(&[1])]), []);
        assert_eq!(check(&[unknown(step(0, 1))], &[with(&[0])]), []);
        assert_eq!(check(&[unknown(step(0, 1))], &[with(&[1])]), []);
    }

    #[test]
    fn a_token_that_vanished_or_doubled_is_found() {
        assert_eq!(check(&[step(0, 1)], &[with(&[])]).len(), 1);
        assert_eq!(check(&[step(0, 1)], &[with(&[0, 1])]).len(), 1);
    }

    #[test]
    fn moves_that_cannot_all_have_happened_are_found() {
        assert_eq!(check(&[step(0, 1)], &[with(&[0])]).len(), 1);
        assert_eq!(check(&[step(0, 1), step(0, 2)], &[with(&[1])]).len(), 1);
    }
}

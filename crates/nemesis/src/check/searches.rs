//! While nothing moves, a client that looks for a moving name finds it, in exactly one place.
//!
//! The client looks into one directory after another, so a search during a move is not judged. A move of unknown outcome may be carried
//! out at any later time; after such a move the name is not judged any more.
//!
//! What must never enter: the state at the end; see `moves`.

use super::violation::{Violation, seconds};
use crate::clients::tree::{TOKENS, token_start};
use crate::history::{Act, Event, Time};

const PROMISE: &str = "a name that moves is in one place";

/// Directories between which tokens move.
const RINGS: usize = 3;

pub(super) fn check(events: &[Event]) -> Vec<Violation> {
    let moves: Vec<Vec<&Event>> = (0..TOKENS).map(|token| moves_of(token, events)).collect();
    let broken = events.iter().filter_map(|event| match &event.act {
        Act::Search { token, found } if event.is_done() => {
            let moves = moves.get(*token)?;
            let place = place_of(*token, moves, [event.begin, event.end])?;
            let what = format!(
                "token {token} was found in {found:?} at site {} until {}, and is in {place}",
                event.site,
                seconds(event.end)
            );
            (*found != [place]).then(|| Violation::at(PROMISE, event.begin, what))
        }
        _ => None,
    });
    broken.collect()
}

/// All events that may have moved a token.
fn moves_of(token: usize, events: &[Event]) -> Vec<&Event> {
    let is_one = |event: &&Event| match event.act {
        Act::Move { token: which, .. } => which == token && !event.is_refused(),
        _ => false,
    };
    events.iter().filter(is_one).collect()
}

/// The place of a token during a whole interval; `None` if it cannot be known.
fn place_of(token: usize, moves: &[&Event], [begin, end]: [Time; 2]) -> Option<usize> {
    // Every move answered as done happened once, in any order.
    let mut balance = [0; RINGS];
    balance[token_start(token)] += 1;
    for event in moves.iter().filter(|event| event.begin <= end) {
        let Act::Move { from, to, .. } = event.act else {
            continue;
        };
        if !event.is_done() || event.end >= begin {
            return None;
        }
        *balance.get_mut(from)? -= 1;
        *balance.get_mut(to)? += 1;
    }
    balance.iter().position(|count| *count == 1)
}

#[cfg(test)]
mod tests {
    use super::super::made::{done, refused, unknown};
    use super::*;
    use crate::history::Refusal;

    fn step(times: [Time; 2], from: usize, to: usize) -> Event {
        done(0, times, Act::Move { token: 0, from, to })
    }

    fn search(times: [Time; 2], found: &[usize]) -> Event {
        let found = found.to_vec();
        done(1, times, Act::Search { token: 0, found })
    }

    #[test]
    fn a_token_is_found_where_it_is_and_anywhere_while_it_moves() {
        let events = [
            search([1, 5], &[0]),
            step([10, 20], 0, 1),
            search([12, 15], &[]),
            search([12, 30], &[0, 1]),
            search([21, 30], &[1]),
            refused(Refusal::NoEnt, step([31, 40], 0, 2)),
            search([35, 45], &[1]),
            unknown(step([50, 60], 1, 2)),
            search([70, 75], &[1]),
            search([80, 85], &[2]),
        ];
        assert_eq!(check(&events), []);
    }

    #[test]
    fn a_token_in_two_places_or_none_or_another_is_found() {
        for wrong in [&[][..], &[0], &[0, 1], &[2]] {
            let events = [step([10, 20], 0, 1), search([21, 30], wrong)];
            assert_eq!(check(&events).len(), 1, "{wrong:?}");
        }
    }
}

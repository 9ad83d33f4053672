//! The identity of this data server, and the counters by which homes recognize its contents (rule 5).
//!
//! Each home has its own counter. Otherwise an older copy of the store, which one home has no reason to refuse, could reach the counter
//! that another home remembers, just by the answers of the first home.
//!
//! What must never enter: the contents.

use std::collections::BTreeMap;

use pool::{HomeNumber, StoreIdentity};
use store::Store;

/// The fact with this server's identity (16) and the counter (8) for the first home.
const IDENTITY: &[u8] = b"standing";
/// Key prefix, before the home (2), of the counter (8) for another home.
const COUNTED: &[u8] = b"counted/";

type Row = (Vec<u8>, Option<Vec<u8>>);

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    first: u64,
    others: BTreeMap<HomeNumber, u64>,
}

/// The stored identity and counters. The outer `None`: nothing is stored yet. The inner `None`: the rows are damaged.
#[expect(
    clippy::option_option,
    reason = "nothing there, or nothing that is understood"
)]
pub(crate) fn read(store: &Store) -> vfs::Result<Option<Option<(u128, Counters)>>> {
    let Some((_, row)) = store.facts(IDENTITY)?.pop() else {
        return Ok(None);
    };
    let others = store.facts(COUNTED)?;
    let read = || {
        let (identity, first) = parse_identity(&row)?;
        let others = others.iter();
        let others = others.map(|(key, row)| parse_counter(key, row));
        let others = others.collect::<Option<_>>()?;
        Some((identity, Counters { first, others }))
    };
    Ok(Some(read()))
}

impl Counters {
    /// The server starts. Returns the rows to make stable before the server sends any message.
    pub(crate) fn count_start(&mut self, identity: u128) -> Vec<Row> {
        self.first = StoreIdentity::counted_start(self.first);
        let mut rows = vec![row((identity, HomeNumber::FIRST), self.first)];
        for (home, counter) in &mut self.others {
            *counter = StoreIdentity::counted_start(*counter);
            rows.push(row((identity, *home), *counter));
        }
        rows
    }

    /// The counter to show a home next, given whether the home has answered the last one, and the row to make stable before, if any.
    pub(crate) fn next(
        &self,
        (identity, home): (u128, HomeNumber),
        answered: bool,
    ) -> (u64, Option<Row>) {
        let known = match home {
            HomeNumber::FIRST => Some(self.first),
            home => self.others.get(&home).copied(),
        };
        let next = match known {
            Some(counter) if !answered => return (counter, None),
            Some(counter) => StoreIdentity::counted_answer(counter),
            None => StoreIdentity::counted_start(0),
        };
        (next, Some(row((identity, home), next)))
    }

    /// The counter is stable.
    pub(crate) fn set(&mut self, home: HomeNumber, counter: u64) {
        match home {
            HomeNumber::FIRST => self.first = counter,
            home => drop(self.others.insert(home, counter)),
        }
    }
}

fn row((identity, home): (u128, HomeNumber), counter: u64) -> Row {
    let counter = counter.to_be_bytes();
    match home {
        HomeNumber::FIRST => {
            let row = [&identity.to_be_bytes()[..], &counter].concat();
            (IDENTITY.to_vec(), Some(row))
        }
        home => {
            let key = [COUNTED, &home.0.to_be_bytes()].concat();
            (key, Some(counter.to_vec()))
        }
    }
}

fn parse_identity(row: &[u8]) -> Option<(u128, u64)> {
    let (identity, counter) = row.split_first_chunk()?;
    let counter = counter.try_into().ok()?;
    Some((u128::from_be_bytes(*identity), u64::from_be_bytes(counter)))
}

fn parse_counter(key: &[u8], row: &[u8]) -> Option<(HomeNumber, u64)> {
    let home = key.strip_prefix(COUNTED)?.try_into().ok()?;
    let home = HomeNumber(u16::from_be_bytes(home));
    let counter = u64::from_be_bytes(row.try_into().ok()?);
    (home != HomeNumber::FIRST).then_some((home, counter))
}

pub(crate) fn decode_as_anything(bytes: &[u8]) {
    if let Some((identity, counter)) = parse_identity(bytes) {
        let (_, again) = row((identity, HomeNumber::FIRST), counter);
        assert_eq!(again.as_deref(), Some(bytes));
    }
    if let Some((key, counter)) = bytes.split_at_checked(COUNTED.len() + 2)
        && let Some((home, counter)) = parse_counter(key, counter)
    {
        let again = row((0, home), counter);
        assert_eq!(again.0, key);
        assert_eq!(
            parse_counter(&again.0, &again.1.unwrap_or_default()),
            Some((home, counter))
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_one_home_leave_the_counter_of_another_as_it_is() {
        let (first, other) = (HomeNumber::FIRST, HomeNumber(3));
        let mut counters = Counters::default();
        counters.count_start(7);
        let (shown, row) = counters.next((7, other), false);
        let (key, row) = row.unwrap();
        assert_eq!(parse_counter(&key, &row.unwrap()), Some((other, shown)));
        counters.set(other, shown);
        for _ in 0..3 {
            let (shown, row) = counters.next((7, first), true);
            let (_, row) = row.unwrap();
            assert_eq!(parse_identity(&row.unwrap()), Some((7, shown)));
            counters.set(first, shown);
        }
        assert_eq!(counters.next((7, other), false), (shown, None));
        assert!(counters.next((7, first), false).0 > shown);
        assert_eq!(counters.count_start(7).len(), 2);
        assert!(counters.next((7, other), false).0 > shown);
    }
}

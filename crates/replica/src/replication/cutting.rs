//! How updates of this replica's stream are put into messages.
//!
//! What must never enter: which peers get them (`sending`), and which of them become one record (`shipping` of `state`).

use store::UpdateRecord;

use crate::state::shipping::{bytes_of, merge};
use crate::state::wire::{Note, Record};

/// A message is sent when its records have this many bytes. One record may exceed it: the largest holds an extended attribute.
const MESSAGE_BYTES: usize = 256 << 10;

/// What one message carries: the updates of an interval of positions.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// The position before the interval.
    pub(super) behind: u64,
    /// The last position of the interval, which may have no update.
    pub(super) through: u64,
    pub(super) records: Vec<Record>,
    pub(super) bytes: usize,
}

impl Part {
    fn behind(behind: u64) -> Part {
        Part {
            behind,
            through: behind,
            ..Part::default()
        }
    }

    fn end(&mut self, parts: &mut Vec<Part>) {
        let next = Part::behind(self.through);
        parts.push(std::mem::replace(self, next));
    }
}

/// Cuts the updates between two positions into parts, at least one. Positions have gaps, and a part ends at a gap: another replica may have built on
/// the end of the gap, and the update behind it on what that replica made then. A receiver that learned of both at once would wait for ever
/// (counterexample 74).
pub(super) fn cut(
    updates: Vec<(UpdateRecord, Note)>,
    merging: bool,
    (behind, through): (u64, u64),
) -> Vec<Part> {
    let places: Vec<u64> = updates.iter().map(|(update, _)| update.position).collect();
    let mut firsts = places.into_iter().peekable();
    let (mut parts, mut part) = (Vec::new(), Part::behind(behind));
    for record in merge(updates, merging) {
        let gap = firsts.peek().map_or(part.through, |first| first - 1);
        if gap > part.through {
            part.through = gap;
            part.end(&mut parts);
        }
        while firsts.next_if(|place| *place <= record.position).is_some() {}
        part.through = record.position;
        part.bytes += bytes_of(&record);
        part.records.push(record);
        if part.bytes >= MESSAGE_BYTES {
            part.end(&mut parts);
        }
    }
    part.through = through.max(part.through);
    if part.through > part.behind || parts.is_empty() {
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn update(position: u64, after: u64) -> (UpdateRecord, Note) {
        let update = UpdateRecord {
            position,
            note: Bytes::new(),
            changes: Vec::new(),
        };
        let note = Note {
            after: vec![(2, after)],
            ..Note::default()
        };
        (update, note)
    }

    fn parts(updates: Vec<(UpdateRecord, Note)>, ends: (u64, u64)) -> Vec<(u64, u64, Vec<u64>)> {
        let parts = cut(updates, true, ends).into_iter();
        let positions = |part: &Part| part.records.iter().map(|record| record.position).collect();
        parts
            .map(|part| (part.behind, part.through, positions(&part)))
            .collect()
    }

    /// Replica 2 had been told that this stream is at 8, and then made its seventh update; the update at 9 follows that one.
    #[test]
    fn counterexample_74_a_gap_is_told_before_the_update_behind_it() {
        let updates = vec![update(3, 6), update(4, 6), update(9, 7)];
        let told = [(2, 8, vec![4]), (8, 9, vec![9])];
        assert_eq!(parts(updates, (2, 9)), told);
        let told = [(2, 8, vec![]), (8, 11, vec![9])];
        assert_eq!(parts(vec![update(9, 7)], (2, 11)), told);
    }

    #[test]
    fn all_positions_are_in_a_part() {
        assert_eq!(parts(vec![], (4, 9)), [(4, 9, vec![])]);
        assert_eq!(parts(vec![], (4, 4)), [(4, 4, vec![])]);
        let one_by_one = (1..=3).map(|position| update(position, position)).collect();
        assert_eq!(parts(one_by_one, (0, 3)), [(0, 3, vec![1, 2, 3])]);
    }
}

//! Merges consecutive updates into one record before they are sent.
//!
//! A burst changes the same directory again and again, and writes, renames or removes what it has just made. Of the merged updates only the last
//! state of each row is sent, and the receiver commits them together. Two kinds of updates stay apart: updates under different controls, because each
//! waits at the receiver for its own; and updates between which another replica's update was applied here. The merged record would wait for that
//! update, which may wait for the first part of the record.

use bytes::Bytes;
use control::{ControlName, Proposal};
use store::{MergedRows, UpdateRecord};
use vfs::ObjectId;

use crate::state::wire::{Note, Origin, Record, Row};

/// At most this many updates are merged.
const UPDATES: usize = 64;

/// No update is added to a record that has this many bytes.
const BYTES: usize = 64 << 10;

/// Updates that become one record.
struct Merged {
    updates: usize,
    under: Vec<ControlName>,
    inherited: Vec<Proposal>,
    origins: Vec<Origin>,
    data: Vec<ObjectId>,
    after: Vec<(u16, u64)>,
    rows: MergedRows,
}

/// Merges consecutive updates into as few records as possible, in the same order. With `is_on` false each update becomes its own record, to measure
/// what merging saves.
pub(crate) fn merge(
    updates: impl IntoIterator<Item = (UpdateRecord, Note)>,
    is_on: bool,
) -> Vec<Record> {
    let mut records = Vec::new();
    let mut current: Option<Merged> = None;
    for (update, note) in updates {
        let apart = match &mut current {
            Some(merged) if is_on && merged.may_take(&note) => merged.take(update, &note),
            _ => Some(update),
        };
        if let Some(update) = apart {
            let next = Merged::of(update, note);
            records.extend(current.replace(next).map(Merged::into_record));
        }
    }
    records.extend(current.map(Merged::into_record));
    records
}

/// The variable part of a record's size in bytes, to bound messages and metrics.
pub(crate) fn bytes_of(record: &Record) -> usize {
    let rows = record.rows.iter();
    let rows = rows.map(|row| row.key.len() + row.value.as_ref().map_or(0, Bytes::len) + 8);
    rows.sum::<usize>() + 48
}

impl Merged {
    fn of(update: UpdateRecord, note: Note) -> Merged {
        Merged {
            updates: 1,
            under: note.under,
            inherited: note.inherited.into_iter().collect(),
            origins: note.origin.into_iter().collect(),
            data: note.data.into_iter().collect(),
            after: note.after,
            rows: MergedRows::of(update),
        }
    }

    fn may_take(&self, note: &Note) -> bool {
        self.updates < UPDATES
            && self.rows.bytes() < BYTES
            && self.under == note.under
            && self.after == note.after
    }

    /// Returns the update if it cannot be merged.
    fn take(&mut self, update: UpdateRecord, note: &Note) -> Option<UpdateRecord> {
        let apart = self.rows.try_add(update).err();
        if apart.is_none() {
            self.updates += 1;
            self.inherited.extend(note.inherited.clone());
            self.origins.extend(note.origin);
            self.data
                .extend(note.data.filter(|file| !self.data.contains(file)));
        }
        apart
    }

    fn into_record(self) -> Record {
        Record {
            position: self.rows.position(),
            under: self.under,
            inherited: self.inherited,
            origins: self.origins,
            data: self.data,
            after: self.after,
            rows: self
                .rows
                .into_changes()
                .into_iter()
                .map(Row::from)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::Incarnation;
    use store::RowChange;
    use vfs::ReplicaSlot;

    fn note(number: u64) -> Note {
        let under = ControlName {
            holder: ReplicaSlot(1),
            incarnation: Incarnation(1),
            number,
        };
        Note {
            under: vec![under],
            ..Note::default()
        }
    }

    /// An update of extended attributes, whose rows may change freely.
    fn update(position: u64, rows: &[(&'static str, Option<&'static str>)]) -> UpdateRecord {
        const XATTRS: u8 = 4;
        let changes = rows.iter().map(|(key, value)| RowChange {
            table: XATTRS,
            key: Bytes::from_static(key.as_bytes()),
            value: value.map(|value| Bytes::from_static(value.as_bytes())),
        });
        UpdateRecord {
            position,
            note: Bytes::new(),
            changes: changes.collect(),
        }
    }

    #[test]
    fn of_each_row_the_last_state_travels() {
        let updates = [
            update(3, &[("a", Some("1")), ("b", Some("1"))]),
            update(7, &[("a", Some("2"))]),
            update(9, &[("b", None)]),
        ];
        let merged = merge(updates.map(|update| (update, note(1))), true);
        let [record] = merged.as_slice() else {
            panic!("one record is enough: {merged:?}");
        };
        assert_eq!(record.position, 9);
        let rows = record.rows.iter();
        let rows: Vec<_> = rows
            .map(|row| (&row.key[..], row.value.as_deref()))
            .collect();
        assert_eq!(rows, [(&b"a"[..], Some(&b"2"[..])), (b"b", None)]);
    }

    #[test]
    fn updates_under_different_controls_stay_apart() {
        let updates = [(1, 1), (2, 1), (3, 2), (4, 1)];
        let updates = updates.map(|(position, under)| (update(position, &[]), note(under)));
        let merged = merge(updates, true);
        let positions: Vec<u64> = merged.iter().map(|record| record.position).collect();
        assert_eq!(positions, [2, 3, 4]);
    }

    /// The second update follows an update of another replica, which may follow the first one.
    #[test]
    fn updates_with_another_replicas_between_them_stay_apart() {
        let updates = [(1, 0), (2, 5), (3, 5)].map(|(position, heard)| {
            let note = Note {
                after: vec![(2, heard)],
                ..note(1)
            };
            (update(position, &[]), note)
        });
        let merged = merge(updates, true);
        let order: Vec<_> = merged
            .iter()
            .map(|record| (record.position, record.after[0].1))
            .collect();
        assert_eq!(order, [(1, 0), (3, 5)]);
    }

    #[test]
    fn a_record_stays_small() {
        let many = 1..=2 * UPDATES as u64 + 1;
        let merged = merge(many.map(|position| (update(position, &[]), note(1))), true);
        assert_eq!(merged.len(), 3);
    }

    #[test]
    fn updates_stay_apart_where_merging_is_off() {
        let updates = [1, 2, 5].map(|position| (update(position, &[("a", Some("1"))]), note(1)));
        let records = merge(updates, false);
        let positions: Vec<u64> = records.iter().map(|record| record.position).collect();
        assert_eq!(positions, [1, 2, 5]);
        assert!(records.iter().all(|record| record.rows.len() == 1));
    }
}

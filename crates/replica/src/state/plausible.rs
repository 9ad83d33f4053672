//! Checks of a decoded message of another replica that need nothing but the message.
//!
//! What must never enter: knowledge of the sender or of the copy here, and the consequences of an invalid message.

use vfs::ReplicaSlot;

use crate::state::shipping::{BLOCK_BYTES, BLOCKS_MAX};
use crate::state::wire::{Malformed, PieceHead, Record, Records};

/// No stream gets this far, nor does one message lead this far ahead: a store adds one for each change, and a little for each start.
const PLACES_MAX: u64 = 1 << 62;
const PLACES_AT_ONCE_MAX: u64 = 1 << 40;

impl Records {
    /// Checks what can be checked of another replica's updates by themselves; `maker` is the owner of the stream.
    ///
    /// # Errors
    /// No replica sends such updates.
    pub(crate) fn check(&self, maker: ReplicaSlot) -> Result<(), Malformed> {
        if !self.is_plausible() {
            return Err(Malformed::Meaning("no stream of updates has such places"));
        }
        let controls = |record: &Record| {
            !record.under.is_empty() && record.under.iter().all(|name| name.holder == maker)
        };
        match self.records.iter().all(controls) {
            true => Ok(()),
            // Such controls are never granted, so the stream would wait for ever.
            false => Err(Malformed::Meaning(
                "an update was made under no control of its maker's",
            )),
        }
    }

    /// Whether a stream can have these places. Others would end it for good.
    pub(crate) fn is_plausible(&self) -> bool {
        let mut places = self.records.iter().map(|record| record.position);
        let ascend = places.try_fold(self.behind, |last, place| (place > last).then_some(place));
        ascend.is_some_and(|last| last <= self.through)
            && self.through <= PLACES_MAX
            && self.through - self.behind <= PLACES_AT_ONCE_MAX
    }
}

impl PieceHead {
    /// Checks the stretches, whose bytes are a payload of this length.
    ///
    /// # Errors
    /// No replica sends such a piece.
    pub(crate) fn check(&self, payload: usize) -> Result<(), Malformed> {
        let is_empty = self.stretches.is_empty() && self.sums.is_empty();
        if !self.without.is_empty() && (!is_empty || self.without.len() > view::MEMBERS_MAX) {
            return Err(Malformed::Meaning("a piece has and lacks a file at once"));
        }
        let (mut bytes, mut largest, mut with_bytes) = (0_u64, 0, 0);
        for stretch in &self.stretches {
            let end = stretch.offset.checked_add(stretch.length);
            if end.is_none_or(|end| end > i64::MAX as u64) {
                return Err(Malformed::Meaning("a piece lies where no file reaches"));
            }
            if !stretch.hole {
                bytes = bytes.saturating_add(stretch.length);
                largest = stretch.length.max(largest);
                with_bytes += 1;
            }
        }
        if !self.sums.is_empty() {
            // So that it costs little to check whether they are here.
            let are_blocks = largest <= BLOCK_BYTES && self.stretches.len() as u64 <= BLOCKS_MAX;
            return match are_blocks && with_bytes == self.sums.len() && payload == 0 {
                true => Ok(()),
                false => Err(Malformed::Meaning("a piece has not the sums of its blocks")),
            };
        }
        match bytes == payload as u64 {
            true => Ok(()),
            false => Err(Malformed::Meaning(
                "a piece has not as many bytes as it says",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::lineage::Mac;
    use crate::state::wire::Stretch;

    #[test]
    fn sums_of_anything_but_a_few_blocks_are_refused() {
        let block = |offset, length| Stretch {
            offset,
            length,
            hole: false,
        };
        let hole = Stretch {
            hole: true,
            ..block(1 << 20, 1 << 40)
        };
        let check = |stretches: Vec<Stretch>, sums: usize, payload| {
            let head = PieceHead {
                stretches,
                sums: vec![[7; 32]; sums],
                ..PieceHead::invented()
            };
            head.check(payload).is_ok()
        };
        let blocks = |count: u64| (0..count).map(|n| block(n * BLOCK_BYTES, BLOCK_BYTES));
        assert!(check(blocks(64).collect(), 64, 0));
        assert!(check(blocks(3).chain([hole]).collect(), 3, 0));
        assert!(!check(blocks(65).collect(), 65, 0), "too many");
        assert!(!check(blocks(3).collect(), 2, 0), "too few sums");
        assert!(!check(blocks(3).collect(), 4, 0), "too many sums");
        assert!(!check(vec![hole], 1, 0), "a hole has none");
        assert!(!check(vec![block(0, BLOCK_BYTES + 1)], 1, 0), "too long");
        assert!(!check(vec![block(0, 9)], 1, 9), "bytes as well");
        assert!(!check(vec![block(u64::MAX - 3, 9)], 1, 0), "nowhere");
    }

    #[test]
    fn a_stream_that_nobody_can_have_is_implausible() {
        let record = |place: &u64| Record {
            position: *place,
            ..Record::default()
        };
        let records = |behind, places: &[u64], through| Records {
            behind,
            records: places.iter().map(record).collect(),
            through,
            settlements: 0,
            epoch: 0,
            mac: Mac::invented(),
        };
        assert!(records(7, &[8, 10], 12).is_plausible());
        assert!(records(7, &[], 7).is_plausible());
        assert!(!records(7, &[7], 12).is_plausible());
        assert!(!records(7, &[10, 9], 12).is_plausible());
        assert!(!records(7, &[8, 13], 12).is_plausible());
        assert!(!records(7, &[], 6).is_plausible());
        assert!(!records(7, &[], u64::MAX).is_plausible());
        assert!(!records(u64::MAX - 1, &[], u64::MAX).is_plausible());
    }
}

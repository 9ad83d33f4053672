//! Checksums of contents: which blocks of marked files have been written, and with which sums.
//!
//! Each block of 4 KiB has a CRC-32C over its bytes within the file size, padded with zeros. The sums lie
//! in rows, one for [`BLOCKS_A_GROUP`] blocks. From its first write after a file was marked ([`super::dirty`]) a block
//! is *open*: its sum in the row is void, and its new sum is kept here. Blocks are closed ([`super::closing`]) before
//! the mark is removed. So rows never have to be stable before data: after a crash the sums of marked files are not
//! used, and a block torn by a crash is not mistaken for one that the disk has changed.
//!
//! Blocks that two writers wrote at the same time, and blocks written in part, are read back when they are
//! closed.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vfs::ObjectId;

/// The size of the block that one sum covers.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// Blocks whose sums share a row. The row stays below the length at which rows are split.
pub(crate) const BLOCKS_A_GROUP: u64 = 96;
/// The limit of groups in memory: 24 GiB of blocks, about 30 MB. A file whose groups do not fit loses its sums.
const MOST_GROUPS: usize = 1 << 16;
/// From this many groups on, groups are closed although their files are still being written.
const MANY_GROUPS: usize = MOST_GROUPS / 4;
const ZEROS: [u8; BLOCK_BYTES as usize] = [0; BLOCK_BYTES as usize];

/// The sum of a block is unknown.
pub(crate) const UNKNOWN: u32 = 0;

/// No writer has this number.
const NOBODY: u64 = 0;

/// The sum of a block, or of its beginning followed by zeros.
pub(crate) fn sum_of(block: &[u8]) -> u32 {
    let sum = crc32c::crc32c(block);
    let rest = &ZEROS[block.len().min(ZEROS.len())..];
    let sum = match rest.is_empty() {
        true => sum,
        false => crc32c::crc32c_append(sum, rest),
    };
    // The value `UNKNOWN` is reserved.
    if sum == UNKNOWN { 1 } else { sum }
}

/// The group of a block, and its index in the group.
pub(crate) fn place_of(block: u64) -> (u64, usize) {
    // Invariant: the index is below 96.
    (block / BLOCKS_A_GROUP, (block % BLOCKS_A_GROUP) as usize)
}

/// Open blocks of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Open {
    /// By index in the group; only as long as was ever needed.
    pub(crate) sums: Vec<u32>,
    /// The indexes that are open.
    pub(crate) places: u128,
    /// Changes with every event in the group.
    stamp: u64,
}

impl Open {
    pub(crate) fn is_open(&self, place: usize) -> bool {
        self.places & (1 << place) != 0
    }

    fn set(&mut self, place: usize, sum: u32) {
        if self.sums.len() <= place {
            self.sums.resize(place + 1, UNKNOWN);
        }
        self.sums[place] = sum;
        self.places |= 1 << place;
    }
}

/// A writer that has begun and not ended.
#[derive(Debug)]
struct UnderWay {
    number: u64,
    blocks: RangeInclusive<u64>,
    /// Another writer wrote some of these blocks at the same time.
    clashed: bool,
}

#[derive(Debug, Default)]
struct File {
    groups: BTreeMap<u64, Open>,
    under_way: Vec<UnderWay>,
    /// Groups of this file had to be dropped: all blocks count as open, and no row is valid.
    overflowed: bool,
}

#[derive(Debug, Default)]
struct State {
    files: HashMap<ObjectId, File>,
    /// The number of groups of all files.
    groups: usize,
    /// The last number used for a stamp or a writer.
    last: u64,
}

/// The open blocks of all files.
#[derive(Debug)]
pub(crate) struct OpenSums {
    state: Mutex<State>,
    are_made: bool,
}

/// One writer. If it is dropped without a call of `written`, its blocks are read back.
#[derive(Debug)]
pub(super) struct Entry<'s> {
    sums: &'s OpenSums,
    id: ObjectId,
    number: u64,
    /// The last block was not open before.
    pub(super) last_is_new: bool,
}

impl OpenSums {
    /// Without checksums, no block is ever open.
    pub(crate) fn new(are_made: bool) -> OpenSums {
        OpenSums {
            state: Mutex::default(),
            are_made,
        }
    }

    /// Whether the store computes checksums of contents.
    pub(crate) fn are_made(&self) -> bool {
        self.are_made
    }

    /// Opens the blocks that a task is about to write.
    pub(super) fn begin(&self, id: ObjectId, blocks: RangeInclusive<u64>) -> Entry<'_> {
        if !self.are_made {
            return self.entry(id, NOBODY, false);
        }
        let mut state = self.state();
        let last_is_new = !state.is_open(id, *blocks.end());
        state.open(id, blocks.clone());
        let number = state.enter(id, blocks);
        self.entry(id, number, last_is_new)
    }

    /// Registers a task that will change these blocks in another way than by a write. While this is held, none of them is
    /// closed. Afterwards none is closed with bytes that were read before.
    pub(super) fn hold(&self, id: ObjectId, blocks: RangeInclusive<u64>) -> Entry<'_> {
        let number = match self.are_made {
            true => self.state().enter(id, blocks),
            false => NOBODY,
        };
        self.entry(id, number, false)
    }

    fn entry(&self, id: ObjectId, number: u64, last_is_new: bool) -> Entry<'_> {
        Entry {
            sums: self,
            id,
            number,
            last_is_new,
        }
    }

    /// Opens blocks for a task that holds the file exclusively and changes them: they are read back.
    pub(super) fn open(&self, id: ObjectId, blocks: RangeInclusive<u64>) {
        if self.are_made {
            self.state().open(id, blocks);
        }
    }

    /// Opens the last block of a file that became shorter.
    pub(super) fn open_end(&self, id: ObjectId, size: u64) {
        if !size.is_multiple_of(BLOCK_BYTES) {
            self.open(id, size / BLOCK_BYTES..=size / BLOCK_BYTES);
        }
    }

    /// Forgets open groups from `from` up to and excluding `to`, for a task that holds the file exclusively and removes them.
    pub(super) fn drop_groups(&self, id: ObjectId, from: u64, to: u64) {
        let mut state = self.state();
        if let Some(file) = state.files.get_mut(&id) {
            let before = file.groups.len();
            file.groups.retain(|group, _| *group < from || *group >= to);
            let gone = before - file.groups.len();
            state.groups -= gone;
            state.forget_if_closed(id);
        }
    }

    /// Whether the sum of a block in its row is void.
    pub(super) fn is_open(&self, id: ObjectId, block: u64) -> bool {
        self.state().is_open(id, block)
    }

    /// At most `count` open groups of a file, starting at `from`, that no task is writing now.
    pub(super) fn at_rest(&self, id: ObjectId, from: u64, count: usize) -> Vec<(u64, Open)> {
        let state = self.state();
        let Some(file) = state.files.get(&id).filter(|file| !file.overflowed) else {
            return Vec::new();
        };
        let is_written = |group: u64| {
            let (first, last) = (group * BLOCKS_A_GROUP, (group + 1) * BLOCKS_A_GROUP - 1);
            let meets = |one: &UnderWay| *one.blocks.start() <= last && first <= *one.blocks.end();
            file.under_way.iter().any(meets)
        };
        let groups = file
            .groups
            .range(from..)
            .filter(|(group, _)| !is_written(**group));
        groups
            .take(count)
            .map(|(group, open)| (*group, open.clone()))
            .collect()
    }

    /// Whether a group has not changed since it was in this state.
    pub(super) fn is_still(&self, id: ObjectId, group: u64, open: &Open) -> bool {
        let state = self.state();
        let now = state
            .files
            .get(&id)
            .and_then(|file| file.groups.get(&group));
        now.is_some_and(|now| now.stamp == open.stamp)
    }

    /// Closes a group whose sums are in rows now, unless the group has changed since.
    pub(super) fn close(&self, id: ObjectId, group: u64, open: &Open) {
        let mut state = self.state();
        let Some(file) = state.files.get_mut(&id) else {
            return;
        };
        if file
            .groups
            .get(&group)
            .is_some_and(|now| now.stamp == open.stamp)
        {
            file.groups.remove(&group);
            state.groups -= 1;
            state.forget_if_closed(id);
        }
    }

    /// The number of open groups of a file.
    pub(super) fn count(&self, id: ObjectId) -> usize {
        let state = self.state();
        state.files.get(&id).map_or(0, |file| file.groups.len())
    }

    /// Whether a file had too many open groups to remember them all.
    pub(super) fn has_overflowed(&self, id: ObjectId) -> bool {
        self.state()
            .files
            .get(&id)
            .is_some_and(|file| file.overflowed)
    }

    /// Files whose blocks should be closed although they are still being written, because too many groups are open.
    pub(crate) fn crowded(&self) -> Vec<ObjectId> {
        let state = self.state();
        match state.groups >= MANY_GROUPS {
            true => state.files.keys().copied().collect(),
            false => Vec::new(),
        }
    }

    /// All files with open blocks.
    pub(crate) fn files(&self) -> Vec<ObjectId> {
        self.state().files.keys().copied().collect()
    }

    /// Forgets a file that is gone, or whose rows are void and that has no writers.
    pub(crate) fn forget(&self, id: ObjectId) {
        let mut state = self.state();
        if let Some(file) = state.files.remove(&id) {
            state.groups -= file.groups.len();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_open(&self, id: ObjectId, block: u64) -> bool {
        let (group, place) = place_of(block);
        self.files.get(&id).is_some_and(|file| {
            file.overflowed
                || file
                    .groups
                    .get(&group)
                    .is_some_and(|open| open.is_open(place))
        })
    }

    /// Removes a file from memory if it has no open groups and no writers.
    fn forget_if_closed(&mut self, id: ObjectId) {
        let is_closed =
            |file: &File| file.groups.is_empty() && file.under_way.is_empty() && !file.overflowed;
        if self.files.get(&id).is_some_and(is_closed) {
            self.files.remove(&id);
        }
    }

    /// Notes a writer. Returns its number.
    fn enter(&mut self, id: ObjectId, blocks: RangeInclusive<u64>) -> u64 {
        self.last += 1;
        let number = self.last;
        let file = self.files.entry(id).or_default();
        let mut clashed = false;
        for other in &mut file.under_way {
            let apart = other.blocks.end() < blocks.start() || blocks.end() < other.blocks.start();
            if !apart {
                other.clashed = true;
                clashed = true;
            }
        }
        file.under_way.push(UnderWay {
            number,
            blocks,
            clashed,
        });
        number
    }

    fn open(&mut self, id: ObjectId, blocks: RangeInclusive<u64>) {
        let file = self.files.entry(id).or_default();
        if file.overflowed {
            return;
        }
        self.last += 1;
        let (first, last) = (place_of(*blocks.start()).0, place_of(*blocks.end()).0);
        let wanted = (last - first) as usize + 1;
        if self.groups + wanted > MOST_GROUPS {
            self.groups -= file.groups.len();
            file.groups.clear();
            file.overflowed = true;
            return;
        }
        for block in blocks {
            let (group, place) = place_of(block);
            let open = match file.groups.entry(group) {
                std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
                std::collections::btree_map::Entry::Vacant(vacant) => {
                    self.groups += 1;
                    vacant.insert(Open::default())
                }
            };
            open.set(place, UNKNOWN);
            open.stamp = self.last;
        }
    }
}

impl Entry<'_> {
    /// Ends the write: the bytes are there, and blocks from `from` on have these sums.
    pub(super) fn written(self, from: u64, sums: &[u32]) {
        let mut state = self.sums.state();
        state.last += 1;
        let stamp = state.last;
        let Some(file) = state.files.get_mut(&self.id) else {
            return;
        };
        let own = file.under_way.iter().find(|one| one.number == self.number);
        if own.is_none_or(|own| own.clashed) || file.overflowed {
            return;
        }
        for (block, sum) in (from..).zip(sums) {
            let (group, place) = place_of(block);
            if let Some(open) = file.groups.get_mut(&group) {
                open.set(place, *sum);
                open.stamp = stamp;
            }
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut state = self.sums.state();
        state.last += 1;
        let stamp = state.last;
        let Some(file) = state.files.get_mut(&self.id) else {
            return;
        };
        let Some(at) = file
            .under_way
            .iter()
            .position(|one| one.number == self.number)
        else {
            return;
        };
        let ended = file.under_way.swap_remove(at);
        let (first, last) = (
            place_of(*ended.blocks.start()).0,
            place_of(*ended.blocks.end()).0,
        );
        for (_, open) in file.groups.range_mut(first..=last) {
            open.stamp = stamp;
        }
        state.forget_if_closed(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: ObjectId = ObjectId::from_u64(7);

    fn known(sums: &OpenSums, block: u64) -> Option<u32> {
        let (group, place) = place_of(block);
        let found = sums.at_rest(FILE, group, 1);
        let (_, open) = found.first().filter(|(number, _)| *number == group)?;
        open.is_open(place).then(|| open.sums[place])
    }

    #[test]
    fn what_was_written_is_known_and_what_was_written_twice_at_once_is_not() {
        let sums = OpenSums::new(true);
        let one = sums.begin(FILE, 1..=3);
        one.written(2, &[5, 6]);
        assert_eq!(
            [1, 2, 3, 4].map(|block| known(&sums, block)),
            [Some(0), Some(5), Some(6), None]
        );
        let (one, two) = (sums.begin(FILE, 90..=100), sums.begin(FILE, 100..=101));
        assert!(sums.at_rest(FILE, 0, 9).is_empty(), "somebody writes there");
        two.written(100, &[7, 7]);
        one.written(90, &[8; 11]);
        assert_eq!(
            [90, 100, 101].map(|block| known(&sums, block)),
            [Some(0); 3]
        );
    }

    #[test]
    fn a_group_is_closed_only_as_it_was_seen() {
        let sums = OpenSums::new(true);
        sums.begin(FILE, 0..=0).written(0, &[5]);
        let seen = sums.at_rest(FILE, 0, 9);
        assert!(sums.is_still(FILE, 0, &seen[0].1));
        drop(sums.begin(FILE, 1..=1));
        assert!(!sums.is_still(FILE, 0, &seen[0].1));
        sums.close(FILE, 0, &seen[0].1);
        assert!(sums.is_open(FILE, 0));
        let seen = sums.at_rest(FILE, 0, 9);
        sums.close(FILE, 0, &seen[0].1);
        assert!(!sums.is_open(FILE, 0) && sums.files().is_empty());
        assert_eq!(sums.state().groups, 0);
    }

    /// A task read back a block and closed it after a hole was punched there.
    #[test]
    fn what_was_read_back_before_a_hole_was_made_is_not_believed_after_it() {
        let sums = OpenSums::new(true);
        sums.begin(FILE, 0..=200).written(0, &[5; 201]);
        let seen = sums.at_rest(FILE, 0, 9);
        assert_eq!(seen.len(), 3);
        let hole = sums.hold(FILE, 90..=100);
        sums.open(FILE, 90..=90);
        let groups =
            |found: &[(u64, Open)]| found.iter().map(|(group, _)| *group).collect::<Vec<_>>();
        assert_eq!(groups(&sums.at_rest(FILE, 0, 9)), [2], "it is being made");
        drop(hole);
        let still = |(group, open): &(u64, Open)| sums.is_still(FILE, *group, open);
        assert_eq!(
            seen.iter().map(still).collect::<Vec<_>>(),
            [false, false, true]
        );
        assert_eq!(groups(&sums.at_rest(FILE, 0, 9)), [0, 1, 2]);
    }

    #[test]
    fn memory_is_bounded_and_what_is_forgotten_counts_as_open() {
        let sums = OpenSums::new(true);
        let many = MOST_GROUPS as u64 * BLOCKS_A_GROUP;
        drop(sums.begin(FILE, 0..=many + 1));
        assert!(sums.has_overflowed(FILE) && sums.is_open(FILE, many * 2));
        assert_eq!(sums.state().groups, 0);
        sums.forget(FILE);
        assert!(sums.files().is_empty());
    }

    #[test]
    fn a_short_block_has_the_sum_of_one_with_zeros_behind() {
        let mut block = vec![3; 100];
        let short = sum_of(&block);
        block.resize(BLOCK_BYTES as usize, 0);
        assert_eq!(sum_of(&block), short);
        assert_ne!(sum_of(&[]), UNKNOWN);
    }
}

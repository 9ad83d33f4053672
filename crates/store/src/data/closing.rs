//! Checksums in rows: closes open blocks, removes sums together with the data they cover, and computes missing
//! sums.

use std::ops::{Range, RangeInclusive};
use std::thread;
use std::time::Duration;

use fields::Fields;
use vfs::{Error, ObjectId, Result, SeekTarget};

use super::contents::{Holey, Stored};
use super::sums::{BLOCK_BYTES, BLOCKS_A_GROUP, Open, UNKNOWN, place_of, sum_of};
use crate::committer::Ticket;
use crate::malformed::Malformed;
use crate::metadata::Table;
use crate::mutation::Mutation;
use crate::open_store::OpenStore;
use crate::rows::key;

const VERSION: u8 = 1;
/// The key of the row in [`Table::System`] that exists while checksums are off.
const UNMADE_KEY: &[u8] = b"no sums";
/// Groups closed in one batch.
const GROUPS_A_BATCH: usize = 64;

/// The pause between two groups whose sums are computed again: about 190 MB a second.
const BETWEEN: Duration = Duration::from_millis(2);

/// The row of a group that is to be closed.
pub(crate) struct Closing {
    id: ObjectId,
    group: u64,
    open: Open,
    sums: Vec<u32>,
}

impl OpenStore {
    /// The sums of a group in its row; blocks past its end have none.
    pub(super) fn noted_sums(&self, id: ObjectId, group: u64) -> Result<Vec<u32>> {
        let row = self.metadata.row(Table::Sums, &key::kept(id, group))?;
        Ok(row.map_or(Ok(Vec::new()), |row| decode(&row))?)
    }

    /// Closes all groups of a file except at most [`GROUPS_A_BATCH`], and returns these: they are closed in the batch that removes the mark.
    pub(crate) fn close_most(&self, id: ObjectId) -> Result<Vec<Closing>> {
        let mut from = 0;
        loop {
            let closing = self.prepare_closing(id, from)?;
            match closing.last() {
                Some(last) if closing.len() == GROUPS_A_BATCH => from = last.group + 1,
                _ => return Ok(closing),
            }
            let mut mutation = self.begin_blocking()?;
            self.put_sums(&mut mutation, closing);
            mutation.commit_local()?;
        }
    }

    /// Closes all groups of a file that no task is writing now; its mark stays.
    pub(crate) fn close_whole(&self, id: ObjectId) -> Result<()> {
        let last = self.close_most(id)?;
        let mut mutation = self.begin_blocking()?;
        self.put_sums(&mut mutation, last);
        mutation.commit_local().map(|_| ())
    }

    fn prepare_closing(&self, id: ObjectId, from: u64) -> Result<Vec<Closing>> {
        if self.voided.contains(id) {
            // Old rows have to be removed first.
            return Ok(Vec::new());
        }
        let resting = self.open_sums.at_rest(id, from, GROUPS_A_BATCH);
        // The order matters: by now any earlier writer has put the file's length into the row, and an operation that cut the file since then
        // has opened the last block.
        let is_written = self.dirty.has_writers(id);
        let Ok(row) = self.object(id) else {
            return Ok(Vec::new());
        };
        let is_stored = row.file().is_ok_and(|file| file.stored);
        let mut closing = Vec::new();
        for (group, open) in resting {
            let end = (group + 1) * BLOCKS_A_GROUP * BLOCK_BYTES;
            if is_written && (!is_stored || end > row.size) {
                // There may be bytes that the row does not cover yet.
                continue;
            }
            let mut sums = self.noted_sums(id, group)?;
            for place in (0..BLOCKS_A_GROUP as usize).filter(|place| open.is_open(*place)) {
                let block = group * BLOCKS_A_GROUP + place as u64;
                let known = open.sums.get(place).copied().unwrap_or(UNKNOWN);
                let sum = match known {
                    UNKNOWN => self.read_back(id, block, row.size)?,
                    known if (block + 1) * BLOCK_BYTES <= row.size => known,
                    _ if block * BLOCK_BYTES >= row.size => UNKNOWN,
                    known if self.dirty.tail_is_clean(id) => known,
                    // A failed write has left more bytes than the row covers.
                    _ => self.read_back(id, block, row.size)?,
                };
                set(&mut sums, place, sum);
            }
            closing.push(Closing {
                id,
                group,
                open,
                sums,
            });
        }
        Ok(closing)
    }

    /// The sum of a recently written block, read from the data file.
    fn read_back(&self, id: ObjectId, block: u64, size: u64) -> Result<u32> {
        let start = block * BLOCK_BYTES;
        let length = size.saturating_sub(start).min(BLOCK_BYTES) as usize;
        if length == 0 {
            return Ok(UNKNOWN);
        }
        let mut bytes = [0; BLOCK_BYTES as usize];
        match self.content_of(id)?.read(&mut bytes[..length], start) {
            Err(Error::Delay) => Err(Error::Delay),
            // The next reader gets the error.
            Err(_) => Ok(UNKNOWN),
            Ok(_) => Ok(sum_of(&bytes[..length])),
        }
    }

    /// Adds the rows of those groups that were not written meanwhile to a batch; returns whether these are all.
    fn put_sums(&self, mutation: &mut Mutation<'_>, closing: Vec<Closing>) -> bool {
        let mut all = true;
        for Closing {
            id,
            group,
            open,
            sums,
        } in closing
        {
            if self.open_sums.is_still(id, group, &open) {
                put_row(mutation, id, group, &sums);
                mutation.then(move |store, _| store.open_sums.close(id, group, &open));
            } else {
                all = false;
            }
        }
        all
    }

    /// Closes the last groups of a file before its mark is removed. Returns whether the mark may be removed.
    pub(crate) fn close_last(
        &self,
        mutation: &mut Mutation<'_>,
        id: ObjectId,
        closing: Vec<Closing>,
    ) -> bool {
        if self.open_sums.has_overflowed(id) {
            self.void_sums(mutation, id);
            self.open_sums.forget(id);
            return true;
        }
        let all = closing.len() == self.open_sums.count(id);
        self.put_sums(mutation, closing) && all
    }

    /// From this batch on, all rows of sums of a file are void. The rows are removed later.
    pub(crate) fn void_sums(&self, mutation: &mut Mutation<'_>, id: ObjectId) {
        mutation.mark(Table::Voided, id);
        self.voided.add(id);
    }

    /// Writes without checksums leave the old rows in place, so these are voided when checksums are turned on again.
    pub(crate) fn settle_sums(&self) -> Result<()> {
        let are_made = self.open_sums.are_made();
        let were_made = self.metadata.row(Table::System, UNMADE_KEY)?.is_none();
        if are_made == were_made {
            return Ok(());
        }
        if are_made {
            self.void_all_sums()?;
        }
        let mut mutation = self.begin_blocking()?;
        match are_made {
            true => mutation.remove_local(Table::System, UNMADE_KEY),
            false => mutation.put_local(Table::System, UNMADE_KEY, b""),
        }
        mutation.commit_local().map(|_| ())
    }

    fn void_all_sums(&self) -> Result<()> {
        let mut from = Vec::new();
        loop {
            let mut found = Vec::new();
            while found.len() < GROUPS_A_BATCH {
                let view = self.metadata.view();
                let Some(row) = view.scan(Table::Sums, &[], &from).next().transpose()? else {
                    break;
                };
                let id = ObjectId::from_u64(key::parse_number(row.key())?);
                found.push(id);
                from = key::number(id.as_u64().saturating_add(1)).to_vec();
            }
            if found.is_empty() {
                return Ok(());
            }
            let mut mutation = self.begin_blocking()?;
            found
                .into_iter()
                .for_each(|id| self.void_sums(&mut mutation, id));
            mutation.commit_local()?;
        }
    }

    /// Whether any row has sums of a file's blocks.
    pub(crate) fn has_sums(&self, id: ObjectId) -> Result<bool> {
        let view = self.metadata.view();
        let first = view.scan(Table::Sums, &key::object(id), &[]).next();
        Ok(first.transpose()?.is_some())
    }

    /// Removes the void rows of sums of a file.
    pub(crate) fn clear_voided(&self, id: ObjectId) -> Result<()> {
        self.remove_sums(id, 0, u64::MAX)?;
        let mut mutation = self.begin_blocking()?;
        mutation.unmark(Table::Voided, id);
        mutation.then(move |store, _| store.voided.forget(id));
        mutation.commit_local().map(|_| ())
    }

    /// Removes the rows of groups from `from` up to and excluding `to`.
    pub(crate) fn remove_sums(&self, id: ObjectId, from: u64, to: u64) -> Result<Ticket> {
        loop {
            let keys: Vec<Vec<u8>> = {
                let view = self.metadata.view();
                let rows = view.scan(Table::Sums, &key::object(id), &key::kept(id, from));
                let keys = rows.map(|row| Ok(row?.key().to_vec())).take(GROUPS_A_BATCH);
                keys.collect::<Result<_>>()?
            };
            let doomed: Vec<_> = (keys.iter())
                .filter(|found| found[..] < key::kept(id, to)[..])
                .collect();
            if doomed.is_empty() {
                return Ok(self.commits.committed());
            }
            let mut mutation = self.begin_blocking()?;
            for key in doomed {
                mutation.remove_local(Table::Sums, key);
            }
            mutation.commit_local()?;
        }
    }

    /// Makes a hole in a marked file. The caller holds the file exclusively.
    pub(super) fn punch(&self, id: ObjectId, range: Range<u64>) -> Result<Stored> {
        let content = self.content_of(id)?;
        if content.is_elsewhere() {
            return content.punch(range);
        }
        let blocks = range.start / BLOCK_BYTES..=range.end.saturating_sub(1) / BLOCK_BYTES;
        // Until the hole exists, no task may close its blocks with the old bytes.
        let _held = self.open_sums.hold(id, blocks);
        self.forget_sums(id, range.start, range.end)?;
        content.punch(range)
    }

    /// Called before a byte range of a marked file becomes zeros; the caller holds the file exclusively. Removes the sums of whole groups inside
    /// the range, and opens the blocks in the groups at its edges so that they are read back.
    pub(super) fn forget_sums(&self, id: ObjectId, from: u64, to: u64) -> Result<()> {
        if from >= to || !self.open_sums.are_made() || self.is_elsewhere(id)? {
            return Ok(());
        }
        let (first, last) = (from / BLOCK_BYTES, (to - 1) / BLOCK_BYTES);
        let (first_group, last_group) = (first / BLOCKS_A_GROUP, last / BLOCKS_A_GROUP);
        let end = |group: u64| (group + 1) * BLOCKS_A_GROUP - 1;
        self.open_sums.open(id, first..=last.min(end(first_group)));
        if last_group == first_group {
            return Ok(());
        }
        // Past the end of a file there is nothing to read back.
        let whole = if to == u64::MAX { u64::MAX } else { last_group };
        self.open_sums.drop_groups(id, first_group + 1, whole);
        self.remove_sums(id, first_group + 1, whole)?;
        if whole == last_group {
            self.open_sums.open(id, last_group * BLOCKS_A_GROUP..=last);
        }
        Ok(())
    }

    /// Computes missing sums from the contents. `may_note` says whether no task has written since;
    /// it is called while no task can change rows.
    pub(crate) fn make_missing_sums(
        &self,
        id: ObjectId,
        content: &dyn Holey,
        size: u64,
        may_note: impl Fn() -> bool,
    ) -> Result<()> {
        let blocks = size.div_ceil(BLOCK_BYTES);
        let mut block = 0;
        while block < blocks && !self.voided.contains(id) {
            let Some(data) = content.seek(block * BLOCK_BYTES, SeekTarget::Data)? else {
                return Ok(());
            };
            let (group, _) = place_of(block.max(data / BLOCK_BYTES));
            let all = group * BLOCKS_A_GROUP..=(group + 1) * BLOCKS_A_GROUP - 1;
            block = *all.end() + 1;
            let before = self.noted_sums(id, group)?;
            let sums = missing_in(content, size, all, before.clone())?;
            if sums == before {
                continue;
            }
            let mut mutation = self.begin_blocking()?;
            // Neither writers nor the closing store wait for a large file.
            if !may_note() || self.is_closing() {
                return Ok(());
            }
            put_row(&mut mutation, id, group, &sums);
            mutation.commit_local()?;
            thread::sleep(BETWEEN);
        }
        Ok(())
    }
}

/// The sums of a group, completed for blocks that have no sum and are not holes.
fn missing_in(
    content: &dyn Holey,
    size: u64,
    blocks: RangeInclusive<u64>,
    mut sums: Vec<u32>,
) -> Result<Vec<u32>> {
    let mut bytes = [0; BLOCK_BYTES as usize];
    for block in blocks {
        let (_, place) = place_of(block);
        let start = block * BLOCK_BYTES;
        let length = size.saturating_sub(start).min(BLOCK_BYTES) as usize;
        if length == 0 || sums.get(place).is_some_and(|sum| *sum != UNKNOWN) {
            continue;
        }
        let count = content.read(&mut bytes[..length], start)?;
        if bytes[..count].iter().any(|byte| *byte != 0) {
            set(&mut sums, place, sum_of(&bytes[..count]));
        }
    }
    Ok(sums)
}

fn set(sums: &mut Vec<u32>, place: usize, sum: u32) {
    if sums.len() <= place {
        sums.resize(place + 1, UNKNOWN);
    }
    sums[place] = sum;
}

fn put_row(mutation: &mut Mutation<'_>, id: ObjectId, group: u64, sums: &[u32]) {
    let used = sums.iter().rposition(|sum| *sum != UNKNOWN);
    match used {
        None => mutation.remove_local(Table::Sums, &key::kept(id, group)),
        Some(last) => {
            let row: Vec<u8> = std::iter::once(VERSION)
                .chain(sums[..=last].iter().flat_map(|sum| sum.to_be_bytes()))
                .collect();
            mutation.put_local(Table::Sums, &key::kept(id, group), &row);
        }
    }
}

pub(super) fn decode(row: &[u8]) -> std::result::Result<Vec<u32>, Malformed> {
    let mut fields = Fields::new(row);
    if fields.u8()? != VERSION {
        return Err(Malformed("the version of checksums is unknown"));
    }
    let rest = fields.rest();
    if !rest.len().is_multiple_of(4) || rest.len() as u64 > 4 * BLOCKS_A_GROUP {
        return Err(Malformed("a row of checksums has the wrong length"));
    }
    let number = |sum: &[u8]| sum.iter().fold(0, |all, byte| all << 8 | u32::from(*byte));
    Ok(rest.chunks_exact(4).map(number).collect())
}

//! Reserving storage and punching holes.

use std::ops::Range;
use std::sync::Arc;

use vfs::{AccessCheck, Error, Extent, ObjectId, OwnedAccessCheck, Result};

use super::MAX_FILE_BYTES;
use super::contents::{Need, Stored};
use crate::open_store::{OpenStore, blocking};
use crate::operation::Operation;
use crate::space::{Demand, ROW_BYTES};

/// What to do with an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Reserve,
    Punch,
}

impl Operation {
    /// [`vfs::FileSystem::allocate`].
    pub(crate) async fn allocate(
        &self,
        check: AccessCheck<'_>,
        id: ObjectId,
        extent: Extent,
    ) -> Result<()> {
        self.change_extent(check, id, extent, Change::Reserve).await
    }

    /// [`vfs::FileSystem::deallocate`].
    pub(crate) async fn deallocate(
        &self,
        check: AccessCheck<'_>,
        id: ObjectId,
        extent: Extent,
    ) -> Result<()> {
        self.change_extent(check, id, extent, Change::Punch).await
    }

    async fn change_extent(
        &self,
        check: AccessCheck<'_>,
        id: ObjectId,
        extent: Extent,
        change: Change,
    ) -> Result<()> {
        if extent.length == 0 {
            return Err(Error::Invalid("an extent of no bytes"));
        }
        let access = OwnedAccessCheck::from(check);
        let change_alone =
            move |operation: Operation| operation.change_extent_alone(access, id, extent, change);
        self.change_data(id, change_alone).await
    }

    async fn change_extent_alone(
        self,
        access: OwnedAccessCheck,
        id: ObjectId,
        extent: Extent,
        change: Change,
    ) -> Result<()> {
        let alone = self.guards.exclude(id).await;
        let row = self.object(id)?;
        self.check_write(&access, id, &row)?;
        let end = extent
            .offset
            .checked_add(extent.length)
            .ok_or(Error::TooLarge)?;
        // A hole must not extend the file, and without a data file everything is a hole already.
        let end = if change == Change::Punch {
            end.min(row.size)
        } else {
            end
        };
        if end > MAX_FILE_BYTES {
            return Err(Error::TooLarge);
        }
        let demand = match change {
            // Reserving allocates space in sparse files; contents elsewhere cannot promise any.
            Change::Reserve if row.placement().is_some() => return Err(Error::NotSupported),
            Change::Reserve => Demand::Space(extent.length.saturating_add(ROW_BYTES)),
            Change::Punch => Demand::Removal,
        };
        let _admission = self.admit(demand)?;
        if change == Change::Reserve {
            self.admit_contents(&row)?;
        }
        let (_writing, tail_clean) = self.begin_writing(id).await?;
        if !tail_clean {
            self.cut_tail(&alone, id, row.size).await?;
        }
        let needed = change == Change::Reserve || (row.file()?.stored && extent.offset < end);
        if needed && change == Change::Punch {
            self.check_hole(id, extent.offset..end, row.size).await?;
        }
        let result = match needed {
            true => {
                let range = extent.offset..end;
                self.carry_out(id, range, change, Need::of(row.file()?.stored))
                    .await
            }
            false => Ok(Stored {
                exists: false,
                space_used: row.space_used,
                made: false,
            }),
        };
        let result = result.inspect_err(|_| self.dirty.set_tail_clean(id, false))?;
        self.dirty.changed(id, result.made);
        self.stabilise(id).await?;
        let end = if change == Change::Reserve { end } else { 0 };
        let ticket = self.record_write(&access.who, id, end, result).await?;
        self.settle(ticket).await
    }
}

impl OpenStore {
    /// Refuses a hole that covers part of a block that the disk has changed.
    pub(super) async fn check_hole(
        self: &Arc<Self>,
        id: ObjectId,
        hole: Range<u64>,
        size: u64,
    ) -> Result<()> {
        match hole.end < size {
            true => self.check_split(id, &[hole.start, hole.end]).await,
            // Nothing lies behind its end.
            false => self.check_split(id, &[hole.start]).await,
        }
    }

    async fn carry_out(
        self: &Arc<Self>,
        id: ObjectId,
        range: Range<u64>,
        change: Change,
        need: Need,
    ) -> Result<Stored> {
        let store = Arc::clone(self);
        blocking(move || match change {
            Change::Reserve => store.content_to_change(id)?.reserve(range, need),
            Change::Punch => store.punch(id, range),
        })
        .await
    }
}

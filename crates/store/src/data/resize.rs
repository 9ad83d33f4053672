//! Setting a file's size.
//!
//! Growing changes only the row: the new part is a hole. Shrinking first makes the row
//! stable and then cuts the data file. In the other order, a crash could lose the row
//! when the bytes are gone already.

use std::sync::Arc;

use vfs::{Attributes, Error, ObjectId, OwnedAccessCheck, Result, SetAttributes};

use super::{MAX_FILE_BYTES, Origin, remove_rows};
use crate::commit_hook::Change;
use crate::metadata::Table;
use crate::mutation::{Mutation, Touch};
use crate::open_store::{OpenStore, blocking};
use crate::operation::Operation;
use crate::replication::Fate;
use crate::requests::Begun;
use crate::rows::Effect;
use crate::space::{Demand, ROW_BYTES};

/// Why a file gets another size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Asked,
    /// It is abandoned, and gets its version before.
    Adopted,
}

impl Operation {
    /// Sets the size, and the other attributes of the same request.
    pub(crate) async fn resize(
        self,
        access: OwnedAccessCheck,
        id: ObjectId,
        set: SetAttributes,
        size: u64,
        reason: Reason,
    ) -> Result<Attributes> {
        let alone = self.guards.exclude(id).await;
        let before = self.object(id)?;
        check_resizable(&before, size)?;
        let shrinks = size < before.size;
        if !self.tail_is_clean(id, &before) {
            self.cut_tail(&alone, id, before.size).await?;
        }
        if size > before.size {
            self.settle_cut(id).await?;
        }
        if shrinks && size > 0 {
            // This change removes the kept writes, so their data has to be stable.
            self.stabilise(id).await?;
            self.check_split(id, &[size]).await?;
        }
        let demand = if size <= before.size {
            Demand::Removal
        } else {
            Demand::Space(ROW_BYTES)
        };
        let Begun::New(mut mutation) = self.begin_once(&access.who, demand).await? else {
            return Ok(self.object(id)?.attributes(id));
        };
        if reason == Reason::Adopted {
            self.adopted(&mut mutation, id, Fate::Before(size))?;
        }
        self.check_write(&access, id, mutation.object(id)?)?;
        let shape = Change::Data(mutation.touched(id)?);
        self.apply_attributes(&mut mutation, &access.who, id, &set)?;
        let kept = self.dirty.kept(id);
        let cuts = shrinks && mutation.object(id)?.file()?.stored;
        self.put_size(&mut mutation, &access, id, &set, size)?;
        if cuts {
            remove_rows(&mut mutation, id, &kept);
            self.mark_cut(&mut mutation, id, Origin::default());
        }
        if size == 0 && self.damaged.contains(id) {
            // The damaged bytes are gone, and new ones are correct.
            mutation.unmark(Table::Damaged, id);
            mutation.then(move |store, _| store.damaged.forget(id));
        }
        let attributes = mutation.object(id)?.attributes(id);
        mutation.change_data(id);
        mutation.note_effect(&access.who, Effect::Set, Some(id))?;
        let ticket = mutation.commit(&shape)?;
        if cuts {
            let elsewhere = self.is_elsewhere(id)?;
            if elsewhere {
                // The cut may take long; the mark stays until it is done.
                self.dirty.set_tail_clean(id, false);
            }
            self.dirty.drop_kept(id, &kept);
            self.commits.wait(ticket, &self.health).await?;
            let store = Arc::clone(&self.store);
            blocking(move || {
                store.forget_sums(id, size, u64::MAX)?;
                if !store.cut_contents(id, size)? && size == 0 {
                    // The contents were lost; empty contents lack nothing.
                    store.content_to_change(id)?.make()?;
                    store.dirty.changed(id, true);
                }
                Ok(())
            })
            .await
            .inspect_err(|_| self.dirty.set_tail_clean(id, false))?;
            if elsewhere {
                self.dirty.set_tail_clean(id, true);
            }
        }
        self.settle(ticket).await?;
        Ok(attributes)
    }
}

impl OpenStore {
    /// Enters the size. Times and mode of the same request stay as requested.
    fn put_size(
        &self,
        mutation: &mut Mutation<'_>,
        access: &OwnedAccessCheck,
        id: ObjectId,
        set: &SetAttributes,
        size: u64,
    ) -> Result<()> {
        let touch = match set.modified {
            Some(_) => Touch::Attributes,
            None => Touch::Content,
        };
        mutation.touch(id, touch)?;
        let row = mutation.object_mut(id)?;
        row.size = size;
        // An upper bound in whole blocks, until the file is written again.
        row.space_used = row.space_used.min(size.div_ceil(4096) * 4096);
        if !access.who.is_root() && set.mode.is_none() {
            let member = access.who.is_member(row.group);
            row.mode = crate::ownership::strip_set_id(row.mode, member);
        }
        Ok(())
    }

    /// Marks a file that is cut: bytes behind the size may survive a crash, and the mark tells recovery to look for them.
    pub(crate) fn mark_cut(&self, mutation: &mut Mutation<'_>, id: ObjectId, origin: Origin) {
        let marked = self.dirty.contains(id);
        let elsewhere = mutation
            .object(id)
            .is_ok_and(|row| row.placement().is_some());
        let origin = Origin {
            elsewhere,
            ..origin
        };
        match (marked, origin.foreign) {
            (true, _) => {}
            (false, true) => mutation.mark_foreign(Table::Dirty, id),
            (false, false) => {
                if self.mark_own(mutation, id).is_err() {
                    mutation.mark_dirty(id, false);
                }
            }
        }
        mutation.then(move |store, ticket| {
            if !marked {
                store.dirty.mark(id, ticket, origin, 0);
            }
            store.dirty.changed(id, false);
            // From here on the sum of the last block covers fewer bytes.
            let row = store.object(id).ok();
            if row.as_ref().is_none_or(|row| row.placement().is_none()) {
                let size = row.map_or(0, |row| row.size);
                store.open_sums.open_end(id, size);
            }
        });
    }
}

/// Only regular files have a size to set, up to a limit.
fn check_resizable(row: &crate::rows::ObjectRow, size: u64) -> Result<()> {
    match row.file() {
        Ok(_) if size > MAX_FILE_BYTES => Err(Error::TooLarge),
        Ok(_) => Ok(()),
        Err(Error::IsDirectory) => Err(Error::IsDirectory),
        Err(_) => Err(Error::Invalid("only regular files have a size to set")),
    }
}

//! Reading and changing attributes.

use vfs::Error;
use vfs::{
    AccessCheck, Attributes, Credentials, ObjectId, OwnedAccessCheck, Result, SetAttributes,
    SetTime, Timestamp,
};

use crate::clock::later_than;
use crate::commit_hook::Change;
use crate::data::Reason;
use crate::metadata::Table;
use crate::mutation::{Mutation, Touch};
use crate::open_store::OpenStore;
use crate::operation::Operation;
use crate::ownership::{check_change, mode_after};
use crate::requests::Begun;
use crate::rows::{Content, Effect, ObjectRow, key};
use crate::space::Demand;

/// The maximum age of an access time while an object is read all the time, as with `relatime`.
const ACCESS_AGE_SECONDS: i64 = 24 * 60 * 60;

impl OpenStore {
    /// The current row of an object, or [`Error::Stale`].
    pub(crate) fn object(&self, id: ObjectId) -> Result<ObjectRow> {
        self.health.check()?;
        let row = self
            .metadata
            .row(Table::Objects, &key::object(id))?
            .ok_or(Error::Stale)?;
        Ok(ObjectRow::decode(&row)?)
    }
}

impl Operation {
    /// [`vfs::FileSystem::set_attributes`].
    pub(crate) async fn set_attributes(
        &self,
        check: AccessCheck<'_>,
        id: ObjectId,
        set: &SetAttributes,
    ) -> Result<Attributes> {
        if let Some(size) = set.size {
            let (access, set) = (OwnedAccessCheck::from(check), set.clone());
            let resize =
                move |operation: Operation| operation.resize(access, id, set, size, Reason::Asked);
            return self.change_data(id, resize).await;
        }
        if set.is_empty() {
            return Ok(self.object(id)?.attributes(id));
        }
        let who = check.credentials();
        let Begun::New(mut mutation) = self.begin_once(who, Demand::Change).await? else {
            return Ok(self.object(id)?.attributes(id));
        };
        let shape = Change::Object(mutation.touched(id)?);
        self.apply_attributes(&mut mutation, who, id, set)?;
        mutation.touch(id, Touch::Attributes)?;
        mutation.note_effect(who, Effect::Set, Some(id))?;
        let attributes = mutation.object(id)?.attributes(id);
        let ticket = mutation.commit(&shape)?;
        self.settle(ticket).await?;
        Ok(attributes)
    }
}

impl OpenStore {
    /// Checks and changes attributes other than the size. The caller touches the object.
    pub(crate) fn apply_attributes(
        &self,
        mutation: &mut Mutation<'_>,
        who: &Credentials,
        id: ObjectId,
        set: &SetAttributes,
    ) -> Result<()> {
        let now = mutation.object(id)?.attributes(id);
        check_change(who, &now, set)?;
        check_times(set)?;
        let is_symlink = matches!(mutation.object(id)?.content, Content::Symlink(_));
        if is_symlink && set.mode.is_some() {
            // On Linux symbolic links have no mode of their own.
            return Err(Error::NotSupported);
        }
        let before = mutation.object(id)?.clone();
        let time = mutation.time_of(&before);
        let row = mutation.object_mut(id)?;
        row.forget_verifier();
        if !is_symlink {
            row.mode = mode_after(who, &now, set);
        }
        row.owner = set.owner.unwrap_or(row.owner);
        row.group = set.group.unwrap_or(row.group);
        row.created = set.created.unwrap_or(row.created);
        row.accessed = chosen_time(set.accessed, time, row.accessed);
        row.modified = chosen_time(set.modified, time, row.modified);
        Ok(())
    }

    /// Updates the access time of an object, if it is old or the object has changed since. Makes no new
    /// version and does not wait: if another task is changing rows, the next read does this.
    pub(crate) fn note_access(&self, id: ObjectId, row: &ObjectRow) -> Result<()> {
        let now = self.clock.now();
        if !access_is_due(row, now) {
            return Ok(());
        }
        // On a full disk an access time matters less than a removal.
        let Ok(_admission) = self.admit(Demand::Change) else {
            return Ok(());
        };
        let Some(mut mutation) = self.begin_if_idle()? else {
            return Ok(());
        };
        let Ok(row) = mutation.object(id) else {
            return Ok(());
        };
        let mut row = row.clone();
        row.accessed = later_than(row.changed.max(row.accessed), now);
        mutation.put_time_of_read(id, &row);
        mutation.commit_local().map(|_| ())
    }
}

fn access_is_due(row: &ObjectRow, now: Timestamp) -> bool {
    row.accessed <= row.modified
        || row.accessed <= row.changed
        || now.seconds.saturating_sub(row.accessed.seconds) >= ACCESS_AGE_SECONDS
}

pub(crate) fn chosen_time(set: Option<SetTime>, now: Timestamp, old: Timestamp) -> Timestamp {
    match set {
        None => old,
        Some(SetTime::Now) => now,
        Some(SetTime::To(time)) => time,
    }
}

/// Refuses times that cannot be stored and read again.
pub(crate) fn check_times(set: &SetAttributes) -> Result<()> {
    let given = |time: Option<SetTime>| match time {
        Some(SetTime::To(time)) => Some(time),
        _ => None,
    };
    let times = [given(set.accessed), given(set.modified), set.created];
    let bad = |time: &Timestamp| time.nanoseconds >= 1_000_000_000;
    if times.iter().flatten().any(bad) {
        return Err(Error::Invalid("a time with a whole second of nanoseconds"));
    }
    Ok(())
}

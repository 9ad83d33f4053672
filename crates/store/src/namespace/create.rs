//! Creating objects.

use bytes::Bytes;
use vfs::permission::{MODE_MASK, SET_GROUP_ID};
use vfs::{
    ChangeAttribute, Created, Creation, Credentials, DirectoryChange, Error, Name, NewObject,
    ObjectId, ObjectKind, Result, SetAttributes, Timestamp,
};

use super::lookup::object_in;
use super::{check_changeable, searchable};
use crate::attributes::{check_times, chosen_time};
use crate::commit_hook::Change;
use crate::data::{MAX_FILE_BYTES, Origin};
use crate::metadata::Table;
use crate::mutation::{Mutation, Touch};
use crate::open_store::OpenStore;
use crate::operation::Operation;
use crate::ownership::settable_mode;
use crate::requests::Begun;
use crate::rows::{Content, DirectoryContent, Effect, FileContent, Lies, ObjectRow};
use crate::space::{Demand, ROW_BYTES};

/// The longest target of a symbolic link, as on Linux.
const MAX_TARGET_BYTES: usize = 4095;

impl Operation {
    /// [`vfs::FileSystem::create`].
    pub(crate) async fn create(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        new: NewObject,
        set: &SetAttributes,
    ) -> Result<Created> {
        check_times(set)?;
        if let Some(effect) = self.earlier_of(who).await? {
            return self.made_before(effect);
        }
        // An existing object can be opened on a full disk, and while other tasks change rows.
        if let Some(found) = self.find_existing(who, directory, name, &new)? {
            return Ok(found);
        }
        let mutation = match self.begin_once(who, Demand::Space(ROW_BYTES)).await? {
            Begun::New(mutation) => mutation,
            Begun::Done(effect) => return self.made_before(effect),
        };
        let (created, ticket) = self.create_in(mutation, who, directory, name, new, set)?;
        self.settle(ticket).await?;
        Ok(created)
    }

    fn create_in(
        &self,
        mut mutation: Mutation<'_>,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        new: NewObject,
        set: &SetAttributes,
    ) -> Result<(Created, crate::committer::Ticket)> {
        let parent = mutation.object(directory)?.clone();
        let parent_attributes = searchable(who, directory, &parent)?;
        if let Some(id) = mutation.find(directory, name)? {
            // Another task created it while this one waited for the lock.
            let created = take_existing(parent.change, id, mutation.object(id)?, &new)?;
            return Ok((created, mutation.commit_local()?));
        }
        check_changeable(who, &parent_attributes)?;
        let time = mutation.time_of(&parent);
        let elsewhere = new.elsewhere();
        let mut row = new_row(who, directory, &parent, new, set, time)?;
        let is_file = row.file().is_ok();
        let id = match elsewhere {
            Some(id) if id.slot() == self.slot || self.object(id).is_ok() => {
                return Err(Error::Invalid("an object that lies elsewhere lies here"));
            }
            Some(id) => id,
            None => mutation.new_id()?,
        };
        if let Ok(file) = row.file_mut() {
            file.placement = self.place_for(id);
        }
        let is_placed = row.placement().is_some();
        mutation.insert_object(id, row)?;
        mutation.add_name(directory, name, id)?;
        if is_file {
            // It is about to be written, and the mark must exist before.
            mutation.mark(Table::Dirty, id);
            let origin = Origin {
                born_marked: true,
                foreign: false,
                elsewhere: is_placed,
            };
            mutation.then(move |store, ticket| store.dirty.mark(id, ticket, origin, 0));
        }
        let shape = Change::Create {
            parent: directory,
            made: mutation.touched(id)?,
        };
        let directory = mutation.touch(directory, Touch::Content)?;
        let attributes = mutation.object(id)?.attributes(id);
        if is_file && attributes.size > 0 {
            mutation.change_data(id);
        }
        let effect = Effect::Made {
            object: id,
            directory,
        };
        mutation.note_effect(who, effect, None)?;
        let ticket = mutation.commit(&shape)?;
        Ok((
            Created {
                attributes,
                directory,
                made: true,
            },
            ticket,
        ))
    }
}

impl OpenStore {
    fn find_existing(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        new: &NewObject,
    ) -> Result<Option<Created>> {
        self.health.check()?;
        self.metadata.consistent(|view| {
            let parent = object_in(view, directory)?.ok_or(Error::Stale)?;
            searchable(who, directory, &parent)?;
            let Some((id, row)) = self.find_in(view, directory, name)? else {
                return Ok(None);
            };
            take_existing(parent.change, id, &row, new).map(Some)
        })
    }
}

/// Takes an existing object, if it may stand for the one to be created.
fn take_existing(
    directory: ChangeAttribute,
    id: ObjectId,
    row: &ObjectRow,
    new: &NewObject,
) -> Result<Created> {
    match new {
        NewObject::File(Creation::Unchecked) => {
            row.file()?;
        }
        NewObject::File(Creation::Exclusive(verifier)) => {
            if row.file().ok().and_then(|file| file.verifier) != Some(*verifier) {
                return Err(Error::Exists);
            }
        }
        NewObject::File(Creation::Guarded)
        | NewObject::Plain(_)
        | NewObject::Symlink(_)
        | NewObject::DirectoryElsewhere(_) => {
            return Err(Error::Exists);
        }
    }
    Ok(Created {
        attributes: row.attributes(id),
        directory: DirectoryChange {
            before: directory,
            after: directory,
        },
        made: false,
    })
}

/// The row of a new object without its version.
fn new_row(
    who: &Credentials,
    directory: ObjectId,
    parent: &ObjectRow,
    new: NewObject,
    set: &SetAttributes,
    now: Timestamp,
) -> Result<ObjectRow> {
    let verifier = match &new {
        NewObject::File(Creation::Exclusive(verifier)) => Some(*verifier),
        _ => None,
    };
    let (content, default_mode) = match new {
        NewObject::File(_) => (
            Content::File(FileContent {
                verifier,
                ..FileContent::default()
            }),
            0o600,
        ),
        NewObject::Symlink(target) => (Content::Symlink(checked_target(target)?), 0o777),
        NewObject::Plain(kind) => (plain_content(who, directory, kind)?, 0o700),
        NewObject::DirectoryElsewhere(_) => (empty_directory(directory, Lies::Elsewhere), 0o700),
    };
    let inherited = parent.mode & SET_GROUP_ID != 0;
    let group = if inherited { parent.group } else { who.group };
    let (owner, group) = checked_owner(who, set, group)?;
    let wanted = match content {
        Content::Symlink(_) => default_mode,
        _ => set.mode.unwrap_or(default_mode),
    };
    let mut mode = settable_mode(who, group, wanted);
    if inherited && matches!(content, Content::Directory(_)) {
        mode |= SET_GROUP_ID;
    }
    let size = match (set.size, &content) {
        (Some(size), Content::File(_)) if size > MAX_FILE_BYTES => return Err(Error::TooLarge),
        (Some(size), Content::File(_)) => size,
        (Some(_), _) => return Err(Error::Invalid("only regular files have a size to set")),
        (None, _) => 0,
    };
    Ok(ObjectRow {
        mode: mode & MODE_MASK,
        links: 1,
        owner,
        group,
        size,
        space_used: 0,
        change: ChangeAttribute(0),
        accessed: chosen_time(set.accessed, now, now),
        modified: chosen_time(set.modified, now, now),
        changed: now,
        created: set.created.unwrap_or(now),
        xattr_bytes: 0,
        content,
    })
}

fn checked_target(target: Bytes) -> Result<Bytes> {
    if target.is_empty() || target.contains(&0) {
        return Err(Error::Invalid(
            "a link target is not empty and holds no NUL byte",
        ));
    }
    if target.len() > MAX_TARGET_BYTES {
        return Err(Error::Name(vfs::NameError::TooLong));
    }
    Ok(target)
}

fn plain_content(who: &Credentials, directory: ObjectId, kind: ObjectKind) -> Result<Content> {
    Ok(match kind {
        ObjectKind::Directory => empty_directory(directory, Lies::Here),
        ObjectKind::Fifo => Content::Fifo,
        ObjectKind::Socket => Content::Socket,
        // As on Linux, only the superuser may create devices.
        ObjectKind::CharacterDevice { .. } | ObjectKind::BlockDevice { .. } if !who.is_root() => {
            return Err(Error::NotPermitted);
        }
        ObjectKind::CharacterDevice { major, minor } => Content::CharacterDevice { major, minor },
        ObjectKind::BlockDevice { major, minor } => Content::BlockDevice { major, minor },
        ObjectKind::File | ObjectKind::Symlink => {
            return Err(Error::Invalid(
                "files and symbolic links need more than a kind",
            ));
        }
    })
}

fn empty_directory(parent: ObjectId, lies: Lies) -> Content {
    Content::Directory(DirectoryContent {
        parent,
        entries: 0,
        subdirectories: 0,
        lies,
    })
}

/// The owner and group of a new object; only the superuser may give objects to other users.
fn checked_owner(who: &Credentials, set: &SetAttributes, group: u32) -> Result<(u32, u32)> {
    let owner = set.owner.unwrap_or(who.user);
    let wanted_group = set.group.unwrap_or(group);
    let own = owner == who.user && (wanted_group == group || who.is_member(wanted_group));
    if own || who.is_root() {
        Ok((owner, wanted_group))
    } else {
        Err(Error::NotPermitted)
    }
}

//! Operations handed to the replica that controls their objects, and their answers.
//!
//! A forwarded operation goes one hop: the receiver carries it out with the client's credentials, or answers that it is not primary. Nothing is
//! decided here.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use vfs::{
    Attributes, ByteRange, ChangeAttribute, Commitment, Cookie, Created, Credentials,
    DirectoryChange, DirectoryPage, Error, Extent, FileSystem, LockConflict, LockKind, LockOwner,
    Name, NewObject, ObjectId, OpenOwner, OwnedAccessCheck, ReadData, ReplicaSlot, RequestId,
    Result, SeekTarget, SetAttributes, Share, Stability, Written, XattrMode, XattrName, XattrPage,
};

use crate::state::wire::Origin;

/// One operation of [`FileSystem`], or a question between replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Operation {
    Attributes(ObjectId),
    SetAttributes(OwnedAccessCheck, ObjectId, SetAttributes),
    Lookup(Credentials, ObjectId, Name),
    Parent(Credentials, ObjectId),
    ReadDirectory(Credentials, ObjectId, Cookie, u32),
    Create(Credentials, ObjectId, Name, NewObject, SetAttributes),
    Remove(Credentials, ObjectId, Name),
    Rename(Credentials, (ObjectId, Name), (ObjectId, Name)),
    Link(Credentials, ObjectId, ObjectId, Name),
    ReadLink(Credentials, ObjectId),
    Open(OwnedAccessCheck, ObjectId, OpenOwner, Share),
    Downgrade(ObjectId, OpenOwner, Share),
    Close(ObjectId, OpenOwner),
    Lock(ObjectId, LockOwner, ByteRange, LockKind),
    TestLock(ObjectId, LockOwner, ByteRange, LockKind),
    Unlock(ObjectId, LockOwner, ByteRange),
    HoldsLock(ObjectId, LockOwner),
    Read(OwnedAccessCheck, ObjectId, u64, u32),
    Write(OwnedAccessCheck, ObjectId, u64, Bytes, Stability),
    Commit(ObjectId, u64, u32),
    Seek(OwnedAccessCheck, ObjectId, u64, SeekTarget),
    Allocate(OwnedAccessCheck, ObjectId, Extent),
    Deallocate(OwnedAccessCheck, ObjectId, Extent),
    Xattr(Credentials, ObjectId, XattrName),
    SetXattr(Credentials, ObjectId, XattrName, Bytes, XattrMode),
    RemoveXattr(Credentials, ObjectId, XattrName),
    Xattrs(Credentials, ObjectId, u64, u32),
    /// Asks whether the close of this written file may be answered (rule 19).
    Settle(ObjectId),
    /// A read by a replica whose copy lacks only what the primary sends.
    Fetch(OwnedAccessCheck, ObjectId, u64, u32),
    HoldsDenial(ObjectId, OpenOwner),
}

impl Operation {
    /// The object that decides about an operation that must not be carried out twice, because the second run would meet the effect of the first.
    /// `None` for operations that may be repeated.
    pub(crate) fn repeated_on(&self) -> Option<ObjectId> {
        match self {
            Operation::Create(_, object, ..)
            | Operation::Remove(_, object, _)
            | Operation::Rename(_, (object, _), _)
            | Operation::Link(_, _, object, _)
            | Operation::SetXattr(_, object, ..)
            | Operation::RemoveXattr(_, object, _) => Some(*object),
            // Guarded: a second run would find other attributes than the client expects.
            Operation::SetAttributes(by, object, _) if by.who.request.is_some() => Some(*object),
            _ => None,
        }
    }

    /// The file whose content or size it changes, or makes stable.
    pub(crate) fn changes_file(&self) -> Option<ObjectId> {
        match self {
            Operation::Write(_, file, ..)
            | Operation::Commit(file, ..)
            | Operation::Allocate(_, file, _)
            | Operation::Deallocate(_, file, _)
            | Operation::SetAttributes(_, file, _) => Some(*file),
            _ => None,
        }
    }

    /// The name of the client's request, if it asks for a change that must not be made twice.
    pub(crate) fn request(&mut self) -> Option<&mut RequestId> {
        let who = match self {
            Operation::Create(who, ..)
            | Operation::Remove(who, ..)
            | Operation::Rename(who, ..)
            | Operation::Link(who, ..)
            | Operation::SetXattr(who, ..)
            | Operation::RemoveXattr(who, ..) => who,
            Operation::SetAttributes(warrant, ..) => &mut warrant.who,
            _ => return None,
        };
        who.request.as_mut()
    }

    /// Whether the request or the answer may be too large for the control lane.
    pub(crate) fn is_bulky(&self) -> bool {
        match self {
            Operation::Write(_, _, _, data, _) | Operation::SetXattr(_, _, _, data, _) => {
                data.len() > 16 << 10
            }
            Operation::Read(_, _, _, count) | Operation::Fetch(_, _, _, count) => *count > 16 << 10,
            Operation::ReadDirectory(..) | Operation::Xattr(..) | Operation::Xattrs(..) => true,
            _ => false,
        }
    }
}

/// An operation on its way to the primary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Forwarded {
    pub(crate) origin: Origin,
    pub(crate) operation: Operation,
    /// The sender knows that the file was removed, and changes its own copy in the same way.
    pub(crate) removed: bool,
}

/// The object of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) attributes: Attributes,
    /// The replica whose copy says so, if as far as it knows no other replica decides about the object.
    pub(crate) vouched_by: Option<ReplicaSlot>,
}

/// What an operation returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Value {
    Nothing,
    Attributes(Attributes),
    Found(Found),
    /// With a version of the directory that is as new as the entries, or newer.
    Page(DirectoryPage, ChangeAttribute),
    Created(Created),
    Change(DirectoryChange),
    Changes(DirectoryChange, DirectoryChange),
    Bytes(Bytes),
    Conflict(Option<LockConflict>),
    Truth(bool),
    Data(ReadData),
    Written(Written),
    Commitment(Commitment),
    Place(Option<u64>),
    XattrPage(XattrPage),
    /// The asking replica's own copy has what was asked for.
    Here,
}

/// The result of a read that was handed over.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// The answer contains the data.
    Data(ReadData),
    /// The local copy has the data.
    Here,
}

impl Expected for Fetched {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Data(data) => Some(Fetched::Data(data)),
            Value::Here => Some(Fetched::Here),
            _ => None,
        }
    }
}

/// The answer to a forwarded operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It was carried out.
    Done(Result<Value>),
    /// The receiver is not primary; nothing has happened.
    NotPrimary,
}

/// A value of the kind that the asking replica expects.
pub(crate) trait Expected: Sized {
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! expected {
    ($($type:ty: $pattern:pat => $result:expr;)*) => {
        $(impl Expected for $type {
            fn from_value(value: Value) -> Option<Self> {
                match value {
                    $pattern => Some($result),
                    _ => None,
                }
            }
        })*
    };
}

expected! {
    (): Value::Nothing => ();
    Attributes: Value::Attributes(attributes) => attributes;
    Found: Value::Found(found) => found;
    DirectoryPage: Value::Page(page, _) => page;
    Created: Value::Created(created) => created;
    DirectoryChange: Value::Change(change) => change;
    (DirectoryChange, DirectoryChange): Value::Changes(from, to) => (from, to);
    Bytes: Value::Bytes(bytes) => bytes;
    Option<LockConflict>: Value::Conflict(conflict) => conflict;
    bool: Value::Truth(truth) => truth;
    ReadData: Value::Data(data) => data;
    Written: Value::Written(written) => written;
    Commitment: Value::Commitment(commitment) => commitment;
    Option<u64>: Value::Place(place) => place;
    XattrPage: Value::XattrPage(page) => page;
}

/// Carries out an operation; all but [`Operation::Settle`], [`Operation::Lookup`] and [`Operation::Fetch`], whose answers do not come from a file
/// system.
pub(crate) async fn perform(files: &impl FileSystem, operation: Operation) -> Result<Value> {
    use Operation as O;
    Ok(match operation {
        O::Attributes(id) => Value::Attributes(files.attributes(id).await?),
        O::SetAttributes(by, id, set) => {
            Value::Attributes(files.set_attributes(by.access(), id, &set).await?)
        }
        O::Parent(who, directory) => Value::Attributes(files.parent(&who, directory).await?),
        O::ReadDirectory(who, directory, after, count) => {
            let count = count.min(MOST_ENTRIES) as usize;
            let page = files.read_directory(&who, directory, after, count).await?;
            Value::Page(page, files.attributes(directory).await?.change)
        }
        O::Create(who, directory, name, new, set) => {
            Value::Created(files.create(&who, directory, &name, new, &set).await?)
        }
        O::Remove(who, directory, name) => {
            Value::Change(files.remove(&who, directory, &name).await?)
        }
        O::Rename(who, from, to) => {
            let (from, to) = ((from.0, &from.1), (to.0, &to.1));
            let (source, target) = files.rename(&who, from, to).await?;
            Value::Changes(source, target)
        }
        O::Link(who, id, directory, name) => {
            Value::Change(files.link(&who, id, directory, &name).await?)
        }
        O::ReadLink(who, id) => Value::Bytes(files.read_link(&who, id).await?),
        O::Open(by, id, owner, share) => {
            Value::Attributes(files.open(by.access(), id, &owner, share).await?)
        }
        O::Downgrade(id, owner, share) => nothing(files.downgrade(id, &owner, share).await)?,
        O::Close(id, owner) => nothing(files.close(id, &owner).await)?,
        other => perform_on_data(files, other).await?,
    })
}

/// At most this many entries are in one forwarded page, so that it fits into a message even with long names.
const MOST_ENTRIES: u32 = 4096;

fn nothing(outcome: Result<()>) -> Result<Value> {
    outcome.map(|()| Value::Nothing)
}

async fn perform_on_data(files: &impl FileSystem, operation: Operation) -> Result<Value> {
    use Operation as O;
    Ok(match operation {
        O::Lock(id, owner, range, kind) => nothing(files.lock(id, &owner, range, kind).await)?,
        O::TestLock(id, owner, range, kind) => {
            Value::Conflict(files.test_lock(id, &owner, range, kind).await?)
        }
        O::Unlock(id, owner, range) => nothing(files.unlock(id, &owner, range).await)?,
        O::HoldsLock(id, owner) => Value::Truth(files.holds_lock(id, &owner).await?),
        O::HoldsDenial(id, owner) => Value::Truth(files.holds_denial(id, &owner).await?),
        O::Read(by, id, offset, count) => {
            Value::Data(files.read(by.access(), id, offset, count).await?)
        }
        O::Write(by, id, offset, data, stability) => {
            let written = files.write(by.access(), id, offset, data, stability);
            let mut written = written.await?;
            // Clients ask for them with every WRITE; asking again would take the same way again.
            written.attributes = files.attributes(id).await.ok();
            Value::Written(written)
        }
        O::Commit(id, offset, count) => Value::Commitment(files.commit(id, offset, count).await?),
        O::Seek(by, id, offset, target) => {
            Value::Place(files.seek(by.access(), id, offset, target).await?)
        }
        O::Allocate(by, id, extent) => nothing(files.allocate(by.access(), id, extent).await)?,
        O::Deallocate(by, id, extent) => nothing(files.deallocate(by.access(), id, extent).await)?,
        O::Xattr(who, id, name) => Value::Bytes(files.xattr(&who, id, &name).await?),
        O::SetXattr(who, id, name, value, mode) => {
            Value::Change(files.set_xattr(&who, id, &name, value, mode).await?)
        }
        O::RemoveXattr(who, id, name) => Value::Change(files.remove_xattr(&who, id, &name).await?),
        O::Xattrs(who, id, cookie, count) => {
            Value::XattrPage(files.xattrs(&who, id, cookie, count as usize).await?)
        }
        _ => return Err(Error::NotSupported),
    })
}

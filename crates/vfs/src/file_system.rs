//! The trait that the NFS service uses.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    Attributes, ByteRange, Cookie, Credentials, DirectoryChange, DirectoryPage, FsId, Holdings,
    LockConflict, LockKind, LockOwner, Name, ObjectId, ObjectKind, OpenOwner, RequestGroup, Result,
    SetAttributes, Share, XattrName,
};

/// Returns which of the named clients are not clients of this server. If the second argument is true, these may not
/// reclaim anything there from now on.
pub type AbsentClients = Arc<dyn Fn(&[Arc<[u8]>], bool) -> Vec<Arc<[u8]>> + Send + Sync>;

/// Makes the server in front of a file system forget all its clients, as a restart would. The returned future ends when no operation that
/// relies on their state is in progress any more.
pub type Forget = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// The properties that are fixed for the lifetime of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The tree's identity, the same at every replica.
    pub fs_id: FsId,
    /// The largest file, in bytes.
    pub max_file_size: u64,
    /// The largest number of names of one object.
    pub max_links: u32,
}

/// Space in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// The total bytes that the tree's storage can hold.
    pub total_bytes: u64,
    /// Bytes not in use.
    pub free_bytes: u64,
    /// Bytes that users may still fill: `free_bytes` minus the reserve.
    pub available_bytes: u64,
    /// The total number of objects that could exist.
    pub total_objects: u64,
    /// The number of objects that could still be created.
    pub free_objects: u64,
}

/// Why an operation on data is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessCheck<'a> {
    /// Check the mode bits now, for these credentials: there is no open.
    Credentials(&'a Credentials),
    /// The file was opened for this operation, so the current mode bits do not matter. The credentials
    /// still decide whether set-id bits are cleared.
    Open(&'a Credentials),
}

impl<'a> AccessCheck<'a> {
    /// The user of the operation.
    #[must_use]
    pub fn credentials(&self) -> &'a Credentials {
        match self {
            AccessCheck::Credentials(who) | AccessCheck::Open(who) => who,
        }
    }
}

/// An [`AccessCheck`] that owns the credentials: it outlives the request, and can be sent to other servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedAccessCheck {
    /// The user of the operation.
    pub who: Credentials,
    /// Whether the file was opened for this operation.
    pub opened: bool,
}

impl From<AccessCheck<'_>> for OwnedAccessCheck {
    fn from(access: AccessCheck<'_>) -> OwnedAccessCheck {
        OwnedAccessCheck {
            who: access.credentials().clone(),
            opened: matches!(access, AccessCheck::Open(_)),
        }
    }
}

impl OwnedAccessCheck {
    /// The same, borrowed.
    #[must_use]
    pub fn access(&self) -> AccessCheck<'_> {
        match self.opened {
            true => AccessCheck::Open(&self.who),
            false => AccessCheck::Credentials(&self.who),
        }
    }
}

/// The kind-specific part of a new object, without its attributes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewObject {
    /// An empty directory, a fifo, a socket or a device. Never a file or symbolic link.
    Plain(ObjectKind),
    /// A symbolic link with its target, 1 to 4095 bytes, without NUL.
    Symlink(Bytes),
    /// A regular file.
    File(Creation),
    /// A name and a local row for a directory that was created in another store already, under this identifier. All requests about
    /// the directory, except about its name, are answered there.
    DirectoryElsewhere(ObjectId),
}

impl NewObject {
    /// The identifier of an object that was created elsewhere.
    #[must_use]
    pub fn elsewhere(&self) -> Option<ObjectId> {
        match self {
            NewObject::DirectoryElsewhere(id) => Some(*id),
            _ => None,
        }
    }
}

/// How to create a regular file (RFC 8881, section 18.16.3, `createmode4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Creation {
    /// An existing file is used unchanged; the given attributes are then ignored.
    Unchecked,
    /// An existing entry is an error.
    Guarded,
    /// An existing file is used if it was created with the same verifier and has been neither written nor given attributes since;
    /// otherwise it is an error. The verifier is stored with the file until then, so that a repeat after a crash succeeds. The
    /// caller ensures that no other client can have the same verifier.
    Exclusive([u8; 8]),
}

/// A created, or found, object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// The object.
    pub attributes: Attributes,
    /// The directory before and after the change; both versions are equal when nothing was created.
    pub directory: DirectoryChange,
    /// False when the object existed already, which [`Creation`] can allow.
    pub made: bool,
}

/// Data read from a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadData {
    /// The bytes; fewer than requested only at the end of the file.
    pub bytes: Bytes,
    /// Whether the bytes include the last byte of the file, or the offset is after it.
    pub end_of_file: bool,
}

/// What has to be on stable storage before the client gets the answer (RFC 8881, section 18.32.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stability {
    /// Nothing; a later commit makes it stable.
    Unstable,
    /// The data, and the metadata that is needed to find it.
    Data,
    /// Data and all attributes.
    File,
}

/// Changes whenever unstable writes may have been lost (RFC 8881, section 18.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteVerifier(pub [u8; 8]);

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The number of bytes written: all of them.
    pub count: u32,
    /// At least the requested stability.
    pub stability: Stability,
    /// For comparison with the verifier of the commit.
    pub verifier: WriteVerifier,
    /// The file's attributes after the write, if the server that had to be asked could supply them as well.
    pub attributes: Option<Attributes>,
}

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commitment {
    /// For comparison with the verifier of the writes.
    pub verifier: WriteVerifier,
}

/// What to look for in a sparse file (RFC 7862, section 15.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeekTarget {
    /// The next byte that is stored.
    Data,
    /// The next byte that is not stored; the end of the file counts as one.
    Hole,
}

/// A range of a file, for allocation and deallocation. Not empty, and its end fits into 63 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// Whether an extended attribute may or must exist already (RFC 8276, section 8.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum XattrMode {
    /// It may exist.
    Any,
    /// It must not exist.
    Create,
    /// It must exist.
    Replace,
}

/// Names of extended attributes, page by page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XattrPage {
    /// The names that fit.
    pub names: Vec<XattrName>,
    /// Where the next page starts.
    pub cookie: u64,
    /// Whether there is no next page.
    pub end: bool,
}

/// One tree of files, as an NFS server needs it.
///
/// Contract for every implementation:
/// - Operations are atomic, and all clients see them in the same order. An operation that returned has
///   happened; with synchronous commit it is on stable storage, except for unstable writes.
/// - The implementation checks permission, with the given credentials, by the rules of
///   [`crate::permission`], when the operation executes.
/// - An identifier that is unknown, or of a removed object, gives [`crate::Error::Stale`].
/// - An operation whose future is dropped may or may not have had its effect, as if the reply was lost.
/// - If requests are kept ([`FileSystem::keeps_requests`]), a change whose credentials contain a request is made only
///   once: a repeat of the request gets the same answer, with the current attributes. This holds for operations that create, remove,
///   rename and link objects, and for changes of attributes and extended attributes.
#[async_trait]
pub trait FileSystem: Send + Sync + 'static {
    /// The fixed properties.
    fn properties(&self) -> &Properties;

    /// The current space.
    async fn space(&self) -> Result<Space>;

    /// The attributes of an object. Needs no permission.
    async fn attributes(&self, id: ObjectId) -> Result<Attributes>;

    /// Changes all of these attributes or none. Setting the size needs `access` to write the file; other
    /// attributes are always checked by the credentials. Returns the attributes afterwards.
    async fn set_attributes(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        set: &SetAttributes,
    ) -> Result<Attributes>;

    /// The object of a name, with the same attributes as from [`FileSystem::attributes`]. Needs search
    /// permission.
    async fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<Attributes>;

    /// The directory that holds a directory. [`crate::Error::NotFound`] for the root.
    async fn parent(&self, who: &Credentials, directory: ObjectId) -> Result<Attributes>;

    /// Entries after `after`: at most `max_entries`, and at least one unless at the end. Needs read
    /// permission.
    async fn read_directory(
        &self,
        who: &Credentials,
        directory: ObjectId,
        after: Cookie,
        max_entries: usize,
    ) -> Result<DirectoryPage>;

    /// Creates an object and its name, with the given attributes. Owner and group come from `who`
    /// unless set, the group from a set-group-id directory. `set.size` applies to a new file.
    async fn create(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        new: NewObject,
        set: &SetAttributes,
    ) -> Result<Created>;

    /// Removes a name; the object is removed with its last name and its last open. Directories must be empty.
    async fn remove(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange>;

    /// Renames as POSIX `rename` does: a file replaces a file, a directory an empty directory; if both
    /// names lead to the same object, nothing changes. Returns the change of the source directory
    /// and that of the target directory.
    async fn rename(
        &self,
        who: &Credentials,
        from: (ObjectId, &Name),
        to: (ObjectId, &Name),
    ) -> Result<(DirectoryChange, DirectoryChange)>;

    /// Gives an object other than a directory one more name.
    async fn link(
        &self,
        who: &Credentials,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange>;

    /// The target of a symbolic link.
    async fn read_link(&self, who: &Credentials, id: ObjectId) -> Result<Bytes>;

    /// Registers an open of a file by an owner, and checks permission for what is new in
    /// `share`. If the owner opens again, it has the union. While it is open, a removed file keeps
    /// its data. [`AccessCheck::Open`] skips the permission check, for a file that the owner created, or had open
    /// before a restart.
    async fn open(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes>;

    /// Registers the first open of a file that the same request has just created. Nothing can conflict: mode bits
    /// do not apply to its creator, and no other client knows the file yet.
    async fn open_made(
        &self,
        who: &Credentials,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<()> {
        self.open(AccessCheck::Open(who), id, owner, share).await?;
        Ok(())
    }

    /// Reduces an owner's share.
    async fn downgrade(&self, id: ObjectId, owner: &OpenOwner, share: Share) -> Result<()>;

    /// Ends an owner's open. Returns only when the guarantees of closing hold. Has no effect if the file is not
    /// open.
    async fn close(&self, id: ObjectId, owner: &OpenOwner) -> Result<()>;

    /// Locks a range, and replaces what the same owner held of it.
    /// [`crate::Error::Locked`] contains a conflicting lock. [`crate::Error::NoSpace`] means that this file, or this client
    /// in all files, has the maximum number of locked ranges.
    async fn lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<()>;

    /// A lock that conflicts with this one.
    async fn test_lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<Option<LockConflict>>;

    /// Unlocks what the owner holds of a range, and splits locks if needed. [`crate::Error::NoSpace`] when that would exceed
    /// the maximum number of locked ranges.
    async fn unlock(&self, id: ObjectId, owner: &LockOwner, range: ByteRange) -> Result<()>;

    /// Whether the owner holds a lock on the file.
    async fn holds_lock(&self, id: ObjectId, owner: &LockOwner) -> Result<bool>;

    /// Ends an open of an owner that may have opened the file again at another server: what it denies to others stays.
    async fn leave(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        self.close(id, owner).await
    }

    /// Whether a client that has gone from this server may have reclaimed at another server of this tree what it held here. If not, it can
    /// reclaim nothing there any more.
    async fn may_be_elsewhere(&self, _client: &[u8]) -> bool {
        false
    }

    /// Whether the owner has the file open with a denial.
    async fn holds_denial(&self, id: ObjectId, owner: &OpenOwner) -> Result<bool> {
        let denials = self.holdings().denials;
        Ok(denials
            .iter()
            .any(|(file, holder)| (*file, holder) == (id, owner)))
    }

    /// Reads. [`AccessCheck::Credentials`] needs read permission, or execute permission, because a client has to
    /// page in programs.
    async fn read(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<ReadData>;

    /// Writes all of `data`.
    async fn write(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written>;

    /// Makes earlier unstable writes of the file stable. A `count` of zero means up to the end; an
    /// implementation may do more than requested.
    async fn commit(&self, id: ObjectId, offset: u64, count: u32) -> Result<Commitment>;

    /// The next data or hole at or after `offset`. `None` when only a hole follows up to the end of
    /// the file. An offset at or after the end gives `NotFound`, not
    /// [`crate::Error::Invalid`].
    async fn seek(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        target: SeekTarget,
    ) -> Result<Option<u64>>;

    /// Reserves storage for an extent; the file grows to hold it.
    async fn allocate(&self, access: AccessCheck<'_>, id: ObjectId, extent: Extent) -> Result<()>;

    /// Turns an extent into a hole that reads as zeros; the file size stays.
    async fn deallocate(&self, access: AccessCheck<'_>, id: ObjectId, extent: Extent)
    -> Result<()>;

    /// The value of an extended attribute. Needs read permission.
    async fn xattr(&self, who: &Credentials, id: ObjectId, name: &XattrName) -> Result<Bytes>;

    /// Sets an extended attribute. Needs write permission. Returns the object's version before and after.
    async fn set_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> Result<DirectoryChange>;

    /// Removes an extended attribute. Needs write permission. Returns the object's version before and after.
    async fn remove_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
    ) -> Result<DirectoryChange>;

    /// Names of extended attributes after `cookie` (0 at first). Their lengths plus four bytes each
    /// sum to at most `max_bytes`; [`crate::Error::XattrTooLarge`] when not even one fits. Needs read
    /// permission.
    async fn xattrs(
        &self,
        who: &Credentials,
        id: ObjectId,
        cookie: u64,
        max_bytes: usize,
    ) -> Result<XattrPage>;

    /// The holders of locks and of opens with denials, at any server, as far as the local copy knows. Empty if only one
    /// server serves the file system: that server knows all holders.
    fn holdings(&self) -> Holdings {
        Holdings::default()
    }

    /// Releases these holdings for owners that will not release them any more. Continues after an error and returns the
    /// first one; what was released stays released.
    async fn give_up(&self, holdings: &Holdings) -> Result<()> {
        let mut outcome = Ok(());
        for (id, owner) in &holdings.locks {
            let done = self.unlock(*id, owner, ByteRange::EVERYTHING).await;
            outcome = outcome.and(done);
        }
        for (id, owner) in &holdings.denials {
            let done = self.close(*id, owner).await;
            outcome = outcome.and(done);
        }
        outcome
    }

    /// Sets the function that tells from now on which clients are not clients of the server in front of this file system.
    /// The function returns immediately. If all servers finally deny a client, its holdings are released. A file system with
    /// one server does not call it.
    fn on_clients_asked(&self, absent: AbsentClients) {
        drop(absent);
    }

    /// Whether other servers may have released what this server's clients held of an object before its start, because it was away
    /// too long. A client that reclaims must then still hold it, as far as known here.
    fn others_went_on(&self, of: ObjectId) -> bool {
        let _ = of;
        false
    }

    /// Whether clients of other servers may hold something from before a start that is not known here yet. Until then no client may get
    /// anything new; clients may reclaim.
    fn others_reclaim(&self) -> bool {
        false
    }

    /// Sets the function to call when everything that this server's clients held has been released, because the server was away
    /// too long. Requests that rely on such holdings fail until the function's future has ended.
    fn on_loss(&self, forget: Forget) {
        drop(forget);
    }

    /// Sets a listener that is called from now on whenever locks of a file were released or replaced by another cause
    /// than a call of this value, for example by other sites. It returns immediately, and is called within the runtime of the
    /// operations. A file system whose locks only this value changes does not call it.
    fn on_lock_change(&self, listener: Arc<dyn Fn(ObjectId) + Send + Sync>) {
        drop(listener);
    }

    /// Whether each change is stored together with the name of its request ([`crate::RequestId`]), durably in one
    /// step, so that a repeat gets the same answer even after a restart.
    fn keeps_requests(&self) -> bool {
        false
    }

    /// Forgets the results of requests of these groups, which will not be repeated.
    async fn end_requests(&self, ended: Vec<RequestGroup>) -> Result<()> {
        drop(ended);
        Ok(())
    }

    /// Forgets results that were on record at the previous call already and belong to none of these groups. If the caller calls
    /// this at regular intervals, results are kept for at least one interval.
    /// [`crate::Error::Delay`] when this replica answers no requests at present; then nothing has aged.
    async fn age_requests(&self, alive: HashSet<RequestGroup>) -> Result<()> {
        drop(alive);
        Ok(())
    }

    /// Called once when clients can no longer reclaim opens from before a restart: removed files that
    /// no client has opened again can be removed.
    async fn end_reclaim(&self) -> Result<()>;

    /// Makes everything stable, for a graceful stop.
    async fn sync(&self) -> Result<()>;
}

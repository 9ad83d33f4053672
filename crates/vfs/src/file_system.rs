//! The trait that the NFS service is written against.

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

/// Says which of some clients, by their names, a server does not have. If it is asked for good, those may not
/// reclaim anything there from now on.
pub type AbsentClients = Arc<dyn Fn(&[Arc<[u8]>], bool) -> Vec<Arc<[u8]>> + Send + Sync>;

/// Has the server in front of a file system forget all its clients, as a restart would. What is returned ends when nothing is done any more
/// that rests on what they held.
pub type Forget = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// What is fixed for the life of a tree.
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
    /// Bytes that the tree's storage can hold in all.
    pub total_bytes: u64,
    /// Bytes not in use.
    pub free_bytes: u64,
    /// Bytes that users may still fill; less than `free_bytes` by what is kept in reserve.
    pub available_bytes: u64,
    /// Objects that could exist in all.
    pub total_objects: u64,
    /// Objects that could still be made.
    pub free_objects: u64,
}

/// Why an operation on data is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessCheck<'a> {
    /// The mode bits are to be checked now, for these credentials, with no open behind it.
    Credentials(&'a Credentials),
    /// The file was opened for it: what the mode bits say by now does not matter. The credentials
    /// still decide whether set-id bits are cleared.
    Open(&'a Credentials),
}

impl<'a> AccessCheck<'a> {
    /// On whose behalf the operation runs.
    #[must_use]
    pub fn credentials(&self) -> &'a Credentials {
        match self {
            AccessCheck::Credentials(who) | AccessCheck::Open(who) => who,
        }
    }
}

/// An [`AccessCheck`] that owns the credentials: it outlives the request, and travels to other servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedAccessCheck {
    /// On whose behalf the operation runs.
    pub who: Credentials,
    /// The file was opened for it.
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

/// Content of a new object, besides its attributes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewObject {
    /// An empty directory, a fifo, a socket or a device. Never a file or symbolic link.
    Plain(ObjectKind),
    /// A symbolic link with its target, 1 to 4095 bytes, without NUL.
    Symlink(Bytes),
    /// A regular file, made as [`Creation`] says.
    File(Creation),
    /// A name, and what has to stand beside it, for a directory that was made in another store already, under this identifier. What is
    /// asked of the directory, but for its name, is answered there.
    DirectoryElsewhere(ObjectId),
}

impl NewObject {
    /// The identifier of an object that was made elsewhere.
    #[must_use]
    pub fn elsewhere(&self) -> Option<ObjectId> {
        match self {
            NewObject::DirectoryElsewhere(id) => Some(*id),
            _ => None,
        }
    }
}

/// What to do when a regular file is to be made (RFC 8881, section 18.16.3, `createmode4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Creation {
    /// An existing file is taken as it is; the given attributes are then ignored.
    Unchecked,
    /// An existing entry is an error.
    Guarded,
    /// An existing file is taken if it was made with the same verifier and neither written nor given attributes since,
    /// else an error. The verifier is stored with the file until then, so that a repeat after a crash succeeds. The
    /// caller makes sure that nobody else can have the same.
    Exclusive([u8; 8]),
}

/// A made, or found, object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// The object.
    pub attributes: Attributes,
    /// The directory around the change; both versions are equal when nothing was made.
    pub directory: DirectoryChange,
    /// False when the object was there already, which [`Creation`] can allow.
    pub made: bool,
}

/// Data read from a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadData {
    /// The bytes; fewer than asked for only at the end of the file.
    pub bytes: Bytes,
    /// Whether the last byte of the file is among them, or the offset lies behind it.
    pub end_of_file: bool,
}

/// What a client wants to be on stable storage before it is answered (RFC 8881, section 18.32.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stability {
    /// Nothing; a later commit makes it stable.
    Unstable,
    /// The data, and what is needed to find it.
    Data,
    /// Data and all attributes.
    File,
}

/// Changes whenever unstable writes may have been lost (RFC 8881, section 18.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteVerifier(pub [u8; 8]);

/// How data was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Bytes written: all of them.
    pub count: u32,
    /// At least what was asked for.
    pub stability: Stability,
    /// For comparison with that of the commit.
    pub verifier: WriteVerifier,
    /// What the file has afterwards, where somebody had to be asked who could tell that as well.
    pub attributes: Option<Attributes>,
}

/// A commit that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commitment {
    /// For comparison with that of the writes.
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

/// A piece of a file, for allocation and deallocation. Not empty, and its end fits into 63 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// Whether an extended attribute may, or must, exist already (RFC 8276, section 8.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum XattrMode {
    /// Either.
    Any,
    /// It must not.
    Create,
    /// It must.
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
/// - Operations are atomic and appear in one order for everybody. An operation that returned has
///   happened; with synchronous commit it is on stable storage, unstable writes excepted.
/// - Checks of permission happen inside, with the credentials given, by the rules of
///   [`crate::permission`], at the moment at which the operation executes.
/// - An identifier that is unknown, or of a removed object, gives [`crate::Error::Stale`].
/// - A future that is dropped may or may not have had its effect, as if the client's reply was lost.
/// - Where requests are kept ([`FileSystem::keeps_requests`]), a change that credentials with a request ask for is made
///   once: when the same request comes again it is answered as it was, with the attributes of now. This holds for what makes, removes,
///   renames and links objects, and for changes of attributes and extended attributes.
#[async_trait]
pub trait FileSystem: Send + Sync + 'static {
    /// What never changes.
    fn properties(&self) -> &Properties;

    /// Space for more.
    async fn space(&self) -> Result<Space>;

    /// What is known of an object. Needs no permission.
    async fn attributes(&self, id: ObjectId) -> Result<Attributes>;

    /// Changes attributes, all or none. Setting the size needs `access` to write the file; other
    /// attributes always follow the credentials. Returns the attributes afterwards.
    async fn set_attributes(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        set: &SetAttributes,
    ) -> Result<Attributes>;

    /// The object behind a name, with the attributes that [`FileSystem::attributes`] would tell. Needs search
    /// permission.
    async fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<Attributes>;

    /// The directory that holds a directory. [`crate::Error::NotFound`] for the root.
    async fn parent(&self, who: &Credentials, directory: ObjectId) -> Result<Attributes>;

    /// Entries behind `after`, at most `max_entries`, at least one unless at the end. Needs read
    /// permission.
    async fn read_directory(
        &self,
        who: &Credentials,
        directory: ObjectId,
        after: Cookie,
        max_entries: usize,
    ) -> Result<DirectoryPage>;

    /// Makes an object and its name, with the attributes given. Owner and group come from `who`
    /// unless set, the group from a set-group-id directory. `set.size` of a new file is honoured.
    async fn create(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        new: NewObject,
        set: &SetAttributes,
    ) -> Result<Created>;

    /// Removes a name; the object goes with its last name and its last open. Directories must be empty.
    async fn remove(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange>;

    /// Renames as POSIX `rename` does: a file replaces a file, a directory an empty directory, and two
    /// names of one object leave everything as it is. Returns the change of the source directory
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

    /// Registers what an open owner does with a file and checks permission for what is new in
    /// `share`. An owner that opens again gets the union. While opened, a removed file keeps
    /// its data. [`AccessCheck::Open`] waives the permission check, for a file that the owner made, or had open
    /// before a restart.
    async fn open(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes>;

    /// Registers the first open of a file that the same request made a moment ago, in whose way nothing is: mode bits
    /// do not count for its maker, and nobody else can know it yet.
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

    /// Replaces an owner's share by a smaller one.
    async fn downgrade(&self, id: ObjectId, owner: &OpenOwner, share: Share) -> Result<()>;

    /// Ends an owner's open. Returns only when the promises of closing hold. Closing what is not
    /// open does nothing.
    async fn close(&self, id: ObjectId, owner: &OpenOwner) -> Result<()>;

    /// Locks a range, replacing what the same owner held of it.
    /// [`crate::Error::Locked`] names a lock in the way, [`crate::Error::NoSpace`] stands for as many locked ranges as there
    /// may be of this file, or of this client in all files.
    async fn lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<()>;

    /// A lock that would be in the way.
    async fn test_lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<Option<LockConflict>>;

    /// Unlocks what the owner holds of a range, splitting locks where needed. [`crate::Error::NoSpace`] when that would make
    /// more of them than there may be.
    async fn unlock(&self, id: ObjectId, owner: &LockOwner, range: ByteRange) -> Result<()>;

    /// Whether the owner holds a lock on the file.
    async fn holds_lock(&self, id: ObjectId, owner: &LockOwner) -> Result<bool>;

    /// Whether the owner has the file open so that others are kept out, by what is known here.
    async fn holds_denial(&self, id: ObjectId, owner: &OpenOwner) -> Result<bool> {
        let denials = self.holdings().denials;
        Ok(denials
            .iter()
            .any(|(file, holder)| (*file, holder) == (id, owner)))
    }

    /// Reads. [`AccessCheck::Credentials`] needs read permission (or, for the owner of an executable,
    /// execute permission, as a client paging in a program has).
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

    /// Makes earlier unstable writes of the file stable. A `count` of zero means to the end; an
    /// implementation may do more than asked.
    async fn commit(&self, id: ObjectId, offset: u64, count: u32) -> Result<Commitment>;

    /// The next data or hole at or behind `offset`. `None` when only a hole follows to the end of
    /// the file; [`crate::Error::Invalid`] is not used: an offset at or behind the end gives
    /// `NotFound`.
    async fn seek(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        target: SeekTarget,
    ) -> Result<Option<u64>>;

    /// Reserves storage for an extent; the file grows to hold it.
    async fn allocate(&self, access: AccessCheck<'_>, id: ObjectId, extent: Extent) -> Result<()>;

    /// Turns an extent into a hole that reads as zeros; the length stays.
    async fn deallocate(&self, access: AccessCheck<'_>, id: ObjectId, extent: Extent)
    -> Result<()>;

    /// The value of an extended attribute. Needs read permission.
    async fn xattr(&self, who: &Credentials, id: ObjectId, name: &XattrName) -> Result<Bytes>;

    /// Sets an extended attribute. Needs write permission. Returns the object's version around it.
    async fn set_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> Result<DirectoryChange>;

    /// Removes an extended attribute. Needs write permission. Returns the object's version around it.
    async fn remove_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
    ) -> Result<DirectoryChange>;

    /// Names of extended attributes behind `cookie` (0 at first), whose lengths plus four bytes each
    /// sum to at most `max_bytes`; [`crate::Error::XattrTooLarge`] when not even one fits. Needs read
    /// permission.
    async fn xattrs(
        &self,
        who: &Credentials,
        id: ObjectId,
        cookie: u64,
        max_bytes: usize,
    ) -> Result<XattrPage>;

    /// Who holds locks, or opens that deny something, at whichever server, as far as the local copy knows. A file
    /// system that nobody else serves has nothing to tell: its server knows all holders.
    fn holdings(&self) -> Holdings {
        Holdings::default()
    }

    /// Gives back for their owners what nobody will give back any more. Goes on after a failure and returns the
    /// first one; what was given back stays so.
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

    /// Names who answers from now on which of some clients are not those of the server in front of this file system.
    /// It returns at once. What belongs to clients whom all servers name for good is given up; a file system that
    /// has one server does not ask.
    fn on_clients_asked(&self, absent: AbsentClients) {
        drop(absent);
    }

    /// Whether others may have given up what this server's clients held of an object before its start, because it was away for
    /// too long. A client that reclaims then must still have it, by what is known here.
    fn others_went_on(&self, of: ObjectId) -> bool {
        let _ = of;
        false
    }

    /// Whether clients of other servers may hold from before a start what is not known here yet. Nobody may be given anything
    /// new then; clients that reclaim may go on.
    fn others_reclaim(&self) -> bool {
        false
    }

    /// Names what is to be called when all that this server's clients held has been given up, because the server was away for so
    /// long. Whatever they ask for by it fails until it has ended.
    fn on_loss(&self, forget: Forget) {
        drop(forget);
    }

    /// Names a listener that is told from now on whenever locks of a file were given back or replaced other than
    /// by a call of this value, as other sites do. It returns at once, and is called within the runtime that the
    /// operations run in. A file system whose locks nobody else changes has nothing to tell.
    fn on_lock_change(&self, listener: Arc<dyn Fn(ObjectId) + Send + Sync>) {
        drop(listener);
    }

    /// Whether changes are made with the name of the request that asked for them ([`crate::RequestId`]), durably in one
    /// step, so that a repeat is answered from that also after a restart.
    fn keeps_requests(&self) -> bool {
        false
    }

    /// Forgets what requests of these groups have done: nobody asks for them again.
    async fn end_requests(&self, ended: Vec<RequestGroup>) -> Result<()> {
        drop(ended);
        Ok(())
    }

    /// Forgets what was on record at the call before already and belongs to none of these groups. A caller that calls
    /// it at regular intervals keeps what a request has done for at least the time between two calls.
    /// [`crate::Error::Delay`] when nobody is answered here at present; nothing has grown older then.
    async fn age_requests(&self, alive: HashSet<RequestGroup>) -> Result<()> {
        drop(alive);
        Ok(())
    }

    /// Told once when clients can no longer reclaim opens from before a restart: removed files that
    /// nobody has opened again can go.
    async fn end_reclaim(&self) -> Result<()>;

    /// Puts everything on stable storage, for a graceful stop.
    async fn sync(&self) -> Result<()>;
}

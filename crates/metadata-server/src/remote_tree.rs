//! A tree that lives at another metadata server, as this server shows it to its clients.
//!
//! What must never enter: how the home is reached.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use pool::{LeaseClock, LeaseSettings};
use vfs::{
    AccessCheck, Attributes, ByteRange, Commitment, Cookie, Created, Credentials, DirectoryChange,
    DirectoryPage, Error, Extent, FileSystem, Forget, LockConflict, LockKind, LockOwner, Name,
    NewObject, ObjectId, OpenOwner, OwnedAccessCheck, Properties, ReadData, ReplicaSlot,
    RequestGroup, Result, SeekTarget, SetAttributes, Share, Space, Stability, Written, XattrMode,
    XattrName, XattrPage,
};

use crate::clients::Clients;
use crate::direct::Direct;
use crate::home::{BYTES_MAX, ENTRIES_MAX};
use crate::kept::{Kept, Metrics};
use crate::question::{Answer, Change, News, Question, Reply, other_answer};
use crate::remote_layouts::{Known, Listeners, Owed};

/// Most sessions in one report to the home: 128 KiB.
const SESSIONS_AT_ONCE: usize = 1 << 13;

/// The connection to the home.
#[async_trait]
pub trait Connection: Send + Sync + 'static {
    /// Asks the home, for a server that keeps copies of its run `keeps` and has forgotten its clients `clients` times. Repeats a question
    /// whose answer is lost.
    ///
    /// # Errors
    /// [`Error::Delay`] while there is no connection, or another reason why there is no answer.
    async fn ask(&self, question: Question, keeps: Option<u64>, clients: u64) -> Result<Reply>;
}

/// The tree.
pub struct RemoteTree {
    /// The server's own store. It has the tree's properties.
    own: Arc<dyn FileSystem>,
    home: Arc<dyn Connection>,
    /// The slot of objects that the home makes.
    home_slot: ReplicaSlot,
    kept: Kept,
    pub(crate) clients: Clients,
    pub(crate) layouts: Listeners,
    pub(crate) holders: Known,
    pub(crate) owed: Owed,
    pub(crate) direct: Direct,
    this: Weak<RemoteTree>,
}

/// Asks a question and takes the expected answer, or returns an error for any other.
macro_rules! answered {
    ($self:ident, $question:expr, $answer:pat => $value:expr) => {
        match $self.ask($question).await? {
            $answer => Ok($value),
            _ => Err(other_answer()),
        }
    };
}

impl RemoteTree {
    /// The tree whose local store is `own`. The connection leads to the server whose objects have this slot.
    #[must_use]
    pub fn new(
        own: Arc<dyn FileSystem>,
        (home, home_slot): (Arc<dyn Connection>, ReplicaSlot),
        now: LeaseClock,
        lease: LeaseSettings,
    ) -> Arc<RemoteTree> {
        Arc::new_cyclic(|this| RemoteTree {
            own,
            home,
            home_slot,
            kept: Kept::new(now, lease),
            clients: Clients::default(),
            layouts: Listeners::default(),
            holders: Known::default(),
            owed: Owed::default(),
            direct: Direct::default(),
            this: this.clone(),
        })
    }

    /// Asks the home, and keeps the answer if it may be kept.
    pub(crate) async fn ask(&self, question: Question) -> Result<Answer> {
        self.ask_for(self.clients.forgotten(), question).await
    }

    /// The same for a client of this generation. When the client is lost, this asks nothing more for it and waits for no answer.
    pub(crate) async fn ask_for(&self, clients: u64, question: Question) -> Result<Answer> {
        let otherwise = match question.is_made_once() {
            true => Error::Uncertain,
            false => Error::Delay,
        };
        if !self.clients.still_are(clients) {
            return Err(Error::Delay);
        }
        let answer = tokio::select! {
            answer = self.ask_for_all(clients, question) => answer,
            () = self.clients.until_lost(clients) => return Err(otherwise),
        };
        if answer == Ok(Answer::GivenUp) {
            self.lose_clients();
            return Err(otherwise);
        }
        answer
    }

    /// The home's attributes of each of these objects, which live there.
    pub(crate) async fn attributes_of(
        &self,
        ids: Vec<ObjectId>,
    ) -> Result<Vec<Result<Attributes>>> {
        let count = ids.len();
        match self.ask(Question::AttributesOf(ids)).await? {
            Answer::Each(each) if each.len() == count => Ok(each),
            _ => Err(other_answer()),
        }
    }

    /// Sends the question even if the clients' state may already be dropped.
    pub(crate) async fn ask_for_all(&self, clients: u64, question: Question) -> Result<Answer> {
        let begun = self.kept.begin(&question);
        let reply = self.home.ask(question, begun.keeps, clients).await?;
        self.kept.keep(begun, &reply);
        reply.answer
    }

    /// A reference for tasks that outlive a call.
    pub(crate) fn this(&self) -> Weak<RemoteTree> {
        self.this.clone()
    }

    /// A run of the home has begun, which knows no copies, or continues.
    pub fn meet(&self, run: u64) {
        self.kept.meet(run);
    }

    /// The home invalidates copies. Nothing is answered from them afterwards.
    pub fn hear(&self, news: &News) {
        self.kept.hear(news);
        // A lock that a client waits for may have been released.
        let objects = news.told.iter().map(|(_, object)| *object);
        self.clients.locks_changed(objects);
    }

    /// Whether the lease of used copies, or of clients' state, is about to expire.
    #[must_use]
    pub fn wants_lease(&self) -> bool {
        self.kept.wants_lease(!self.clients.hold_nothing())
    }

    /// Only renews the lease. It also tells the home that no copies of its earlier runs are left.
    ///
    /// # Errors
    /// The errors of [`Connection::ask`].
    pub async fn ask_for_lease(&self) -> Result<()> {
        self.ask(Question::Lease).await.map(drop)
    }

    /// The server that is the home.
    pub(crate) fn server(&self) -> ReplicaSlot {
        self.home_slot
    }

    /// Whether no other home than the first one has made the object.
    pub(crate) fn is_of_first(&self, id: ObjectId) -> bool {
        id == ObjectId::ROOT || id.slot() == self.home_slot
    }

    pub(crate) fn has_nothing_to_reclaim(&self) {
        self.clients.set_reclaimed();
    }

    /// Counters of its answers.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.kept.metrics()
    }
}

#[async_trait]
impl FileSystem for RemoteTree {
    fn properties(&self) -> &Properties {
        self.own.properties()
    }

    async fn space(&self) -> Result<Space> {
        answered!(self, Question::Space, Answer::Space(space) => space)
    }

    async fn attributes(&self, id: ObjectId) -> Result<Attributes> {
        if let Some(kept) = self.kept.attributes(id) {
            return kept;
        }
        answered!(self, Question::Attributes(id), Answer::Attributes(found) => found)
    }

    async fn set_attributes(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        set: &SetAttributes,
    ) -> Result<Attributes> {
        let change = Change::SetAttributes(access.into(), id, set.clone());
        answered!(self, Question::Change(change), Answer::Attributes(found) => found)
    }

    async fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<Attributes> {
        if let Some(kept) = self.kept.lookup(who, directory, name) {
            return kept;
        }
        let question = Question::Lookup(who.clone(), directory, name.clone());
        answered!(self, question, Answer::Attributes(found) => found)
    }

    async fn parent(&self, who: &Credentials, directory: ObjectId) -> Result<Attributes> {
        if let Some(kept) = self.kept.parent(who, directory) {
            return kept;
        }
        let question = Question::Parent(who.clone(), directory);
        answered!(self, question, Answer::Attributes(found) => found)
    }

    async fn read_directory(
        &self,
        who: &Credentials,
        directory: ObjectId,
        after: Cookie,
        max_entries: usize,
    ) -> Result<DirectoryPage> {
        let entries = u32::try_from(max_entries)
            .unwrap_or(u32::MAX)
            .min(ENTRIES_MAX);
        if let Some(kept) = self.kept.read_directory(who, directory, after, entries) {
            return kept;
        }
        let question = Question::ReadDirectory(who.clone(), directory, after, entries);
        match self.ask(question).await? {
            Answer::Page(page) => Ok(page),
            Answer::PageWithout(page, unread) => Ok(DirectoryPage { unread, ..page }),
            _ => Err(other_answer()),
        }
    }

    async fn create(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        new: NewObject,
        set: &SetAttributes,
    ) -> Result<Created> {
        let change = Change::Create(who.clone(), directory, name.clone(), new, set.clone());
        answered!(self, Question::Change(change), Answer::Created(created) => created)
    }

    async fn remove(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        let change = Change::Remove(who.clone(), directory, name.clone());
        answered!(self, Question::Change(change), Answer::Changed(change) => change)
    }

    async fn rename(
        &self,
        who: &Credentials,
        (source, old): (ObjectId, &Name),
        (target, new): (ObjectId, &Name),
    ) -> Result<(DirectoryChange, DirectoryChange)> {
        let (from, to) = ((source, old.clone()), (target, new.clone()));
        let change = Change::Rename(who.clone(), from, to);
        answered!(self, Question::Change(change), Answer::Renamed(from, to) => (from, to))
    }

    async fn link(
        &self,
        who: &Credentials,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        let change = Change::Link(who.clone(), id, directory, name.clone());
        answered!(self, Question::Change(change), Answer::Changed(change) => change)
    }

    async fn read_link(&self, who: &Credentials, id: ObjectId) -> Result<Bytes> {
        if let Some(kept) = self.kept.read_link(id) {
            return kept;
        }
        let question = Question::ReadLink(who.clone(), id);
        answered!(self, question, Answer::Bytes(target) => target)
    }

    async fn open(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<Attributes> {
        self.open_for(access, id, owner, share).await
    }

    async fn open_made(
        &self,
        who: &Credentials,
        id: ObjectId,
        owner: &OpenOwner,
        share: Share,
    ) -> Result<()> {
        self.open_what_was_made(who, id, owner, share).await
    }

    async fn downgrade(&self, id: ObjectId, owner: &OpenOwner, share: Share) -> Result<()> {
        self.downgrade_for(id, owner, share).await
    }

    async fn close(&self, id: ObjectId, owner: &OpenOwner) -> Result<()> {
        self.close_for(id, owner).await
    }

    async fn lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<()> {
        self.lock_for(id, owner, range, kind).await
    }

    async fn test_lock(
        &self,
        id: ObjectId,
        owner: &LockOwner,
        range: ByteRange,
        kind: LockKind,
    ) -> Result<Option<LockConflict>> {
        let question = Question::TestLock(id, owner.clone(), range, kind);
        answered!(self, question, Answer::Conflict(conflict) => conflict)
    }

    async fn unlock(&self, id: ObjectId, owner: &LockOwner, range: ByteRange) -> Result<()> {
        self.unlock_for(id, owner, range).await
    }

    async fn holds_lock(&self, id: ObjectId, owner: &LockOwner) -> Result<bool> {
        let question = Question::HoldsLock(id, owner.clone());
        answered!(self, question, Answer::Holds(holds) => holds)
    }

    /// The home decides this when the client opens the file again.
    async fn holds_denial(&self, _: ObjectId, _: &OpenOwner) -> Result<bool> {
        Ok(true)
    }

    async fn read(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<ReadData> {
        let clients = self.clients.forgotten();
        if matches!(access, AccessCheck::Open(_))
            && let Some(read) = self.read_directly(clients, id, (offset, count)).await
        {
            return Ok(read);
        }
        let check = OwnedAccessCheck::from(access);
        let mut pieces = BytesMut::new();
        loop {
            let read = pieces.len() as u32;
            let wanted = (count - read).min(BYTES_MAX);
            let from = offset.saturating_add(read.into());
            let question = Question::Read(check.clone(), id, from, wanted);
            let piece = match self.ask_for(clients, question).await? {
                Answer::Read(piece) if piece.bytes.len() <= wanted as usize => piece,
                _ => return Err(other_answer()),
            };
            let end_of_file = piece.end_of_file;
            let is_last = end_of_file || wanted == count - read || piece.bytes.is_empty();
            if is_last && pieces.is_empty() {
                return Ok(piece);
            }
            pieces.extend_from_slice(&piece.bytes);
            if is_last {
                return Ok(ReadData {
                    bytes: pieces.freeze(),
                    end_of_file,
                });
            }
        }
    }

    async fn write(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written> {
        let clients = self.clients.forgotten();
        if matches!(access, AccessCheck::Open(_))
            && let Some(written) = self.write_directly(clients, id, (offset, &data)).await?
        {
            return Ok(written);
        }
        let _under_way = self.direct.through_home(id).await?;
        let check = OwnedAccessCheck::from(access);
        let mut rest = data;
        let mut all: Option<Written> = None;
        let mut from = offset;
        loop {
            let piece = rest.split_to(rest.len().min(BYTES_MAX as usize));
            let length = piece.len() as u64;
            let change = Change::Write(check.clone(), id, from, piece, stability);
            let Answer::Written(written) = self.ask_for(clients, Question::Change(change)).await?
            else {
                return Err(other_answer());
            };
            self.direct.note_verifier(written.verifier);
            let written = match all {
                None => written,
                // From the first piece's verifier, a client sees that part of the data may be lost.
                Some(before) => Written {
                    count: before.count.saturating_add(written.count),
                    stability: before.stability.min(written.stability),
                    verifier: before.verifier,
                    attributes: written.attributes,
                },
            };
            if rest.is_empty() {
                return Ok(written);
            }
            from = from.checked_add(length).ok_or(Error::TooLarge)?;
            all = Some(written);
        }
    }

    async fn commit(&self, id: ObjectId, offset: u64, count: u32) -> Result<Commitment> {
        let question = Question::Commit(id, offset, count);
        match self.ask(question).await? {
            Answer::Committed(done) => {
                self.direct.note_verifier(done.verifier);
                Ok(done)
            }
            _ => Err(other_answer()),
        }
    }

    async fn seek(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        offset: u64,
        target: SeekTarget,
    ) -> Result<Option<u64>> {
        let question = Question::Seek(access.into(), id, offset, target);
        answered!(self, question, Answer::Found(found) => found)
    }

    async fn allocate(&self, access: AccessCheck<'_>, id: ObjectId, extent: Extent) -> Result<()> {
        let change = Change::Allocate(access.into(), id, extent);
        self.do_at_home(Question::Change(change)).await
    }

    async fn deallocate(
        &self,
        access: AccessCheck<'_>,
        id: ObjectId,
        extent: Extent,
    ) -> Result<()> {
        let change = Change::Deallocate(access.into(), id, extent);
        self.do_at_home(Question::Change(change)).await
    }

    async fn xattr(&self, who: &Credentials, id: ObjectId, name: &XattrName) -> Result<Bytes> {
        let question = Question::Xattr(who.clone(), id, name.clone());
        answered!(self, question, Answer::Bytes(value) => value)
    }

    async fn set_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> Result<DirectoryChange> {
        let change = Change::SetXattr(who.clone(), id, name.clone(), value, mode);
        answered!(self, Question::Change(change), Answer::Changed(change) => change)
    }

    async fn remove_xattr(
        &self,
        who: &Credentials,
        id: ObjectId,
        name: &XattrName,
    ) -> Result<DirectoryChange> {
        let change = Change::RemoveXattr(who.clone(), id, name.clone());
        answered!(self, Question::Change(change), Answer::Changed(change) => change)
    }

    async fn xattrs(
        &self,
        who: &Credentials,
        id: ObjectId,
        cookie: u64,
        max_bytes: usize,
    ) -> Result<XattrPage> {
        let max_bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        let question = Question::Xattrs(who.clone(), id, cookie, max_bytes);
        answered!(self, question, Answer::Xattrs(page) => page)
    }

    fn others_went_on(&self, _: ObjectId) -> bool {
        // Only the home knows. It is asked about each lock.
        true
    }

    fn others_reclaim(&self) -> bool {
        !self.clients.have_reclaimed()
    }

    fn on_loss(&self, forget: Forget) {
        self.clients.on_loss(forget);
    }

    fn on_lock_change(&self, listener: Arc<dyn Fn(ObjectId) + Send + Sync>) {
        self.clients.on_lock_change(listener);
    }

    fn keeps_requests(&self) -> bool {
        // The home keeps them in its store, which is of the same kind as the local one.
        self.own.keeps_requests()
    }

    async fn end_requests(&self, ended: Vec<RequestGroup>) -> Result<()> {
        self.do_at_home(Question::EndRequests(ended)).await
    }

    async fn age_requests(&self, alive: HashSet<RequestGroup>) -> Result<()> {
        // The home keeps them and ages those of all servers.
        let alive: Vec<RequestGroup> = alive.into_iter().collect();
        for some in alive.chunks(SESSIONS_AT_ONCE) {
            self.do_at_home(Question::Sessions(some.to_vec(), false))
                .await?;
        }
        self.do_at_home(Question::Sessions(Vec::new(), true)).await
    }

    async fn end_reclaim(&self) -> Result<()> {
        self.own.end_reclaim().await?;
        self.end_reclaim_at_home().await
    }

    async fn sync(&self) -> Result<()> {
        self.own.sync().await
    }
}

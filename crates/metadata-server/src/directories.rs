//! Directories whose name is at the first metadata server and which live at the joined server that made them (decision 46).
//!
//! In the store of their home they have hidden names in its root: `new-` and the client's request until the first server is known to have
//! the name, then `dir-` and their identifier. The first server's store has the name, and a row that says that the directory lies
//! elsewhere. The batch that adds the name makes the directory, and the batch that drops the name removes it. Until the outcome of a
//! removal is known, the directory is sealed and gets no names. A home that does not know the outcome asks the first server
//! ([`Question::Elsewhere`]).
//!
//! What must never enter: what lies in these directories.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use store::Store;
use vfs::permission::SET_GROUP_ID;
use vfs::{
    AccessCheck, Attributes, Cookie, Created, Credentials, DirectoryChange, Error, FileSystem,
    Name, NewObject, ObjectId, ObjectKind, Result, SetAttributes,
};

use crate::home::{Asking, Home};
use crate::pool_tree::{Part, PoolTree, locked};
use crate::question::{Answer, Change, Question, other_answer};
use crate::remote_tree::RemoteTree;

const NEW: &str = "new-";
const SETTLED: &str = "dir-";

/// Distinguishes directories that have no request.
static ANONYMOUS: AtomicU64 = AtomicU64::new(0);

/// The hidden name of a directory that this request makes.
fn new_name(who: &Credentials) -> Result<Name> {
    let mut name = NEW.to_owned();
    let written = match &who.request {
        Some(request) => {
            let series = request.series.iter();
            let series = series.fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
            // A repeat knows only the lower half of the number.
            let number = request.number & u64::from(u32::MAX);
            let (part, digest) = (request.part, request.digest);
            write!(name, "{series}-{number:x}-{part:x}-{digest:x}")
        }
        None => {
            let number = ANONYMOUS.fetch_add(1, Ordering::Relaxed);
            write!(name, "{}-{number:x}", std::process::id())
        }
    };
    written.map_err(|_| other_answer())?;
    Ok(Name::new(name.into_bytes())?)
}

fn settled_name(directory: ObjectId) -> Result<Name> {
    let name = format!("{SETTLED}{directory}");
    Ok(Name::new(name.into_bytes())?)
}

/// Whether directories live in this store of a joined server.
///
/// # Errors
/// The errors of reading.
pub async fn has_directories(store: &Store) -> Result<bool> {
    let root = Credentials::root();
    let page = store.read_directory(&root, ObjectId::ROOT, Cookie::START, 1);
    Ok(!page.await?.entries.is_empty())
}

/// Ends the removal of a directory when dropped.
struct Removing<'p>(&'p PoolTree, ObjectId);

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        locked(&self.0.removing).remove(&self.1);
    }
}

/// The side of the joined server.
impl PoolTree {
    fn first(&self) -> Result<&Arc<RemoteTree>> {
        match &self.part {
            Part::Joined { first, .. } => Ok(first),
            Part::First { .. } => Err(Error::NotSupported),
        }
    }

    /// Makes a directory here, with its name at the first server.
    pub(crate) async fn make_directory(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
        set: &SetAttributes,
    ) -> Result<Created> {
        let (tree, who, name, set) = (self.this()?, who.clone(), name.clone(), set.clone());
        // It runs to its end even if the waiting request is dropped.
        let made = tokio::spawn(async move { tree.make(who, directory, name, set).await });
        made.await.unwrap_or(Err(Error::Uncertain))
    }

    async fn make(
        &self,
        who: Credentials,
        directory: ObjectId,
        name: Name,
        set: SetAttributes,
    ) -> Result<Created> {
        let hidden = new_name(&who)?;
        let settled = self.settle_one(&hidden).await;
        settled.map_err(|_| Error::Uncertain)?;
        let is_repeat = who.request.as_ref().is_some_and(|it| it.repeat_only);
        let id = match is_repeat {
            // It was made before, or must not be made.
            true => ObjectId::new(self.store.slot(), 0).ok_or(Error::NoSpace)?,
            false => self.make_hidden(&who, directory, &hidden, &set).await?,
        };
        let new = NewObject::DirectoryElsewhere(id);
        let named = self
            .first()?
            .create(&who, directory, &name, new, &set)
            .await;
        match named {
            Ok(named) if named.attributes.id == id => {
                self.settle_made(&hidden, &named.attributes).await?;
                Ok(Created {
                    attributes: self.own.attributes(id).await.unwrap_or(named.attributes),
                    ..named
                })
            }
            // An earlier attempt of the same request made another one.
            Ok(named) => {
                if !is_repeat {
                    self.forget_hidden(&hidden).await;
                }
                Ok(Created {
                    attributes: self.own.attributes(named.attributes.id).await?,
                    ..named
                })
            }
            // The outcome is settled at a repeat or at the next start.
            Err(error @ (Error::Uncertain | Error::Io(_))) => Err(error),
            Err(error) => {
                if !is_repeat {
                    self.forget_hidden(&hidden).await;
                }
                Err(error)
            }
        }
    }

    /// Makes the directory without its name, as the first server would have made it. Returns an existing one if the same request made it
    /// before.
    async fn make_hidden(
        &self,
        who: &Credentials,
        directory: ObjectId,
        hidden: &Name,
        set: &SetAttributes,
    ) -> Result<ObjectId> {
        let root = Credentials::root();
        let above = self.first()?.attributes(directory).await?;
        let who = Credentials {
            request: None,
            ..who.clone()
        };
        let plain = NewObject::Plain(ObjectKind::Directory);
        let own = &self.own;
        let made = match own.create(&who, ObjectId::ROOT, hidden, plain, set).await {
            Err(Error::Exists) => own.lookup(&root, ObjectId::ROOT, hidden).await?,
            made => made?.attributes,
        };
        if above.mode & SET_GROUP_ID != 0 {
            let mode = made.mode | SET_GROUP_ID;
            let group = set.group.unwrap_or(above.group);
            self.give(made.id, (made.owner, group, mode)).await?;
        }
        Ok(made.id)
    }

    async fn give(&self, id: ObjectId, (owner, group, mode): (u32, u32, u32)) -> Result<()> {
        let root = Credentials::root();
        let set = SetAttributes {
            owner: Some(owner),
            group: Some(group),
            mode: Some(mode),
            ..SetAttributes::default()
        };
        let access = AccessCheck::Credentials(&root);
        self.own.set_attributes(access, id, &set).await.map(drop)
    }

    /// The first server has the name. The row beside it has these attributes.
    async fn settle_made(&self, hidden: &Name, named: &Attributes) -> Result<()> {
        let wanted = |found: &Attributes| (found.owner, found.group, found.mode);
        let root = Credentials::root();
        let found = self.own.lookup(&root, ObjectId::ROOT, hidden);
        let found = match found.await {
            Ok(found) => found,
            // It was settled before.
            Err(Error::NotFound) => return Ok(()),
            Err(error) => return Err(error),
        };
        if wanted(&found) != wanted(named) {
            self.give(found.id, wanted(named)).await?;
        }
        let settled = settled_name(found.id)?;
        let (from, to) = ((ObjectId::ROOT, hidden), (ObjectId::ROOT, &settled));
        let renamed = self.own.rename(&Credentials::root(), from, to).await;
        renamed.map(drop)
    }

    /// The first server has no such name. If this fails, the next start removes the directory.
    async fn forget_hidden(&self, hidden: &Name) {
        let root = Credentials::root();
        let removed = self.own.remove(&root, ObjectId::ROOT, hidden);
        if let Err(error) = removed.await {
            tracing::debug!(%error, "a directory that was not made after all stays until the next start");
        }
    }

    /// Takes up what an earlier run has left. Call it before clients are served.
    ///
    /// # Errors
    /// The errors of reading.
    pub async fn take_up(&self) -> Result<()> {
        self.take_up_moves().await?;
        if matches!(self.part, Part::First { .. }) {
            return Ok(());
        }
        for (name, id) in self.hidden_names().await? {
            if !self.store.attributes(id).await?.is_directory() {
                continue;
            }
            if let Some(seal) = self.store.seal_of(id)? {
                locked(&self.sealed).insert(id, seal);
            }
            if name.as_bytes().starts_with(NEW.as_bytes()) {
                locked(&self.unsettled).insert(name, id);
            }
        }
        Ok(())
    }

    /// Finds out what became of directories that an earlier run made. Call it until it succeeds.
    ///
    /// # Errors
    /// [`Error::Delay`] while that is not known.
    pub async fn settle_unsettled(&self) -> Result<()> {
        let names: Vec<Name> = locked(&self.unsettled).keys().cloned().collect();
        for hidden in names {
            self.settle_one(&hidden).await?;
        }
        Ok(())
    }

    /// The same for one. Before it, the request that made the directory must not be sent: its answer would be void.
    async fn settle_one(&self, hidden: &Name) -> Result<()> {
        if !locked(&self.unsettled).contains_key(hidden) {
            return Ok(());
        }
        let _alone = self.settling.lock().await;
        let Some(id) = locked(&self.unsettled).get(hidden).copied() else {
            return Ok(());
        };
        match self.first()?.ask(Question::Elsewhere(id)).await {
            Ok(Answer::Attributes(named)) => self.settle_made(hidden, &named).await?,
            Err(Error::Stale) => {
                let root = Credentials::root();
                self.own.remove(&root, ObjectId::ROOT, hidden).await?;
            }
            Ok(_) => return Err(other_answer()),
            Err(error) => return Err(error),
        }
        locked(&self.unsettled).remove(hidden);
        Ok(())
    }

    /// Finds out the outcome of removals that were not reported. Call this regularly.
    pub async fn settle_sealed(&self) {
        let sealed = locked(&self.sealed).clone();
        for (id, seal) in sealed {
            let Ok(first) = self.first() else { return };
            let settled = match first.ask(Question::Elsewhere(id)).await {
                Ok(Answer::Attributes(_)) => self.break_seal(id, seal).await,
                Err(Error::Stale) => self.discard(id).await,
                // The removal is under way, or the first server is away.
                _ => return,
            };
            if let Err(error) = settled {
                tracing::debug!(%id, %error, "the outcome of a removal is not carried out yet");
            }
        }
    }

    async fn seal(&self, id: ObjectId, seal: u64) -> Result<()> {
        self.store.seal(id, seal).await?;
        locked(&self.sealed).insert(id, seal);
        Ok(())
    }

    async fn break_seal(&self, id: ObjectId, seal: u64) -> Result<()> {
        self.store.break_seal(id, seal).await?;
        let mut sealed = locked(&self.sealed);
        if sealed.get(&id) == Some(&seal) {
            sealed.remove(&id);
        }
        Ok(())
    }

    /// The first server has removed its name.
    async fn discard(&self, id: ObjectId) -> Result<()> {
        let (root, name) = (Credentials::root(), settled_name(id)?);
        match self.own.remove(&root, ObjectId::ROOT, &name).await {
            Ok(_) => {}
            // A killed run had not settled it, and the next start does; or it is gone.
            Err(Error::NotFound) if self.store.attributes(id).await.is_ok() => {
                return Err(Error::Delay);
            }
            Err(Error::NotFound) => {}
            Err(error) => return Err(error),
        }
        locked(&self.sealed).remove(&id);
        Ok(())
    }
}

/// The side of the first server.
impl PoolTree {
    /// Whether this server has the name of a directory that lies elsewhere.
    pub(crate) fn names_elsewhere(&self, id: ObjectId) -> bool {
        self.store.slot() != id.slot() && self.store.seal_of(id).is_ok()
    }

    /// Gives the row beside the name the owner and mode that the object has at its home. They decide who may move or remove it.
    pub(crate) async fn refresh(&self, id: ObjectId) -> Result<()> {
        let home = self.other(id).ok_or(Error::Stale)?;
        let there = home.attributes(id).await?;
        let here = self.store.attributes(id).await?;
        let wanted = |found: &Attributes| (found.owner, found.group, found.mode);
        match wanted(&there) == wanted(&here) {
            true => Ok(()),
            false => self.give(id, wanted(&there)).await,
        }
    }

    /// The same, if the object is not lost with its home.
    pub(crate) async fn refresh_unless_lost(&self, id: ObjectId) -> Result<()> {
        match self.refresh(id).await {
            Ok(()) | Err(Error::Stale) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The same for the object with this name, if it lies elsewhere.
    pub(crate) async fn refresh_name_of_elsewhere(
        &self,
        who: &Credentials,
        (directory, name): (ObjectId, &Name),
    ) -> Result<()> {
        match self.own.lookup(who, directory, name).await {
            Ok(found) if !self.is_elsewhere(found.id) => Ok(()),
            Ok(found) if found.is_directory() => self.refresh(found.id).await,
            Ok(found) => self.refresh_unless_lost(found.id).await,
            // The operation itself reports what is wrong, or was done before.
            _ => Ok(()),
        }
    }

    /// Removes the name of a directory that lies elsewhere, and so the directory.
    pub(crate) async fn remove_name_of_elsewhere(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        let (tree, who, name) = (self.this()?, who.clone(), name.clone());
        // It runs to its end even if the waiting request is dropped.
        let removed = tokio::spawn(async move { tree.remove_sealed(&who, directory, &name).await });
        removed.await.unwrap_or(Err(Error::Uncertain))
    }

    async fn remove_sealed(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Result<DirectoryChange> {
        let id = self.own.lookup(who, directory, name).await?.id;
        let home = self.other(id).ok_or(Error::Delay)?;
        if !locked(&self.removing).insert(id) {
            return Err(Error::Delay);
        }
        let _removing = Removing(self, id);
        let seal = self.next_seal.fetch_add(1, Ordering::Relaxed);
        home.do_at_home(Question::Seal(id, seal)).await?;
        let since = self.holders.begin_again();
        let removed = match self.refresh(id).await {
            Ok(()) => {
                let name = (directory, name);
                self.store.remove_elsewhere(who, name, id).await
            }
            Err(error) => Err(error),
        };
        let outcome = match &removed {
            Ok(_) => Question::Discard(id),
            Err(_) => Question::BreakSeal(id, seal),
        };
        // A home that does not hear it now asks for it.
        let _ = home.do_at_home(outcome).await;
        self.holders.settled(since, &[directory, id]).await;
        removed
    }

    /// The row beside the name of a directory that lies elsewhere, if its removal is not under way.
    async fn named(&self, id: ObjectId) -> Result<Attributes> {
        if locked(&self.removing).contains(&id) {
            return Err(Error::Delay);
        }
        self.store.attributes(id).await
    }
}

impl RemoteTree {
    /// Whether directories live at the home, with or without a name.
    pub(crate) async fn has_directories_there(&self) -> Result<bool> {
        match self.ask(Question::HasDirectories).await? {
            Answer::Holds(has) => Ok(has),
            _ => Err(other_answer()),
        }
    }
}

impl Home {
    /// Answers questions about directories and names that lie over two servers.
    pub(crate) async fn answer_about_directories(
        &self,
        asker: Asking,
        question: Question,
    ) -> Result<Answer> {
        let tree = self.pool_tree.as_ref().ok_or(Error::NotSupported)?;
        let is_first = matches!(tree.part, Part::First { .. });
        let _under_way = match question {
            Question::PrepareMove(..)
            | Question::FinishMove(..)
            | Question::MoveOutcome(_)
            | Question::HoldNames(..)
            | Question::NamesOf(_) => self.begin_between(asker).await?,
            _ => self.begin_change(asker).await?,
        };
        match question {
            Question::Elsewhere(id) if is_first && id.slot() == asker.server => {
                Ok(Answer::Attributes(tree.named(id).await?))
            }
            Question::Seal(id, seal) if !is_first => {
                tree.seal(id, seal).await.map(|()| Answer::Done)
            }
            Question::BreakSeal(id, seal) if !is_first => {
                tree.break_seal(id, seal).await.map(|()| Answer::Done)
            }
            Question::Discard(id) if !is_first => tree.discard(id).await.map(|()| Answer::Done),
            Question::PrepareMove(number, who, directory, name) => {
                let number = (asker.server, number);
                let prepared = tree.prepare_move(number, &who, (directory, &name));
                let (file, source) = prepared.await?;
                Ok(Answer::Prepared(file, source))
            }
            Question::FinishMove(number, is_done) => {
                let finished = tree.finish_move((asker.server, number), is_done);
                finished.await.map(|()| Answer::Done)
            }
            Question::MoveOutcome(number) => Ok(Answer::Holds(
                tree.move_outcome(asker.server, number).await?,
            )),
            Question::HoldNames(id, names) => {
                let held = tree.hold_names(asker.server, id, names);
                Ok(Answer::Attributes(held.await?))
            }
            Question::NamesOf(id) => Ok(Answer::Names(tree.names_of(id)?)),
            Question::HasDirectories if !is_first => {
                Ok(Answer::Holds(has_directories(&tree.store).await?))
            }
            _ => Err(Error::NotSupported),
        }
    }

    /// Gives a directory that the asker has made its name. The asker is a home from now on.
    pub(crate) async fn name_made(
        &self,
        asker: Asking,
        id: ObjectId,
        change: Change,
    ) -> Result<Answer> {
        let tree = self.pool_tree.as_ref().ok_or(Error::NotSupported)?;
        let Change::Create(who, directory, name, new, set) = change else {
            return Err(Error::NotSupported);
        };
        if id.slot() != asker.server || tree.is_elsewhere(directory) {
            return Err(Error::NotSupported);
        }
        let _stays = tree.expect_home(asker.server).await?;
        let created = tree.create(&who, directory, &name, new, &set).await?;
        Ok(Answer::Created(created))
    }
}

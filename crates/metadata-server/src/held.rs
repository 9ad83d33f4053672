//! Files that have names at another home than their own.
//!
//! For each name that another home has of a file, the file's home keeps a hidden name. So its link count is right, and the file stays as
//! long as it has a name. The other home reports its number of names: one more before it makes a name, and fewer after it has removed some.
//! It repeats reports that failed. A home that has lost contact with the other asks for the number.
//!
//! A joined server reports to the first one, also about files of a third server: the first server then has hidden names of the file itself,
//! and reports them to the file's home.
//!
//! What must never enter: where the names are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use tokio::sync::MutexGuard;
use vfs::{
    Attributes, Credentials, DirectoryChange, Error, FileSystem, Name, ObjectId, ReplicaSlot,
    Result,
};

use crate::hidden::{numbered, numbers};
use crate::pool_tree::{Busy, Part, PoolTree, locked};
use crate::question::{Answer, Question, other_answer};

/// Hidden name that keeps a file for a name at another home: the other home's slot, the file, and the number of earlier ones.
const KEPT: &str = "out";

/// If the count failed for more files than this, all are counted again. Bounds the memory.
const NOTED_MAX: usize = 4096;

/// The files of which it is uncertain how many names another home has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unsure {
    OfAll,
    Of(BTreeSet<ObjectId>),
}

impl Unsure {
    fn includes(&self, id: ObjectId) -> bool {
        match self {
            Unsure::OfAll => true,
            Unsure::Of(files) => files.contains(&id),
        }
    }
}

/// The side of the files' home.
impl PoolTree {
    /// Keeps a file for all names that another home has of it. Returns its attributes.
    pub(crate) async fn hold_names(
        &self,
        at: ReplicaSlot,
        id: ObjectId,
        names: u32,
    ) -> Result<Attributes> {
        let alone = self.holding.lock().await;
        // An answer to an earlier count is outdated.
        locked(&self.counting).remove(&(at, id));
        if !self.is_elsewhere(id) {
            return self.hold_exactly(at, id, names).await;
        }
        if !self.is_third(at, id) {
            return Err(Error::NotSupported);
        }
        let _busy = self.busy(id)?;
        self.hold_for_third(alone, (at, id), names).await
    }

    /// Whether names at this joined server are of a file of another joined one, and kept here.
    fn is_third(&self, at: ReplicaSlot, id: ObjectId) -> bool {
        matches!(self.part, Part::First { .. }) && self.is_elsewhere(id) && id.slot() != at
    }

    /// Whether this server keeps a file for names at that home.
    pub(crate) fn keeps_for(&self, at: ReplicaSlot, id: ObjectId) -> bool {
        !self.is_elsewhere(id) || self.is_third(at, id)
    }

    /// Asks another home for its number of names of a file, and keeps the file for them. The answer is void if that home has reported since.
    /// The caller holds a file that lives at a third server busy.
    pub(crate) async fn count_names_at(&self, at: ReplicaSlot, id: ObjectId) -> Result<()> {
        let other = self.at_server(at).ok_or(Error::Stale)?;
        let number = self.next_seal.fetch_add(1, Ordering::Relaxed);
        locked(&self.counting).insert((at, id), number);
        let counted = match other.ask(Question::NamesOf(id)).await {
            Ok(Answer::Names(names)) => self.hold_counted((at, id), names, number).await,
            Ok(_) => Err(other_answer()),
            Err(error) => Err(error),
        };
        self.end_counting((at, id), number);
        match counted {
            // It was removed with its last name.
            Ok(_) | Err(Error::Stale) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Ends a question for a number of names. Returns whether its answer counts.
    fn end_counting(&self, of: (ReplicaSlot, ObjectId), number: u64) -> bool {
        let mut counting = locked(&self.counting);
        let counts = counting.get(&of) == Some(&number);
        if counts {
            counting.remove(&of);
        }
        counts
    }

    async fn hold_counted(
        &self,
        (at, id): (ReplicaSlot, ObjectId),
        names: u32,
        number: u64,
    ) -> Result<Attributes> {
        let alone = self.holding.lock().await;
        if !self.end_counting((at, id), number) {
            return Err(Error::Delay);
        }
        match self.is_third(at, id) {
            true => self.hold_for_third(alone, (at, id), names).await,
            false => self.hold_exactly(at, id, names).await,
        }
    }

    /// The same as [`PoolTree::hold_names`] for a file that lives at a third server, which the caller holds busy.
    async fn hold_for_third(
        &self,
        alone: MutexGuard<'_, ()>,
        (at, id): (ReplicaSlot, ObjectId),
        names: u32,
    ) -> Result<Attributes> {
        let home = self.other(id).ok_or(Error::Stale)?;
        let held = self.count_held(at, id).await?;
        for before in (names..held).rev() {
            self.drop_hidden(&kept_name(at, id, before)?).await?;
        }
        // That home may be slow.
        drop(alone);
        if names <= held {
            if names < held {
                self.tell_names(id).await;
            }
            return home.attributes(id).await;
        }
        let all = self.store.count_names(id)?;
        let all = all.saturating_add(names - held);
        // If it is not known whether the home has heard it, or if one of the names is not made.
        locked(&self.owed).insert(id);
        let file = match home.ask(Question::HoldNames(id, all)).await? {
            Answer::Attributes(file) => file,
            _ => return Err(other_answer()),
        };
        let _alone = self.holding.lock().await;
        for before in self.count_held(at, id).await?..names {
            self.keep_by(&kept_name(at, id, before)?, &file).await?;
        }
        locked(&self.owed).remove(&id);
        Ok(file)
    }

    /// The caller holds `holding`.
    async fn hold_exactly(&self, at: ReplicaSlot, id: ObjectId, names: u32) -> Result<Attributes> {
        let found = self.own.attributes(id).await;
        if names > 0 && found.as_ref().is_ok_and(Attributes::is_directory) {
            return Err(Error::IsDirectory);
        }
        let mut held = self.count_held(at, id).await?;
        while held < names {
            let (hidden, name) = (self.need_hidden().await?, kept_name(at, id, held)?);
            let linked = self.own.link(&Credentials::root(), id, hidden, &name).await;
            linked?;
            held += 1;
        }
        while held > names {
            held -= 1;
            self.drop_hidden(&kept_name(at, id, held)?).await?;
        }
        match self.own.attributes(id).await {
            // It was removed with its last name.
            Err(Error::Stale) if names == 0 => found,
            found => found,
        }
    }

    /// Turns a hidden name of a file, made for another purpose, into one that stands for one more name at another home.
    pub(crate) async fn hold_by(&self, at: ReplicaSlot, id: ObjectId, by: &Name) -> Result<()> {
        let _alone = self.holding.lock().await;
        locked(&self.counting).remove(&(at, id));
        let hidden = self.need_hidden().await?;
        let name = kept_name(at, id, self.count_held(at, id).await?)?;
        let (from, to) = ((hidden, by), (hidden, &name));
        match self.own.rename(&Credentials::root(), from, to).await {
            Ok(_) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn count_held(&self, at: ReplicaSlot, id: ObjectId) -> Result<u32> {
        let mut held = 0;
        while self.hidden_name(&kept_name(at, id, held)?).await? == Some(id) {
            held += 1;
        }
        Ok(held)
    }

    /// A new run of a home has begun. It may have forgotten reports that it still owes.
    pub(crate) fn has_met(&self, at: ReplicaSlot) {
        locked(&self.unsure).insert(at, Unsure::OfAll);
    }

    /// Asks a home for its number of names where it is uncertain. A home that is away is asked when it is back. Call this regularly.
    pub(crate) async fn settle_unsure(&self, at: ReplicaSlot) {
        let Some(unsure) = locked(&self.unsure).remove(&at) else {
            return;
        };
        let left = match self.count_names_where(at, &unsure).await {
            Ok(failed) if failed.is_empty() => return,
            Ok(failed) if failed.len() <= NOTED_MAX => Unsure::Of(failed),
            _ => unsure,
        };
        // What was counted is not asked again, unless a new run has begun meanwhile.
        locked(&self.unsure).entry(at).or_insert(left);
    }

    /// Returns the files for which that failed.
    async fn count_names_where(
        &self,
        at: ReplicaSlot,
        unsure: &Unsure,
    ) -> Result<BTreeSet<ObjectId>> {
        let mut held = BTreeMap::<ObjectId, Vec<Name>>::new();
        for (name, id) in self.hidden_names().await? {
            if unsure.includes(id) && held_by(&name).is_some_and(|(of, _)| of == at) {
                held.entry(id).or_default().push(name);
            }
        }
        let mut failed = BTreeSet::new();
        for (id, names) in held {
            let counted = match self.at_server(at) {
                Some(_) => self.count_unused(at, id).await,
                None => self.drop_held(id, names).await,
            };
            // One file does not wait for another one.
            if counted.is_err() {
                failed.insert(id);
            }
        }
        Ok(failed)
    }

    async fn count_unused(&self, at: ReplicaSlot, id: ObjectId) -> Result<()> {
        let is_third = self.is_third(at, id);
        let _busy = is_third.then(|| self.busy(id)).transpose()?;
        self.count_names_at(at, id).await
    }

    /// A home was removed and had no names any more. For names at a lost home, nothing is held by now.
    async fn drop_held(&self, id: ObjectId, names: Vec<Name>) -> Result<()> {
        for name in names {
            self.drop_hidden(&name).await?;
        }
        if self.is_elsewhere(id) {
            locked(&self.owed).insert(id);
        }
        Ok(())
    }
}

/// Parses a hidden name: the home for which it keeps the file, and the number of earlier ones.
pub(crate) fn held_by(name: &Name) -> Option<(ReplicaSlot, u64)> {
    let [at, _, before] = numbers(KEPT, name)?;
    Some((ReplicaSlot(u16::try_from(at).ok()?), before))
}

fn kept_name(at: ReplicaSlot, id: ObjectId, before: u32) -> Result<Name> {
    numbered(KEPT, &[at.0.into(), id.as_u64(), before.into()])
}

/// The side of the home that has the names.
impl PoolTree {
    /// Keeps other tasks away from the local names of this file while the result is held.
    pub(crate) fn busy(&self, id: ObjectId) -> Result<Busy<'_>> {
        match locked(&self.busy).insert(id) {
            true => Ok(Busy(self, id)),
            false => Err(Error::Delay),
        }
    }

    /// The number of local names of a file of the asker, if no task works on them.
    pub(crate) fn names_of(&self, id: ObjectId) -> Result<u32> {
        let _busy = self.busy(id)?;
        self.store.count_names(id)
    }

    /// Tells the home of a file how many names it has here, or notes that this is owed. The caller holds the file busy.
    pub(crate) async fn tell_names(&self, id: ObjectId) {
        let told = self.try_to_tell_names(id).await;
        let mut owed = locked(&self.owed);
        match told {
            Ok(()) => owed.remove(&id),
            Err(_) => owed.insert(id),
        };
    }

    pub(crate) async fn try_to_tell_names(&self, id: ObjectId) -> Result<()> {
        let names = self.store.count_names(id)?;
        let Some(home) = self.other(id) else {
            // That home was removed with everything that lived there.
            return Ok(());
        };
        match home.ask(Question::HoldNames(id, names)).await {
            // It was removed with its last name.
            Ok(Answer::Attributes(_)) | Err(Error::Stale) => Ok(()),
            Ok(_) => Err(other_answer()),
            Err(error) => Err(error),
        }
    }

    /// Repeats reports to a home that failed. Call this regularly.
    pub(crate) async fn settle_owed(&self, to: ReplicaSlot) {
        let owed: Vec<ObjectId> = locked(&self.owed).iter().copied().collect();
        for id in owed {
            if self.told_about(id) != to {
                continue;
            }
            let Ok(_busy) = self.busy(id) else { continue };
            // One that fails, whatever the reason, does not keep the others waiting.
            self.tell_names(id).await;
        }
    }

    /// The server that is told how many names a file has here.
    fn told_about(&self, id: ObjectId) -> ReplicaSlot {
        self.other(id).map_or(id.slot(), |other| other.server())
    }

    /// The servers to which reports are owed.
    pub(crate) fn owed_to(&self) -> BTreeSet<ReplicaSlot> {
        let owed = locked(&self.owed);
        owed.iter().map(|id| self.told_about(*id)).collect()
    }

    /// Gives a file of another home a name here.
    pub(crate) async fn link_to_elsewhere(
        &self,
        who: &Credentials,
        id: ObjectId,
        place: (ObjectId, &Name),
    ) -> Result<DirectoryChange> {
        let (tree, who) = (self.this()?, who.clone());
        let (directory, name) = (place.0, place.1.clone());
        // It runs to its end even if the waiting request is dropped.
        let linked =
            tokio::spawn(async move { tree.link_held(&who, id, (directory, &name)).await });
        linked.await.unwrap_or(Err(Error::Uncertain))
    }

    async fn link_held(
        &self,
        who: &Credentials,
        id: ObjectId,
        place: (ObjectId, &Name),
    ) -> Result<DirectoryChange> {
        if let Some(change) = self.store.linked_before(who).await? {
            return Ok(change);
        }
        let home = self.other(id).ok_or(Error::Delay)?;
        let _busy = self.busy(id)?;
        let names = self.store.count_names(id)?.saturating_add(1);
        let file = match home.ask(Question::HoldNames(id, names)).await {
            Ok(Answer::Attributes(file)) => file,
            Ok(_) => return Err(other_answer()),
            Err(error) => {
                // It is not known whether the home heard it.
                locked(&self.owed).insert(id);
                return Err(error);
            }
        };
        let since = self.holders.begin_again();
        let linked = {
            let _place = self.take_place(place).await?;
            self.store.accept_name(who, place, &file, None).await
        };
        if linked.is_err() {
            self.tell_names(id).await;
        }
        self.holders.settled(since, &[place.0, id]).await;
        linked
    }

    /// Removes a name of a file that lives elsewhere.
    pub(crate) async fn remove_name_of_file(
        &self,
        who: &Credentials,
        place: (ObjectId, &Name),
        id: ObjectId,
    ) -> Result<DirectoryChange> {
        let _busy = self.busy(id)?;
        // The file's owner decides who may remove it. A file that is lost with its home has none.
        self.refresh_unless_lost(id).await?;
        // In case nobody waits for the end of this.
        locked(&self.owed).insert(id);
        let since = self.holders.begin_again();
        let removed = {
            let _place = self.take_place(place).await?;
            self.store.remove_elsewhere(who, place, id).await
        };
        self.tell_names(id).await;
        self.holders.settled(since, &[place.0, id]).await;
        removed
    }
}

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

use std::collections::BTreeSet;

use vfs::{
    Attributes, Credentials, DirectoryChange, Error, FileSystem, Name, ObjectId, ReplicaSlot,
    Result,
};

use crate::hidden::{numbered, numbers};
use crate::pool_tree::{Busy, Part, PoolTree, locked};
use crate::question::{Answer, Question, other_answer};

/// Hidden name that keeps a file for a name at another home: the other home's slot, the file, and the number of earlier ones.
const KEPT: &str = "out";

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
        drop(alone);
        if !self.is_third(at, id) {
            return Err(Error::NotSupported);
        }
        let _busy = self.busy(id)?;
        self.hold_for_third((at, id), names).await
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
        locked(&self.counting).insert((at, id));
        let counted = match other.ask(Question::NamesOf(id)).await {
            Ok(Answer::Names(names)) => self.hold_counted(at, id, names).await,
            Ok(_) => Err(other_answer()),
            Err(error) => Err(error),
        };
        locked(&self.counting).remove(&(at, id));
        match counted {
            // It was removed with its last name.
            Ok(_) | Err(Error::Stale) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn hold_counted(&self, at: ReplicaSlot, id: ObjectId, names: u32) -> Result<Attributes> {
        let alone = self.holding.lock().await;
        if !locked(&self.counting).remove(&(at, id)) {
            return Err(Error::Delay);
        }
        if !self.is_third(at, id) {
            return self.hold_exactly(at, id, names).await;
        }
        drop(alone);
        self.hold_for_third((at, id), names).await
    }

    /// The same as [`PoolTree::hold_names`] for a file that lives at a third server, which the caller holds busy.
    async fn hold_for_third(
        &self,
        (at, id): (ReplicaSlot, ObjectId),
        names: u32,
    ) -> Result<Attributes> {
        let home = self.other(id).ok_or(Error::Stale)?;
        let held = self.count_held(at, id).await?;
        if names > held {
            let all = self.store.count_names(id)?;
            let all = all.saturating_add(names - held);
            let file = match home.ask(Question::HoldNames(id, all)).await {
                Ok(Answer::Attributes(file)) => file,
                Ok(_) => return Err(other_answer()),
                Err(error) => {
                    // It is not known whether the home heard it.
                    locked(&self.owed).insert(id);
                    return Err(error);
                }
            };
            for before in held..names {
                let kept = self.keep_by(&kept_name(at, id, before)?, &file).await;
                if let Err(error) = kept {
                    locked(&self.owed).insert(id);
                    // A name that left for that home took the place meanwhile.
                    return Err(match error {
                        Error::Exists => Error::Delay,
                        error => error,
                    });
                }
            }
            return Ok(file);
        }
        for before in (names..held).rev() {
            self.drop_hidden(&kept_name(at, id, before)?).await?;
        }
        if names < held {
            self.tell_names(id).await;
        }
        home.attributes(id).await
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
        locked(&self.unsure).insert(at);
    }

    /// Asks homes for their number of names where it is uncertain. A home that is away is asked when it is back. Call this regularly.
    pub(crate) async fn settle_unsure(&self) {
        let unsure = std::mem::take(&mut *locked(&self.unsure));
        for at in unsure {
            if self.count_all_names_at(at).await.is_err() {
                self.has_met(at);
            }
        }
    }

    async fn count_all_names_at(&self, at: ReplicaSlot) -> Result<()> {
        for (name, id) in self.hidden_names().await? {
            let Some((_, before)) = held_by(&name).filter(|(of, _)| *of == at) else {
                continue;
            };
            if self.at_server(at).is_none() {
                // It was removed and had no names any more. For names at a lost home, nothing is held by now.
                self.drop_hidden(&name).await?;
                if self.is_elsewhere(id) {
                    locked(&self.owed).insert(id);
                }
                continue;
            }
            if before > 0 {
                continue;
            }
            let is_third = self.is_third(at, id);
            let _busy = is_third.then(|| self.busy(id)).transpose()?;
            self.count_names_at(at, id).await?;
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
        if told.is_err() {
            locked(&self.owed).insert(id);
        }
    }

    async fn try_to_tell_names(&self, id: ObjectId) -> Result<()> {
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

    /// Repeats reports that failed. One home does not wait for another that is away. Call this regularly.
    pub(crate) async fn settle_owed(&self) {
        let owed: Vec<ObjectId> = locked(&self.owed).iter().copied().collect();
        let mut away = BTreeSet::new();
        for id in owed {
            if away.contains(&id.slot()) {
                continue;
            }
            let Ok(_busy) = self.busy(id) else { continue };
            match self.try_to_tell_names(id).await {
                Ok(()) => drop(locked(&self.owed).remove(&id)),
                Err(_) => drop(away.insert(id.slot())),
            }
        }
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
        match self.refresh(id).await {
            Ok(()) | Err(Error::Stale) => {}
            Err(error) => return Err(error),
        }
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

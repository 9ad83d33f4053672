//! Names of files that move from one home to another (rule 15 of `docs/design/striping.md`, decision 46).
//!
//! The home of the target decides, in two phases. It asks the home of the source to prepare. That home notes on stable storage that the name is on
//! its way out, keeps the file for it, and from then on puts off requests about the name. The batch in which the target's home makes the new name
//! is the commit point; the same batch makes a hidden name, which proves the move. Then the source's home removes the old name, and the hidden one
//! is removed after that. A source's home that is not told the outcome asks for it. Each attempt has a number of its own, so an attempt that the
//! target's home does not know was not carried out, and never will be. Between two joined servers, the first one passes a move on
//! ([`crate::passed_on`]).
//!
//! What must never enter: what the file is.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use vfs::permission::{EXECUTE, WRITE, allows, sticky_forbids};
use vfs::{
    Attributes, Credentials, DirectoryChange, Error, FileSystem, Name, NewObject, ObjectId,
    ReplicaSlot, Result, SetAttributes,
};

use crate::held::held_by;
use crate::hidden::{numbered, numbers};
use crate::pool_tree::{Busy, PoolTree, locked};
use crate::question::{Answer, Question, other_answer};

/// At the source: a symbolic link whose target is the name to remove. Numbers: decider, move, directory, file.
const FROM: &str = "from";
/// At the source: keeps the file during the move. Numbers: decider, move.
const GOES: &str = "goes";
/// At the decider: proves the move. Numbers: source, move, file.
const CAME: &str = "came";

/// The hidden name that keeps the file of a move at the source: the decider, and its number of the move.
pub(crate) fn keeper_name((decider, number): (ReplicaSlot, u64)) -> Result<Name> {
    numbered(GOES, &[decider.0.into(), number])
}

/// The decider and its number of the move that a hidden name keeps a file for.
pub(crate) fn mover(keeper: &Name) -> Option<(ReplicaSlot, u64)> {
    let [decider, number] = numbers(GOES, keeper)?;
    Some((ReplicaSlot(u16::try_from(decider).ok()?), number))
}

/// A name that is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    decider: ReplicaSlot,
    number: u64,
    file: ObjectId,
}

/// A move that was made here and that the source has not confirmed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Came {
    source: ReplicaSlot,
    number: u64,
    file: ObjectId,
}

impl Came {
    fn name(&self) -> Result<Name> {
        let file = self.file.as_u64();
        numbered(CAME, &[self.source.0.into(), self.number, file])
    }
}

/// Removes a move from those under way when dropped.
struct UnderWay<'p>(&'p PoolTree, u64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        locked(&self.0.moves).remove(&self.1);
    }
}

/// The side of the source's home.
impl PoolTree {
    /// Checks that a name may be used now.
    ///
    /// # Errors
    /// [`Error::Delay`] while it is on its way out, and [`Error::AccessDenied`] for a reserved name.
    pub(crate) fn check_place(&self, directory: ObjectId, name: &Name) -> Result<()> {
        if self.is_reserved(directory, name) {
            return Err(Error::AccessDenied);
        }
        let leaving = locked(&self.leaving);
        match !leaving.is_empty() && leaving.contains_key(&(directory, name.clone())) {
            true => Err(Error::Delay),
            false => Ok(()),
        }
    }

    /// The names of a directory that are on their way out.
    pub(crate) fn leaving_of(&self, directory: ObjectId) -> Vec<Name> {
        let leaving = locked(&self.leaving);
        let of_it = leaving.keys().filter(|(of, _)| *of == directory);
        of_it.map(|(_, name)| name.clone()).collect()
    }

    fn find_leaving(
        &self,
        decider: ReplicaSlot,
        number: u64,
    ) -> Option<((ObjectId, Name), Leaving)> {
        let leaving = locked(&self.leaving);
        let mut found = leaving
            .iter()
            .filter(|(_, leaving)| leaving.decider == decider && leaving.number == number);
        found
            .next()
            .map(|(place, leaving)| (place.clone(), *leaving))
    }

    /// Prepares to move a name away, with the checks of [`vfs::FileSystem::rename`]. Returns its object, and the version of its directory.
    pub(crate) async fn prepare_move(
        &self,
        (decider, number): (ReplicaSlot, u64),
        who: &Credentials,
        (directory, name): (ObjectId, &Name),
    ) -> Result<(Attributes, DirectoryChange)> {
        if self.is_elsewhere(directory) {
            let passed = self.pass_prepare((decider, number), who, (directory, name));
            return passed.await;
        }
        let _alone = self.preparing.lock().await;
        if let Some((place, leaving)) = self.find_leaving(decider, number) {
            let file = self.at(leaving.file).attributes(leaving.file).await?;
            return Ok((file, self.unchanged(place.0).await?));
        }
        self.check_place(directory, name)?;
        let found = self.own.lookup(who, directory, name).await?;
        let leaving = Leaving {
            decider,
            number,
            file: found.id,
        };
        let place = (directory, name.clone());
        locked(&self.leaving).insert(place.clone(), leaving);
        // Waits until earlier operations on names have ended.
        drop(self.places.write().await);
        let prepared = self.prepare_found(leaving, who, (directory, name)).await;
        if prepared.is_err() {
            let undone = self.forget_leaving(leaving, directory).await;
            if undone.is_ok() {
                locked(&self.leaving).remove(&place);
            }
        }
        prepared
    }

    async fn prepare_found(
        &self,
        leaving: Leaving,
        who: &Credentials,
        (directory, name): (ObjectId, &Name),
    ) -> Result<(Attributes, DirectoryChange)> {
        let file = leaving.file;
        if self.own.lookup(who, directory, name).await?.id != file {
            return Err(Error::Delay);
        }
        let found = self.at(file).attributes(file).await?;
        if found.is_directory() {
            return Err(Error::CrossHome);
        }
        let above = self.own.attributes(directory).await?;
        if !allows(who, &above, WRITE | EXECUTE) {
            return Err(Error::AccessDenied);
        }
        if sticky_forbids(who, &above, &found) {
            return Err(Error::NotPermitted);
        }
        let (root, hidden) = (Credentials::root(), self.need_hidden().await?);
        self.keep_by(&leaving.keeper()?, &found).await?;
        let target = NewObject::Symlink(name.as_bytes().to_vec().into());
        let (from, set) = (leaving.record(directory)?, SetAttributes::default());
        self.own.create(&root, hidden, &from, target, &set).await?;
        // No server answers from a copy of the name any more.
        self.holders.take_back(directory).await;
        let found = self.at(file).attributes(file).await?;
        Ok((found, self.unchanged(directory).await?))
    }

    /// Gives a file one more hidden name.
    ///
    /// # Errors
    /// [`Error::Exists`] if the name is there.
    pub(crate) async fn keep_by(&self, keeper: &Name, file: &Attributes) -> Result<()> {
        let hidden = self.need_hidden().await?;
        self.name_again((hidden, keeper), file).await
    }

    /// Gives a file one more name, whether it lives here or elsewhere.
    pub(crate) async fn name_again(
        &self,
        place: (ObjectId, &Name),
        file: &Attributes,
    ) -> Result<()> {
        let (root, since) = (Credentials::root(), self.holders.begin_again());
        let linked = self.store.accept_name(&root, place, file, None).await;
        self.holders.settled(since, &[place.0, file.id]).await;
        linked.map(drop)
    }

    async fn unchanged(&self, directory: ObjectId) -> Result<DirectoryChange> {
        let version = self.own.attributes(directory).await?.change;
        Ok(DirectoryChange {
            before: version,
            after: version,
        })
    }

    async fn forget_leaving(&self, leaving: Leaving, directory: ObjectId) -> Result<()> {
        self.drop_hidden(&leaving.record(directory)?).await?;
        self.drop_hidden(&leaving.keeper()?).await
    }

    /// The outcome is known: removes the name, or keeps it. If the name is already gone, keeps the file for a name at the decider in any
    /// case: there may be no other name of it.
    pub(crate) async fn finish_move(
        &self,
        (decider, number): (ReplicaSlot, u64),
        is_done: bool,
    ) -> Result<()> {
        if self.passes((decider, number)) {
            return self.end_passed((decider, number), is_done).await;
        }
        let _alone = self.preparing.lock().await;
        let Some((place, leaving)) = self.find_leaving(decider, number) else {
            return Ok(());
        };
        let (directory, name) = (place.0, &place.1);
        let root = Credentials::root();
        let is_there = match self.store.lookup(&root, directory, name).await {
            Ok(found) => found.id == leaving.file,
            Err(Error::NotFound | Error::Stale) => false,
            Err(error) => return Err(error),
        };
        if is_done && is_there {
            self.drop_name((directory, name)).await?;
        }
        if (is_done || !is_there) && self.keeps_for(decider, leaving.file) {
            let keeper = leaving.keeper()?;
            self.hold_by(decider, leaving.file, &keeper).await?;
        }
        // In this order: the record lets a later call find what is left.
        self.drop_hidden(&leaving.keeper()?).await?;
        self.drop_hidden(&leaving.record(directory)?).await?;
        if self.is_elsewhere(leaving.file) {
            locked(&self.owed).insert(leaving.file);
        }
        locked(&self.leaving).remove(&place);
        Ok(())
    }

    /// A home is lost, and its decisions are unknown. Names that are still here stay.
    pub(crate) async fn end_moves_to(&self, home: ReplicaSlot) -> Result<()> {
        let leaving: Vec<Leaving> = locked(&self.leaving).values().copied().collect();
        for Leaving {
            decider, number, ..
        } in leaving
        {
            if decider == home {
                self.finish_move((decider, number), false).await?;
            }
        }
        self.end_passed_to(home).await
    }

    /// The homes that decide about names that are leaving.
    pub(crate) fn deciders_of_leaving(&self) -> BTreeSet<ReplicaSlot> {
        let leaving = locked(&self.leaving);
        leaving.values().map(|one| one.decider).collect()
    }

    /// Asks a home for outcomes that it has not reported. Call this regularly.
    pub(crate) async fn settle_leaving(&self, decider: ReplicaSlot) {
        let leaving: Vec<Leaving> = locked(&self.leaving).values().copied().collect();
        let of_decider = leaving.iter().filter(|one| one.decider == decider);
        for number in of_decider.map(|one| one.number) {
            let is_done = match self.at_server(decider) {
                Some(other) => match other.ask(Question::MoveOutcome(number)).await {
                    Ok(Answer::Holds(is_done)) => is_done,
                    // The move is under way, or the decider is away.
                    _ => continue,
                },
                // A home is removed only when nothing is left there, proofs of moves included. For a lost home, moves have ended.
                None => false,
            };
            if let Err(error) = self.finish_move((decider, number), is_done).await {
                tracing::debug!(%error, "a name that is on its way to another home stays on it");
            }
        }
    }
}

impl Leaving {
    fn record(&self, directory: ObjectId) -> Result<Name> {
        let (decider, file) = (self.decider.0.into(), self.file.as_u64());
        numbered(FROM, &[decider, self.number, directory.as_u64(), file])
    }

    fn keeper(&self) -> Result<Name> {
        keeper_name((self.decider, self.number))
    }
}

/// The side of the target's home.
impl PoolTree {
    /// Moves a name of another home here.
    pub(crate) async fn move_here(
        &self,
        who: &Credentials,
        from: (ObjectId, &Name),
        to: (ObjectId, &Name),
    ) -> Result<(DirectoryChange, DirectoryChange)> {
        let (tree, who) = (self.this()?, who.clone());
        let (from, to) = ((from.0, from.1.clone()), (to.0, to.1.clone()));
        // It runs to its end even if the waiting request is dropped.
        let moved = tokio::spawn(async move {
            let (from, to) = ((from.0, &from.1), (to.0, &to.1));
            tree.decide_move(&who, from, to).await
        });
        moved.await.unwrap_or(Err(Error::Uncertain))
    }

    async fn decide_move(
        &self,
        who: &Credentials,
        from: (ObjectId, &Name),
        to: (ObjectId, &Name),
    ) -> Result<(DirectoryChange, DirectoryChange)> {
        if let Some(changes) = self.store.renamed_before(who).await? {
            return Ok(changes);
        }
        let home = self.other(from.0).ok_or(Error::Delay)?;
        let number = self.next_seal.fetch_add(1, Ordering::Relaxed);
        locked(&self.moves).insert(number);
        let _under_way = UnderWay(self, number);
        let who_there = Credentials {
            request: None,
            ..who.clone()
        };
        let question = Question::PrepareMove(number, who_there, from.0, from.1.clone());
        let (file, source) = match home.ask(question).await {
            Ok(Answer::Prepared(file, source)) => (file, source),
            // A source that has prepared nevertheless asks for the outcome.
            Ok(_) => return Err(other_answer()),
            Err(error) => return Err(error),
        };
        let (changes, is_done) = self
            .make_moved(who, (&file, source, number), home.server(), to)
            .await;
        if is_done == Some(false) {
            let _ = home.do_at_home(Question::FinishMove(number, false)).await;
        }
        changes
    }

    /// Makes the new name of the file that the source has prepared. Does nothing if both are names of the same file. The second value says
    /// whether the name was made, if known.
    async fn make_moved(
        &self,
        who: &Credentials,
        (file, source, number): (&Attributes, DirectoryChange, u64),
        at: ReplicaSlot,
        to: (ObjectId, &Name),
    ) -> (Result<(DirectoryChange, DirectoryChange)>, Option<bool>) {
        let came = Came {
            source: at,
            number,
            file: file.id,
        };
        let ready = match self.ready_for(who, file, to).await {
            Ok(ready) => ready,
            Err(error) => return (Err(error), Some(false)),
        };
        let Some((busy, replaced)) = ready else {
            let unchanged = self.unchanged(to.0).await;
            return (unchanged.map(|target| (source, target)), Some(false));
        };
        let since = self.holders.begin_again();
        let target = self.accept_moved(who, (file, source), &came, to).await;
        let is_done = match came.name() {
            Ok(proof) => self.hidden_name(&proof).await.map(|found| found.is_some()),
            Err(error) => Err(error),
        };
        match is_done {
            Ok(true) => {
                // No client misses both names: it finds the new one before the old one goes.
                self.holders.settled(since, &[to.0, file.id]).await;
                self.follow(came, busy).await;
            }
            // The file stays busy until that is known, at the next start.
            Err(_) => busy.stays(),
            Ok(false) => {}
        }
        let mut objects = vec![to.0, file.id];
        if let Some(replaced) = replaced {
            self.tell_names(replaced.1).await;
            objects.push(replaced.1);
        }
        let since = self.holders.begin_again();
        self.holders.settled(since, &objects).await;
        (target.map(|target| (source, target)), is_done.ok())
    }

    /// Keeps other tasks away from the local names of the arriving file, and of the file that it replaces if that lives elsewhere. `None`
    /// if both are the same.
    async fn ready_for(
        &self,
        who: &Credentials,
        file: &Attributes,
        to: (ObjectId, &Name),
    ) -> Result<Option<(Busy<'_>, Option<Busy<'_>>)>> {
        let busy = self.busy(file.id)?;
        let replaced = match self.store.lookup(who, to.0, to.1).await {
            Ok(found) if found.id == file.id => return Ok(None),
            Ok(found) if self.is_elsewhere(found.id) && !found.is_directory() => {
                let replaced = self.busy(found.id)?;
                self.refresh_unless_lost(found.id).await?;
                Some(replaced)
            }
            // The operation itself reports what is wrong.
            Ok(_) | Err(_) => None,
        };
        Ok(Some((busy, replaced)))
    }

    async fn accept_moved(
        &self,
        who: &Credentials,
        (file, source): (&Attributes, DirectoryChange),
        came: &Came,
        to: (ObjectId, &Name),
    ) -> Result<DirectoryChange> {
        let (hidden, proof) = (self.need_hidden().await?, came.name()?);
        let arrival = store::Arrival {
            source,
            proof: (hidden, &proof),
        };
        let _place = self.take_place(to).await?;
        self.store.accept_name(who, to, file, Some(arrival)).await
    }

    /// Has the source's home carry out the move, now or later. Until then, no other task uses local names of the file.
    async fn follow(&self, came: Came, busy: Busy<'_>) {
        if let Err(error) = self.try_to_follow(&came).await {
            tracing::debug!(%error, "the other home of a move follows later");
            busy.stays();
            locked(&self.came).push(came);
        }
    }

    async fn try_to_follow(&self, came: &Came) -> Result<()> {
        // A removed home has no name left to remove.
        if let Some(other) = self.at_source(came.source) {
            let finished = Question::FinishMove(came.number, true);
            other.do_at_home(finished).await?;
        }
        self.drop_hidden(&came.name()?).await?;
        if self.keeps_for(came.source, came.file) {
            // The source has a name fewer. If it cannot say so now, it says so later.
            let _ = self.count_names_at(came.source, came.file).await;
        }
        Ok(())
    }

    /// Repeats reports of moves to a source home that was away. Call this regularly.
    pub(crate) async fn settle_came(&self, source: ReplicaSlot) {
        let all = locked(&self.came).clone();
        for came in all.into_iter().filter(|came| came.source == source) {
            if self.try_to_follow(&came).await.is_ok() {
                locked(&self.came).retain(|other| *other != came);
                locked(&self.busy).remove(&came.file);
            }
        }
    }

    /// The sources of moves to this home that they may not know.
    pub(crate) fn sources_of_came(&self) -> BTreeSet<ReplicaSlot> {
        locked(&self.came).iter().map(|came| came.source).collect()
    }

    /// Whether a move was made. [`Error::Delay`] while it is under way.
    pub(crate) async fn move_outcome(&self, source: ReplicaSlot, number: u64) -> Result<bool> {
        if locked(&self.moves).contains(&number) || self.passes_from((source, number)) {
            return Err(Error::Delay);
        }
        let mut names = self.hidden_names().await?.into_iter();
        Ok(names.any(|(name, _)| {
            let came: Option<[u64; 3]> = numbers(CAME, &name);
            came.is_some_and(|[of, known, _]| of == u64::from(source.0) && known == number)
        }))
    }

    /// Takes up what an earlier run has left of moves. Call it before clients are served.
    pub(crate) async fn take_up_moves(&self) -> Result<()> {
        let root = Credentials::root();
        let mut kept_by_nothing = Vec::new();
        for (name, id) in self.hidden_names().await? {
            let slot = |number: u64| ReplicaSlot(u16::try_from(number).unwrap_or(0));
            if let Some([source, number, file]) = numbers(CAME, &name) {
                let came = Came {
                    source: slot(source),
                    number,
                    file: ObjectId::from_u64(file),
                };
                locked(&self.busy).insert(came.file);
                locked(&self.came).push(came);
            } else if let Some([decider, number, directory, file]) = numbers(FROM, &name) {
                let target = self.store.read_link(&root, id).await?;
                let place = (ObjectId::from_u64(directory), Name::new(target.to_vec())?);
                let leaving = Leaving {
                    decider: slot(decider),
                    number,
                    file: ObjectId::from_u64(file),
                };
                locked(&self.leaving).insert(place, leaving);
            } else if let Some([decider, number]) = numbers(GOES, &name) {
                kept_by_nothing.push((slot(decider), number, name));
            } else if let Some((at, _)) = held_by(&name) {
                self.has_met(at);
            } else {
                self.take_up_passed(&name).await?;
            }
        }
        for (decider, number, name) in kept_by_nothing {
            let is_passed = self.passes((decider, number));
            if !is_passed && self.find_leaving(decider, number).is_none() {
                self.drop_hidden(&name).await?;
            }
        }
        Ok(())
    }
}

//! Moves of names between two joined servers, at the first one, which passes them on: joined servers do not ask each other.
//!
//! The home of the target decides, as in [`crate::moves`]. The first server is the source to it, and the decider to the home of the source;
//! it decides nothing itself. Its stable record says which move of the one is which move of the other. From its record on, the source's
//! home is told that the outcome is not known yet. As a source does, the first server keeps the file for the name at the target's home.
//!
//! What must never enter: a decision.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vfs::{
    Attributes, Credentials, DirectoryChange, Error, Name, NewObject, ObjectId, ReplicaSlot,
    Result, SetAttributes,
};

use crate::hidden::{numbered, numbers};
use crate::moves::{keeper_name, mover};
use crate::pool_tree::{Busy, Part, PoolTree, locked};
use crate::question::{Answer, Question, other_answer};
use crate::remote_tree::RemoteTree;

/// The record: a symbolic link. Numbers: decider, its move, source, the move there.
const VIA: &str = "via";

/// A decider, and its number of a move.
type Move = (ReplicaSlot, u64);

/// A move that is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    source: ReplicaSlot,
    /// The move at the source. This server is the decider there.
    number: u64,
    /// The file, once it is kept for the name at the decider. A file of another home is busy from then on.
    file: Option<ObjectId>,
    /// A task works on it.
    in_use: bool,
}

impl Passed {
    fn record(&self, of: Move) -> Result<Name> {
        let (decider, source) = (of.0.0.into(), self.source.0.into());
        numbered(VIA, &[decider, of.1, source, self.number])
    }
}

/// Keeps other tasks away from a move that is passed on.
pub(crate) struct InUse<'p>(&'p PoolTree, Move);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        if let Some(passed) = locked(&self.0.passed).get_mut(&self.1) {
            passed.in_use = false;
        }
    }
}

impl PoolTree {
    /// Whether this move of a decider is passed on.
    pub(crate) fn passes(&self, of: Move) -> bool {
        locked(&self.passed).contains_key(&of)
    }

    /// Whether a move that is passed on has this number at its source.
    pub(crate) fn passes_from(&self, (source, number): Move) -> bool {
        let passed = locked(&self.passed);
        let mut all = passed.values();
        all.any(|passed| (passed.source, passed.number) == (source, number))
    }

    fn use_passed(&self, of: Move) -> Result<Option<(InUse<'_>, Passed)>> {
        match locked(&self.passed).get_mut(&of) {
            None => Ok(None),
            Some(passed) if passed.in_use => Err(Error::Delay),
            Some(passed) => {
                passed.in_use = true;
                Ok(Some((InUse(self, of), *passed)))
            }
        }
    }

    /// [`PoolTree::prepare_move`] for a name that another joined server has.
    pub(crate) async fn pass_prepare(
        &self,
        of: Move,
        who: &Credentials,
        (directory, name): (ObjectId, &Name),
    ) -> Result<(Attributes, DirectoryChange)> {
        let source = directory.slot();
        if matches!(self.part, Part::Joined { .. }) || source == of.0 {
            return Err(Error::NotSupported);
        }
        let (in_use, passed) = self.note_passed(of, source).await?;
        let question = Question::PrepareMove(passed.number, who.clone(), directory, name.clone());
        let prepared = self.prepare_at_source(of, &passed, question).await;
        drop(in_use);
        if prepared.is_err() && passed.file.is_none() {
            // What cannot be undone now is undone later: the decider says that it has not made the name.
            let _ = self.end_passed(of, false).await;
        }
        prepared
    }

    /// Notes stably that a move is passed on, before anything is asked for it.
    async fn note_passed(&self, of: Move, source: ReplicaSlot) -> Result<(InUse<'_>, Passed)> {
        if let Some(known) = self.use_passed(of)? {
            return Ok(known);
        }
        let passed = Passed {
            source,
            number: self.next_seal.fetch_add(1, Ordering::Relaxed),
            file: None,
            in_use: true,
        };
        {
            let mut all = locked(&self.passed);
            if all.contains_key(&of) {
                return Err(Error::Delay);
            }
            all.insert(of, passed);
        }
        let in_use = InUse(self, of);
        let (root, hidden) = (Credentials::root(), self.need_hidden().await?);
        let target = NewObject::Symlink(VIA.as_bytes().into());
        let (record, set) = (passed.record(of)?, SetAttributes::default());
        self.own
            .create(&root, hidden, &record, target, &set)
            .await?;
        Ok((in_use, passed))
    }

    async fn prepare_at_source(
        &self,
        of: Move,
        passed: &Passed,
        question: Question,
    ) -> Result<(Attributes, DirectoryChange)> {
        let source = self.at_server(passed.source).ok_or(Error::Stale)?;
        let (file, change) = match source.ask(question).await? {
            Answer::Prepared(file, change) => (file, change),
            _ => return Err(other_answer()),
        };
        if passed.file != Some(file.id) {
            if self.is_elsewhere(file.id) {
                self.busy(file.id)?.stays();
            }
            if let Some(passed) = locked(&self.passed).get_mut(&of) {
                passed.file = Some(file.id);
            }
            self.keep_by(&keeper_name(of)?, &file).await?;
        }
        Ok((file, change))
    }

    /// The outcome is known: the source carries it out, and then this server keeps the file for the decider, or not. If this fails, repeat
    /// it.
    pub(crate) async fn end_passed(&self, of: Move, is_done: bool) -> Result<()> {
        let Some((_in_use, passed)) = self.use_passed(of)? else {
            return Ok(());
        };
        if let Some(source) = self.at_source(passed.source) {
            let finished = Question::FinishMove(passed.number, is_done);
            source.do_at_home(finished).await?;
        }
        self.end_keeping(of, &passed, is_done).await?;
        if let Some(file) = passed
            .file
            .filter(|file| self.keeps_for(passed.source, *file))
        {
            // The source may have a name fewer. If it cannot say so now, it says so later.
            let _ = self.count_names_at(passed.source, file).await;
        }
        self.forget_passed(of, &passed).await
    }

    /// The server at which a move began, unless its name is gone with it.
    pub(crate) fn at_source(&self, source: ReplicaSlot) -> Option<Arc<RemoteTree>> {
        match locked(&self.lost).contains(&source) {
            true => None,
            false => self.at_server(source),
        }
    }

    async fn end_keeping(&self, of: Move, passed: &Passed, is_done: bool) -> Result<()> {
        let Some(file) = passed.file else {
            return Ok(());
        };
        let keeper = keeper_name(of)?;
        if is_done && self.keeps_for(of.0, file) {
            self.hold_by(of.0, file, &keeper).await?;
        }
        self.drop_hidden(&keeper).await
    }

    async fn forget_passed(&self, of: Move, passed: &Passed) -> Result<()> {
        self.drop_hidden(&passed.record(of)?).await?;
        if let Some(file) = passed.file.filter(|file| self.is_elsewhere(*file)) {
            self.tell_names(file).await;
            locked(&self.busy).remove(&file);
        }
        locked(&self.passed).remove(&of);
        Ok(())
    }

    /// A decider is lost. The source may have carried out what it decided, or asks and hears that nothing was. So the file stays kept for the
    /// lost home, as for names that it had.
    pub(crate) async fn end_passed_to(&self, home: ReplicaSlot) -> Result<()> {
        let all: Vec<Move> = locked(&self.passed).keys().copied().collect();
        for of in all.into_iter().filter(|of| of.0 == home) {
            let Some((_in_use, passed)) = self.use_passed(of)? else {
                continue;
            };
            self.end_keeping(of, &passed, true).await?;
            self.forget_passed(of, &passed).await?;
        }
        Ok(())
    }

    /// Keeps other tasks away from the local names of a file of another home, also of one that a move keeps busy.
    pub(crate) fn use_names(
        &self,
        file: ObjectId,
    ) -> Result<(Option<Busy<'_>>, Option<InUse<'_>>)> {
        if let Ok(busy) = self.busy(file) {
            return Ok((Some(busy), None));
        }
        let moved = {
            let passed = locked(&self.passed);
            let mut of_file = passed.iter().filter(|(_, it)| it.file == Some(file));
            of_file.next().map(|(of, _)| *of)
        };
        let (in_use, _) = self
            .use_passed(moved.ok_or(Error::Delay)?)?
            .ok_or(Error::Delay)?;
        Ok((None, Some(in_use)))
    }

    /// The file that this hidden name keeps is kept for a move that may never be made: its source, or its decider, is one of these.
    pub(crate) fn is_kept_for_lost(&self, keeper: &Name, lost: &BTreeSet<ReplicaSlot>) -> bool {
        let Some(of) = mover(keeper) else {
            return false;
        };
        let passed = locked(&self.passed);
        let passed = passed.get(&of);
        passed.is_some_and(|passed| lost.contains(&of.0) || lost.contains(&passed.source))
    }

    /// Asks for outcomes that were not reported, of moves from this source. Call this regularly.
    pub(crate) async fn settle_passed(&self, source: ReplicaSlot) {
        let all: Vec<Move> = {
            let passed = locked(&self.passed);
            let from_it = passed.iter().filter(|(_, it)| it.source == source);
            from_it.map(|(of, _)| *of).collect()
        };
        for of in all {
            let is_done = match self.at_server(of.0) {
                // This ends when that home is given up.
                _ if locked(&self.lost).contains(&of.0) => continue,
                Some(decider) => match decider.ask(Question::MoveOutcome(of.1)).await {
                    Ok(Answer::Holds(is_done)) => is_done,
                    // The move is under way, or the decider is away.
                    _ => continue,
                },
                None => false,
            };
            if let Err(error) = self.end_passed(of, is_done).await {
                tracing::debug!(%error, "a name that moves between two other homes stays on its way");
            }
        }
    }

    /// The sources of moves that are passed on.
    pub(crate) fn sources_of_passed(&self) -> BTreeSet<ReplicaSlot> {
        let passed = locked(&self.passed);
        passed.values().map(|passed| passed.source).collect()
    }

    /// Takes up a move that an earlier run passed on, if this is the record of one.
    pub(crate) async fn take_up_passed(&self, record: &Name) -> Result<()> {
        let Some([decider, of, source, number]) = numbers(VIA, record) else {
            return Ok(());
        };
        let slot = |number: u64| ReplicaSlot(u16::try_from(number).unwrap_or(0));
        let of = (slot(decider), of);
        let file = self.hidden_name(&keeper_name(of)?).await?;
        if let Some(file) = file.filter(|file| self.is_elsewhere(*file)) {
            locked(&self.busy).insert(file);
        }
        let passed = Passed {
            source: slot(source),
            number,
            file,
            in_use: false,
        };
        locked(&self.passed).insert(of, passed);
        Ok(())
    }
}

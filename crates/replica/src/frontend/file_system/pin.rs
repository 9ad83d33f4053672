//! Changes of data: control is held from before the first byte is touched until the change is accounted
//! for.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use control::{ControlName, Position, Update};
use vfs::{Error, ObjectId, Result};

use super::{Absence, ReplicatedFileSystem};
use crate::driver::engine::{Engine, Guard};
use crate::driver::tree::subject_of;
use crate::state::forward::{Expected, Operation};
use crate::state::ledger::Verdict;

/// What a change does to the content of a file.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// These bytes, or holes, are new.
    Range(Range<u64>),
    /// There is nothing behind this size any more.
    Cut(u64),
}

/// Control of a file, held for one change.
struct Hold {
    engine: Arc<Engine>,
    file: ObjectId,
    under: Vec<ControlName>,
    effect: Effect,
    succeeded: bool,
}

enum Grip {
    Held(Hold),
    /// Nobody shares what is changed: a file without a name.
    Needless,
    Refused(u64),
}

impl ReplicatedFileSystem {
    /// Carries out a change of a file's data here, or has the primary do it.
    pub(super) async fn change_data<T, F>(
        &self,
        file: ObjectId,
        effect: Effect,
        attempt: impl Fn() -> F + Send + Sync,
        operation: impl Fn() -> Operation + Send + Sync,
    ) -> Result<T>
    where
        T: Expected + Send,
        F: Future<Output = Result<T>> + Send,
    {
        let deadline = self.deadline();
        if !matches!(effect, Effect::Cut(0)) {
            self.mended(file, deadline).await?;
        }
        if self.shared.engine.is_alone() {
            return attempt().await;
        }
        let mut arrived = false;
        loop {
            self.wait_for_lease(deadline).await?;
            if let Some(place) = self.removed_place(file) {
                let done = self.change_removed(file, place, &attempt, &operation, deadline);
                match done.await? {
                    Some(value) => return Ok(value),
                    None => continue,
                }
            }
            self.check_adopted(file)?;
            let elsewhere = match self.grip(file, &effect).await {
                Ok(Grip::Held(mut hold)) => {
                    let outcome = attempt().await;
                    hold.succeeded = outcome.is_ok();
                    drop(hold);
                    return self.answered(file, outcome).await;
                }
                Ok(Grip::Needless) => return attempt().await,
                Ok(Grip::Refused(number)) => match self.verdict(number, deadline).await? {
                    Verdict::Admitted => continue,
                    Verdict::Elsewhere(holder) => holder,
                },
                Err(Error::Stale) if !self.forwarded => match self.absence(&[file]).await {
                    Absence::Elsewhere(maker) => maker,
                    Absence::Arrived if !arrived => {
                        arrived = true;
                        continue;
                    }
                    _ => return Err(Error::Stale),
                },
                Err(error) => return Err(error),
            };
            if let Some(value) = self.hand_over(elsewhere, &operation, deadline).await? {
                return Ok(value);
            }
        }
    }

    async fn grip(&self, file: ObjectId, effect: &Effect) -> Result<Grip> {
        let attributes = self.local(file).await?;
        if attributes.links == 0 || attributes.is_directory() {
            return Ok(Grip::Needless);
        }
        let update = Update::Change(subject_of(&attributes));
        let engine = &self.shared.engine;
        engine.with_core(|guard| {
            let Some(admission) = guard.try_admit(&update) else {
                return match guard.submit(&update) {
                    Error::Refused(number) => Ok(Grip::Refused(number)),
                    error => Err(error),
                };
            };
            engine.demand(admission.after);
            guard.hold(&admission.under);
            let pin = guard.ledger.pins.entry(file).or_default();
            pin.under.extend(&admission.under);
            if let Effect::Cut(size) = effect {
                pin.cuts.push(*size);
            }
            Ok(Grip::Held(Hold {
                engine: engine.clone(),
                file,
                under: admission.under,
                effect: effect.clone(),
                succeeded: false,
            }))
        })
    }
}

impl Drop for Hold {
    /// Whatever became of the change, others are told what the file holds now.
    fn drop(&mut self) {
        self.engine.with_core(|guard| self.account(guard));
        self.engine.ring_contents();
    }
}

impl Hold {
    fn account(&self, guard: &mut Guard<'_>) {
        let file = self.file;
        let mut position = guard.ledger.last_position;
        if let Some(pin) = guard.ledger.pins.get_mut(&file) {
            if pin.position > 0 {
                position = pin.position;
            }
            remove_each(&mut pin.under, &self.under);
            if let Effect::Cut(size) = self.effect {
                remove_each(&mut pin.cuts, &[size]);
            }
            if pin.under.is_empty() {
                guard.ledger.pins.remove(&file);
            }
        }
        let follows = Position(position);
        guard.data_unshipped(file, &self.under);
        let unshipped = &mut guard.ledger.unshipped;
        match &self.effect {
            Effect::Range(range) => unshipped.changed(guard.now, file, range.clone(), follows),
            // Noted when it was committed; whoever has written since then must not be forgotten.
            Effect::Cut(_) if self.succeeded => {}
            Effect::Cut(_) => unshipped.changed(guard.now, file, 0..u64::MAX, follows),
        }
        guard.settle_content(file);
        guard.let_go(&self.under);
        guard.note_complete_without_content(file);
    }
}

/// Takes one occurrence of each item out.
fn remove_each<T: PartialEq>(from: &mut Vec<T>, items: &[T]) {
    for item in items {
        if let Some(at) = from.iter().position(|held| held == item) {
            from.swap_remove(at);
        }
    }
}

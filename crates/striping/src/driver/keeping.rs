//! What becomes stable of a home's decisions: records become facts and the placement parts of file rows.

use std::collections::{BTreeMap, BTreeSet};

use pool::home::{Command, FileRow, Owed, Record};
use pool::{IntentNumber, Placement};
use store::Placed;
use vfs::{ObjectId, Result};

use super::{Driver, State};
use crate::records::{self, Fact};

impl Driver {
    pub(super) fn to_keep(&self, state: &mut State, commands: &[Command]) -> Result<ToKeep> {
        let mut kept = ToKeep::default();
        for command in commands {
            let Command::Persist(record) = command else {
                continue;
            };
            let facts = &mut kept.facts;
            match record {
                Record::StoreIdentity(server, identity) => {
                    facts.push(records::identity(*server, *identity));
                }
                Record::Key(newest) => facts.push(records::key(*newest)),
                Record::Intend(owed) => state.note_intent(owed, facts),
                Record::Taken(number, server) => {
                    state.change_intent(*number, facts, |owed| {
                        owed.owed.remove(server);
                    });
                }
                Record::Row {
                    row,
                    intent,
                    changed,
                } => {
                    if let Some(number) = intent {
                        state.change_intent(*number, facts, |owed| owed.in_row = true);
                    }
                    self.enter(state, row, *changed, &mut kept)?;
                }
                Record::Gone(object, number) => {
                    state.change_intent(*number, facts, |owed| owed.in_row = true);
                    kept.mark(state, *object, false);
                }
                Record::Moving(to) => {
                    let object = to.contents.object;
                    let placement = state.moves.get(&object);
                    facts.push(records::a_move(object, placement));
                    facts.push(records::placements(state.last_placement));
                }
                Record::Moved { row, old } => {
                    let object = row.contents.object;
                    if let Some(placement) = state.moves.remove(&object) {
                        kept.place(row, placement);
                    }
                    facts_of_end(state, &mut kept, object, old);
                }
                Record::MoveGivenUp(owed) => {
                    let object = owed.intent.contents.object;
                    state.moves.remove(&object);
                    facts_of_end(state, &mut kept, object, owed);
                }
            }
        }
        Ok(kept)
    }

    /// Adds the row of a file to the batch, if the file still exists. The store itself maintains sizes and times for writes that go through
    /// it. Here it learns of direct writes at data servers.
    fn enter(
        &self,
        state: &mut State,
        row: &FileRow,
        changed: bool,
        kept: &mut ToKeep,
    ) -> Result<()> {
        let object = row.contents.object;
        let was_unsettled = kept.is_unsettled(state, object);
        kept.mark(state, object, row.unsettled);
        let kept_now = kept.placed.get(&object);
        let stored = match kept_now.map(|placed| placed.placement.clone()) {
            None => self.rows.placement(object)?,
            stored => stored,
        };
        let Some(stored) = stored else {
            return Ok(());
        };
        let placement = Placement::decode(&stored).ok();
        let placement = placement.filter(|placement| placement.number == row.contents.placement);
        let Some(placement) = placement else {
            return Ok(());
        };
        let placement = Placement {
            generation: row.generation.max(placement.generation),
            ..placement
        };
        let new = Placed {
            is_lent: row.unsettled && !was_unsettled,
            reach: was_unsettled.then_some(row.size),
            is_changed: was_unsettled && changed,
            ..Placed::at(object, placement.encode().to_vec())
        };
        let before = kept.placed.remove(&object);
        let together = match before {
            None => new,
            Some(before) => Placed {
                is_lent: new.is_lent || before.is_lent,
                reach: new.reach.max(before.reach),
                is_changed: new.is_changed || before.is_changed,
                ..new
            },
        };
        kept.placed.insert(object, together);
        Ok(())
    }
}

/// What becomes stable in one batch.
#[derive(Default)]
pub(super) struct ToKeep {
    /// The placement parts of file rows.
    pub(super) placed: BTreeMap<ObjectId, Placed>,
    pub(super) facts: Vec<Fact>,
    /// Files whose rows are complete with this batch.
    pub(super) settled: BTreeSet<ObjectId>,
}

impl ToKeep {
    /// The row of a file names other contents from now on.
    fn place(&mut self, row: &FileRow, to: Placement) {
        let object = row.contents.object;
        let to = Placement {
            number: row.contents.placement,
            generation: row.generation,
            ..to
        };
        let placement = to.encode().to_vec();
        let placed = self.placed.remove(&object);
        let placed = match placed {
            Some(before) => Placed {
                placement,
                ..before
            },
            None => Placed::at(object, placement),
        };
        self.placed.insert(object, placed);
    }

    fn is_unsettled(&self, state: &State, file: ObjectId) -> bool {
        state.unsettled.contains(&file) && !self.settled.contains(&file)
    }

    /// Notes whether clients may write, or may have written, to a file directly at data servers.
    fn mark(&mut self, state: &mut State, file: ObjectId, is_unsettled: bool) {
        if is_unsettled == self.is_unsettled(state, file) {
            return;
        }
        match is_unsettled {
            true => {
                self.settled.remove(&file);
                state.unsettled.insert(file);
            }
            false => {
                self.settled.insert(file);
            }
        }
        self.facts.push(records::unsettled(file, is_unsettled));
    }
}

/// A move has ended, and contents must be removed.
fn facts_of_end(state: &mut State, kept: &mut ToKeep, object: ObjectId, removal: &Owed) {
    kept.facts.push(records::a_move(object, None));
    state.note_intent(removal, &mut kept.facts);
}

impl State {
    /// Skips an intent that is in the row and that no data server owes.
    fn note_intent(&mut self, owed: &Owed, facts: &mut Vec<Fact>) {
        if owed.owed.is_empty() && owed.in_row {
            return;
        }
        self.intents.insert(owed.intent.number, owed.clone());
        facts.push(records::intent(owed));
    }

    fn change_intent(
        &mut self,
        number: IntentNumber,
        facts: &mut Vec<Fact>,
        change: impl FnOnce(&mut Owed),
    ) {
        let Some(owed) = self.intents.get_mut(&number) else {
            return;
        };
        change(owed);
        if owed.in_row && owed.owed.is_empty() {
            self.intents.remove(&number);
            facts.push((records::intent_key(number), None));
        } else {
            facts.push(records::intent(owed));
        }
    }
}

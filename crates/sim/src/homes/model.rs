//! The tree of an equivalent single machine.

use ::homes::{Answer, Entry, Kind, Look, Refusal, Row, Wish};
use std::collections::BTreeMap;
use vfs::{Name, ObjectId};

/// A plain tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) rows: BTreeMap<ObjectId, Row>,
    pub(super) entries: BTreeMap<(ObjectId, Name), Entry>,
}

/// The root at the beginning.
pub(super) fn root() -> Row {
    Row::new(Kind::Directory, None)
}

impl Model {
    pub(super) fn new() -> Model {
        Model {
            rows: BTreeMap::from([(ObjectId::ROOT, root())]),
            entries: BTreeMap::new(),
        }
    }

    fn entry(&self, directory: ObjectId, name: &Name) -> Option<Entry> {
        self.entries.get(&(directory, name.clone())).copied()
    }

    fn is_empty(&self, directory: ObjectId) -> bool {
        !self.entries.keys().any(|(of, _)| *of == directory)
    }

    fn lies_in(&self, mut object: ObjectId, ancestor: ObjectId) -> bool {
        loop {
            if object == ancestor {
                return true;
            }
            match self.rows.get(&object).and_then(|row| row.parent) {
                Some(parent) => object = parent,
                None => return false,
            }
        }
    }

    /// All reasons to refuse a wish.
    pub(super) fn refusals(&self, wish: &Wish) -> Vec<Refusal> {
        let mut found = Vec::new();
        let mut directory = |object: &ObjectId| match self.rows.get(object).map(|row| row.kind) {
            None => found.push(Refusal::Stale),
            Some(Kind::File) => found.push(Refusal::NotDirectory),
            Some(Kind::Directory) => {}
        };
        match wish {
            Wish::Create {
                directory: at,
                name,
            }
            | Wish::Mkdir {
                directory: at,
                name,
                ..
            } => {
                directory(at);
                found.extend(self.entry(*at, name).map(|_| Refusal::Exists));
            }
            Wish::Link {
                object,
                directory: at,
                name,
            } => {
                directory(at);
                found.extend(self.entry(*at, name).map(|_| Refusal::Exists));
                match self.rows.get(object).map(|row| row.kind) {
                    None => found.push(Refusal::Stale),
                    Some(Kind::Directory) => found.push(Refusal::IsDirectory),
                    Some(Kind::File) => {}
                }
            }
            Wish::Remove {
                directory: at,
                name,
            } => {
                directory(at);
                match self.entry(*at, name) {
                    None => found.push(Refusal::NotFound),
                    Some(entry) if entry.kind == Kind::Directory => {
                        found.push(Refusal::IsDirectory)
                    }
                    Some(_) => {}
                }
            }
            Wish::Rmdir {
                directory: at,
                name,
            } => {
                directory(at);
                match self.entry(*at, name) {
                    None => found.push(Refusal::NotFound),
                    Some(entry) if entry.kind == Kind::File => found.push(Refusal::NotDirectory),
                    Some(entry) if !self.is_empty(entry.object) => found.push(Refusal::NotEmpty),
                    Some(_) => {}
                }
            }
            Wish::Rename { from, to } => {
                directory(&from.0);
                directory(&to.0);
                self.rename_refusals(from, to, &mut found);
            }
            Wish::SetMode { object, .. } | Wish::Touch { object } => {
                if !self.rows.contains_key(object) {
                    found.push(Refusal::Stale);
                }
            }
        }
        found
    }

    fn rename_refusals(
        &self,
        from: &(ObjectId, Name),
        to: &(ObjectId, Name),
        found: &mut Vec<Refusal>,
    ) {
        let Some(entry) = self.entry(from.0, &from.1) else {
            return found.push(Refusal::NotFound);
        };
        if entry.kind == Kind::Directory && from.0 != to.0 && self.lies_in(to.0, entry.object) {
            found.push(Refusal::Cycle);
        }
        let Some(replaced) = self.entry(to.0, &to.1) else {
            return;
        };
        match (entry.kind, replaced.kind) {
            _ if entry.object == replaced.object => {}
            (Kind::Directory, Kind::File) => found.push(Refusal::NotDirectory),
            (Kind::File, Kind::Directory) => found.push(Refusal::IsDirectory),
            (_, Kind::Directory) if !self.is_empty(replaced.object) => {
                found.push(Refusal::NotEmpty)
            }
            _ => {}
        }
    }

    fn edit(&mut self, object: ObjectId, edit: impl FnOnce(&mut Row)) {
        if let Some(row) = self.rows.get_mut(&object) {
            edit(row);
        }
    }

    fn drop_name(&mut self, directory: ObjectId, name: &Name) {
        let Some(entry) = self.entries.remove(&(directory, name.clone())) else {
            return;
        };
        self.edit(entry.object, |row| row.links -= 1);
        if self
            .rows
            .get(&entry.object)
            .is_some_and(|row| row.links == 0)
        {
            self.rows.remove(&entry.object);
        }
    }

    fn make(&mut self, at: ObjectId, name: &Name, object: ObjectId, row: Row) {
        let kind = row.kind;
        self.entries
            .insert((at, name.clone()), Entry { object, kind });
        self.rows.insert(object, row);
    }

    /// Carries out a wish that has no reason for a refusal.
    pub(super) fn apply(&mut self, wish: &Wish, made: Option<ObjectId>) {
        match wish {
            Wish::Create { directory, name } => {
                let object = made.unwrap_or(ObjectId::ROOT);
                self.make(*directory, name, object, Row::new(Kind::File, None));
            }
            Wish::Mkdir {
                directory, name, ..
            } => {
                let object = made.unwrap_or(ObjectId::ROOT);
                self.make(
                    *directory,
                    name,
                    object,
                    Row::new(Kind::Directory, Some(*directory)),
                );
            }
            Wish::Link {
                object,
                directory,
                name,
            } => {
                let (object, kind) = (*object, Kind::File);
                self.entries
                    .insert((*directory, name.clone()), Entry { object, kind });
                self.edit(object, |row| row.links += 1);
            }
            Wish::Remove { directory, name } | Wish::Rmdir { directory, name } => {
                self.drop_name(*directory, name)
            }
            Wish::Rename { from, to } => {
                let Some(entry) = self.entry(from.0, &from.1) else {
                    return;
                };
                if self
                    .entry(to.0, &to.1)
                    .is_some_and(|there| there.object == entry.object)
                {
                    return;
                }
                self.drop_name(to.0, &to.1);
                self.entries.remove(from);
                self.entries.insert(to.clone(), entry);
                if entry.kind == Kind::Directory {
                    self.edit(entry.object, |row| row.parent = Some(to.0));
                }
            }
            Wish::SetMode { object, mode } => self.edit(*object, |row| row.mode = *mode),
            Wish::Touch { object } => self.edit(*object, |row| row.stamp += 1),
        }
    }

    /// The answer to a question.
    pub(super) fn look(&self, look: &Look) -> Answer {
        let Some(row) = self.rows.get(&look.object()) else {
            return Answer::Refused(Refusal::Stale);
        };
        match look {
            Look::Lookup(..) if row.kind == Kind::File => Answer::Refused(Refusal::NotDirectory),
            Look::Lookup(directory, name) => {
                let entry = self.entry(*directory, name);
                entry.map_or(Answer::Refused(Refusal::NotFound), Answer::Entry)
            }
            Look::Attributes(_) | Look::Acquire(_) | Look::Place(_) => Answer::Row(*row),
        }
    }
}

/// Rows are compared without their change attributes, which the model does not count.
pub(super) fn plain(answer: Answer) -> Answer {
    match answer {
        Answer::Row(row) => Answer::Row(Row { change: 0, ..row }),
        other => other,
    }
}

/// The part of a row that every look shows without delay.
pub(super) fn at_once(answer: Answer) -> Answer {
    match answer {
        Answer::Row(row) => Answer::Row(Row {
            change: 0,
            links: 0,
            stamp: 0,
            ..row
        }),
        other => other,
    }
}

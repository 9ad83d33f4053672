//! Checks whether every directory can be reached from the root.
//!
//! Names and counts can agree although some directories contain each other in a circle without a connection to the
//! root.

use std::collections::HashSet;

use vfs::{ObjectId, Result};

use super::examination::{Examination, called};
use crate::metadata::Table;
use crate::rows::{Content, EntryRow, ObjectRow, key};

impl Examination<'_> {
    pub(super) fn check_reachability(&mut self) -> Result<()> {
        let store = self.store;
        let view = store.metadata.view();
        let mut reachable = HashSet::from([ObjectId::ROOT]);
        for row in view.scan(Table::Objects, &[], &[]) {
            let row = row?;
            let Ok(id) = key::parse_object(row.key()) else {
                continue;
            };
            let is_directory = ObjectRow::decode(row.value()).is_ok_and(|row| row.is_directory());
            if is_directory && !reachable.contains(&id) {
                self.walk_up(id, &mut reachable)?;
            }
        }
        Ok(())
    }

    /// Follows parents up to a directory that is known to be reachable, or around a circle.
    fn walk_up(&mut self, start: ObjectId, reachable: &mut HashSet<ObjectId>) -> Result<()> {
        let mut path = vec![start];
        let mut seen = HashSet::from([start]);
        loop {
            let last = path.last().copied().unwrap_or(start);
            let Some(Content::Directory(content)) = self.row_of(last)?.map(|row| row.content)
            else {
                // A missing parent is a separate finding, and the next round sees the result.
                return Ok(());
            };
            let parent = content.parent;
            if reachable.contains(&parent) {
                reachable.extend(path);
                return Ok(());
            }
            if !seen.insert(parent) {
                self.cut_circle(last, parent)?;
                reachable.extend(path);
                return Ok(());
            }
            path.push(parent);
        }
    }

    /// Removes one directory from a circle; it moves to `lost+found`.
    fn cut_circle(&mut self, id: ObjectId, parent: ObjectId) -> Result<()> {
        if self.repair {
            self.quietly(|mutation| {
                let view = self.store.metadata.view();
                for found in view.scan(Table::Links, &key::object(id), &[]) {
                    let (_, home, cookie) = key::parse_link(found?.key())?;
                    let (hash, index) = crate::rows::NameHash::from_cookie(cookie);
                    let row = self
                        .store
                        .metadata
                        .row(Table::Entries, &key::entry(home, hash))?;
                    let row = row.map(|row| EntryRow::decode(&row)).transpose()?;
                    let names = row.unwrap_or_default();
                    let entry = names.entries().iter().find(|entry| entry.index == index);
                    if let Some(entry) = entry {
                        mutation.remove_name(home, &entry.name)?;
                    }
                }
                Ok(())
            })?;
        }
        let what = format!("{} and {} contain each other.", called(id), called(parent));
        self.find_lost(what, id)
    }
}

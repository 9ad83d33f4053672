//! Checks data files against the objects they belong to.

use std::fs;
use std::path::{Path, PathBuf};

use vfs::{ObjectId, Result};

use super::examination::{Examination, called};
use crate::error::from_os;
use crate::metadata::Table;
use crate::mutation::STORED_MARK;
use crate::replication::BaseState;
use crate::rows::{Content, ObjectRow, key};

impl Examination<'_> {
    pub(super) fn check_data_files(&mut self) -> Result<()> {
        self.report.data_files = 0;
        for outer in children(&self.store.layout.data())? {
            for store in self.directories_in(&outer)? {
                for file in self.directories_in(&store)? {
                    self.check_data_file(&file)?;
                }
            }
        }
        self.check_missing_data()
    }

    /// The subdirectories of a directory; a file in the place of the directory is a finding.
    fn directories_in(&mut self, path: &Path) -> Result<Vec<PathBuf>> {
        let looked = fs::metadata(path).map_err(|error| from_os("look at data files", &error));
        if looked?.is_dir() {
            return children(path);
        }
        let what = format!("{} is no part of the store.", path.display());
        self.keep_data_file(what, path)?;
        Ok(Vec::new())
    }

    fn check_data_file(&mut self, path: &Path) -> Result<()> {
        self.report.data_files += 1;
        let id = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(parse_id);
        let Some(id) = id.filter(|id| self.store.layout.data_file(*id) == path) else {
            let what = format!("{} is no data file of the store.", path.display());
            return self.keep_data_file(what, path);
        };
        // Its rows are being replaced, and its content is remembered.
        let whole = self.store.base_state()? == BaseState::Whole;
        if !whole && self.is_marked(Table::Remembered, id)? {
            return Ok(());
        }
        let Some(row) = self.row_of(id)? else {
            // The data of a removed object is cleared away later.
            if self.is_marked(Table::Removals, id)? {
                return Ok(());
            }
            let what = format!("There is data of {}, which does not exist.", called(id));
            return self.keep_data_file(what, path);
        };
        if row.file().is_err() {
            let what = format!("There is data of {}, which is no file.", called(id));
            return self.keep_data_file(what, path);
        }
        if row.placement().is_some() {
            let what = format!("There is data of {}, whose data is elsewhere.", called(id));
            return self.keep_data_file(what, path);
        }
        // Opening the store does not repair something else in the place of a file.
        let kind = fs::symlink_metadata(path).map_err(|error| from_os("look at data", &error))?;
        if !kind.is_file() {
            let what = format!("The data of {} is no regular file.", self.store.called(id));
            return self.keep_data_file(what, path);
        }
        self.check_against_row(id, &row, path)
    }

    fn check_against_row(&mut self, id: ObjectId, row: &ObjectRow, path: &Path) -> Result<()> {
        // Opening the store repairs a file that was being written.
        if self.is_marked(Table::Dirty, id)? {
            return Ok(());
        }
        let length = fs::metadata(path)
            .map_err(|error| from_os("look at data", &error))?
            .len();
        if length > row.size {
            if self.repair {
                self.store.cut_contents(id, row.size)?;
                // Row and data come from different times, so the sums of one say nothing about the other.
                let store = self.store;
                self.quietly(|mutation| {
                    store.void_sums(mutation, id);
                    Ok(())
                })?;
            }
            let size = row.size;
            self.note(
                format!(
                    "The data of {} goes on behind its {size} bytes.",
                    self.store.called(id)
                ),
                self.repair,
            );
        }
        if matches!(&row.content, Content::File(file) if !file.stored) {
            let what = format!("{} does not know that it has data.", self.store.called(id));
            self.find(what, |mutation| {
                mutation.object_mut(id)?.file_mut()?.stored = true;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Finds missing data files.
    fn check_missing_data(&mut self) -> Result<()> {
        let store = self.store;
        let view = store.metadata.view();
        for found in view.scan(Table::Objects, &[], &[]) {
            let found = found?;
            let (Ok(id), Ok(row)) = (
                key::parse_object(found.key()),
                ObjectRow::decode(found.value()),
            ) else {
                continue;
            };
            let stored = row.file().is_ok_and(|file| file.stored);
            // For a file that was being written this is known only if its data file existed permanently.
            let mark = view.row(Table::Dirty, &key::object(id))?;
            let may_be_missing = mark.is_some_and(|mark| mark[..] != *STORED_MARK || row.size == 0);
            let known = may_be_missing || self.is_marked(Table::Damaged, id)?;
            if !stored || known || row.placement().is_some() {
                continue;
            }
            let there = store.files.exists(id);
            if there.map_err(|error| from_os("look for a data file", &error))? {
                continue;
            }
            let what = format!(
                "The data of {} is lost; it cannot be read until it is written anew as a whole.",
                store.called(id)
            );
            self.find(what, |mutation| {
                mutation.mark(Table::Damaged, id);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn is_marked(&self, table: Table, id: ObjectId) -> Result<bool> {
        Ok(self.store.metadata.row(table, &key::object(id))?.is_some())
    }
}

fn children(path: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| from_os("list data files", &error);
    let list = fs::read_dir(path).map_err(failed)?;
    let paths = list.map(|child| child.map(|child| child.path()).map_err(failed));
    let mut children = paths.collect::<Result<Vec<_>>>()?;
    children.sort();
    Ok(children)
}

fn parse_id(name: &str) -> Option<ObjectId> {
    let canonical = name.len() == 16 && !name.bytes().any(|byte| byte.is_ascii_uppercase());
    let number = canonical.then(|| u64::from_str_radix(name, 16).ok())??;
    Some(ObjectId::from_u64(number))
}

//! Reading a directory page by page.
//!
//! Entries come in the order of their cookies, which belong to the names. So a reader that goes on
//! behind a cookie misses nothing that stays and sees nothing twice, whatever comes and goes
//! meanwhile.

use vfs::permission::{READ, allows};
use vfs::{Cookie, Credentials, DirectoryEntry, DirectoryPage, Error, ObjectId, Result};

use super::dangling;
use super::lookup::object_in;
use crate::inner::Inner;
use crate::metadata::{Table, View};
use crate::rows::{EntryRow, NameHash, key};

/// The most entries in one page, which bounds the memory of a request whatever it asks for.
const MAX_PAGE_ENTRIES: usize = 4096;

impl Inner {
    /// [`vfs::FileSystem::read_directory`].
    pub(crate) fn read_directory(
        &self,
        who: &Credentials,
        directory: ObjectId,
        after: Cookie,
        max_entries: usize,
    ) -> Result<DirectoryPage> {
        self.health.check()?;
        if (after != Cookie::START && after < Cookie::FIRST) || after.0 >= 1 << 63 {
            return Err(Error::BadCookie);
        }
        let (row, page) = self.metadata.consistent(|view| {
            let row = object_in(view, directory)?.ok_or(Error::Stale)?;
            row.directory()?;
            if !allows(who, &row.attributes(directory), READ) {
                return Err(Error::AccessDenied);
            }
            // Rows of removed names cost time until the embedded store has merged them away, so an
            // empty directory is not searched.
            let page = match row.directory()?.entries {
                0 => DirectoryPage {
                    entries: Vec::new(),
                    end: true,
                },
                _ => page(
                    view,
                    directory,
                    after,
                    max_entries.clamp(1, MAX_PAGE_ENTRIES),
                )?,
            };
            Ok((row, page))
        })?;
        self.note_access(directory, &row)?;
        Ok(page)
    }
}

fn page(view: &View<'_>, directory: ObjectId, after: Cookie, max: usize) -> Result<DirectoryPage> {
    let (first, _) = NameHash::from_cookie(after);
    let from = key::entry(directory, first);
    let mut entries = Vec::with_capacity(max.min(64));
    for found in view.scan(Table::Entries, &key::object(directory), &from) {
        let found = found?;
        let (_, hash) = key::parse_entry(found.key())?;
        for entry in EntryRow::decode(found.value())?.entries() {
            let cookie = hash.cookie(entry.index);
            if cookie <= after {
                continue;
            }
            if entries.len() == max {
                return Ok(DirectoryPage {
                    entries,
                    end: false,
                });
            }
            let object = object_in(view, entry.object)?.ok_or_else(dangling)?;
            let attributes = object.attributes(entry.object);
            entries.push(DirectoryEntry {
                cookie,
                name: entry.name.clone(),
                attributes,
            });
        }
    }
    Ok(DirectoryPage { entries, end: true })
}

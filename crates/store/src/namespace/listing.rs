//! Reading a directory page by page.
//!
//! Entries come in the order of their cookies, which belong to the names. So a reader that continues
//! after a cookie sees every entry that stays, and no entry twice, even if other entries come and go
//! meanwhile.

use bytes::BytesMut;
use vfs::permission::{READ, allows};
use vfs::{Cookie, Credentials, DirectoryEntry, DirectoryPage, Error, ObjectId, Result};

use super::dangling;
use super::lookup::object_in;
use crate::metadata::View;
use crate::open_store::OpenStore;
use crate::rows::{EntriesOf, NameHash, key, name_of};

/// The maximum number of entries in one page; it bounds the memory of a request.
const MAX_PAGE_ENTRIES: usize = 4096;

/// The size of the buffers that names share, in bytes.
const NAMES_BYTES: usize = 4 << 10;

impl OpenStore {
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
            // empty directory is not scanned.
            let page = match usize::try_from(row.directory()?.entries) {
                Ok(0) => DirectoryPage {
                    end: true,
                    ..DirectoryPage::default()
                },
                count => {
                    let max = max_entries.clamp(1, MAX_PAGE_ENTRIES);
                    let entries = Vec::with_capacity(count.unwrap_or(max).min(max));
                    page(view, (directory, after), entries, max)?
                }
            };
            Ok((row, page))
        })?;
        self.note_access(directory, &row)?;
        Ok(page)
    }
}

/// Reads one page. Allocates nothing per entry: names share buffers, and most object rows are read in the cache.
fn page(
    view: &View<'_>,
    (directory, after): (ObjectId, Cookie),
    mut entries: Vec<DirectoryEntry>,
    max: usize,
) -> Result<DirectoryPage> {
    let (first, _) = NameHash::from_cookie(after);
    let mut from = first.to_key();
    let mut names = BytesMut::with_capacity(NAMES_BYTES);
    loop {
        let run = view.run(key::object(directory), from, max - entries.len() + 1)?;
        for (place, row) in run.rows_from(from) {
            let hash = NameHash::from_key(place);
            for entry in EntriesOf::row(row)? {
                let entry = entry?;
                let cookie = hash.cookie(entry.index);
                if cookie <= after {
                    continue;
                }
                if entries.len() == max {
                    return Ok(DirectoryPage {
                        entries,
                        ..DirectoryPage::default()
                    });
                }
                names.extend_from_slice(entry.name);
                let object = object_in(view, entry.object)?.ok_or_else(dangling)?;
                entries.push(DirectoryEntry {
                    cookie,
                    name: name_of(names.split().freeze())?,
                    attributes: object.attributes(entry.object),
                });
            }
        }
        match run.until() {
            None => {
                return Ok(DirectoryPage {
                    entries,
                    end: true,
                    ..DirectoryPage::default()
                });
            }
            Some(until) => from = until,
        }
    }
}

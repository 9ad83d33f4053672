//! Checks objects against their names, their links and their extended attributes.
//!
//! Four tables are read in parallel, each in the order of object identifiers.

use std::iter::Peekable;

use vfs::{Cookie, Counted, ObjectId, Result};

use super::examination::{Examination, called};
use crate::metadata::{KeyedRow, MetadataError, Table, View};
use crate::rows::{Content, EntryRow, ObjectRow, XattrRow, key};

/// The totals.
#[derive(Debug, Default)]
pub(super) struct Census {
    pub(super) objects: u64,
    pub(super) names: u64,
}

/// One table, read in the order of its keys, which start with an object identifier.
struct Side<'v>(
    Peekable<Box<dyn Iterator<Item = std::result::Result<KeyedRow, MetadataError>> + 'v>>,
);

impl<'v> Side<'v> {
    fn of(view: &'v View<'_>, table: Table) -> Side<'v> {
        let rows: Box<dyn Iterator<Item = _>> = Box::new(view.scan(table, &[], &[]));
        Side(rows.peekable())
    }

    /// The identifier of the next row's object.
    fn id(&mut self) -> Result<Option<ObjectId>> {
        match self.0.peek() {
            None => Ok(None),
            Some(Err(error)) => Err(error.clone().into()),
            Some(Ok(row)) => Ok(Some(leading_id(row.key()))),
        }
    }

    /// The next row of an object.
    fn next_of(&mut self, id: ObjectId) -> Result<Option<KeyedRow>> {
        if self.id()? != Some(id) {
            return Ok(None);
        }
        Ok(self.0.next().transpose()?)
    }
}

/// The first eight bytes of a key; a shorter one counts as padded with zeros.
fn leading_id(key: &[u8]) -> ObjectId {
    let mut bytes = [0; 8];
    let length = key.len().min(8);
    bytes[..length].copy_from_slice(&key[..length]);
    ObjectId::from_u64(u64::from_be_bytes(bytes))
}

/// The counts from the entries of one directory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    entries: u64,
    subdirectories: u32,
}

impl<'i> Examination<'i> {
    pub(super) fn check_objects(&mut self) -> Result<Census> {
        let store = self.store;
        let view = store.metadata.view();
        let tables = [Table::Objects, Table::Entries, Table::Links, Table::Xattrs];
        let [mut objects, mut entries, mut links, mut xattrs] =
            tables.map(|table| Side::of(&view, table));
        let mut census = Census::default();
        loop {
            let ids = [objects.id()?, entries.id()?, links.id()?, xattrs.id()?];
            let Some(id) = ids.into_iter().flatten().min() else {
                return Ok(census);
            };
            let row = match objects.next_of(id)? {
                Some(row) => self.check_object_row(id, &row)?,
                None => None,
            };
            census.objects += u64::from(row.is_some());
            let counts = self.check_entries(id, row.as_ref(), &mut entries)?;
            census.names += counts.entries;
            self.check_links(id, row.as_ref(), &mut links)?;
            self.check_xattrs(id, row.as_ref(), &mut xattrs)?;
            if let Some(row) = row {
                self.check_counts(id, &row, &counts)?;
            }
        }
    }

    fn check_object_row(&mut self, id: ObjectId, row: &KeyedRow) -> Result<Option<ObjectRow>> {
        let decoded = key::parse_object(row.key()).and_then(|_| ObjectRow::decode(row.value()));
        let error = match decoded {
            Ok(decoded) => return Ok(Some(decoded)),
            Err(error) => error,
        };
        self.keep_row(Table::Objects, row)?;
        let key = row.key().to_vec();
        self.find(
            format!("The row of {} cannot be read: {error}.", called(id)),
            |mutation| {
                mutation.remove(Table::Objects, &key);
                Ok(())
            },
        )?;
        Ok(None)
    }

    fn check_entries(
        &mut self,
        id: ObjectId,
        row: Option<&ObjectRow>,
        entries: &mut Side<'_>,
    ) -> Result<Counts> {
        let is_directory = row.is_some_and(ObjectRow::is_directory);
        let mut counts = Counts::default();
        while let Some(found) = entries.next_of(id)? {
            if is_directory {
                self.check_entry_row(id, &found, &mut counts)?;
                continue;
            }
            self.keep_row(Table::Entries, &found)?;
            let what = format!(
                "There are entries of {}, which is no directory.",
                called(id)
            );
            self.find(what, |mutation| {
                mutation.remove(Table::Entries, found.key());
                Ok(())
            })?;
        }
        Ok(counts)
    }

    fn check_entry_row(
        &mut self,
        id: ObjectId,
        found: &KeyedRow,
        counts: &mut Counts,
    ) -> Result<()> {
        let decoded = key::parse_entry(found.key())
            .and_then(|(_, hash)| Ok((hash, EntryRow::decode(found.value())?)));
        let (hash, row) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                self.keep_row(Table::Entries, found)?;
                let what = format!("Entries of {} cannot be read: {error}.", called(id));
                return self.find(what, |mutation| {
                    mutation.remove(Table::Entries, found.key());
                    Ok(())
                });
            }
        };
        let mut kept = row.clone();
        for entry in row.entries() {
            let child = self.row_of(entry.object)?;
            let misplaced = self.store.hash(entry.name.as_bytes()) != hash;
            let Some(child) = child.filter(|_| !misplaced) else {
                let why = if misplaced {
                    "lies where it is not looked for"
                } else {
                    "leads nowhere"
                };
                let what = format!("The name {} in {} {why}.", entry.name, called(id));
                kept.remove(&entry.name);
                let kept = &kept;
                self.find(what, |mutation| {
                    put_entries(mutation, found.key(), kept);
                    Ok(())
                })?;
                continue;
            };
            counts.entries += 1;
            counts.subdirectories += u32::from(child.is_directory());
            let link = key::link(entry.object, id, hash.cookie(entry.index));
            if self.store.metadata.row(Table::Links, &link)?.is_none() {
                let child = called(entry.object);
                let what = format!(
                    "{child} does not know its name {} in {}.",
                    entry.name,
                    called(id)
                );
                self.find(what, |mutation| {
                    mutation.put(Table::Links, &link, b"");
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    fn check_links(
        &mut self,
        id: ObjectId,
        row: Option<&ObjectRow>,
        links: &mut Side<'_>,
    ) -> Result<()> {
        let mut count = 0_u32;
        let mut home = None;
        while let Some(found) = links.next_of(id)? {
            let place = match key::parse_link(found.key()) {
                Ok((_, parent, cookie)) if self.leads_to(parent, cookie, id)? => (parent, cookie),
                _ => {
                    let what = format!("{} remembers a name that it does not have.", called(id));
                    self.find(what, |mutation| {
                        mutation.remove(Table::Links, found.key());
                        Ok(())
                    })?;
                    continue;
                }
            };
            count += 1;
            if row.is_some_and(ObjectRow::is_directory) && home.replace(place).is_some() {
                self.drop_second_home(id, place)?;
                count -= 1;
            }
        }
        match row {
            Some(row) => self.check_names_of(id, row, count, home.map(|(parent, _)| parent)),
            None => Ok(()),
        }
    }

    /// Removes a further name of a directory after the first: a directory has one name.
    fn drop_second_home(&mut self, id: ObjectId, place: (ObjectId, Cookie)) -> Result<()> {
        let (parent, cookie) = place;
        let (hash, index) = crate::rows::NameHash::from_cookie(cookie);
        let entry_key = key::entry(parent, hash);
        let row = self.store.metadata.row(Table::Entries, &entry_key)?;
        let mut row = row
            .map(|row| EntryRow::decode(&row))
            .transpose()?
            .unwrap_or_default();
        let name = row.entries().iter().find(|entry| entry.index == index);
        let Some(name) = name.map(|entry| entry.name.clone()) else {
            return Ok(());
        };
        row.remove(&name);
        let what = format!(
            "{} is a directory with a second name, {name} in {}.",
            called(id),
            called(parent)
        );
        self.find(what, |mutation| {
            put_entries(mutation, &entry_key, &row);
            mutation.remove(Table::Links, &key::link(id, parent, cookie));
            Ok(())
        })
    }

    /// Checks the names in an object's row against its actual names.
    fn check_names_of(
        &mut self,
        id: ObjectId,
        row: &ObjectRow,
        names: u32,
        home: Option<ObjectId>,
    ) -> Result<()> {
        if id == ObjectId::ROOT {
            return Ok(());
        }
        if names == 0 {
            let orphan = self
                .store
                .metadata
                .row(Table::Orphans, &key::object(id))?
                .is_some();
            if orphan && row.links == 0 && row.file().is_ok() {
                return Ok(());
            }
            return self.find_lost(format!("{} has no name.", called(id)), id);
        }
        if let (Content::Directory(content), Some(home)) = (&row.content, home)
            && content.parent != home
        {
            let what = format!(
                "{} takes {} for its parent.",
                called(id),
                called(content.parent)
            );
            return self.find(what, |mutation| {
                mutation.object_mut(id)?.directory_mut()?.parent = home;
                Ok(())
            });
        }
        if row.links != names {
            let what = format!("{} counts {} names and has {names}.", called(id), row.links);
            return self.find(what, |mutation| {
                mutation.object_mut(id)?.links = names;
                Ok(())
            });
        }
        Ok(())
    }

    fn check_counts(&mut self, id: ObjectId, row: &ObjectRow, counts: &Counts) -> Result<()> {
        let Content::Directory(content) = &row.content else {
            return Ok(());
        };
        let known = Counts {
            entries: content.entries,
            subdirectories: content.subdirectories,
        };
        if known == *counts {
            return Ok(());
        }
        let what = format!(
            "{} counts {} and {}, and has {} and {}.",
            called(id),
            Counted(known.entries, "entry"),
            Counted(u64::from(known.subdirectories), "subdirectory"),
            counts.entries,
            counts.subdirectories
        );
        self.find(what, |mutation| {
            let content = mutation.object_mut(id)?.directory_mut()?;
            content.entries = counts.entries;
            content.subdirectories = counts.subdirectories;
            Ok(())
        })
    }

    fn check_xattrs(
        &mut self,
        id: ObjectId,
        row: Option<&ObjectRow>,
        xattrs: &mut Side<'_>,
    ) -> Result<()> {
        // The rows of a removed object are cleared away later.
        let leaving = self
            .store
            .metadata
            .row(Table::Removals, &key::object(id))?
            .is_some();
        let mut total = 0;
        while let Some(found) = xattrs.next_of(id)? {
            let decoded = key::parse_xattr(found.key())
                .and_then(|(_, hash, _)| Ok((hash, XattrRow::decode(found.value())?)));
            let sound = decoded.ok().filter(|(hash, xattr)| {
                self.store.hash(xattr.name.as_bytes()) == *hash && (row.is_some() || leaving)
            });
            match sound {
                Some((_, xattr)) => total += xattr.charge() as u64,
                None => {
                    self.keep_row(Table::Xattrs, &found)?;
                    let what = format!("An extended attribute of {} makes no sense.", called(id));
                    self.find(what, |mutation| {
                        mutation.remove(Table::Xattrs, found.key());
                        Ok(())
                    })?;
                }
            }
        }
        match row {
            Some(row) if u64::from(row.xattr_bytes) != total => {
                let what = format!("{} counts its extended attributes wrongly.", called(id));
                self.find(what, |mutation| {
                    mutation.object_mut(id)?.xattr_bytes = u32::try_from(total).unwrap_or(u32::MAX);
                    Ok(())
                })
            }
            _ => Ok(()),
        }
    }

    /// The current row of an object, if it is readable.
    pub(super) fn row_of(&self, id: ObjectId) -> Result<Option<ObjectRow>> {
        let row = self.store.metadata.row(Table::Objects, &key::object(id))?;
        Ok(row.and_then(|row| ObjectRow::decode(&row).ok()))
    }

    /// Whether an entry with this cookie leads to the object.
    fn leads_to(&self, parent: ObjectId, cookie: Cookie, id: ObjectId) -> Result<bool> {
        let (hash, index) = crate::rows::NameHash::from_cookie(cookie);
        let row = self
            .store
            .metadata
            .row(Table::Entries, &key::entry(parent, hash))?;
        let Some(Ok(row)) = row.map(|row| EntryRow::decode(&row)) else {
            return Ok(false);
        };
        Ok(row
            .entries()
            .iter()
            .any(|entry| entry.index == index && entry.object == id))
    }
}

/// Writes a row of entries, or removes it when none is left.
fn put_entries(mutation: &mut crate::mutation::Mutation<'_>, key: &[u8], row: &EntryRow) {
    if row.is_empty() {
        mutation.remove(Table::Entries, key);
    } else {
        mutation.put(Table::Entries, key, &row.encode());
    }
}

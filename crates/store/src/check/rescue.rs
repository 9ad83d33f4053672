//! Keeps data without a place: objects get a name in `lost+found`, rows and data files are moved to
//! `lost-data`.

use std::fs;

use vfs::{Error, Name, ObjectId, ReplicaSlot, Result};

use super::examination::Examination;
use crate::counters::Reserved;
use crate::creation::root_row;
use crate::error::{StoreError, from_os};
use crate::layout::Layout;
use crate::metadata::{KeyedRow, Metadata, MetadataError, Table};
use crate::mutation::{Mutation, RESERVED_KEY, Touch};
use crate::open_store::{metadata_error, open_metadata};
use crate::options::{NewStore, StoreOptions};
use crate::rows::{Content, DirectoryContent, ObjectRow, key};

const LOST_AND_FOUND: &str = "lost+found";

impl<'i> Examination<'i> {
    /// Notes an object without a name, and gives it one.
    pub(super) fn find_lost(&mut self, what: String, id: ObjectId) -> Result<()> {
        let home = if self.repair {
            Some(self.lost_and_found()?)
        } else {
            None
        };
        let name = Name::new(format!("#{:016x}", id.as_u64()).into_bytes())?;
        self.find(what, |mutation| {
            let home = home.ok_or(Error::Stale)?;
            let row = mutation.object_mut(id)?;
            row.links = 1;
            mutation.unmark(Table::Orphans, id);
            if mutation.entries(home, &name)?.find(&name).is_none() {
                mutation.add_name(home, &name, id)?;
            }
            mutation.touch(home, Touch::Content).map(|_| ())
        })
    }

    /// The directory for lost objects; created when it is first needed.
    fn lost_and_found(&self) -> Result<ObjectId> {
        let mut home = None;
        self.quietly(|mutation| {
            // Users may have used the name for another object.
            for number in 0.. {
                let suffix = if number == 0 {
                    String::new()
                } else {
                    format!(".{number}")
                };
                let name = Name::new(format!("{LOST_AND_FOUND}{suffix}").into_bytes())?;
                let entry = mutation.entries(ObjectId::ROOT, &name)?.find(&name);
                let known = entry.map(|entry| entry.object);
                home = match known {
                    Some(id) if mutation.object(id).is_ok_and(ObjectRow::is_directory) => Some(id),
                    Some(_) => continue,
                    None => Some(make_directory(mutation, &name)?),
                };
                break;
            }
            Ok(())
        })?;
        home.ok_or(Error::Stale)
    }

    /// Copies a row without meaning to `lost-data` before it is removed.
    pub(super) fn keep_row(&self, table: Table, row: &KeyedRow) -> Result<()> {
        if !self.repair {
            return Ok(());
        }
        let hex: String = row.key().iter().map(|byte| format!("{byte:02x}")).collect();
        let path = self.store.layout.lost_data();
        let kept = fs::create_dir_all(&path)
            .and_then(|()| fs::write(path.join(format!("row-{}-{hex}", table as u8)), row.value()));
        kept.map_err(|error| from_os("keep a damaged row", &error))
    }

    /// Moves a data file without an object to `lost-data`.
    pub(super) fn keep_data_file(&mut self, what: String, path: &std::path::Path) -> Result<()> {
        if self.repair {
            let target = self.store.layout.lost_data();
            let name = path
                .file_name()
                .ok_or(Error::Invalid("a data file without a name"))?;
            let moved = fs::create_dir_all(&target).and_then(|()| {
                let mut free = target.join(name);
                for number in 1.. {
                    if !free.exists() {
                        break;
                    }
                    free = target.join(format!("{}.{number}", name.to_string_lossy()));
                }
                fs::rename(path, free)
            });
            moved.map_err(|error| from_os("keep a lost data file", &error))?;
        }
        self.note(what, self.repair);
        Ok(())
    }
}

fn make_directory(mutation: &mut Mutation<'_>, name: &Name) -> Result<ObjectId> {
    let id = mutation.new_id()?;
    let now = mutation.now();
    let row = ObjectRow {
        content: Content::Directory(DirectoryContent {
            parent: ObjectId::ROOT,
            entries: 0,
            subdirectories: 0,
            lies: crate::rows::Lies::Here,
        }),
        // Lost objects may be private to their owners.
        mode: 0o700,
        ..root_row(&NewStore::default(), now)
    };
    mutation.insert_object(id, row)?;
    mutation.add_name(ObjectId::ROOT, name, id)?;
    mutation.touch(ObjectId::ROOT, Touch::Content)?;
    Ok(id)
}

/// The finding when a number could be issued twice.
pub(super) const NUMBERS_UNRESERVED: &str = "Numbers are in use that are not reserved.";

/// Restores what every change of a store needs: the reservation of numbers, and the root. Returns
/// what was wrong.
pub(super) fn restore_foundations(
    layout: &Layout,
    slot: ReplicaSlot,
    options: &StoreOptions,
) -> std::result::Result<Vec<String>, StoreError> {
    let metadata = open_metadata(layout, options)?;
    let failed = |error| metadata_error(layout, &error);
    let mut findings = Vec::new();
    let mut batch = metadata.batch();
    let row = metadata.row(Table::System, RESERVED_KEY).map_err(failed)?;
    let reserved = row.and_then(|row| Reserved::decode(&row).ok());
    let used = numbers_in_use(&metadata, slot).map_err(failed)?;
    if !reserved.is_some_and(|reserved| reserved.covers(used)) {
        batch.put(Table::System, RESERVED_KEY, &used.with_margin().encode());
        findings.push(NUMBERS_UNRESERVED.into());
    }
    let root_key = key::object(ObjectId::ROOT);
    let row = metadata.row(Table::Objects, &root_key).map_err(failed)?;
    let root = row.and_then(|row| ObjectRow::decode(&row).ok());
    if !root.is_some_and(|root| root.is_directory()) {
        let mut root = root_row(&NewStore::default(), options.clock.now());
        root.change = used.with_margin().first_change();
        batch.put(Table::Objects, &root_key, &root.encode());
        batch.put(
            Table::System,
            RESERVED_KEY,
            &used.with_margin().with_margin().encode(),
        );
        findings.push("The root directory was lost; its names were not.".into());
    }
    if !batch.is_empty() {
        batch
            .commit()
            .and_then(|()| metadata.persist())
            .map_err(failed)?;
    }
    Ok(findings)
}

/// Voids the checksums of all contents: data files may be newer than rows whose end was lost.
pub(super) fn void_sums(
    layout: &Layout,
    options: &StoreOptions,
) -> std::result::Result<(), StoreError> {
    let metadata = open_metadata(layout, options)?;
    let failed = |error| metadata_error(layout, &error);
    let mut last = None;
    for row in metadata.view().scan(Table::Sums, &[], &[]) {
        let row = row.map_err(failed)?;
        let id = row.key().get(..8).map(<[u8]>::to_vec);
        if id == last {
            continue;
        }
        if let Some(id) = &id {
            let mut batch = metadata.batch();
            batch.put(Table::Voided, id, b"");
            batch.commit().map_err(failed)?;
        }
        last = id;
    }
    metadata.persist().map_err(failed)
}

/// Skips all numbers that lost operations may have used. A journal holds far fewer operations.
pub(super) fn skip_numbers(
    layout: &Layout,
    slot: ReplicaSlot,
    options: &StoreOptions,
) -> std::result::Result<(), StoreError> {
    let metadata = open_metadata(layout, options)?;
    let failed = |error| metadata_error(layout, &error);
    let row = metadata.row(Table::System, RESERVED_KEY).map_err(failed)?;
    let reserved = match row.and_then(|row| Reserved::decode(&row).ok()) {
        Some(reserved) => reserved,
        // The reservation was lost, too; the remaining rows may show some numbers.
        None => numbers_in_use(&metadata, slot).map_err(failed)?,
    };
    let mut batch = metadata.batch();
    batch.put(
        Table::System,
        RESERVED_KEY,
        &reserved.behind_lost().encode(),
    );
    batch
        .commit()
        .and_then(|()| metadata.persist())
        .map_err(failed)
}

/// The smallest reservation that covers every number in any row.
pub(super) fn numbers_in_use(
    metadata: &Metadata,
    slot: ReplicaSlot,
) -> std::result::Result<Reserved, MetadataError> {
    let (mut objects, mut changes, mut positions) = (0, 0, 0);
    let view = metadata.view();
    for row in view.scan(Table::Objects, &[], &[]) {
        let row = row?;
        let id = key::parse_object(row.key()).ok();
        let counter = id.map_or(0, |id| id.as_u64() & ObjectId::MAX_COUNTER);
        if ObjectId::new(slot, counter) == id {
            objects = objects.max(counter + 1);
        }
        let change = ObjectRow::decode(row.value()).map_or(0, |row| row.change.0);
        changes = changes.max((change & ObjectId::MAX_COUNTER) + 1);
    }
    for row in view.scan(Table::Updates, &[], &[]) {
        let position = key::parse_object(row?.key()).map_or(0, ObjectId::as_u64);
        positions = positions.max(position.saturating_add(1));
    }
    Ok(Reserved::behind(objects, changes, positions))
}

//! The initial content of a new store.

use fields::Fields;
use vfs::{ChangeAttribute, FsId, ObjectId, Timestamp};

use crate::counters::Counters;
use crate::error::StoreError;
use crate::layout::Layout;
use crate::metadata::Table;
use crate::mutation::{OBJECTS_KEY, RESERVED_KEY};
use crate::open_store::{metadata_error, open_metadata};
use crate::options::{NewStore, StoreOptions, TreeIdentity};
use crate::rows::{Content, DirectoryContent, ObjectRow, key};

/// Writes the rows that every store starts with.
pub(crate) fn write_first_rows(
    layout: &Layout,
    options: &StoreOptions,
    new: &NewStore,
) -> Result<(), StoreError> {
    let metadata = open_metadata(layout, options)?;
    let root = root_row(new, options.clock.now());
    let mut batch = metadata.batch();
    batch.put(Table::Objects, &key::object(ObjectId::ROOT), &root.encode());
    batch.put(
        Table::System,
        RESERVED_KEY,
        &Counters::first_reserved().encode(),
    );
    batch.put(Table::System, OBJECTS_KEY, &key::number(1));
    batch
        .commit()
        .and_then(|()| metadata.persist())
        .map_err(|error| metadata_error(layout, &error))
}

/// An empty root directory.
pub(crate) fn root_row(new: &NewStore, now: Timestamp) -> ObjectRow {
    ObjectRow {
        mode: new.root_mode & vfs::permission::MODE_MASK,
        links: 1,
        owner: new.root_owner,
        group: new.root_group,
        size: 0,
        space_used: 0,
        change: ChangeAttribute(1),
        accessed: now,
        modified: now,
        changed: now,
        created: now,
        xattr_bytes: 0,
        content: Content::Directory(DirectoryContent {
            parent: ObjectId::ROOT,
            entries: 0,
            subdirectories: 0,
            lies: crate::rows::Lies::Here,
        }),
    }
}

/// Generates the identity of a new tree.
pub(crate) fn random_tree() -> Result<TreeIdentity, StoreError> {
    let mut bytes = [0; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()).map_err(
            |errno| StoreError::io("draw random numbers for", "a new tree", errno.into()),
        )?;
    }
    let mut fields = Fields::new(&bytes);
    let mut half = || {
        // Invariant: 32 bytes hold four numbers of eight.
        fields.u64().expect("32 bytes hold four numbers")
    };
    let fs_id = FsId {
        major: half(),
        minor: half(),
    };
    let mut name_key = [0; 16];
    name_key[..8].copy_from_slice(&half().to_be_bytes());
    name_key[8..].copy_from_slice(&half().to_be_bytes());
    Ok(TreeIdentity { fs_id, name_key })
}

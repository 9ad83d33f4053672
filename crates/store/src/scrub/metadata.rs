//! Digests of rows.

use std::iter::Peekable;
use std::ops::RangeInclusive;

use blake3::Hasher;
use vfs::{ObjectId, Result, Timestamp};

use super::digests::MetadataDigest;
use crate::metadata::{KeyedRow, MetadataError, Table, View};
use crate::open_store::OpenStore;
use crate::rows::{ObjectRow, key};

/// Tables whose keys begin with an object, in digest order.
const BESIDE: [Table; 3] = [Table::Entries, Table::Links, Table::Xattrs];

impl OpenStore {
    /// A digest of the rows of the objects in this range of identifiers, or of the first `max_objects` of them: each
    /// object's row, its extended attributes, its names, and the names in it if it is a directory. Not included is
    /// what each copy decides for itself: the access time, whether there is a data file, the placement of data, and files
    /// without a name. Reads from the disk and may block for as long as that takes.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn digest_metadata(
        &self,
        range: RangeInclusive<ObjectId>,
        max_objects: u64,
    ) -> Result<MetadataDigest> {
        self.health.check()?;
        let view = self.metadata.view();
        let from = key::object(*range.start());
        let mut beside = BESIDE.map(|table| Beside::new(&view, table, &from));
        let mut digest = MetadataDigest {
            objects: 0,
            through: *range.end(),
            hash: [0; 32],
        };
        let mut hasher = Hasher::new();
        for found in view.scan(Table::Objects, &[], &from) {
            let found = found?;
            let id = key::parse_object(found.key())?;
            if id > *range.end() {
                break;
            }
            let row = ObjectRow::decode(found.value())?;
            // Only this copy keeps a file without a name.
            if row.links == 0 {
                continue;
            }
            add(
                &mut hasher,
                Table::Objects,
                found.key(),
                &agreed(row).encode(),
            );
            for rows in &mut beside {
                rows.add_those_of(&mut hasher, found.key())?;
            }
            digest.objects += 1;
            if digest.objects >= max_objects {
                digest.through = id;
                break;
            }
        }
        digest.hash = hasher.finalize().into();
        Ok(digest)
    }
}

/// The rows of one table, read in step with the objects.
struct Beside<I: Iterator> {
    table: Table,
    rows: Peekable<I>,
}

type Found = std::result::Result<KeyedRow, MetadataError>;

impl<'m> Beside<Box<dyn Iterator<Item = Found> + 'm>> {
    fn new(view: &View<'m>, table: Table, from: &[u8]) -> Self {
        let rows: Box<dyn Iterator<Item = Found> + 'm> = Box::new(view.scan(table, &[], from));
        Beside {
            table,
            rows: rows.peekable(),
        }
    }

    /// Adds the rows of one object; skips rows of objects that do not exist.
    fn add_those_of(&mut self, hasher: &mut Hasher, object: &[u8]) -> Result<()> {
        let near = |found: &Found| match found {
            Ok(row) => row.key().get(..8).is_none_or(|of| of <= object),
            Err(_) => true,
        };
        while let Some(found) = self.rows.next_if(near) {
            let row = found?;
            if row.key().starts_with(object) {
                add(hasher, self.table, row.key(), row.value());
            }
        }
        Ok(())
    }
}

fn add(hasher: &mut Hasher, table: Table, key: &[u8], value: &[u8]) {
    hasher.update(&[table as u8]);
    for bytes in [key, value] {
        hasher.update(&(bytes.len() as u64).to_be_bytes());
        hasher.update(bytes);
    }
}

/// A row without the fields that each copy decides for itself.
fn agreed(mut row: ObjectRow) -> ObjectRow {
    row.accessed = Timestamp::default();
    if let Ok(file) = row.file_mut() {
        file.stored = false;
        file.placement = None;
    }
    row
}

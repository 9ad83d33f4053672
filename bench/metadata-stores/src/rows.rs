//! The rows of a local replica store, and the operations of a file system as changes to them.
//!
//! Every candidate holds all rows in one ordered map; the first byte of a key names the table.
//! Nothing here may know which store is being measured.

/// Identifies a file, directory or other object of the file system.
pub type ObjectId = u64;

/// Table byte of object rows: attributes of one object, found by its identifier.
const OBJECT: u8 = b'o';
/// Table byte of entry rows: one name in one directory, found by the hash of the name.
const ENTRY: u8 = b'e';
/// Table byte of link rows: which directory entries lead to an object.
const LINK: u8 = b'l';

/// Bytes of the longest key: the table byte, then child, parent and hash of a link row.
const KEY_BYTES_MAX: usize = 25;
/// Bytes of an object row.
pub const OBJECT_ROW_BYTES: usize = 120;
/// Bytes of an entry row: the child's identifier, its type, and a name of usual length.
const ENTRY_ROW_BYTES: usize = 30;

/// A key, inline so that building an operation allocates no more than it must.
#[derive(Clone, Copy)]
pub struct Key {
    bytes: [u8; KEY_BYTES_MAX],
    length: usize,
}

impl Key {
    fn new(table: u8, numbers: &[u64]) -> Self {
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes[0] = table;
        for (index, number) in numbers.iter().enumerate() {
            // Big-endian, so that the order of keys is the order of numbers.
            bytes[1 + index * 8..9 + index * 8].copy_from_slice(&number.to_be_bytes());
        }
        Self {
            bytes,
            length: 1 + numbers.len() * 8,
        }
    }

    /// Key of the row that holds the attributes of `id`.
    pub fn object(id: ObjectId) -> Self {
        Self::new(OBJECT, &[id])
    }

    /// Key of the entry of `directory` whose name hashes to `hash`.
    pub fn entry(directory: ObjectId, hash: u64) -> Self {
        Self::new(ENTRY, &[directory, hash])
    }

    /// Key of the row that says that `child` is named by an entry of `parent`.
    pub fn link(child: ObjectId, parent: ObjectId, hash: u64) -> Self {
        Self::new(LINK, &[child, parent, hash])
    }

    /// The key as the stores want it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// One row to write, or to delete when it has no value.
pub struct Change {
    /// The row's key.
    pub key: Key,
    /// The new value, or `None` to delete the row.
    pub value: Option<Vec<u8>>,
}

/// One operation of the file system: applied whole or not at all.
pub struct Operation {
    /// Rows looked at before anything is changed, as the checks of a file system do.
    pub reads: Vec<Key>,
    /// Rows that change together.
    pub changes: Vec<Change>,
}

impl Operation {
    /// CREATE: an object, its entry and its link appear, and the parent changes.
    pub fn create(parent: ObjectId, child: ObjectId, parent_version: u64) -> Self {
        let hash = name_hash(child);
        Self {
            reads: vec![Key::entry(parent, hash), Key::object(parent)],
            changes: vec![
                put(Key::object(child), object_row(child, 1)),
                put(Key::entry(parent, hash), entry_row(child)),
                put(Key::link(child, parent, hash), Vec::new()),
                put(Key::object(parent), object_row(parent, parent_version)),
            ],
        }
    }

    /// REMOVE: what CREATE made goes, and the parent changes.
    pub fn remove(parent: ObjectId, child: ObjectId, parent_version: u64) -> Self {
        let hash = name_hash(child);
        Self {
            reads: vec![
                Key::entry(parent, hash),
                Key::object(child),
                Key::object(parent),
            ],
            changes: vec![
                delete(Key::object(child)),
                delete(Key::entry(parent, hash)),
                delete(Key::link(child, parent, hash)),
                put(Key::object(parent), object_row(parent, parent_version)),
            ],
        }
    }

    /// WRITE: size, times and change counter of one object move on.
    pub fn write(id: ObjectId, version: u64) -> Self {
        Self {
            reads: vec![Key::object(id)],
            changes: vec![put(Key::object(id), object_row(id, version))],
        }
    }
}

fn put(key: Key, value: Vec<u8>) -> Change {
    Change {
        key,
        value: Some(value),
    }
}

fn delete(key: Key) -> Change {
    Change { key, value: None }
}

/// The hash that stands for the name of `child`; spread evenly, as the hash of a name is.
pub fn name_hash(child: ObjectId) -> u64 {
    scramble(child ^ 0x5bd1_e995_9e37_79b9)
}

/// An object row: identifier, version, and attributes that do not compress well.
pub fn object_row(id: ObjectId, version: u64) -> Vec<u8> {
    let mut row = Vec::with_capacity(OBJECT_ROW_BYTES);
    row.extend_from_slice(&id.to_be_bytes());
    row.extend_from_slice(&version.to_be_bytes());
    let mut noise = scramble(id ^ version);
    while row.len() < OBJECT_ROW_BYTES {
        noise = scramble(noise);
        row.extend_from_slice(&noise.to_be_bytes());
    }
    row
}

/// The identifier and version at the head of an object row; `None` if the row is too short.
pub fn object_version(row: &[u8]) -> Option<(ObjectId, u64)> {
    Some((number_at(row, 0)?, number_at(row, 8)?))
}

fn entry_row(child: ObjectId) -> Vec<u8> {
    let mut row = Vec::with_capacity(ENTRY_ROW_BYTES);
    row.extend_from_slice(&child.to_be_bytes());
    row.push(1);
    row.extend_from_slice(format!("file-{child:016x}").as_bytes());
    row.truncate(ENTRY_ROW_BYTES);
    row
}

/// The child that an entry row names; `None` if the row is too short.
pub fn entry_child(row: &[u8]) -> Option<ObjectId> {
    number_at(row, 0)
}

/// The hash in an entry's key, which serves as READDIR's cookie.
pub fn entry_cookie(key: &[u8]) -> Option<u64> {
    number_at(key, 9)
}

/// The child that a link's key names; `None` if the key is too short.
pub fn link_child(key: &[u8]) -> Option<ObjectId> {
    number_at(key, 1)
}

fn number_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let field = bytes.get(offset..offset + 8)?;
    Some(u64::from_be_bytes(field.try_into().ok()?))
}

/// A fixed permutation of 64-bit numbers (SplitMix64's finisher): the same noise in every run.
pub fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_directory_lie_together_in_the_order_of_their_cookies() {
        let keys = [
            Key::entry(1, u64::MAX),
            Key::entry(2, 1),
            Key::entry(2, 256),
            Key::entry(3, 0),
            Key::link(0, 0, 0),
            Key::object(0),
        ];
        assert!(keys.is_sorted_by(|first, second| first.as_bytes() < second.as_bytes()));
    }

    #[test]
    fn rows_give_back_what_names_them() {
        assert_eq!(object_version(&object_row(7, 9)), Some((7, 9)));
        assert_eq!(entry_child(&entry_row(7)), Some(7));
        assert_eq!(entry_cookie(Key::entry(1, 5).as_bytes()), Some(5));
        assert_eq!(object_version(&[0; 15]), None);
    }
}

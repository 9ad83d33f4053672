//! Names in directories: the row of a name, and its cookie.
//!
//! A name's cookie is a keyed hash of the name, followed by an index that distinguishes names with the same
//! hash. So the cookie belongs to the name: it does not change when other entries come and go, it survives a
//! restart, and every replica of the tree computes the same one, because they share the key. Without the
//! key a client cannot construct names that collide.

use std::hash::Hasher;

use bytes::{BufMut, Bytes};
use fields::Fields;
use siphasher::sip::SipHasher24;
use vfs::{Cookie, Name, ObjectId};

use crate::malformed::Malformed;

const VERSION: u8 = 1;

/// Bits of a cookie below the hash.
const INDEX_BITS: u32 = 8;

/// Bits of the hash: together with the index they stay below 2^63, as cookies must.
const HASH_BITS: u32 = 55;

/// The maximum number of names with one hash in a directory.
const MAX_COLLISIONS: usize = 1 << INDEX_BITS;

/// The hash of a name within a tree: 55 bits, never 0, so that no cookie lies below 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameHash(u64);

impl NameHash {
    pub(crate) fn of(key: &[u8; 16], name: &[u8]) -> NameHash {
        let mut hasher = SipHasher24::new_with_key(key);
        hasher.write(name);
        NameHash((hasher.finish() >> (u64::BITS - HASH_BITS)).max(1))
    }

    /// The hash in a cookie, and the index after which a listing continues.
    pub(crate) fn from_cookie(cookie: Cookie) -> (NameHash, u8) {
        (NameHash(cookie.0 >> INDEX_BITS), (cookie.0 & 0xff) as u8)
    }

    pub(crate) fn from_key(bytes: [u8; 7]) -> NameHash {
        let mut wide = [0; 8];
        wide[1..].copy_from_slice(&bytes);
        NameHash(u64::from_be_bytes(wide))
    }

    /// The seven bytes used in keys.
    pub(crate) fn to_key(self) -> [u8; 7] {
        let [_, key @ ..] = self.0.to_be_bytes();
        key
    }

    pub(crate) fn cookie(self, index: u8) -> Cookie {
        Cookie((self.0 << INDEX_BITS) | u64::from(index))
    }
}

/// One name among those with the same hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) index: u8,
    pub(crate) name: Name,
    pub(crate) object: ObjectId,
}

/// All names of a directory with one hash, by index. Nearly always a single one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryRow(Vec<Entry>);

impl EntryRow {
    pub(crate) fn find(&self, name: &Name) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.name == *name)
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a name under the smallest free index. `None` when all are taken.
    pub(crate) fn add(&mut self, name: Name, object: ObjectId) -> Option<u8> {
        if self.0.len() >= MAX_COLLISIONS {
            return None;
        }
        let place = self
            .0
            .iter()
            .enumerate()
            .position(|(at, entry)| usize::from(entry.index) > at);
        let place = place.unwrap_or(self.0.len());
        let index = u8::try_from(place).ok()?;
        self.0.insert(
            place,
            Entry {
                index,
                name,
                object,
            },
        );
        Some(index)
    }

    /// Removes a name and returns its entry.
    pub(crate) fn remove(&mut self, name: &Name) -> Option<Entry> {
        let place = self.0.iter().position(|entry| entry.name == *name)?;
        Some(self.0.remove(place))
    }

    /// Makes a name lead to another object; its cookie stays.
    pub(crate) fn replace(&mut self, name: &Name, object: ObjectId) {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.name == *name) {
            entry.object = object;
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(32);
        row.put_u8(VERSION);
        for entry in &self.0 {
            row.put_u8(entry.index);
            row.put_u64(entry.object.as_u64());
            put_short(&mut row, entry.name.as_bytes());
        }
        row
    }

    pub(crate) fn decode(row: &[u8]) -> Result<EntryRow, Malformed> {
        let mut entries: Vec<Entry> = Vec::with_capacity(1);
        for entry in EntriesOf::row(row)? {
            let EntryOf {
                index,
                name,
                object,
            } = entry?;
            entries.push(Entry {
                index,
                name: name_of(Bytes::copy_from_slice(name))?,
                object,
            });
        }
        Ok(EntryRow(entries))
    }
}

/// Appends a byte string of at most 255 bytes, after its length.
pub(super) fn put_short(row: &mut Vec<u8>, bytes: &[u8]) {
    // Invariant: the length of names was checked before.
    let length = u8::try_from(bytes.len()).expect("names have at most 255 bytes");
    row.put_u8(length);
    row.put_slice(bytes);
}

/// A stored name.
pub(crate) fn name_of(bytes: Bytes) -> Result<Name, Malformed> {
    Name::new(bytes).map_err(|_| Malformed("an entry has an impossible name"))
}

/// An iterator over the names of a row, without copies, for callers that read many rows. It does not validate the bytes, see
/// [`name_of`].
pub(crate) struct EntriesOf<'a> {
    fields: Fields<'a>,
    last: Option<u8>,
}

/// One name, borrowed from its row.
pub(crate) struct EntryOf<'a> {
    pub(crate) index: u8,
    pub(crate) name: &'a [u8],
    pub(crate) object: ObjectId,
}

impl<'a> EntriesOf<'a> {
    pub(crate) fn row(row: &'a [u8]) -> Result<EntriesOf<'a>, Malformed> {
        let mut fields = Fields::new(row);
        if fields.u8()? != VERSION {
            return Err(Malformed("the version of an entry row is unknown"));
        }
        if fields.is_empty() {
            return Err(Malformed("an entry row holds no entry"));
        }
        Ok(EntriesOf { fields, last: None })
    }

    fn entry(&mut self) -> Result<EntryOf<'a>, Malformed> {
        let index = self.fields.u8()?;
        let object = ObjectId::from_u64(self.fields.u64()?);
        let length = usize::from(self.fields.u8()?);
        let name = self.fields.bytes(length)?;
        if self.last.is_some_and(|last| last >= index) {
            return Err(Malformed("the entries of a row are out of order"));
        }
        self.last = Some(index);
        Ok(EntryOf {
            index,
            name,
            object,
        })
    }
}

impl<'a> Iterator for EntriesOf<'a> {
    type Item = Result<EntryOf<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.fields.is_empty()).then(|| self.entry())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &'static str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_hash_of_a_name_never_changes() {
        let hash = NameHash::of(&[7; 16], b"example");
        assert_eq!(hash, NameHash::of(&[7; 16], b"example"));
        assert_ne!(hash, NameHash::of(&[8; 16], b"example"));
        assert_eq!(hash.0, 0x2441_cfec_7e88);
        assert_eq!(NameHash::from_key(hash.to_key()), hash);
    }

    #[test]
    fn cookies_lie_where_nfs_wants_them_and_lead_back() {
        let largest = NameHash((1 << HASH_BITS) - 1);
        for (hash, index) in [(NameHash(1), 0), (largest, 255), (NameHash(0x1234), 9)] {
            let cookie = hash.cookie(index);
            assert!(cookie >= Cookie::FIRST && cookie.0 < 1 << 63);
            assert_eq!(NameHash::from_cookie(cookie), (hash, index));
        }
    }

    #[test]
    fn names_with_one_hash_keep_their_cookies_while_others_go() {
        let mut row = EntryRow::default();
        let object = ObjectId::ROOT;
        assert_eq!(row.add(name("a"), object), Some(0));
        assert_eq!(row.add(name("b"), object), Some(1));
        assert_eq!(row.add(name("c"), object), Some(2));
        assert_eq!(row.remove(&name("b")).map(|entry| entry.index), Some(1));
        assert_eq!(row.find(&name("c")).map(|entry| entry.index), Some(2));
        assert_eq!(row.add(name("d"), object), Some(1));
        let order: Vec<u8> = row.entries().iter().map(|entry| entry.index).collect();
        assert_eq!(order, [0, 1, 2]);
        assert_eq!(EntryRow::decode(&row.encode()), Ok(row));
    }

    #[test]
    fn a_row_takes_256_names_and_no_more() {
        let mut row = EntryRow::default();
        for number in 0..256 {
            let name = Name::new(format!("{number}").into_bytes()).unwrap();
            assert_eq!(row.add(name, ObjectId::ROOT), u8::try_from(number).ok());
        }
        assert_eq!(row.add(name("more"), ObjectId::ROOT), None);
    }

    #[test]
    fn damaged_rows_are_refused() {
        let mut row = EntryRow::default();
        row.add(name("a"), ObjectId::ROOT);
        let bytes = row.encode();
        for length in 0..bytes.len() {
            assert!(EntryRow::decode(&bytes[..length]).is_err());
        }
        let mut slash = bytes.clone();
        *slash.last_mut().unwrap() = b'/';
        assert!(EntryRow::decode(&slash).is_err());
    }
}

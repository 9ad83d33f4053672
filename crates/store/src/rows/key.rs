//! Keys of the tables. Big-endian, so that the order of the bytes is the order of the numbers.

use fields::Fields;
use vfs::{Cookie, ObjectId, ReplicaSlot};

use super::NameHash;
use crate::malformed::Malformed;

/// The number of an object in file handles, entries and links; also an update's position.
pub(crate) fn number(value: u64) -> [u8; 8] {
    value.to_be_bytes()
}

/// The number at the start of a key or a row.
pub(crate) fn parse_number(bytes: &[u8]) -> Result<u64, Malformed> {
    Ok(Fields::new(bytes).u64()?)
}

/// The key of an object, and of all rows that exist once per object.
pub(crate) fn object(id: ObjectId) -> [u8; 8] {
    number(id.as_u64())
}

pub(crate) fn parse_object(key: &[u8]) -> Result<ObjectId, Malformed> {
    let mut fields = Fields::new(key);
    let id = ObjectId::from_u64(fields.u64()?);
    fields.end()?;
    Ok(id)
}

/// The key of the names of a directory with one hash.
pub(crate) fn entry(directory: ObjectId, hash: NameHash) -> [u8; 15] {
    let mut key = [0; 15];
    key[..8].copy_from_slice(&object(directory));
    key[8..].copy_from_slice(&hash.to_key());
    key
}

pub(crate) fn parse_entry(key: &[u8]) -> Result<(ObjectId, NameHash), Malformed> {
    let mut fields = Fields::new(key);
    let directory = ObjectId::from_u64(fields.u64()?);
    let hash = seven(&mut fields)?;
    fields.end()?;
    Ok((directory, hash))
}

/// The key of one name of an object, in the table of links.
pub(crate) fn link(child: ObjectId, parent: ObjectId, cookie: Cookie) -> [u8; 24] {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&object(child));
    key[8..16].copy_from_slice(&object(parent));
    key[16..].copy_from_slice(&number(cookie.0));
    key
}

pub(crate) fn parse_link(key: &[u8]) -> Result<(ObjectId, ObjectId, Cookie), Malformed> {
    let mut fields = Fields::new(key);
    let child = ObjectId::from_u64(fields.u64()?);
    let parent = ObjectId::from_u64(fields.u64()?);
    let cookie = Cookie(fields.u64()?);
    fields.end()?;
    Ok((child, parent, cookie))
}

/// The key of a piece of a kept write.
pub(crate) fn kept(id: ObjectId, piece: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&object(id));
    key[8..].copy_from_slice(&number(piece));
    key
}

/// The key of a mark for missing data of a file, one for each primary that made the data.
pub(crate) fn incomplete((file, from): (ObjectId, ReplicaSlot)) -> [u8; 10] {
    let mut key = [0; 10];
    key[..8].copy_from_slice(&object(file));
    key[8..].copy_from_slice(&from.0.to_be_bytes());
    key
}

pub(crate) fn parse_incomplete(key: &[u8]) -> Result<(ObjectId, ReplicaSlot), Malformed> {
    let mut fields = Fields::new(key);
    let file = ObjectId::from_u64(fields.u64()?);
    let from = ReplicaSlot(fields.u16()?);
    fields.end()?;
    Ok((file, from))
}

/// The key of an extended attribute; names with one hash differ in the index.
pub(crate) fn xattr(id: ObjectId, hash: NameHash, index: u8) -> [u8; 16] {
    let mut key = [0; 16];
    key[..15].copy_from_slice(&entry(id, hash));
    key[15] = index;
    key
}

pub(crate) fn parse_xattr(key: &[u8]) -> Result<(ObjectId, NameHash, u8), Malformed> {
    let mut fields = Fields::new(key);
    let id = ObjectId::from_u64(fields.u64()?);
    let hash = seven(&mut fields)?;
    let index = fields.u8()?;
    fields.end()?;
    Ok((id, hash, index))
}

fn seven(fields: &mut Fields<'_>) -> Result<NameHash, Malformed> {
    Ok(NameHash::from_key(fields.array()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_back_and_sort_by_their_numbers() {
        let (low, high) = (ObjectId::from_u64(255), ObjectId::from_u64(256));
        let hash = NameHash::of(&[0; 16], b"name");
        assert!(entry(low, hash) < entry(high, hash));
        assert_eq!(parse_object(&object(high)), Ok(high));
        assert_eq!(parse_entry(&entry(high, hash)), Ok((high, hash)));
        let cookie = hash.cookie(3);
        assert_eq!(
            parse_link(&link(low, high, cookie)),
            Ok((low, high, cookie))
        );
        assert_eq!(parse_xattr(&xattr(low, hash, 9)), Ok((low, hash, 9)));
        assert!(parse_entry(&[0; 14]).is_err());
        assert!(parse_link(&[0; 25]).is_err());
    }
}

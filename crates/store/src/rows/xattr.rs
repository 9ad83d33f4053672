//! One extended attribute: its name and value.

use bytes::{BufMut, Bytes};
use fields::Fields;
use vfs::XattrName;

use super::entry::put_short;
use crate::malformed::Malformed;

const VERSION: u8 = 1;

/// Each attribute counts this in addition to the bytes of its name and value, so that the number of tiny attributes is
/// bounded, too.
const OVERHEAD_BYTES: usize = 16;

/// A stored extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct XattrRow {
    pub(crate) name: XattrName,
    pub(crate) value: Bytes,
}

impl XattrRow {
    /// The attribute's charge against the limit of one object.
    pub(crate) fn charge(&self) -> usize {
        self.name.as_bytes().len() + self.value.len() + OVERHEAD_BYTES
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(self.charge());
        row.put_u8(VERSION);
        put_short(&mut row, self.name.as_bytes());
        row.put_slice(&self.value);
        row
    }

    pub(crate) fn decode(row: &[u8]) -> Result<XattrRow, Malformed> {
        let mut fields = Fields::new(row);
        if fields.u8()? != VERSION {
            return Err(Malformed("the version of an extended attribute is unknown"));
        }
        let length = usize::from(fields.u8()?);
        let name = XattrName::new(Bytes::copy_from_slice(fields.bytes(length)?))
            .map_err(|_| Malformed("an extended attribute has an impossible name"))?;
        Ok(XattrRow {
            name,
            value: Bytes::copy_from_slice(fields.rest()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_any_bytes_come_back() {
        let name = XattrName::new(&b"a/b"[..]).unwrap();
        for value in [&b""[..], &b"\0\xff"[..]] {
            let row = XattrRow {
                name: name.clone(),
                value: Bytes::copy_from_slice(value),
            };
            assert_eq!(XattrRow::decode(&row.encode()), Ok(row));
        }
        assert!(XattrRow::decode(&[VERSION, 3, b'a']).is_err());
    }
}

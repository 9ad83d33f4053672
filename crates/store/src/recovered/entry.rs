//! The description of an object whose version was discarded.

use std::fmt;

use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use vfs::{ChangeAttribute, ObjectId, Timestamp};

/// A set of discarded versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveredSet {
    /// The format of the set.
    pub format: u32,
    /// The name of the set.
    pub label: String,
    /// The reason for discarding the versions, as text.
    pub reason: String,
    /// The time when they were saved.
    pub saved_at: Timestamp,
    /// The replica that had the versions.
    pub replica: u16,
    /// The number of objects.
    pub objects: u64,
    /// The sizes of all files together, in bytes.
    pub bytes: u64,
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveredKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A fifo.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// The object had been removed; nothing else is known of it.
    Removed,
}

/// One object in its discarded version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveredEntry {
    /// Its identifier, as 16 hexadecimal digits.
    #[serde(with = "hexadecimal")]
    pub object: ObjectId,
    /// Its kind.
    pub kind: RecoveredKind,
    /// One of its paths from the root of the tree; `None` if it had no name.
    pub path: Option<EscapedBytes>,
    /// Permission bits.
    pub mode: u32,
    /// The number of its names.
    pub links: u32,
    /// User.
    pub owner: u32,
    /// Group.
    pub group: u32,
    /// The size of a file in bytes, or the number of entries of a directory.
    pub size: u64,
    /// Its version.
    pub change: ChangeAttribute,
    /// Time of last access.
    pub accessed: Timestamp,
    /// Time of last modification of its content.
    pub modified: Timestamp,
    /// Time of last change of anything.
    pub changed: Timestamp,
    /// Time of creation.
    pub created: Timestamp,
    /// The target of a symbolic link.
    pub target: Option<EscapedBytes>,
    /// Major and minor number of a device.
    pub device: Option<(u32, u32)>,
    /// Extended attributes, without the name space `user.`.
    pub xattrs: Vec<(EscapedBytes, EscapedBytes)>,
    /// Whether the set contains its content.
    pub has_data: bool,
    /// Part of the content had never arrived here, so the content in the set is a mixture of versions.
    pub incomplete: bool,
}

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveredName {
    /// The name.
    pub name: EscapedBytes,
    /// The object that it led to, as 16 hexadecimal digits.
    #[serde(with = "hexadecimal")]
    pub object: ObjectId,
}

/// Bytes that are mostly text. In the encoded form, `%` and every byte that is not UTF-8 become `%` and two
/// hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct EscapedBytes(pub Bytes);

impl EscapedBytes {
    fn parse(text: &str) -> Option<EscapedBytes> {
        let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
        while let Some((first, behind)) = rest.split_first() {
            rest = behind;
            if *first != b'%' {
                bytes.push(*first);
                continue;
            }
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            bytes.push(plain.then(|| u8::from_str_radix(digits, 16).ok())??);
            rest = &rest[2..];
        }
        Some(EscapedBytes(bytes.into()))
    }
}

impl fmt::Display for EscapedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(&chunk.valid().replace('%', "%25"))?;
            for byte in chunk.invalid() {
                write!(f, "%{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for EscapedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl Serialize for EscapedBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EscapedBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        EscapedBytes::parse(&text).ok_or_else(|| D::Error::custom("an escape that is none"))
    }
}

mod hexadecimal {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        id: &ObjectId,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", id.as_u64()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ObjectId, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = u64::from_str_radix(&text, 16);
        number
            .map(ObjectId::from_u64)
            .map_err(|_| D::Error::custom("an object that is no number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_come_back_from_text() {
        for bytes in [&b"/plain/\xc3\xa4"[..], b"100%", b"\xff\0\n\"%25", b""] {
            let escaped = EscapedBytes(Bytes::copy_from_slice(bytes));
            let text = serde_json::to_string(&escaped).unwrap();
            assert_eq!(
                serde_json::from_str::<EscapedBytes>(&text).unwrap(),
                escaped
            );
        }
        assert_eq!(
            EscapedBytes(Bytes::from_static(b"a\xffb%")).to_string(),
            "a%ffb%25"
        );
        for bad in ["%", "%f", "%+1", "%zz"] {
            assert_eq!(EscapedBytes::parse(bad), None, "{bad}");
        }
    }
}

//! What is written down of an object whose version was discarded.

use std::fmt;

use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use vfs::{ChangeAttribute, ObjectId, Timestamp};

/// A set of discarded versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveredSet {
    /// The format of what lies in the set.
    pub format: u32,
    /// What the set is called.
    pub label: String,
    /// Why the versions were discarded, in words.
    pub reason: String,
    /// When they were kept.
    pub saved_at: Timestamp,
    /// The replica that had them.
    pub replica: u16,
    /// How many objects there are.
    pub objects: u64,
    /// The sizes of all files together, in bytes.
    pub bytes: u64,
}

/// What an object was.
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
    /// It had been removed; nothing else is known of it.
    Removed,
}

/// One object as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveredEntry {
    /// Its identifier, as 16 hexadecimal digits.
    #[serde(with = "hexadecimal")]
    pub object: ObjectId,
    /// What it was.
    pub kind: RecoveredKind,
    /// One of its paths from the root of the tree; nothing when it had no name.
    pub path: Option<EscapedBytes>,
    /// Permission bits.
    pub mode: u32,
    /// How many names it had.
    pub links: u32,
    /// User.
    pub owner: u32,
    /// Group.
    pub group: u32,
    /// Bytes, of a file; entries, of a directory.
    pub size: u64,
    /// Its version.
    pub change: ChangeAttribute,
    /// Time of last access.
    pub accessed: Timestamp,
    /// Time of last modification of its content.
    pub modified: Timestamp,
    /// Time of last change of anything.
    pub changed: Timestamp,
    /// When it was made.
    pub created: Timestamp,
    /// Where a symbolic link led.
    pub target: Option<EscapedBytes>,
    /// Major and minor number of a device.
    pub device: Option<(u32, u32)>,
    /// Extended attributes, without the name space `user.`.
    pub xattrs: Vec<(EscapedBytes, EscapedBytes)>,
    /// Whether its content lies in the set.
    pub has_data: bool,
    /// Part of the content had never come here, so what lies in the set is a mixture.
    pub incomplete: bool,
}

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveredName {
    /// The name.
    pub name: EscapedBytes,
    /// What it led to, as 16 hexadecimal digits.
    #[serde(with = "hexadecimal")]
    pub object: ObjectId,
}

/// Bytes that are mostly text. Written down, `%` and every byte that is no UTF-8 become `%` and two
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

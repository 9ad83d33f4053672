//! Names of directory entries and extended attributes, validated once on entry.

use serde::{Deserialize, Serialize};
use std::fmt;

use bytes::Bytes;

use crate::ShownBytes;

/// The longest name of an entry or extended attribute, in bytes, as on Linux local file systems.
pub const MAX_NAME_BYTES: usize = 255;

/// Why bytes are not a valid name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum NameError {
    /// No bytes.
    #[error("the name is empty")]
    Empty,
    /// Longer than [`MAX_NAME_BYTES`].
    #[error("the name is longer than {MAX_NAME_BYTES} bytes")]
    TooLong,
    /// A slash or a NUL byte, which no path component can contain.
    #[error("the name holds a slash or a NUL byte")]
    BadCharacter,
    /// `.` or `..`, which are not names of entries (RFC 8881, section 14.5).
    #[error("the name is `.` or `..`")]
    Reserved,
}

/// The name of a directory entry: 1 to 255 bytes, no slash, no NUL, neither `.` nor `..`.
///
/// All other bytes are kept as the client sent them; Linux clients do not guarantee UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Bytes", into = "Bytes")]
pub struct Name(Bytes);

impl Name {
    /// Validates bytes from a client or a disk.
    ///
    /// # Errors
    /// [`NameError`] contains the violated rule.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Name, NameError> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(NameError::Empty);
        }
        if bytes.iter().any(|byte| matches!(byte, 0 | b'/')) {
            return Err(NameError::BadCharacter);
        }
        if bytes.len() > MAX_NAME_BYTES {
            return Err(NameError::TooLong);
        }
        if matches!(&bytes[..], b"." | b"..") {
            return Err(NameError::Reserved);
        }
        Ok(Name(bytes))
    }

    /// The bytes as given.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<Bytes> for Name {
    type Error = NameError;

    fn try_from(bytes: Bytes) -> Result<Name, NameError> {
        Name::new(bytes)
    }
}

impl From<Name> for Bytes {
    fn from(name: Name) -> Bytes {
        name.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", ShownBytes(&self.0))
    }
}

/// The name of an extended attribute in the `user.` name space, without that prefix
/// (RFC 8276, section 5).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Bytes", into = "Bytes")]
pub struct XattrName(Bytes);

impl XattrName {
    /// Validates bytes from a client or a disk. Slashes and dots are allowed.
    ///
    /// # Errors
    /// [`NameError`] contains the violated rule.
    pub fn new(bytes: impl Into<Bytes>) -> Result<XattrName, NameError> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(NameError::Empty);
        }
        if bytes.contains(&0) {
            return Err(NameError::BadCharacter);
        }
        if bytes.len() > MAX_NAME_BYTES {
            return Err(NameError::TooLong);
        }
        Ok(XattrName(bytes))
    }

    /// The bytes as given.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as a shared slice, without copying.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }
}

impl TryFrom<Bytes> for XattrName {
    type Error = NameError;

    fn try_from(bytes: Bytes) -> Result<XattrName, NameError> {
        XattrName::new(bytes)
    }
}

impl From<XattrName> for Bytes {
    fn from(name: XattrName) -> Bytes {
        name.0
    }
}

impl fmt::Debug for XattrName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", ShownBytes(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_any_byte_but_slash_and_nul() {
        let odd: &[u8] = &[0xff, b' ', b'\n', 0x80];
        assert_eq!(Name::new(odd).unwrap().as_bytes(), odd);
        assert_eq!(Name::new(&b"a/b"[..]), Err(NameError::BadCharacter));
        assert_eq!(Name::new(&b"a\0"[..]), Err(NameError::BadCharacter));
    }

    #[test]
    fn names_have_a_length_and_are_not_dots() {
        assert_eq!(Name::new(Bytes::new()), Err(NameError::Empty));
        assert!(Name::new(vec![b'x'; 255]).is_ok());
        assert_eq!(Name::new(vec![b'x'; 256]), Err(NameError::TooLong));
        assert_eq!(Name::new(&b"."[..]), Err(NameError::Reserved));
        assert_eq!(Name::new(&b".."[..]), Err(NameError::Reserved));
        assert!(Name::new(&b"..."[..]).is_ok());
    }
}

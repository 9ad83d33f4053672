//! The identity of this server. It lasts as long as its data directory.
//!
//! What must never enter: anything that changes at a restart.

use std::fmt;
use std::path::Path;

use super::sealed_file::{self, Kind, SealedFileError};

/// Sixteen random bytes, unique.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId([u8; 16]);

impl UniqueId {
    fn random() -> Result<UniqueId, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(UniqueId(bytes))
    }

    fn from_hex(text: &str) -> Option<UniqueId> {
        let digits_only = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = digits_only
            .then(|| u128::from_str_radix(text, 16).ok())
            .flatten()?;
        Some(UniqueId(number.to_be_bytes()))
    }
}

impl fmt::Display for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The names under which a server presents itself to NFS clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaIdentity {
    /// This replica only.
    pub replica: UniqueId,
    /// The identity that a server has as a set of one, while it belongs to no other set.
    pub set: UniqueId,
}

const KIND: Kind = Kind {
    name: "identity",
    format: 1,
};

impl ReplicaIdentity {
    /// The first replica of a new set.
    ///
    /// # Errors
    /// When the operating system has no random bytes.
    pub(super) fn new() -> Result<ReplicaIdentity, getrandom::Error> {
        Ok(ReplicaIdentity {
            replica: UniqueId::random()?,
            set: UniqueId::random()?,
        })
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), SealedFileError> {
        sealed_file::write(path, KIND, self.to_text().as_bytes())
    }

    pub(super) fn read(path: &Path) -> Result<ReplicaIdentity, SealedFileError> {
        let content = sealed_file::read(path, KIND)?;
        let wrong = || SealedFileError::Damaged {
            path: path.to_owned(),
            what: "it does not name a replica and its set",
        };
        ReplicaIdentity::from_text(&content).ok_or_else(wrong)
    }

    fn to_text(self) -> String {
        format!("replica {}\nset {}\n", self.replica, self.set)
    }

    pub(super) fn from_text(content: &[u8]) -> Option<ReplicaIdentity> {
        let mut lines = std::str::from_utf8(content).ok()?.lines();
        let replica = UniqueId::from_hex(lines.next()?.strip_prefix("replica ")?)?;
        let set = UniqueId::from_hex(lines.next()?.strip_prefix("set ")?)?;
        Some(ReplicaIdentity { replica, set })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_survives_its_text() {
        let identity = ReplicaIdentity::new().unwrap();
        assert_eq!(
            ReplicaIdentity::from_text(identity.to_text().as_bytes()),
            Some(identity)
        );
        assert_ne!(ReplicaIdentity::new().unwrap(), identity);
    }

    #[test]
    fn text_that_names_nobody_is_refused() {
        let digits = "0123456789abcdef0123456789abcdef";
        for text in [
            "",
            "replica x\nset y\n",
            &format!("replica {digits}\n"),
            &format!("replica {digits}0\nset {digits}\n"),
            &format!("replica +{}\nset {digits}\n", &digits[1..]),
        ] {
            assert_eq!(ReplicaIdentity::from_text(text.as_bytes()), None, "{text}");
        }
    }
}

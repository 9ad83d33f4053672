//! The replica of a set whose copy the directory contains, once it has its tree. This detects a partly restored directory.
//!
//! What must never enter: the other content of the set's files.

use std::path::Path;

use peer::SetId;
use vfs::ReplicaSlot;

use super::sealed_file::{self, Kind, SealedFileError};

const KIND: Kind = Kind {
    name: "member",
    format: 1,
};

/// A place in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberOf {
    /// The set.
    pub(crate) set: SetId,
    /// The slot.
    pub(crate) slot: ReplicaSlot,
}

impl MemberOf {
    /// The content of the file; `None` if it does not exist.
    pub(super) fn read(path: &Path) -> Result<Option<MemberOf>, SealedFileError> {
        let content = match sealed_file::read(path, KIND) {
            Err(error) if error.is_missing() => return Ok(None),
            read => read?,
        };
        let member = std::str::from_utf8(&content).ok().and_then(MemberOf::parse);
        let wrong = || SealedFileError::Damaged {
            path: path.to_owned(),
            what: "it does not name a set and a replica",
        };
        member.map(Some).ok_or_else(wrong)
    }

    pub(super) fn write(self, path: &Path) -> Result<(), SealedFileError> {
        let text = format!("set {}\nreplica {}\n", self.set, self.slot.0);
        sealed_file::write(path, KIND, text.as_bytes())
    }

    pub(super) fn parse(text: &str) -> Option<MemberOf> {
        let mut lines = text.lines();
        let set = SetId::parse(lines.next()?.strip_prefix("set ")?)?;
        let slot = lines.next()?.strip_prefix("replica ")?.parse().ok()?;
        lines.next().is_none().then_some(MemberOf {
            set,
            slot: ReplicaSlot(slot),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_as_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("member");
        assert_eq!(MemberOf::read(&path).unwrap(), None);
        let member = MemberOf {
            set: SetId([7; 16]),
            slot: ReplicaSlot(3),
        };
        member.write(&path).unwrap();
        assert_eq!(MemberOf::read(&path).unwrap(), Some(member));
        std::fs::write(&path, "rubbish").unwrap();
        assert!(MemberOf::read(&path).is_err());
    }
}

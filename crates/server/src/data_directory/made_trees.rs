//! The list of trees that were created in a data directory, to distinguish a lost tree from one that does not exist yet.
//!
//! What must never enter: the inside of trees.

use std::collections::BTreeSet;
use std::path::Path;

use super::sealed_file::{self, Kind, SealedFileError};
use crate::configuration::is_tree_name;

const KIND: Kind = Kind {
    name: "trees",
    format: 1,
};

/// The names; none before the first was recorded.
pub(super) fn read(path: &Path) -> Result<BTreeSet<String>, SealedFileError> {
    let content = match sealed_file::read(path, KIND) {
        Err(error) if error.is_missing() => return Ok(BTreeSet::new()),
        read => read?,
    };
    let text = std::str::from_utf8(&content).ok();
    let names = text.map(|text| text.lines().map(str::to_owned).collect::<BTreeSet<_>>());
    let names = names.filter(|names| names.iter().all(|name| is_tree_name(name)));
    names.ok_or_else(|| SealedFileError::Damaged {
        path: path.to_owned(),
        what: "it does not name trees",
    })
}

/// The same, but a damaged list counts as empty: it is not needed to serve the existing trees.
pub(super) fn read_leniently(path: &Path) -> Result<BTreeSet<String>, SealedFileError> {
    match read(path) {
        Err(error @ SealedFileError::Damaged { .. }) => {
            tracing::warn!(%error, "which trees were made here is noted anew");
            Ok(BTreeSet::new())
        }
        read => read,
    }
}

pub(super) fn write(path: &Path, names: &BTreeSet<String>) -> Result<(), SealedFileError> {
    let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
    sealed_file::write(path, KIND, lines.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made");
        assert_eq!(read(&path).unwrap(), BTreeSet::new());
        let names = BTreeSet::from(["default".to_owned(), "projects".to_owned()]);
        write(&path, &names).unwrap();
        assert_eq!(read(&path).unwrap(), names);
        write(&path, &BTreeSet::from(["../up".to_owned()])).unwrap();
        assert!(read(&path).is_err());
        assert_eq!(read_leniently(&path).unwrap(), BTreeSet::new());
    }
}

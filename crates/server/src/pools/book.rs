//! The book of a pool at its metadata server: over which groups of data servers files are striped, and over which of them new ones are.
//!
//! A group that files may lie on never changes and never goes. What must never enter: which data servers answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pool::{DataServerNumber, DeviceGroup, DeviceGroupNumber};

use crate::data_directory::{SealedFileError, SealedKind, read_sealed, write_sealed};

const KIND: SealedKind = SealedKind {
    name: "device-groups",
    format: 1,
};

/// So many groups are in a book at most, each a line; the file has to stay below the bound of sealed files.
const GROUPS_MAX: usize = 400;

/// The groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Book {
    pub(crate) groups: BTreeMap<DeviceGroupNumber, DeviceGroup>,
    /// Data servers that are to be emptied, and get no new files.
    pub(crate) draining: BTreeSet<DataServerNumber>,
    /// Data servers that are gone for ever, though files may be striped over them.
    pub(crate) forgotten: BTreeSet<DataServerNumber>,
    /// That of new files; nothing while these lie at the metadata server.
    pub(crate) new_files: Option<DeviceGroupNumber>,
}

impl Book {
    /// What the file says; an empty book where there is none.
    ///
    /// # Errors
    /// When it cannot be read or believed.
    pub(crate) fn read(path: &Path) -> Result<Book, SealedFileError> {
        let content = match read_sealed(path, KIND) {
            Err(error) if error.is_missing() => return Ok(Book::default()),
            read => read?,
        };
        let book = std::str::from_utf8(&content).ok().and_then(Book::parse);
        book.ok_or_else(|| SealedFileError::Damaged {
            path: path.to_owned(),
            what: "it does not list groups of data servers",
        })
    }

    /// Puts it on stable storage.
    ///
    /// # Errors
    /// When that fails.
    pub(crate) fn write(&self, path: &Path) -> Result<(), SealedFileError> {
        write_sealed(path, KIND, self.to_text().as_bytes())
    }

    /// The data servers over which new files are striped.
    pub(crate) fn in_use(&self) -> BTreeSet<DataServerNumber> {
        let group = self.new_files.and_then(|number| self.groups.get(&number));
        let members = group.map(|group| group.members().iter().copied());
        members.into_iter().flatten().collect()
    }

    /// The groups that a data server is in.
    pub(crate) fn groups_with(&self, server: DataServerNumber) -> BTreeSet<DeviceGroupNumber> {
        let groups = self.groups.iter();
        let with = groups.filter(|(_, group)| group.members().contains(&server));
        with.map(|(number, _)| *number).collect()
    }

    /// The same book with new files striped over these data servers: a group that is there already, or a new one. Nothing when the
    /// book has room for no more.
    pub(crate) fn with_new_files_over(&self, servers: &BTreeSet<DataServerNumber>) -> Option<Book> {
        let mut book = self.clone();
        book.new_files = None;
        if servers.is_empty() {
            return Some(book);
        }
        let wanted: Vec<DataServerNumber> = servers.iter().copied().collect();
        let mut groups = self.groups.iter();
        let there = groups.find(|(_, group)| group.members() == wanted);
        let number = match there {
            Some((number, _)) => *number,
            None if self.groups.len() >= GROUPS_MAX => return None,
            None => {
                let last = self.groups.keys().next_back();
                let number = DeviceGroupNumber(last.map_or(1, |last| last.0 + 1));
                book.groups.insert(number, DeviceGroup::new(wanted).ok()?);
                number
            }
        };
        book.new_files = Some(number);
        Some(book)
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for (number, group) in &self.groups {
            text += &format!("group {} {}\n", number.0, ranges(group.members()));
        }
        for server in &self.draining {
            text += &format!("draining {}\n", server.0);
        }
        for server in &self.forgotten {
            text += &format!("forgotten {}\n", server.0);
        }
        if let Some(number) = self.new_files {
            text += &format!("new_files {}\n", number.0);
        }
        text
    }

    pub(super) fn parse(text: &str) -> Option<Book> {
        let mut book = Book::default();
        for line in text.lines() {
            if let Some(number) = line.strip_prefix("new_files ") {
                book.new_files = Some(DeviceGroupNumber(number.parse().ok()?));
                continue;
            }
            if let Some(number) = line.strip_prefix("draining ") {
                book.draining.insert(DataServerNumber(number.parse().ok()?));
                continue;
            }
            if let Some(number) = line.strip_prefix("forgotten ") {
                book.forgotten
                    .insert(DataServerNumber(number.parse().ok()?));
                continue;
            }
            let (number, members) = line.strip_prefix("group ")?.split_once(' ')?;
            let group = DeviceGroup::new(members_of(members)?).ok()?;
            let number = DeviceGroupNumber(number.parse().ok()?);
            book.groups.insert(number, group);
        }
        let known = book
            .new_files
            .is_none_or(|new| book.groups.contains_key(&new));
        (known && book.to_text() == text).then_some(book)
    }
}

/// Ascending numbers, such as `2-4,7`.
fn ranges(members: &[DataServerNumber]) -> String {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for DataServerNumber(member) in members {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *member => *last = *member,
            _ => ranges.push((*member, *member)),
        }
    }
    let told = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    told.collect::<Vec<_>>().join(",")
}

fn members_of(text: &str) -> Option<Vec<DataServerNumber>> {
    let mut members = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        if usize::from(last.checked_sub(first)?) >= pool::MAX_DATA_SERVERS {
            return None;
        }
        members.extend((first..=last).map(DataServerNumber));
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(numbers: &[u16]) -> BTreeSet<DataServerNumber> {
        numbers.iter().copied().map(DataServerNumber).collect()
    }

    #[test]
    fn groups_are_kept_and_found_again() {
        let mut book = Book::default();
        for (members, number) in [
            (&[2][..], Some(1)),
            (&[2, 3, 4, 7], Some(2)),
            (&[2, 3], Some(3)),
            (&[2, 3, 4, 7], Some(2)),
            (&[], None),
            (&[2], Some(1)),
        ] {
            book = book.with_new_files_over(&servers(members)).unwrap();
            assert_eq!(book.new_files, number.map(DeviceGroupNumber));
            assert_eq!(book.in_use(), servers(members));
        }
        assert_eq!(book.groups.len(), 3);
        let with = book.groups_with(DataServerNumber(3));
        assert_eq!(with, BTreeSet::from([2, 3].map(DeviceGroupNumber)));
        assert!(book.to_text().contains("group 2 2-4,7\n"));
        book.draining = servers(&[2]);
        book.forgotten = servers(&[3, 7]);
        assert_eq!(Book::parse(&book.to_text()), Some(book));
    }

    #[test]
    fn a_book_comes_back_from_disk_and_a_damaged_one_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("book");
        assert_eq!(Book::read(&path).unwrap(), Book::default());
        let book = Book::default().with_new_files_over(&servers(&[5, 9]));
        let book = book.unwrap();
        book.write(&path).unwrap();
        assert_eq!(Book::read(&path).unwrap(), book);
        std::fs::write(&path, "rubbish").unwrap();
        assert!(Book::read(&path).is_err());
        for text in [
            "group 1 2-99999\n",
            "group 1 3,3\n",
            "new_files 1\n",
            "group x 1\n",
        ] {
            assert_eq!(Book::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_book_has_an_end() {
        let mut book = Book::default();
        for number in 1..=GROUPS_MAX as u16 {
            book = book.with_new_files_over(&servers(&[number])).unwrap();
        }
        assert!(book.with_new_files_over(&servers(&[1, 2])).is_none());
        assert!(book.with_new_files_over(&servers(&[1])).is_some());
    }
}

//! The book of a pool at its metadata server: the groups of data servers over which files are striped, the group for
//! new files, and what must be known about joined metadata servers after a restart.
//!
//! A group that files may use never changes and is never removed. What must never enter: which data servers answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pool::{DataServerNumber, DeviceGroup, DeviceGroupNumber};
use vfs::ReplicaSlot;

use crate::data_directory::{SealedFileError, SealedKind, read_sealed, write_sealed};

const KIND: SealedKind = SealedKind {
    name: "device-groups",
    format: 1,
};

/// The maximum number of groups in a book, with one line each; the file must stay within the maximum size of sealed
/// files.
const GROUPS_MAX: usize = 400;

/// The groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Book {
    pub(crate) groups: BTreeMap<DeviceGroupNumber, DeviceGroup>,
    /// Data servers that are being emptied and get no new files.
    pub(crate) draining: BTreeSet<DataServerNumber>,
    /// Files are being spread over the data servers of this group.
    pub(crate) spreading: Option<DeviceGroupNumber>,
    /// The maximum rate for moving files, in bytes per second.
    pub(crate) move_rate: u64,
    /// Data servers that are gone for ever, although files may be striped over them.
    pub(crate) forgotten: BTreeSet<DataServerNumber>,
    /// Servers that are given up, while the consequences are not complete.
    pub(crate) forgetting: BTreeSet<ReplicaSlot>,
    /// Joined metadata servers whose clients' state was given up, and that may not know that yet.
    pub(crate) given_up: BTreeSet<ReplicaSlot>,
    /// Joined metadata servers that are the home of directories.
    pub(crate) homes: BTreeSet<ReplicaSlot>,
    /// The group of new files; `None` while the metadata server stores them.
    pub(crate) new_files: Option<DeviceGroupNumber>,
}

/// The default rate for moving files, in bytes per second.
const MOVE_RATE: u64 = 64 << 20;

impl Default for Book {
    fn default() -> Book {
        Book {
            groups: BTreeMap::new(),
            draining: BTreeSet::new(),
            spreading: None,
            move_rate: MOVE_RATE,
            forgotten: BTreeSet::new(),
            forgetting: BTreeSet::new(),
            given_up: BTreeSet::new(),
            homes: BTreeSet::new(),
            new_files: None,
        }
    }
}

/// Why a book from the first metadata server is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotTold {
    /// It cannot be decoded.
    #[error("what the first metadata server tells of the pool is no book")]
    NoBook,
    /// Files here may use a group with this number, which has other data servers in the new book.
    #[error(
        "the first metadata server does not know the data servers of group {}, on which files here may lie: put `pool/groups` there back from a newer copy",
        .0.0
    )]
    OtherGroup(DeviceGroupNumber),
}

impl Book {
    /// The content of the file; an empty book if there is none.
    ///
    /// # Errors
    /// When it is unreadable or damaged.
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

    /// Writes it to stable storage.
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

    /// The groups whose files are to be moved to other data servers: those with a data server that is being emptied,
    /// and, during a spread, those that lack one of its data servers. Files on a forgotten data server cannot be moved.
    pub(crate) fn groups_to_leave(&self) -> BTreeSet<DeviceGroupNumber> {
        let over = self
            .spreading
            .and_then(|_| self.groups.get(&self.move_to()?));
        let over = over.map_or(&[][..], DeviceGroup::members);
        let leaves = |group: &DeviceGroup| {
            let members = group.members();
            let drains = members.iter().any(|server| self.draining.contains(server));
            let lacks = over.iter().any(|server| !members.contains(server));
            let lost = members.iter().any(|server| self.forgotten.contains(server));
            (drains || lacks) && !lost
        };
        let groups = self.groups.iter();
        let left = groups.filter(|(_, group)| leaves(group));
        left.map(|(number, _)| *number).collect()
    }

    /// The group to which files are moved.
    pub(crate) fn move_to(&self) -> Option<DeviceGroupNumber> {
        let goes = |server: &DataServerNumber| {
            self.draining.contains(server) || self.forgotten.contains(server)
        };
        let over = self.spreading.and_then(|number| self.groups.get(&number));
        match over.is_some_and(|group| !group.members().iter().any(goes)) {
            true => self.spreading,
            false => self.new_files,
        }
    }

    /// The same book with new files striped over these data servers: an existing group, or a new one. `None` when the
    /// book is full.
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
                let number = last.map_or(Some(1), |last| last.0.checked_add(1))?;
                let number = DeviceGroupNumber(number);
                book.groups.insert(number, DeviceGroup::new(wanted).ok()?);
                number
            }
        };
        book.new_files = Some(number);
        Some(book)
    }

    /// The part of the book that joined homes get.
    pub(crate) fn told(&self) -> String {
        let told = Book {
            forgetting: BTreeSet::new(),
            given_up: BTreeSet::new(),
            homes: BTreeSet::new(),
            ..self.clone()
        };
        told.to_text()
    }

    /// The same book with the part that the first metadata server sent.
    ///
    /// # Errors
    /// Why it is refused: files may use each known group, and such a group is never removed or changed.
    pub(crate) fn with_told(&self, told: &str) -> Result<Book, NotTold> {
        let told = Book::parse(told).ok_or(NotTold::NoBook)?;
        let mut known = self.groups.iter();
        if let Some((number, _)) =
            known.find(|(number, group)| told.groups.get(number) != Some(group))
        {
            return Err(NotTold::OtherGroup(*number));
        }
        Ok(Book {
            forgetting: self.forgetting.clone(),
            given_up: self.given_up.clone(),
            homes: self.homes.clone(),
            ..told
        })
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for (number, group) in &self.groups {
            text += &format!("group {} {}\n", number.0, ranges(group.members()));
        }
        for server in &self.draining {
            text += &format!("draining {}\n", server.0);
        }
        if let Some(number) = self.spreading {
            text += &format!("spreading {}\n", number.0);
        }
        if self.move_rate != MOVE_RATE {
            text += &format!("move_rate {}\n", self.move_rate);
        }
        for server in &self.forgotten {
            text += &format!("forgotten {}\n", server.0);
        }
        for server in &self.forgetting {
            text += &format!("forgetting {}\n", server.0);
        }
        for server in &self.given_up {
            text += &format!("given_up {}\n", server.0);
        }
        for server in &self.homes {
            text += &format!("home {}\n", server.0);
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
            if let Some(number) = line.strip_prefix("spreading ") {
                book.spreading = Some(DeviceGroupNumber(number.parse().ok()?));
                continue;
            }
            if let Some(rate) = line.strip_prefix("move_rate ") {
                book.move_rate = rate.parse().ok()?;
                continue;
            }
            if let Some(number) = line.strip_prefix("forgotten ") {
                book.forgotten
                    .insert(DataServerNumber(number.parse().ok()?));
                continue;
            }
            if let Some(number) = line.strip_prefix("forgetting ") {
                book.forgetting.insert(ReplicaSlot(number.parse().ok()?));
                continue;
            }
            if let Some(number) = line.strip_prefix("given_up ") {
                book.given_up.insert(ReplicaSlot(number.parse().ok()?));
                continue;
            }
            if let Some(number) = line.strip_prefix("home ") {
                book.homes.insert(ReplicaSlot(number.parse().ok()?));
                continue;
            }
            let (number, members) = line.strip_prefix("group ")?.split_once(' ')?;
            let group = DeviceGroup::new(members_of(members)?).ok()?;
            let number = DeviceGroupNumber(number.parse().ok()?);
            book.groups.insert(number, group);
        }
        let mut named = book.new_files.iter().chain(&book.spreading);
        let known = named.all(|number| book.groups.contains_key(number));
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
        book.forgetting = BTreeSet::from([ReplicaSlot(3), ReplicaSlot(12)]);
        book.given_up = BTreeSet::from([ReplicaSlot(9), ReplicaSlot(10)]);
        book.homes = BTreeSet::from([ReplicaSlot(10), ReplicaSlot(11)]);
        book.spreading = Some(DeviceGroupNumber(2));
        book.move_rate = 5;
        assert_eq!(Book::parse(&book.to_text()).as_ref(), Some(&book));
        // The home's own part of the book does not change.
        let own = Book {
            given_up: BTreeSet::from([ReplicaSlot(1)]),
            ..Book::default()
        };
        let told = own.with_told(&book.told()).unwrap();
        assert_eq!((&told.groups, told.given_up), (&book.groups, own.given_up));
        assert_eq!((told.draining, told.homes.len()), (book.draining, 0));
    }

    /// The first metadata server's book was restored from an older copy, and a new group got a number that files use.
    #[test]
    fn a_home_does_not_believe_a_book_that_has_other_groups() {
        let with = |book: &Book, members: &[u16]| {
            let book = book.with_new_files_over(&servers(members));
            book.unwrap()
        };
        let first = with(&Book::default(), &[4]);
        let all = with(&with(&first, &[4, 5]), &[4, 5, 6]);
        assert_eq!(first.with_told(&all.told()), Ok(all.clone()));
        let restored = with(&first, &[4, 6]);
        let second = DeviceGroupNumber(2);
        for told in [&first, &restored] {
            assert_eq!(
                all.with_told(&told.told()),
                Err(NotTold::OtherGroup(second))
            );
        }
        assert_eq!(all.with_told("rubbish"), Err(NotTold::NoBook));
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
            "spreading 1\n",
            "group x 1\n",
        ] {
            assert_eq!(Book::parse(text), None, "{text}");
        }
    }

    #[test]
    fn files_leave_data_servers_that_are_emptied_and_go_to_those_that_were_added() {
        let mut book = Book::default();
        for members in [&[2, 3][..], &[2, 3, 4], &[3, 4], &[5]] {
            book = book.with_new_files_over(&servers(members)).unwrap();
        }
        let groups = |numbers: &[u32]| -> BTreeSet<DeviceGroupNumber> {
            numbers.iter().copied().map(DeviceGroupNumber).collect()
        };
        assert_eq!(book.groups_to_leave(), groups(&[]));
        book = book.with_new_files_over(&servers(&[3, 4])).unwrap();
        book.draining = servers(&[2]);
        assert_eq!(book.groups_to_leave(), groups(&[1, 2]));
        assert_eq!(book.move_to(), Some(DeviceGroupNumber(3)));
        book.draining.clear();
        book.spreading = Some(DeviceGroupNumber(2));
        assert_eq!(book.groups_to_leave(), groups(&[1, 3, 4]));
        assert_eq!(book.move_to(), Some(DeviceGroupNumber(2)));
        // Lost data cannot be moved, and no file is moved to a server that is being emptied.
        book.forgotten = servers(&[5]);
        book.draining = servers(&[4]);
        book = book.with_new_files_over(&servers(&[2, 3])).unwrap();
        assert_eq!(book.groups_to_leave(), groups(&[2, 3]));
        assert_eq!(book.move_to(), Some(DeviceGroupNumber(1)));
    }

    #[test]
    fn group_numbers_have_an_end() {
        let last = Book::parse("group 4294967295 2\n").unwrap();
        assert_eq!(last.with_new_files_over(&servers(&[3])), None);
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

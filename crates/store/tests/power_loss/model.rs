//! The operations of a worker in and across its two directories, and the expected state afterwards.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use store::Store;
use vfs::{
    AccessCheck, Attributes, Extent, FileSystem, NewObject, ObjectId, ObjectKind, SetAttributes,
    Share, Stability, XattrMode, XattrName,
};

use crate::fixture::random::Random;
use crate::fixture::{directory, file, name, open_owner, root, symlink, with_mode, with_size};

pub const NAMES: u64 = 10;
const TAGS: u64 = 3;
const MOST_BYTES: u64 = 300_000;
const PIECE_BYTES: u64 = 50_000;

/// The next operation of one worker. The name itself determines the directory.
#[derive(Clone, Debug)]
pub enum Step {
    Make(String, Made),
    /// With a stable write, or a write followed by a COMMIT.
    Write(String, u64, u8, usize, bool),
    Resize(String, u64),
    Punch(String, u64),
    Allocate(String, u64),
    Rename(String, String),
    Link(String, String),
    Remove(String),
    /// While the file is open; it is written afterwards.
    RemoveOpen(String),
    Tag(String, u64, u8),
    Untag(String, u64),
    Mode(String, u32),
    Owner(String, u32),
}

/// The kind of a new object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    File,
    Directory,
    Symlink(u8),
    Fifo,
}

impl Step {
    fn names(&self) -> Vec<String> {
        match self {
            Step::Make(one, _)
            | Step::Write(one, ..)
            | Step::Resize(one, _)
            | Step::Punch(one, _)
            | Step::Allocate(one, _)
            | Step::Remove(one)
            | Step::RemoveOpen(one)
            | Step::Tag(one, ..)
            | Step::Untag(one, _)
            | Step::Mode(one, _)
            | Step::Owner(one, _) => vec![one.clone()],
            Step::Rename(one, other) | Step::Link(one, other) => vec![one.clone(), other.clone()],
        }
    }

    /// Whether replicas need more than rows for it.
    pub fn changes_data(&self) -> bool {
        matches!(self, Step::Write(..) | Step::Punch(..) | Step::Allocate(..))
    }
}

/// The expected state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    made: Made,
    bytes: Vec<u8>,
    tags: BTreeMap<u64, u8>,
    mode: Option<u32>,
    owner: Option<u32>,
}

/// The directories of one worker.
#[derive(Clone, Debug, Default)]
pub struct Files {
    names: BTreeMap<String, u64>,
    objects: BTreeMap<u64, Known>,
    next: u64,
}

fn target(number: u8) -> String {
    format!("to/{number}/{}", "x".repeat(usize::from(number)))
}

fn tag(number: u64) -> XattrName {
    XattrName::new(format!("user.tag{number}").into_bytes()).unwrap()
}

impl Files {
    fn of(&self, one: &str) -> Option<&Known> {
        self.objects.get(self.names.get(one)?)
    }

    fn of_mut(&mut self, one: &str) -> &mut Known {
        self.objects.get_mut(&self.names[one]).unwrap()
    }

    fn is_directory(&self, one: &str) -> bool {
        self.of(one)
            .is_some_and(|known| known.made == Made::Directory)
    }

    /// A possible operation.
    pub fn choose(&self, random: &mut Random) -> Step {
        let mut any = || format!("f{}", random.below(NAMES));
        let (one, other) = (any(), any());
        let Some(known) = self.of(&one) else {
            return Step::Make(one, choose_made(random));
        };
        let fits = other == one
            || self.of(&other).is_none()
            || self.is_directory(&other) == self.is_directory(&one);
        let step = match known.made {
            Made::File => choose_of_file(one.clone(), random),
            _ => None,
        };
        match step {
            // A file that has another name keeps what was written to it.
            Some(Step::RemoveOpen(one)) if self.names_of(&one) > 1 => return Step::Remove(one),
            Some(step) => return step,
            None => {}
        }
        match random.below(8) {
            0 | 1 if fits => Step::Rename(one, other),
            2 | 3 if self.of(&other).is_none() && known.made != Made::Directory => {
                Step::Link(one, other)
            }
            4 => Step::Remove(one),
            5 => Step::Owner(one, random.below(1000) as u32),
            _ if matches!(known.made, Made::Symlink(_)) => Step::Remove(one),
            6 => Step::Mode(one, 0o600 + random.below(64) as u32),
            _ => Step::Owner(one, random.below(1000) as u32),
        }
    }

    pub fn apply(&mut self, step: &Step) {
        match step.clone() {
            Step::Make(one, made) => {
                let known = Known {
                    made,
                    bytes: Vec::new(),
                    tags: BTreeMap::new(),
                    mode: None,
                    owner: None,
                };
                self.objects.insert(self.next, known);
                self.names.insert(one, self.next);
                self.next += 1;
            }
            Step::Write(one, offset, byte, length, _) => {
                let bytes = &mut self.of_mut(&one).bytes;
                let end = offset as usize + length;
                bytes.resize(bytes.len().max(end), 0);
                bytes[offset as usize..end].fill(byte);
            }
            Step::Resize(one, size) => self.of_mut(&one).bytes.resize(size as usize, 0),
            Step::Punch(one, offset) => {
                let bytes = &mut self.of_mut(&one).bytes;
                let end = bytes.len().min((offset + PIECE_BYTES) as usize);
                if let Some(hole) = bytes.get_mut(offset as usize..end) {
                    hole.fill(0);
                }
            }
            Step::Allocate(one, offset) => {
                let bytes = &mut self.of_mut(&one).bytes;
                let end = (offset + PIECE_BYTES) as usize;
                bytes.resize(bytes.len().max(end), 0);
            }
            Step::Rename(one, other) => {
                if self.names.get(&one) != self.names.get(&other) {
                    let moved = self.names.remove(&one).unwrap();
                    self.names.insert(other, moved);
                }
            }
            Step::Link(one, other) => drop(self.names.insert(other, self.names[&one])),
            Step::Remove(one) | Step::RemoveOpen(one) => drop(self.names.remove(&one)),
            Step::Tag(one, number, value) => {
                self.of_mut(&one).tags.insert(number, value);
            }
            Step::Untag(one, number) => drop(self.of_mut(&one).tags.remove(&number)),
            Step::Mode(one, mode) => self.of_mut(&one).mode = Some(mode),
            Step::Owner(one, owner) => self.of_mut(&one).owner = Some(owner),
        }
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        self.objects.retain(|object, _| named.contains(object));
    }

    /// The number of names of the object with this name.
    fn names_of(&self, one: &str) -> usize {
        self.names_beside(&BTreeSet::from([one.to_owned()])).len()
    }

    /// All names here of the objects with these names.
    fn names_beside(&self, names: &BTreeSet<String>) -> Vec<String> {
        let objects: BTreeSet<_> = names.iter().filter_map(|one| self.names.get(one)).collect();
        let all = self.names.iter();
        let beside = all.filter(|(_, object)| objects.contains(object));
        beside.map(|(one, _)| one.clone()).collect()
    }
}

fn choose_made(random: &mut Random) -> Made {
    match random.below(8) {
        0..=4 => Made::File,
        5 => Made::Directory,
        6 => Made::Symlink(random.below(250) as u8),
        _ => Made::Fifo,
    }
}

/// Operations that are possible only on a file.
fn choose_of_file(one: String, random: &mut Random) -> Option<Step> {
    let offset = random.below(MOST_BYTES);
    Some(match random.below(16) {
        0..=5 => {
            let length = [1, 500, 4096, 20_000, 100_000][random.below(5) as usize];
            let byte = 1 + random.below(255) as u8;
            Step::Write(one, offset, byte, length, random.below(2) == 0)
        }
        6 | 7 => Step::Resize(one, offset),
        8 => Step::Punch(one, offset),
        9 => Step::Allocate(one, offset),
        10 => Step::RemoveOpen(one),
        11 => Step::Tag(one, random.below(TAGS), random.below(256) as u8),
        12 => Step::Untag(one, random.below(TAGS)),
        _ => return None,
    })
}

/// A worker in two directories of a store.
pub struct Hand<'s> {
    pub store: &'s Store,
    pub homes: [ObjectId; 2],
}

/// Creates the directories of a worker.
pub async fn homes(store: &Store, worker: u64) -> [ObjectId; 2] {
    let mut homes = [ObjectId::ROOT; 2];
    for (number, home) in homes.iter_mut().enumerate() {
        let (text, set) = (
            name(&format!("d{worker}.{number}")),
            SetAttributes::default(),
        );
        let made = store.create(&root(), *home, &text, directory(), &set).await;
        *home = made.unwrap().attributes.id;
    }
    homes
}

impl Hand<'_> {
    /// The directory of a name: even numbers are in one, odd numbers in the other.
    fn home(&self, one: &str) -> ObjectId {
        let is_odd = one.ends_with(['1', '3', '5', '7', '9']);
        self.homes[usize::from(is_odd)]
    }

    async fn find(&self, one: &str) -> vfs::Result<Attributes> {
        self.store.lookup(&root(), self.home(one), &name(one)).await
    }

    async fn set(&self, one: &str, set: SetAttributes) -> vfs::Result<()> {
        let (who, id) = (root(), self.find(one).await?.id);
        let access = AccessCheck::Credentials(&who);
        self.store.set_attributes(access, id, &set).await.map(drop)
    }

    /// Removes an attribute that may not exist.
    async fn untag(&self, one: &str, number: u64) -> vfs::Result<()> {
        let id = self.find(one).await?.id;
        let removed = self.store.remove_xattr(&root(), id, &tag(number)).await;
        match removed {
            Ok(_) | Err(vfs::Error::NoXattr) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn write(
        &self,
        id: ObjectId,
        offset: u64,
        data: Vec<u8>,
        stable: bool,
    ) -> vfs::Result<()> {
        let (who, data) = (root(), Bytes::from(data));
        let access = AccessCheck::Credentials(&who);
        let stability = match stable {
            true => Stability::File,
            false => Stability::Unstable,
        };
        self.store
            .write(access, id, offset, data, stability)
            .await?;
        if !stable {
            self.store.commit(id, 0, 0).await?;
        }
        Ok(())
    }

    async fn remove_open(&self, one: &str) -> vfs::Result<()> {
        let (who, owner) = (root(), open_owner("opener"));
        let id = self.find(one).await?.id;
        let share = Share {
            read: true,
            write: true,
            deny_read: false,
            deny_write: false,
        };
        let access = AccessCheck::Credentials(&who);
        self.store.open(access, id, &owner, share).await?;
        self.store.remove(&who, self.home(one), &name(one)).await?;
        self.write(id, 100, vec![7; 10_000], false).await?;
        self.store.close(id, &owner).await
    }

    pub async fn carry_out(&self, step: &Step) -> vfs::Result<()> {
        let (store, who) = (self.store, root());
        let access = AccessCheck::Credentials(&who);
        let extent = |offset| Extent {
            offset,
            length: PIECE_BYTES,
        };
        match step.clone() {
            Step::Make(one, made) => {
                let new = match made {
                    Made::File => file(),
                    Made::Directory => directory(),
                    Made::Symlink(number) => symlink(&target(number)),
                    Made::Fifo => NewObject::Plain(ObjectKind::Fifo),
                };
                let set = SetAttributes::default();
                let text = name(&one);
                let made = store.create(&who, self.home(&one), &text, new, &set);
                made.await.map(drop)
            }
            Step::Write(one, offset, byte, length, stable) => {
                let id = self.find(&one).await?.id;
                self.write(id, offset, vec![byte; length], stable).await
            }
            Step::Resize(one, size) => self.set(&one, with_size(size)).await,
            Step::Punch(one, offset) => {
                let id = self.find(&one).await?.id;
                store.deallocate(access, id, extent(offset)).await
            }
            Step::Allocate(one, offset) => {
                let id = self.find(&one).await?.id;
                store.allocate(access, id, extent(offset)).await
            }
            Step::Rename(one, other) => {
                let (from, to) = (self.home(&one), self.home(&other));
                let (one, other) = (name(&one), name(&other));
                let renamed = store.rename(&who, (from, &one), (to, &other));
                renamed.await.map(drop)
            }
            Step::Link(one, other) => {
                let id = self.find(&one).await?.id;
                let (to, other) = (self.home(&other), name(&other));
                store.link(&who, id, to, &other).await.map(drop)
            }
            Step::Remove(one) => {
                let (home, one) = (self.home(&one), name(&one));
                store.remove(&who, home, &one).await.map(drop)
            }
            Step::RemoveOpen(one) => self.remove_open(&one).await,
            Step::Tag(one, number, value) => {
                let id = self.find(&one).await?.id;
                let (key, value) = (tag(number), Bytes::from(vec![value]));
                let set = store.set_xattr(&who, id, &key, value, XattrMode::Any);
                set.await.map(drop)
            }
            Step::Untag(one, number) => self.untag(&one, number).await,
            Step::Mode(one, mode) => self.set(&one, with_mode(mode)).await,
            Step::Owner(one, owner) => {
                let set = SetAttributes {
                    owner: Some(owner),
                    ..SetAttributes::default()
                };
                self.set(&one, set).await
            }
        }
    }

    /// Checks that the object of a name is as expected.
    async fn assert_is(&self, one: &str, files: &Files) {
        let found = self.find(one).await;
        let Some(known) = files.of(one) else {
            assert!(found.is_err(), "{one} is back");
            return;
        };
        let found = found.unwrap_or_else(|error| panic!("{one} is lost: {error}"));
        let (who, id) = (root(), found.id);
        match known.made {
            Made::File => self.assert_bytes(one, &found, &known.bytes).await,
            Made::Directory => assert_eq!(found.kind, ObjectKind::Directory, "{one}"),
            Made::Fifo => assert_eq!(found.kind, ObjectKind::Fifo, "{one}"),
            Made::Symlink(number) => {
                let read = self.store.read_link(&who, id).await.unwrap();
                assert_eq!(read, target(number), "{one} leads elsewhere");
            }
        }
        let names = files.names_of(one);
        if known.made != Made::Directory {
            assert_eq!(found.links as usize, names, "{one} has other names");
        }
        for number in 0..TAGS {
            let value = self.store.xattr(&who, id, &tag(number)).await.ok();
            let value = value.map(|value| value[0]);
            let expected = known.tags.get(&number).copied();
            assert_eq!(value, expected, "{one} has another tag {number}");
        }
        let mode = known.mode.unwrap_or(found.mode);
        assert_eq!(found.mode, mode, "{one} has another mode");
        let owner = known.owner.unwrap_or(found.owner);
        assert_eq!(found.owner, owner, "{one} has another owner");
    }

    async fn assert_bytes(&self, one: &str, found: &Attributes, known: &[u8]) {
        let who = root();
        let access = AccessCheck::Credentials(&who);
        let read = self.store.read(access, found.id, 0, 1 << 20).await.unwrap();
        assert_same(one, &read.bytes, known);
        // The same is sent to other replicas.
        let shipped = crate::fixture::resync::bytes(self.store, found.id, found.size);
        assert_same(one, &shipped, known);
    }
}

fn assert_same(one: &str, bytes: &[u8], known: &[u8]) {
    let mut pairs = bytes.iter().zip(known);
    let differs = pairs.position(|(one, other)| one != other);
    assert_eq!(bytes.len(), known.len(), "{one} has another size");
    assert_eq!(differs, None, "{one} has other bytes from there on");
}

/// The progress of a worker: what was answered, and what it has begun since.
#[derive(Clone, Default)]
pub struct Progress {
    pub files: Files,
    pub under_way: Option<Step>,
    /// The number of answered steps.
    pub answered: u64,
}

/// Compares a copy with what was answered before it was made; operations in progress meanwhile may be there or not.
pub async fn compare(hand: &Hand<'_>, before: &Progress, after: &Progress) {
    if after.answered > before.answered + 3 {
        // A name may have returned to its earlier state.
        return;
    }
    let both = [before, after];
    let mut touched: BTreeSet<String> = BTreeSet::new();
    for progress in both {
        touched.extend(progress.under_way.iter().flat_map(Step::names));
    }
    // More than one step may have been answered while the copy was made: check the names that differ.
    for one in before.files.names.keys().chain(after.files.names.keys()) {
        if before.files.names.get(one) != after.files.names.get(one)
            || before.files.of(one) != after.files.of(one)
        {
            touched.insert(one.clone());
        }
    }
    let beside = both.map(|progress| progress.files.names_beside(&touched));
    touched.extend(beside.concat());
    for number in 0..NAMES {
        let one = format!("f{number}");
        if !touched.contains(&one) {
            hand.assert_is(&one, &before.files).await;
        }
    }
}

//! Open data files, up to a limit; the least recently used one is closed first.
//!
//! Everything in this module blocks. A data file exists from its first write on; its directories are created
//! with it and flushed, so that they survive a power failure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use plain_file::{descriptors, lacks_descriptors};
use rustix::fs::OFlags;
use vfs::ObjectId;

use crate::directory::Directory;
use crate::error::WITHOUT_DESCRIPTORS;
use crate::layout::{Layout, data_directory, data_file};

#[derive(Debug, Default)]
struct Cache {
    open: HashMap<ObjectId, (Arc<File>, u64)>,
    /// By last use; every open file appears once.
    used: BTreeMap<u64, ObjectId>,
    uses: u64,
}

/// The data files of a store.
#[derive(Debug)]
pub(crate) struct DataFiles {
    pub(super) layout: Arc<Layout>,
    directory: Arc<Directory>,
    capacity: usize,
    cache: Mutex<Cache>,
    /// Why new directories may not survive a power failure. Once set, no data file's name counts as stable.
    unstable: OnceLock<String>,
    /// Whether the file system below allocates more than a writer asks for.
    pub(super) allocates_ahead: bool,
}

/// The magic number of XFS in statfs(2).
const XFS: u64 = 0x5846_5342;

/// An open data file, and whether its name in the directory is new.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: Arc<File>,
    pub(super) made: bool,
}

impl DataFiles {
    pub(crate) fn new(
        layout: Arc<Layout>,
        directory: Arc<Directory>,
        capacity: usize,
    ) -> DataFiles {
        let below = rustix::fs::fstatfs(directory.data());
        let allocates_ahead = below.is_ok_and(|below| below.f_type.cast_unsigned() == XFS);
        DataFiles {
            layout,
            directory,
            capacity,
            cache: Mutex::default(),
            unstable: OnceLock::new(),
            allocates_ahead,
        }
    }

    /// The data file, if it is open. Does not block.
    pub(super) fn open_already(&self, id: ObjectId) -> Option<Arc<File>> {
        self.cache().find(id)
    }

    /// The data file, if it is open or can be created in an existing directory. Blocks no longer than
    /// a small write does.
    pub(super) fn at_hand(&self, id: ObjectId, is_first: bool) -> io::Result<Option<Opened>> {
        if let Some(file) = self.open_already(id) {
            return Ok(Some(Opened { file, made: false }));
        }
        if !is_first {
            return Ok(None);
        }
        match self.make(id) {
            Ok(file) => Ok(Some(Opened {
                file: self.keep(id, file),
                made: true,
            })),
            // The directories have to be created and flushed, which takes long.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The data file, if the object has one.
    pub(super) fn existing(&self, id: ObjectId) -> io::Result<Option<Arc<File>>> {
        if let Some(file) = self.cache().find(id) {
            return Ok(Some(file));
        }
        match self.with_descriptor(|| self.open_for_long(OFlags::RDWR, id)) {
            Ok(file) => Ok(Some(self.keep(id, file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The data file; creates it if it is missing.
    pub(super) fn made(&self, id: ObjectId) -> io::Result<Opened> {
        if let Some(file) = self.existing(id)? {
            return Ok(Opened { file, made: false });
        }
        let file = match self.make(id) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_directories(id)?;
                self.make(id)?
            }
            made => made?,
        };
        Ok(Opened {
            file: self.keep(id, file),
            made: true,
        })
    }

    /// Whether there is a data file.
    pub(crate) fn exists(&self, id: ObjectId) -> io::Result<bool> {
        self.directory.has_below(&data_file(id))
    }

    /// Removes a data file. There may be none.
    pub(super) fn remove_file(&self, id: ObjectId) -> io::Result<()> {
        self.cache().forget(id);
        self.directory.remove_below(&data_file(id))
    }

    /// Replaces a data file by another file. There may be no data file. The caller ensures that no other task uses it meanwhile.
    pub(crate) fn replace(&self, id: ObjectId, by: &Path) -> io::Result<()> {
        let target = data_file(id);
        let renamed = match self.directory.take_in(by, &target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_directories(id)?;
                self.directory.take_in(by, &target)
            }
            renamed => renamed,
        };
        self.cache().forget(id);
        renamed?;
        self.sync_name(id)
    }

    /// Flushes the name of a new data file, so that it survives a power failure.
    pub(super) fn sync_name(&self, id: ObjectId) -> io::Result<()> {
        self.check_names()?;
        self.open_directory(&data_directory(id))?.sync_all()
    }

    /// Flushes the removal of data files. Objects with consecutive numbers share directories.
    pub(crate) fn sync_removals(&self, ids: &[ObjectId]) -> io::Result<()> {
        let directories: BTreeSet<PathBuf> = ids.iter().map(|id| data_directory(*id)).collect();
        for directory in directories {
            match self.open_directory(&directory) {
                Ok(directory) => directory.sync_all()?,
                // None of its files was ever created.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Fails once a flush of a new directory has failed: a later successful flush does not make up for that.
    pub(crate) fn check_names(&self) -> io::Result<()> {
        match self.unstable.get() {
            Some(why) => Err(io::Error::other(format!(
                "new directories are not stable: {why}"
            ))),
            None => Ok(()),
        }
    }

    fn make(&self, id: ObjectId) -> io::Result<File> {
        // If two first writes create it at once, both are right.
        let flags = OFlags::RDWR | OFlags::CREATE;
        self.with_descriptor(|| self.open_for_long(flags, id))
    }

    /// Opens a data file with a high descriptor, since there may be many of them.
    fn open_for_long(&self, flags: OFlags, id: ObjectId) -> io::Result<File> {
        let opened = self.directory.open_below(&data_file(id), flags);
        opened.and_then(descriptors::above)
    }

    /// Opens a directory to flush it, which must not be skipped. Waits while no descriptor is left.
    fn open_directory(&self, path: &Path) -> io::Result<File> {
        loop {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            match self.with_descriptor(|| self.directory.open_below(path, flags)) {
                Err(error) if lacks_descriptors(&error) => thread::sleep(WITHOUT_DESCRIPTORS),
                opened => return opened,
            }
        }
    }

    /// Opens a file. While no descriptor is left, closes the least recently used open data files.
    fn with_descriptor(&self, open: impl Fn() -> io::Result<File>) -> io::Result<File> {
        loop {
            match open() {
                Err(error) if lacks_descriptors(&error) && self.cache().close_oldest() => {}
                opened => return opened,
            }
        }
    }

    fn make_directories(&self, id: ObjectId) -> io::Result<()> {
        let inner = data_directory(id);
        let outer = inner.parent().unwrap_or(&inner);
        self.directory.make_below(outer)?;
        self.directory.make_below(&inner)?;
        let synced = self
            .open_directory(outer)
            .and_then(|outer| outer.sync_all());
        let synced = synced.and_then(|()| self.directory.data().sync_all());
        // The next caller finds that the directories exist, and would not flush them again.
        synced.inspect_err(|error| {
            self.unstable.get_or_init(|| error.to_string());
        })
    }

    fn keep(&self, id: ObjectId, file: File) -> Arc<File> {
        let mut cache = self.cache();
        // Another task may have opened it meanwhile; then all use the same one.
        if let Some(known) = cache.find(id) {
            return known;
        }
        let file = Arc::new(file);
        cache.insert(id, Arc::clone(&file));
        while cache.open.len() > self.capacity {
            cache.close_oldest();
        }
        file
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn find(&mut self, id: ObjectId) -> Option<Arc<File>> {
        let (file, used) = self.open.get_mut(&id)?;
        self.used.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.used.insert(self.uses, id);
        Some(Arc::clone(file))
    }

    fn insert(&mut self, id: ObjectId, file: Arc<File>) {
        self.uses += 1;
        self.open.insert(id, (file, self.uses));
        self.used.insert(self.uses, id);
    }

    fn forget(&mut self, id: ObjectId) {
        if let Some((_, used)) = self.open.remove(&id) {
            self.used.remove(&used);
        }
    }

    /// Closes the least recently used file; returns whether there was one. An operation that uses it keeps it open.
    fn close_oldest(&mut self) -> bool {
        let oldest = self.used.pop_first();
        oldest.is_some_and(|(_, id)| self.open.remove(&id).is_some())
    }
}

#[cfg(test)]
mod tests {
    use vfs::{AccessCheck, FileSystem, NewObject, Stability};

    use super::*;
    use crate::{NewStore, Store, StoreOptions};

    /// A store with files in new directories for which the disk has reported a failed flush once.
    async fn with_unstable_directories(
        directory: &Path,
        count: usize,
        stability: Stability,
    ) -> (Store, Vec<ObjectId>) {
        let options = StoreOptions::new(directory.join("store"));
        let store = Store::create(&options, &NewStore::default()).unwrap();
        let (who, set) = (vfs::Credentials::root(), vfs::SetAttributes::default());
        let mut ids = Vec::new();
        for number in 0..count {
            let name = vfs::Name::new(format!("f{number}").into_bytes()).unwrap();
            let new = NewObject::File(vfs::Creation::Guarded);
            let made = store.create(&who, ObjectId::ROOT, &name, new, &set).await;
            ids.push(made.unwrap().attributes.id);
        }
        let unstable = &store.files.unstable;
        unstable.get_or_init(|| "the disk has said so".into());
        for id in &ids {
            let (access, data) = (AccessCheck::Credentials(&who), vec![1; 5000].into());
            let written = store.write(access, *id, 0, data, stability).await;
            written.unwrap();
        }
        (store, ids)
    }

    /// The failure of flushing a new directory was reported once; later COMMITs found no error and answered OK.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_commit_is_answered_once_a_new_directory_is_not_stable() {
        let directory = tempfile::tempdir().unwrap();
        let (store, ids) =
            with_unstable_directories(directory.path(), 3, Stability::Unstable).await;
        for id in ids.iter().chain(&ids) {
            assert!(store.commit(*id, 0, 0).await.is_err());
        }
        assert!(store.statistics().failed);
    }

    /// With many files, one flush of the file system replaced the flush of each, and found no error either.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_flush_of_everything_makes_up_for_a_directory_that_is_not_stable() {
        let directory = tempfile::tempdir().unwrap();
        let (store, _) = with_unstable_directories(directory.path(), 20, Stability::File).await;
        assert!(store.settle_kept().is_err());
        assert!(store.sync().await.is_err() && store.statistics().failed);
    }

    fn files(capacity: usize) -> (tempfile::TempDir, DataFiles) {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::begin_creation(directory.path()).unwrap();
        let data = Arc::new(Directory::open(&layout).unwrap());
        (directory, DataFiles::new(Arc::new(layout), data, capacity))
    }

    #[test]
    fn only_so_many_stay_open_and_the_oldest_go_first() {
        let (_directory, files) = files(2);
        let ids: Vec<ObjectId> = (1..=3).map(ObjectId::from_u64).collect();
        files.made(ids[0]).unwrap();
        files.made(ids[1]).unwrap();
        files.existing(ids[0]).unwrap().unwrap();
        files.made(ids[2]).unwrap();
        let cache = files.cache();
        assert!(cache.open.contains_key(&ids[0]) && !cache.open.contains_key(&ids[1]));
        assert_eq!(cache.used.len(), 2);
    }

    #[test]
    fn a_file_is_made_once_and_can_be_removed_twice() {
        let (_directory, files) = files(2);
        let id = ObjectId::from_u64(0x1_0000_0001);
        assert!(files.existing(id).unwrap().is_none());
        assert!(files.made(id).unwrap().made);
        assert!(!files.made(id).unwrap().made);
        files.sync_name(id).unwrap();
        files.remove_file(id).unwrap();
        files.remove_file(id).unwrap();
        assert!(files.existing(id).unwrap().is_none());
    }
}

//! Which clients hold state, on stable storage: one small file for each, so that they may reclaim
//! what they held after a restart (RFC 8881, section 8.4.2.1).
//!
//! What must never enter: what the clients hold. Only their owner strings are kept.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nfs4_server::{ClientRecords, RecordError};

use super::sealed_file::{self, Kind, SealedFileError};

const KIND: Kind = Kind {
    name: "client",
    format: 1,
};
/// The longest owner string (RFC 8881, section 3.2, `NFS4_OPAQUE_LIMIT`).
const OWNER_BYTES_MAX: usize = 1024;

/// Makes a little space on a full disk. Says whether there was any to be had.
pub(crate) type MakeSpace = Box<dyn Fn() -> bool + Send + Sync>;

/// The client records in one directory.
pub struct StoredClientRecords {
    shelf: Arc<Shelf>,
}

/// The directory, and what is known to be stable in it. The lock keeps changes to one record in order.
struct Shelf {
    directory: PathBuf,
    /// Without a record a client can have nothing open, not even to read.
    make_space: MakeSpace,
    stable: Mutex<BTreeMap<String, Arc<[u8]>>>,
}

impl StoredClientRecords {
    /// Reads the records of earlier starts. Files that cannot be believed are left where they are, with
    /// a warning: their clients lose their state, which beats giving it to the wrong ones. `make_space` is asked, again and again,
    /// when a record does not fit on the disk.
    ///
    /// # Errors
    /// When the directory itself cannot be made or read.
    pub(super) fn load(
        directory: PathBuf,
        make_space: MakeSpace,
    ) -> Result<StoredClientRecords, SealedFileError> {
        let io = |action| {
            let path = directory.clone();
            move |source| SealedFileError::Io {
                action,
                path,
                source,
            }
        };
        fs::create_dir_all(&directory).map_err(io("create"))?;
        sealed_file::sync_directory_of(&directory)?;
        let mut stable = BTreeMap::new();
        for entry in fs::read_dir(&directory).map_err(io("read"))? {
            let path = entry.map_err(io("read"))?.path();
            match read_record(&path) {
                Ok(Some((name, owner))) => drop(stable.insert(name, owner)),
                Ok(None) => {}
                Err(error) if !error.is_about_contents() => return Err(error),
                Err(error) => tracing::warn!(%error, "a client record is left aside"),
            }
        }
        let shelf = Shelf {
            directory,
            make_space,
            stable: Mutex::new(stable),
        };
        Ok(StoredClientRecords {
            shelf: Arc::new(shelf),
        })
    }

    /// The owners on record.
    #[must_use]
    pub fn owners(&self) -> Vec<Arc<[u8]>> {
        self.shelf.lock().values().cloned().collect()
    }

    /// Runs a change where it may wait for the disk.
    async fn change(
        &self,
        change: impl FnOnce(&Shelf) -> Result<(), SealedFileError> + Send + 'static,
    ) -> Result<(), RecordError> {
        let shelf = self.shelf.clone();
        let changed = tokio::task::spawn_blocking(move || change(&shelf)).await;
        let changed = changed.map_err(|error| RecordError(error.to_string()))?;
        changed.map_err(|error| RecordError(error.to_string()))
    }
}

#[async_trait]
impl ClientRecords for StoredClientRecords {
    async fn add(&self, owner: Arc<[u8]>) -> Result<(), RecordError> {
        self.change(move |shelf| shelf.add(owner)).await
    }

    async fn remove(&self, owner: Arc<[u8]>) -> Result<(), RecordError> {
        self.change(move |shelf| shelf.remove(&owner)).await
    }
}

impl Shelf {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<[u8]>>> {
        self.stable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, owner: Arc<[u8]>) -> Result<(), SealedFileError> {
        let name = name_of(&owner);
        let mut stable = self.lock();
        if let Entry::Vacant(place) = stable.entry(name) {
            let path = self.directory.join(place.key());
            loop {
                match sealed_file::write(&path, KIND, &owner) {
                    Err(error) if error.is_lack_of_space() && (self.make_space)() => {}
                    written => break written?,
                }
            }
            place.insert(owner);
        }
        Ok(())
    }

    fn remove(&self, owner: &[u8]) -> Result<(), SealedFileError> {
        let name = name_of(owner);
        let mut stable = self.lock();
        sealed_file::remove(&self.directory.join(&name))?;
        stable.remove(&name);
        Ok(())
    }
}

/// The name of an owner's file. Owners choose their strings, so the name must not let one take
/// another's place: half of a BLAKE3 hash.
fn name_of(owner: &[u8]) -> String {
    blake3::hash(owner).to_hex()[..32].to_owned()
}

/// The name of a record's file, and the owner in it.
type Record = (String, Arc<[u8]>);

/// The record in a file; none in what a crash left unfinished, which is removed.
pub(super) fn read_record(path: &Path) -> Result<Option<Record>, SealedFileError> {
    if sealed_file::is_unfinished(path) {
        sealed_file::remove(path)?;
        return Ok(None);
    }
    let owner = sealed_file::read(path, KIND)?;
    let damaged = |what| SealedFileError::Damaged {
        path: path.to_owned(),
        what,
    };
    if owner.is_empty() || owner.len() > OWNER_BYTES_MAX {
        return Err(damaged("no client owner has that length"));
    }
    let name = name_of(&owner);
    if path.file_name().is_none_or(|found| found != name.as_str()) {
        return Err(damaged("its name is not that of the client in it"));
    }
    Ok(Some((name, owner.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(text: &str) -> Arc<[u8]> {
        Arc::from(text.as_bytes())
    }

    fn load(directory: &tempfile::TempDir) -> StoredClientRecords {
        StoredClientRecords::load(directory.path().join("clients"), Box::new(|| false)).unwrap()
    }

    fn path_of(directory: &tempfile::TempDir, text: &str) -> PathBuf {
        directory
            .path()
            .join("clients")
            .join(name_of(text.as_bytes()))
    }

    #[tokio::test]
    async fn records_outlive_the_one_who_made_them() {
        let directory = tempfile::tempdir().unwrap();
        let records = load(&directory);
        assert!(records.owners().is_empty());
        for name in ["alpha", "beta", "alpha"] {
            records.add(owner(name)).await.unwrap();
        }
        records.remove(owner("beta")).await.unwrap();
        records.remove(owner("gamma")).await.unwrap();
        assert_eq!(records.owners(), [owner("alpha")]);
        assert_eq!(load(&directory).owners(), [owner("alpha")]);
    }

    #[tokio::test]
    async fn what_a_crash_or_a_bad_disk_left_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let records = load(&directory);
        for name in ["whole", "cut", "moved"] {
            records.add(owner(name)).await.unwrap();
        }
        let cut = fs::read(path_of(&directory, "cut")).unwrap();
        fs::write(path_of(&directory, "cut"), &cut[..cut.len() / 2]).unwrap();
        fs::rename(
            path_of(&directory, "moved"),
            path_of(&directory, "elsewhere"),
        )
        .unwrap();
        let unfinished = path_of(&directory, "new").with_added_extension("unfinished");
        fs::write(&unfinished, b"meridian cli").unwrap();

        assert_eq!(load(&directory).owners(), [owner("whole")]);
        assert!(!unfinished.exists());
        assert!(
            path_of(&directory, "cut").exists(),
            "evidence must not be removed"
        );
    }

    #[tokio::test]
    async fn a_record_that_cannot_be_written_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let records = load(&directory);
        fs::remove_dir(directory.path().join("clients")).unwrap();
        let error = records.add(owner("alpha")).await.unwrap_err();
        assert!(error.to_string().contains("cannot create"), "{error}");
        assert!(records.owners().is_empty());
    }
}

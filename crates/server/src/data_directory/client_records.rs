//! Which clients hold state, on stable storage: one small file for each client, so that it may reclaim its state after
//! a restart (RFC 8881, section 8.4.2.1).
//!
//! What must never enter: the state of the clients. Only their identity is stored.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nfs4_server::{ClientRecord, ClientRecords, KnownBy, RecordError};

use super::sealed_file::{self, Kind, SealedFileError};

const KIND: Kind = Kind {
    name: "client",
    format: 2,
};
/// The format in which a record is the owner string alone.
const OWNER_ALONE: u32 = 1;
/// The longest owner string (RFC 8881, section 3.2, `NFS4_OPAQUE_LIMIT`).
const OWNER_BYTES_MAX: usize = 1024;

/// Frees a little space on a full disk. Returns whether that was possible.
pub(crate) type MakeSpace = Box<dyn Fn() -> bool + Send + Sync>;

/// The client records in one directory.
pub struct StoredClientRecords {
    records: Arc<RecordDirectory>,
}

/// The directory, and its known stable content. The lock keeps changes to one record in order.
struct RecordDirectory {
    directory: PathBuf,
    /// Without a record a client cannot have any open file, not even for reading.
    make_space: MakeSpace,
    stable: Mutex<BTreeMap<String, ClientRecord>>,
}

impl StoredClientRecords {
    /// Reads the records of earlier starts. Invalid files stay where they are, with a warning: their clients lose their
    /// state, which is better than giving it to the wrong ones. `make_space` is called, repeatedly, when a record does
    /// not fit on the disk.
    ///
    /// # Errors
    /// When the directory itself cannot be created or read.
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
                Ok(Some((name, record))) => drop(stable.insert(name, record)),
                Ok(None) => {}
                Err(error) if !error.is_about_contents() => return Err(error),
                Err(error) => tracing::warn!(%error, "a client record is left aside"),
            }
        }
        let records = RecordDirectory {
            directory,
            make_space,
            stable: Mutex::new(stable),
        };
        Ok(StoredClientRecords {
            records: Arc::new(records),
        })
    }

    /// All records.
    #[must_use]
    pub fn all(&self) -> Vec<ClientRecord> {
        self.records.lock().values().cloned().collect()
    }

    /// Runs a change on a thread that may wait for the disk.
    async fn change(
        &self,
        change: impl FnOnce(&RecordDirectory) -> Result<(), SealedFileError> + Send + 'static,
    ) -> Result<(), RecordError> {
        let records = self.records.clone();
        let changed = tokio::task::spawn_blocking(move || change(&records)).await;
        let changed = changed.map_err(|error| RecordError(error.to_string()))?;
        changed.map_err(|error| RecordError(error.to_string()))
    }
}

#[async_trait]
impl ClientRecords for StoredClientRecords {
    async fn add(&self, record: ClientRecord) -> Result<(), RecordError> {
        self.change(move |records| records.add(record)).await
    }

    async fn remove(&self, owner: Arc<[u8]>) -> Result<(), RecordError> {
        self.change(move |records| records.remove(&owner)).await
    }
}

impl RecordDirectory {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, ClientRecord>> {
        self.stable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, record: ClientRecord) -> Result<(), SealedFileError> {
        let name = name_of(&record.owner);
        let mut stable = self.lock();
        if stable.get(&name) == Some(&record) {
            return Ok(());
        }
        let path = self.directory.join(&name);
        let (kind, content) = encode(&record);
        loop {
            match sealed_file::write(&path, kind, &content) {
                Err(error) if error.is_lack_of_space() && (self.make_space)() => {}
                written => break written?,
            }
        }
        stable.insert(name, record);
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

/// The file name for an owner: half of a BLAKE3 hash. Owners choose their strings, so one owner must not be able to
/// take the file of another.
fn name_of(owner: &[u8]) -> String {
    blake3::hash(owner).to_hex()[..32].to_owned()
}

/// The content of a record: verifier (8), network as IPv6 address (16), whether a user follows (1) and which (4), owner.
fn encode(record: &ClientRecord) -> (Kind, Vec<u8>) {
    let Some(known) = record.known_by else {
        let earlier = Kind {
            format: OWNER_ALONE,
            ..KIND
        };
        return (earlier, record.owner.to_vec());
    };
    let network = match known.network {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let mut content = known.verifier.to_vec();
    content.extend_from_slice(&network.octets());
    content.push(u8::from(known.user.is_some()));
    content.extend_from_slice(&known.user.unwrap_or_default().to_be_bytes());
    content.extend_from_slice(&record.owner);
    (KIND, content)
}

/// Decodes the content of a format. `None` if it is invalid.
fn decode(format: u32, content: &[u8]) -> Option<ClientRecord> {
    let (known_by, owner) = match format {
        OWNER_ALONE => (None, content),
        _ => {
            let (verifier, rest) = content.split_first_chunk::<8>()?;
            let (network, rest) = rest.split_first_chunk::<16>()?;
            let (has_user, rest) = rest.split_first_chunk::<1>()?;
            let (user, owner) = rest.split_first_chunk::<4>()?;
            let known_by = KnownBy {
                verifier: *verifier,
                network: IpAddr::V6(Ipv6Addr::from_octets(*network)).to_canonical(),
                user: (*has_user != [0]).then_some(u32::from_be_bytes(*user)),
            };
            (Some(known_by), owner)
        }
    };
    // It may be empty: the protocol allows an empty client owner.
    (owner.len() <= OWNER_BYTES_MAX).then(|| ClientRecord {
        owner: owner.into(),
        known_by,
    })
}

/// [`crate::decode_as_anything`] for client records.
pub(super) fn decode_as_anything(content: &[u8]) {
    let _ = decode(KIND.format, content);
}

/// The name of a record's file, and its content.
type Record = (String, ClientRecord);

/// The record in a file. `None` for a file that a crash left unfinished, which is removed.
pub(super) fn read_record(path: &Path) -> Result<Option<Record>, SealedFileError> {
    if sealed_file::is_unfinished(path) {
        sealed_file::remove(path)?;
        return Ok(None);
    }
    let (format, content) = sealed_file::read_any(path, KIND)?;
    let damaged = |what| SealedFileError::Damaged {
        path: path.to_owned(),
        what,
    };
    let record = decode(format, &content);
    let record = record.ok_or(damaged("no client owner has that length"))?;
    let name = name_of(&record.owner);
    if path.file_name().is_none_or(|found| found != name.as_str()) {
        return Err(damaged("its name is not that of the client in it"));
    }
    Ok(Some((name, record)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(text: &str) -> Arc<[u8]> {
        Arc::from(text.as_bytes())
    }

    fn record(text: &str) -> ClientRecord {
        let network = match text {
            "beta" => "2001:db8:1:2::".parse().unwrap(),
            _ => "192.0.2.7".parse().unwrap(),
        };
        let known_by = KnownBy {
            verifier: *b"verifier",
            network,
            user: (text != "gamma").then_some(1000),
        };
        ClientRecord {
            owner: owner(text),
            known_by: Some(known_by),
        }
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
        assert!(records.all().is_empty());
        for name in ["alpha", "beta", "", "alpha"] {
            records.add(record(name)).await.unwrap();
        }
        assert_eq!(load(&directory).all().len(), 3);
        for name in ["beta", "gamma", ""] {
            records.remove(owner(name)).await.unwrap();
        }
        assert_eq!(records.all(), [record("alpha")]);
        assert_eq!(load(&directory).all(), [record("alpha")]);
        // Its machine was restarted.
        let mut anew = record("alpha");
        anew.known_by.as_mut().unwrap().verifier = [9; 8];
        records.add(anew.clone()).await.unwrap();
        assert_eq!(load(&directory).all(), [anew]);
    }

    #[tokio::test]
    async fn a_record_says_by_what_its_client_is_known_unless_an_earlier_version_wrote_it() {
        let directory = tempfile::tempdir().unwrap();
        let records = load(&directory);
        let mut all = vec![record("alpha"), record("beta"), record("gamma")];
        for one in &all {
            records.add(one.clone()).await.unwrap();
        }
        let old = ClientRecord {
            owner: owner("old"),
            known_by: None,
        };
        records.add(old.clone()).await.unwrap();
        all.push(old);
        let mut found = load(&directory).all();
        found.sort_by(|a, b| a.owner.cmp(&b.owner));
        assert_eq!(found, all);
    }

    #[tokio::test]
    async fn what_a_crash_or_a_bad_disk_left_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let records = load(&directory);
        for name in ["whole", "cut", "moved"] {
            records.add(record(name)).await.unwrap();
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

        assert_eq!(load(&directory).all(), [record("whole")]);
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
        let error = records.add(record("alpha")).await.unwrap_err();
        assert!(error.to_string().contains("cannot create"), "{error}");
        assert!(records.all().is_empty());
    }
}

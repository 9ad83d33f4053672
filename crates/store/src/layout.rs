//! The store's directory on disk: where each file lies, and whether the directory is a store.
//!
//! ```text
//! DIR/store.toml      the identity; written last, so that it marks a finished creation
//! DIR/creating        only while a store is being created
//! DIR/lock            locked by the process that uses the store
//! DIR/meta/           the rows
//! DIR/data/xx/yy/id   one sparse file per regular file that was ever written
//! DIR/lost-data/      data files that the check could not place
//! DIR/recovered/      discarded versions, see `recovered`
//! DIR/mending/        new contents for damaged files; removed at the next start
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use vfs::{FsId, ObjectId, ReplicaSlot};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::StoreError;
use crate::options::TreeIdentity;

/// The format of a store whose data is all in its own data files.
const FORMAT: u32 = 2;
/// The format of a store where data of files may be elsewhere; older programs must not open it.
const FORMAT_PLACED: u32 = 3;

const IDENTITY_FILE: &str = "store.toml";
/// Many times the usual size.
const IDENTITY_BYTES_MAX: u64 = 64 << 10;
const CREATING_FILE: &str = "creating";
const LOCK_FILE: &str = "lock";
/// How long to wait for a locked store: the lock may belong to a process that is about to end, or to a forked
/// child before its exec.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The content of `store.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) tree: TreeIdentity,
    pub(crate) slot: ReplicaSlot,
    /// Whether data of files may be elsewhere, if their rows say so.
    pub(crate) places: bool,
}

/// A store's directory, locked for this process while this value exists.
#[derive(Debug)]
pub(crate) struct Layout {
    root: PathBuf,
    /// The locked file; `None` if there is none and the store will not be changed.
    lock: Option<File>,
}

impl Layout {
    /// Claims a directory for a new store. It must be missing, empty, or left by an unfinished
    /// creation. [`Layout::finish_creation`] ends this.
    pub(crate) fn begin_creation(root: &Path) -> Result<Layout, StoreError> {
        fs::create_dir_all(root).map_err(|error| StoreError::io("create", root, error))?;
        let creating = root.join(CREATING_FILE);
        if exists(&root.join(IDENTITY_FILE))? {
            return Err(StoreError::AlreadyThere(root.into()));
        }
        if exists(&creating)? {
            let layout = Layout::lock(root)?;
            // The previous holder of the lock may have finished the creation.
            if exists(&root.join(IDENTITY_FILE))? {
                return Err(StoreError::AlreadyThere(root.into()));
            }
            layout.clear_unfinished()?;
            return layout.make_directories();
        }
        let mut listing =
            fs::read_dir(root).map_err(|error| StoreError::io("list", root, error))?;
        // The `lost+found` of a disk does not make its root directory foreign.
        if listing.any(|found| !matches!(&found, Ok(file) if file.file_name() == "lost+found")) {
            return Err(StoreError::Foreign(root.into()));
        }
        File::create(&creating).map_err(|error| StoreError::io("create", &creating, error))?;
        sync_directory(root)?;
        Layout::lock(root)?.make_directories()
    }

    /// Writes `store.toml`, which turns the directory into a store.
    pub(crate) fn finish_creation(&self, identity: &Identity) -> Result<(), StoreError> {
        self.write_identity(identity)?;
        let creating = self.root.join(CREATING_FILE);
        fs::remove_file(&creating).map_err(|error| StoreError::io("remove", &creating, error))?;
        sync_directory(&self.root)
    }

    /// Replaces `store.toml`.
    pub(crate) fn write_identity(&self, identity: &Identity) -> Result<(), StoreError> {
        let path = self.root.join(IDENTITY_FILE);
        let draft = self.root.join("store.toml.new");
        let write = || {
            let mut file = File::create(&draft)?;
            file.write_all(identity.to_text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &path)
        };
        write().map_err(|error| StoreError::io("write", &path, error))?;
        sync_directory(&self.root)
    }

    /// Claims the directory of an existing store.
    pub(crate) fn open(root: &Path) -> Result<(Layout, Identity), StoreError> {
        let path = root.join(IDENTITY_FILE);
        if !exists(&path)? {
            return Err(absent(root));
        }
        let layout = Layout::lock(root)?;
        let identity = layout.identity(&path)?;
        // A creation that ended between its last two steps is complete.
        match fs::remove_file(root.join(CREATING_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::io("remove", root.join(CREATING_FILE), error));
            }
            _ => {}
        }
        layout.expect_pieces()?;
        Ok((layout, identity))
    }

    /// Claims the directory of an existing store without writing anything in it.
    pub(crate) fn open_unchanged(root: &Path) -> Result<(Layout, Identity), StoreError> {
        let path = root.join(IDENTITY_FILE);
        if !exists(&path)? {
            return Err(absent(root));
        }
        let lock = root.join(LOCK_FILE);
        let layout = match File::open(&lock) {
            Ok(file) => Layout::take(root, &lock, file)?,
            // A process that uses a store creates this file first.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Layout {
                root: root.into(),
                lock: None,
            },
            Err(error) => return Err(StoreError::io("open", lock, error)),
        };
        let identity = layout.identity(&path)?;
        layout.expect_pieces()?;
        Ok((layout, identity))
    }

    fn identity(&self, path: &Path) -> Result<Identity, StoreError> {
        let text = plain_file::read(path, IDENTITY_BYTES_MAX)
            .map_err(|error| StoreError::unread(path, error))?;
        Identity::parse(&text, path)
    }

    fn expect_pieces(&self) -> Result<(), StoreError> {
        for piece in [self.metadata(), self.data()] {
            if !exists(&piece)? {
                return Err(StoreError::MissingPiece(piece));
            }
        }
        Ok(())
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The locked file.
    pub(crate) fn claim(&self) -> Option<&File> {
        self.lock.as_ref()
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        self.root.join(LOCK_FILE)
    }

    pub(crate) fn metadata(&self) -> PathBuf {
        self.root.join("meta")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    pub(crate) fn lost_data(&self) -> PathBuf {
        self.root.join("lost-data")
    }

    pub(crate) fn mending(&self) -> PathBuf {
        self.root.join("mending")
    }

    /// The path of an object's data file.
    pub(crate) fn data_file(&self, id: ObjectId) -> PathBuf {
        self.data().join(data_file(id))
    }

    fn lock(root: &Path) -> Result<Layout, StoreError> {
        let path = root.join(LOCK_FILE);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| StoreError::io("open", &path, error))?;
        Layout::take(root, &path, lock)
    }

    fn take(root: &Path, path: &Path, lock: File) -> Result<Layout, StoreError> {
        let asked_at = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => {
                    return Ok(Layout {
                        root: root.into(),
                        lock: Some(lock),
                    });
                }
                Err(TryLockError::WouldBlock) if asked_at.elapsed() < LOCK_PATIENCE => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(TryLockError::WouldBlock) => return Err(StoreError::InUse(root.into())),
                Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", path, error)),
            }
        }
    }

    fn make_directories(self) -> Result<Layout, StoreError> {
        let data = self.data();
        fs::create_dir(&data).map_err(|error| StoreError::io("create", data, error))?;
        Ok(self)
    }

    /// Removes what an interrupted creation left: no caller was told that it holds anything.
    fn clear_unfinished(&self) -> Result<(), StoreError> {
        for piece in [self.metadata(), self.data()] {
            match fs::remove_dir_all(&piece) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io("remove", piece, error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The directory of a data file, relative to the directory of all. 256 consecutive objects share one, so that creating many files
/// creates few directories.
pub(crate) fn data_directory(id: ObjectId) -> PathBuf {
    let counter = id.as_u64();
    let outer = format!("{:02x}", (counter >> 16) & 0xff);
    let inner = format!("{:02x}", (counter >> 8) & 0xff);
    PathBuf::from(outer).join(inner)
}

/// The path of a data file, relative to the same directory.
pub(crate) fn data_file(id: ObjectId) -> PathBuf {
    data_directory(id).join(format!("{:016x}", id.as_u64()))
}

/// The error for a directory without `store.toml`.
fn absent(root: &Path) -> StoreError {
    let empty = match fs::read_dir(root) {
        Ok(mut listing) => listing.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return StoreError::io("list", root, error),
    };
    if empty {
        StoreError::NoStore(root.into())
    } else if root.join("meta").is_dir() && !root.join(CREATING_FILE).exists() {
        StoreError::MissingPiece(root.join(IDENTITY_FILE))
    } else if root.join(CREATING_FILE).exists() {
        StoreError::NoStore(root.into())
    } else {
        StoreError::Foreign(root.into())
    }
}

fn exists(path: &Path) -> Result<bool, StoreError> {
    path.try_exists()
        .map_err(|error| StoreError::io("look at", path, error))
}

/// Flushes a directory, so that its names survive a power failure.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| StoreError::io("sync", path, error))
}

/// The part of [`crate::decode_as_anything`] for `store.toml`.
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    let _ = Identity::parse(bytes, Path::new(""));
}

impl Identity {
    fn to_text(self) -> String {
        let FsId { major, minor } = self.tree.fs_id;
        let names = u128::from_be_bytes(self.tree.name_key);
        let slot = self.slot.0;
        let format = if self.places { FORMAT_PLACED } else { FORMAT };
        let text = format!(
            "# A store of one file tree. Do not edit, or clients lose their place in directories.\n\
             format = {format}\n\
             tree = \"{major:016x}{minor:016x}\"\n\
             names = \"{names:032x}\"\n\
             slot = {slot}\n"
        );
        // If the disk changed the key of names, no name would be found any more.
        let check = xxh3_64(text.as_bytes());
        format!("{text}check = \"{check:016x}\"\n")
    }

    /// Parses the lines that [`Identity::to_text`] writes. The format comes first, because a newer one
    /// may use other lines.
    fn parse(text: &[u8], path: &Path) -> Result<Identity, StoreError> {
        let damaged = |what: &str| StoreError::Damaged {
            path: path.into(),
            what: what.into(),
        };
        let text = std::str::from_utf8(text).map_err(|_| damaged("bytes that are no text"))?;
        let value = |wanted: &str| {
            text.lines()
                .filter_map(|line| line.split_once('='))
                .find(|(key, _)| key.trim() == wanted)
                .map(|(_, value)| value.trim().trim_matches('"'))
                .ok_or_else(|| damaged(&format!("no line `{wanted} = …`")))
        };
        let number = |key| {
            let parsed = value(key)?.parse::<u32>();
            parsed.map_err(|_| damaged(&format!("a `{key}` that is no number")))
        };
        let wide = |key| {
            let parsed = u128::from_str_radix(value(key)?, 16);
            parsed.map_err(|_| damaged(&format!("a `{key}` that is not hexadecimal")))
        };
        let found = number("format")?;
        if found > FORMAT_PLACED {
            return Err(StoreError::NewerFormat {
                path: path.into(),
                found,
                known: FORMAT_PLACED,
            });
        }
        if found < FORMAT {
            return Err(StoreError::OlderFormat {
                path: path.into(),
                found,
                known: FORMAT,
            });
        }
        let (body, check) = text
            .split_once("check = ")
            .ok_or_else(|| damaged("no line `check = …`"))?;
        if check.trim().trim_matches('"') != format!("{:016x}", xxh3_64(body.as_bytes())) {
            return Err(damaged("a text that has another checksum"));
        }
        let tree = wide("tree")?;
        let slot = u16::try_from(number("slot")?).map_err(|_| damaged("a `slot` too large"))?;
        Ok(Identity {
            tree: TreeIdentity {
                fs_id: FsId {
                    major: (tree >> 64) as u64,
                    minor: (tree & u128::from(u64::MAX)) as u64,
                },
                name_key: wide("names")?.to_be_bytes(),
            },
            slot: ReplicaSlot(slot),
            places: found == FORMAT_PLACED,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            tree: TreeIdentity {
                fs_id: FsId {
                    major: 1,
                    minor: u64::MAX,
                },
                name_key: [9; 16],
            },
            slot: ReplicaSlot(3),
            places: false,
        }
    }

    fn created(root: &Path) -> Layout {
        let layout = Layout::begin_creation(root).unwrap();
        fs::create_dir(layout.metadata()).unwrap();
        layout.finish_creation(&identity()).unwrap();
        layout
    }

    #[test]
    fn the_identity_comes_back() {
        let path = Path::new("store.toml");
        let text = identity().to_text();
        assert_eq!(Identity::parse(text.as_bytes(), path).unwrap(), identity());
        let elsewhere = Identity {
            places: true,
            ..identity()
        };
        let other = elsewhere.to_text();
        assert_eq!(Identity::parse(other.as_bytes(), path).unwrap(), elsewhere);
        assert!(text.contains("format = 2\n") && other.contains("format = 3\n"));
        for damage in ["", "format = x", "format = 2\ntree = \"zz\"", "\u{fffd}"] {
            assert!(
                Identity::parse(damage.as_bytes(), path).is_err(),
                "{damage}"
            );
        }
    }

    /// A text without a checksum was accepted as one of an older program, so that a cut or flipped line was accepted.
    #[test]
    fn no_flipped_bit_and_no_cut_is_believed() {
        let path = Path::new("store.toml");
        let text = identity().to_text();
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let found = Identity::parse(&bytes, path);
                assert!(found.is_err() || found.is_ok_and(|found| found == identity()));
            }
            let cut = Identity::parse(&text.as_bytes()[..at], path);
            assert!(
                cut.is_err() || cut.is_ok_and(|found| found == identity()),
                "{at}"
            );
        }
    }

    #[test]
    fn a_newer_format_is_refused_before_the_rest_is_read() {
        let error = Identity::parse(b"format = 4\nother = new", Path::new("store.toml"));
        assert!(matches!(
            error,
            Err(StoreError::NewerFormat {
                found: 4,
                known: FORMAT_PLACED,
                ..
            })
        ));
        let error = Identity::parse(b"format = 1\nother = old", Path::new("store.toml"));
        assert!(matches!(
            error,
            Err(StoreError::OlderFormat { found: 1, .. })
        ));
    }

    #[test]
    fn a_store_is_locked_while_it_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let layout = created(directory.path());
        assert!(matches!(
            Layout::open(directory.path()),
            Err(StoreError::InUse(_))
        ));
        drop(layout);
        assert_eq!(Layout::open(directory.path()).unwrap().1, identity());
    }

    #[test]
    fn foreign_and_empty_directories_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        assert!(matches!(Layout::open(root), Err(StoreError::NoStore(_))));
        fs::write(root.join("letter"), "dear").unwrap();
        assert!(matches!(Layout::open(root), Err(StoreError::Foreign(_))));
        assert!(matches!(
            Layout::begin_creation(root),
            Err(StoreError::Foreign(_))
        ));
    }

    #[test]
    fn missing_pieces_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        drop(created(root));
        assert!(matches!(
            Layout::begin_creation(root),
            Err(StoreError::AlreadyThere(_))
        ));
        fs::rename(root.join("data"), root.join("elsewhere")).unwrap();
        let Err(StoreError::MissingPiece(piece)) = Layout::open(root) else {
            panic!()
        };
        assert!(piece.ends_with("data"));
        fs::remove_file(root.join(IDENTITY_FILE)).unwrap();
        let Err(StoreError::MissingPiece(piece)) = Layout::open(root) else {
            panic!()
        };
        assert!(piece.ends_with(IDENTITY_FILE));
    }

    #[test]
    fn an_interrupted_creation_starts_over() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        drop(Layout::begin_creation(root).unwrap());
        assert!(matches!(Layout::open(root), Err(StoreError::NoStore(_))));
        drop(created(root));
        assert!(Layout::open(root).is_ok());
    }

    #[test]
    fn neighbours_share_a_data_directory() {
        let directory = tempfile::tempdir().unwrap();
        let layout = created(directory.path());
        let id = ObjectId::new(ReplicaSlot(1), 0x0102_0304).unwrap();
        let file = layout.data_file(id);
        assert!(
            file.ends_with("data/02/03/0001000001020304"),
            "{}",
            file.display()
        );
    }
}

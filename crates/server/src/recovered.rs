//! Discarded versions in a data directory: listing them, copying them out, and removing them.
//!
//! The server may run meanwhile. What must never enter: putting anything back into the tree. People do that through a
//! mount, like any other change.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use store::StoreError;
use store::recovered::{self, RecoveredEntry, RecoveredKind};
use vfs::{ShownBytes, Timestamp};

pub use store::recovered::RecoveredSet;

use crate::data_directory::{DataDirectoryError, expect_directory, tree_path};

/// The directory for objects that had no name.
const NAMELESS: &str = "without-a-name";

/// Why an operation failed. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum RecoveredError {
    /// There is no data directory.
    #[error(transparent)]
    DataDirectory(#[from] DataDirectoryError),
    /// The discarded versions cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No set has that name.
    #[error(
        "there is no set of discarded versions \"{0}\" here; `meridian recovered list` shows which there are"
    )]
    NoSuchSet(String),
    /// Nothing in the set matches the path.
    #[error("nothing in the set lies at {0}; `meridian recovered list LABEL` shows what does")]
    NothingThere(String),
    /// The target of the copy cannot be written.
    #[error("cannot write {path}: {source}; choose an empty or new directory with --to")]
    Target {
        /// The path that could not be created.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// What was copied out of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedOut {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Files that are incomplete, because some of their data never arrived at this replica: their content is a mixture.
    pub incomplete: Vec<PathBuf>,
    /// Objects that cannot be copied: removed ones, devices, sockets.
    pub left_out: u64,
}

/// The sets of discarded versions of a tree, by label.
///
/// # Errors
/// [`RecoveredError`], with what to do next.
pub fn list(data: &Path, tree: &str) -> Result<Vec<RecoveredSet>, RecoveredError> {
    expect_directory(data)?;
    Ok(recovered::list(&tree_path(data, tree))?)
}

/// Every object of a set, one line for each, for people.
///
/// # Errors
/// [`RecoveredError`], with what to do next.
pub fn contents(
    data: &Path,
    tree: &str,
    label: &str,
) -> Result<impl Iterator<Item = Result<String, RecoveredError>> + use<>, RecoveredError> {
    let store = known(data, tree, label)?;
    let entries = recovered::entries(&store, label)?;
    Ok(entries.map(|entry| Ok(line(&entry?))))
}

/// Copies a set, or the part at and below a path of the tree, into a directory: with modes, times and, as root, with
/// owners. Existing files are not replaced.
///
/// # Errors
/// [`RecoveredError`], with what to do next. What was already copied stays.
pub fn copy_out(
    data: &Path,
    tree: &str,
    label: &str,
    path: Option<&str>,
    to: &Path,
) -> Result<CopiedOut, RecoveredError> {
    let store = known(data, tree, label)?;
    let mut copied = CopiedOut::default();
    let (mut found, mut directories, mut symlinks) = (false, Vec::new(), Vec::new());
    for entry in recovered::entries(&store, label)? {
        let entry = entry?;
        if !path.is_none_or(|path| is_meant(&entry, path)) {
            continue;
        }
        found = true;
        let target = target(&entry, to);
        match entry.kind {
            RecoveredKind::Directory => {
                fs::create_dir_all(&target).map_err(unwritable(&target))?;
                copied.directories += 1;
                directories.push((target, entry));
            }
            RecoveredKind::File => {
                let content = recovered::content(&store, label, &entry)?;
                copy_file(content.as_deref(), &target).map_err(unwritable(&target))?;
                dress(&target, &entry).map_err(unwritable(&target))?;
                copied.files += 1;
                if entry.incomplete {
                    copied.incomplete.push(target);
                }
            }
            RecoveredKind::Symlink => {
                symlinks.push((target, entry));
                copied.symlinks += 1;
            }
            _ => copied.left_out += 1,
        }
    }
    // After everything else, so that nothing is ever written through a symbolic link.
    for (target, entry) in &symlinks {
        copy_symlink(entry, target).map_err(unwritable(target))?;
    }
    // Last, because a mode may prevent creating files in the directory.
    for (target, entry) in directories.iter().rev() {
        dress(target, entry).map_err(unwritable(target))?;
    }
    match (found, path) {
        (false, Some(path)) => Err(RecoveredError::NothingThere(path.to_owned())),
        _ => Ok(copied),
    }
}

/// Removes a set, for ever.
///
/// # Errors
/// [`RecoveredError`], with what to do next.
pub fn forget(data: &Path, tree: &str, label: &str) -> Result<(), RecoveredError> {
    Ok(recovered::forget(&known(data, tree, label)?, label)?)
}

/// The store, if it contains the set.
fn known(data: &Path, tree: &str, label: &str) -> Result<PathBuf, RecoveredError> {
    let (store, sets) = (tree_path(data, tree), list(data, tree)?);
    match sets.iter().any(|set| set.label == label) {
        true => Ok(store),
        false => Err(RecoveredError::NoSuchSet(label.to_owned())),
    }
}

fn path_of(entry: &RecoveredEntry) -> Option<&[u8]> {
    entry.path.as_ref().map(|path| &path.0[..])
}

fn is_meant(entry: &RecoveredEntry, path: &str) -> bool {
    let wanted = path.trim_matches('/').as_bytes();
    let Some(own) = path_of(entry) else {
        return false;
    };
    // As the raw label, or as the label is listed.
    let shown = ShownBytes(own).to_string();
    [own, shown.as_bytes()].into_iter().any(|own| {
        let own = own.strip_prefix(b"/").unwrap_or(own);
        let below = own.strip_prefix(wanted);
        wanted.is_empty() || below.is_some_and(|below| below.is_empty() || below[0] == b'/')
    })
}

/// The target path of an object; never outside `to`, whatever the set contains.
fn target(entry: &RecoveredEntry, to: &Path) -> PathBuf {
    let nameless = || to.join(NAMELESS).join(entry.object.to_string());
    let Some(path) = path_of(entry) else {
        return nameless();
    };
    let mut target = to.to_owned();
    for part in path
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
    {
        if matches!(part, b"." | b"..") || part.contains(&0) {
            return nameless();
        }
        target.push(OsStr::from_bytes(part));
    }
    target
}

fn make_parent(target: &Path) -> io::Result<()> {
    target.parent().map_or(Ok(()), fs::create_dir_all)
}

fn copy_file(content: Option<&Path>, target: &Path) -> io::Result<()> {
    make_parent(target)?;
    let new = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(target);
    let mut new = new?;
    if let Some(content) = content {
        io::copy(&mut File::open(content)?, &mut new)?;
    }
    new.sync_all()
}

fn copy_symlink(entry: &RecoveredEntry, target: &Path) -> io::Result<()> {
    make_parent(target)?;
    let leads_to = entry.target.as_ref().map(|leads_to| leads_to.0.clone());
    symlink(OsStr::from_bytes(&leads_to.unwrap_or_default()), target)
}

/// Sets the owner, mode and time of a copy to those of the original.
fn dress(target: &Path, entry: &RecoveredEntry) -> io::Result<()> {
    match chown(target, Some(entry.owner), Some(entry.group)) {
        // Only root may do this.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        changed => changed?,
    }
    let opened = File::open(target)?;
    if let Some(modified) = time(entry.modified) {
        opened.set_modified(modified)?;
    }
    opened.set_permissions(Permissions::from_mode(entry.mode & 0o7777))
}

fn time(at: Timestamp) -> Option<SystemTime> {
    let seconds = u64::try_from(at.seconds).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, at.nanoseconds))
}

fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> RecoveredError {
    let path = path.to_owned();
    move |source| RecoveredError::Target { path, source }
}

fn line(entry: &RecoveredEntry) -> String {
    let kind = match entry.kind {
        RecoveredKind::File => "file",
        RecoveredKind::Directory => "directory",
        RecoveredKind::Symlink => "symlink",
        RecoveredKind::Removed => "removed",
        _ => "special",
    };
    let path = match &entry.path {
        Some(path) => ShownBytes(&path.0).to_string(),
        None => format!("({NAMELESS}: object {})", entry.object),
    };
    let incomplete = if entry.incomplete { "  INCOMPLETE" } else { "" };
    format!("{kind:<9} {:>12} {path}{incomplete}", entry.size)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use store::{NewStore, Store, StoreOptions};
    use vfs::{
        AccessCheck, Creation, Credentials, FileSystem, Name, NewObject, ObjectId, ObjectKind,
        SetAttributes, Stability,
    };

    use super::*;

    /// A data directory whose tree has `/folder/note` and `/link`, all discarded as `thaw-1`.
    async fn with_a_set() -> tempfile::TempDir {
        let data = tempfile::tempdir().unwrap();
        let path = tree_path(data.path(), "default");
        fs::create_dir_all(&path).unwrap();
        let store = Store::create(&StoreOptions::new(&path), &NewStore::default()).unwrap();
        let who = Credentials::root();
        let mut made = vec![ObjectId::ROOT];
        for (parent, name, new) in [
            (0, "folder", NewObject::Plain(ObjectKind::Directory)),
            (1, "note", NewObject::File(Creation::Guarded)),
            (
                0,
                "link",
                NewObject::Symlink(Bytes::from_static(b"folder/note")),
            ),
        ] {
            let name = Name::new(name.as_bytes().to_vec()).unwrap();
            let set = SetAttributes {
                mode: Some(0o640),
                ..SetAttributes::default()
            };
            let created = store.create(&who, made[parent], &name, new, &set).await;
            made.push(created.unwrap().attributes.id);
        }
        let content = Bytes::from_static(b"what nobody else has");
        let authority = AccessCheck::Credentials(&who);
        let written = store.write(authority, made[2], 0, content, Stability::Unstable);
        written.await.unwrap();
        let kept = store.save_aside("thaw-1", "by hand", &made[1..]).await;
        assert_eq!(kept.unwrap().objects, 3);
        data
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_was_kept_is_listed_copied_out_and_forgotten() {
        let data = with_a_set().await;
        let data = data.path();
        let sets = list(data, "default").unwrap();
        assert_eq!((sets[0].label.as_str(), sets[0].objects), ("thaw-1", 3));
        let lines = contents(data, "default", "thaw-1").unwrap();
        let lines: Vec<String> = lines.map(Result::unwrap).collect();
        assert!(
            lines.iter().any(|line| line.ends_with("20 /folder/note")),
            "{lines:?}"
        );
        let to = data.join("out");
        let copied = copy_out(data, "default", "thaw-1", None, &to).unwrap();
        assert_eq!(
            (copied.files, copied.directories, copied.symlinks),
            (1, 1, 1)
        );
        let note = to.join("folder/note");
        assert_eq!(fs::read(&note).unwrap(), b"what nobody else has");
        assert_eq!(
            fs::metadata(&note).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert_eq!(
            fs::read_link(to.join("link")).unwrap(),
            Path::new("folder/note")
        );
        let again = copy_out(data, "default", "thaw-1", Some("/folder/note"), &to);
        assert!(
            matches!(again, Err(RecoveredError::Target { .. })),
            "{again:?}"
        );
        let nothing = copy_out(data, "default", "thaw-1", Some("/fold"), &data.join("b"));
        assert!(
            matches!(nothing, Err(RecoveredError::NothingThere(_))),
            "{nothing:?}"
        );
        forget(data, "default", "thaw-1").unwrap();
        assert!(list(data, "default").unwrap().is_empty());
        let gone = forget(data, "default", "thaw-1").unwrap_err().to_string();
        assert!(gone.contains("meridian recovered list"), "{gone}");
    }

    #[test]
    fn nothing_is_copied_outside_whatever_the_set_says() {
        let entry = |path: &'static [u8]| {
            let text = String::from_utf8(path.to_vec()).unwrap();
            let line = format!(
                r#"{{"object":"0001000000000007","kind":"file","path":"{text}","mode":0,"links":1,"owner":0,
                "group":0,"size":0,"change":0,"accessed":{{"seconds":0,"nanoseconds":0}},
                "modified":{{"seconds":0,"nanoseconds":0}},"changed":{{"seconds":0,"nanoseconds":0}},
                "created":{{"seconds":0,"nanoseconds":0}},"target":null,"device":null,"xattrs":[],
                "has_data":false,"incomplete":false}}"#
            );
            serde_json::from_str::<RecoveredEntry>(&line).unwrap()
        };
        let to = Path::new("/out");
        assert_eq!(target(&entry(b"/a/b"), to), Path::new("/out/a/b"));
        for path in [&b"/../etc/passwd"[..], b"/a/../../b", b"/./a"] {
            let target = target(&entry(path), to);
            assert!(target.starts_with("/out/without-a-name"), "{target:?}");
        }
    }
}

//! Creates a set from the current versions of some objects.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use vfs::{ChangeAttribute, Error, ObjectId, Result, Timestamp};

use super::{
    ABOUT, DATA, EscapedBytes, FORMAT, MANIFEST, RecoveredEntry, RecoveredKind, RecoveredName,
    RecoveredSet, SETS, data_name, home_of, remove_all, unfinished,
};
use crate::error::{StoreError, from_os};
use crate::layout::sync_directory;
use crate::metadata::Table;
use crate::open_store::{OpenStore, blocking};
use crate::rows::{Content, EntryRow, ObjectRow, XattrRow, key};
use crate::space::{Demand, ROW_BYTES};
use crate::waiting::wait;

impl OpenStore {
    /// Saves the current versions of objects in a new set below `recovered` beside the store: paths
    /// as known here, attributes, extended attributes, and contents. For a directory this is the list of names,
    /// not the objects that they lead to. Objects that do not exist are noted as removed. All of it is stable on return;
    /// after an error there is no set.
    ///
    /// `reason` is a text that says why these versions are discarded.
    ///
    /// # Errors
    /// [`vfs::Error::Exists`] for a label in use; [`vfs::Error::Invalid`] for an impossible label;
    /// [`vfs::Error::NoSpace`] when the disk is full; [`vfs::Error::Io`].
    pub async fn save_aside(
        self: &Arc<Self>,
        label: &str,
        reason: &str,
        objects: &[ObjectId],
    ) -> Result<RecoveredSet> {
        let store = Arc::clone(self);
        let set = RecoveredSet {
            format: FORMAT,
            label: label.to_owned(),
            reason: reason.to_owned(),
            saved_at: store.clock.now(),
            replica: store.slot.0,
            objects: 0,
            bytes: 0,
        };
        let objects = objects.to_vec();
        blocking(move || store.write_aside(set, &objects)).await
    }
}

/// A set that is being created.
struct Draft {
    home: PathBuf,
    manifest: BufWriter<File>,
}

impl OpenStore {
    fn write_aside(&self, set: RecoveredSet, objects: &[ObjectId]) -> Result<RecoveredSet> {
        self.health.check()?;
        let store = self.layout.root();
        let home = home_of(store, &set.label)
            .map_err(|_| Error::Invalid("a set of discarded versions needs a plain label"))?;
        if home.exists() {
            return Err(Error::Exists);
        }
        let draft = unfinished(&home);
        remove_all(&draft).map_err(failed)?;
        let saved = self.fill(&draft, set, objects).and_then(|set| {
            fs::rename(&draft, &home).map_err(|error| from_os("name a set", &error))?;
            sync_directory(&store.join(SETS)).map_err(failed)?;
            Ok(set)
        });
        saved.inspect_err(|_| {
            if let Err(error) = remove_all(&draft) {
                tracing::warn!("an unfinished set of discarded versions is left: {error}");
            }
        })
    }

    fn fill(
        &self,
        home: &Path,
        mut set: RecoveredSet,
        objects: &[ObjectId],
    ) -> Result<RecoveredSet> {
        let os = |error: std::io::Error| from_os("keep discarded versions", &error);
        fs::create_dir_all(home.join(DATA)).map_err(os)?;
        sync_directory(self.layout.root()).map_err(failed)?;
        let mut draft = Draft {
            home: home.to_owned(),
            manifest: BufWriter::new(File::create(home.join(MANIFEST)).map_err(os)?),
        };
        for id in objects.iter().copied() {
            if self.is_closing() {
                return Err(Error::Io("the store is being closed".into()));
            }
            let _admission = self.headroom.admit(Demand::Space(ROW_BYTES))?;
            let entry = self.keep(&draft, id)?;
            set.objects += 1;
            if entry.kind == RecoveredKind::File {
                set.bytes = set.bytes.saturating_add(entry.size);
            }
            put_line(&mut draft.manifest, &entry)?;
        }
        draft.manifest.flush().map_err(os)?;
        let about = serde_json::to_vec_pretty(&set).map_err(|error| os(error.into()))?;
        fs::write(home.join(ABOUT), about).map_err(os)?;
        let directory = File::open(home).map_err(os)?;
        rustix::fs::syncfs(directory.as_fd()).map_err(|errno| os(errno.into()))?;
        Ok(set)
    }

    fn keep(&self, draft: &Draft, id: ObjectId) -> Result<RecoveredEntry> {
        // No task may change the content in between, or row and content would not match.
        let alone = wait(self.guards.exclude(id), || self.is_closing());
        let _alone = alone.ok_or_else(|| Error::Io("the store is being closed".into()))?;
        let row = match self.object(id) {
            Ok(row) => row,
            Err(Error::Stale) => return Ok(removed(id)),
            Err(error) => return Err(error),
        };
        let mut entry = entry_of(id, &row);
        entry.path = self.path_bytes(id)?.map(EscapedBytes);
        entry.xattrs = self.xattrs_of(id)?;
        entry.incomplete =
            self.incomplete.contains(id) || self.unfetched.contains(id) || self.torn.contains(id);
        entry.has_data = match row.content {
            Content::File(_) => self.keep_content(draft, id, row.size)?,
            Content::Directory(_) => self.keep_names(draft, id)?,
            _ => false,
        };
        Ok(entry)
    }

    fn keep_content(&self, draft: &Draft, id: ObjectId, size: u64) -> Result<bool> {
        let os = |error: std::io::Error| from_os("keep a discarded version", &error);
        let copy = File::create(draft.data(id)).map_err(os)?;
        let content = self.content_of(id)?;
        match content.as_file()? {
            Some(file) => self.copy_data(&file, &copy, size)?,
            None if content.is_elsewhere() && self.object(id)?.file()?.stored => {
                self.copy_from_elsewhere(&content, &copy, size)?;
            }
            None => copy.set_len(size).map_err(os)?,
        }
        Ok(true)
    }

    fn keep_names(&self, draft: &Draft, id: ObjectId) -> Result<bool> {
        let os = |error: std::io::Error| from_os("keep the names of a directory", &error);
        let mut names = BufWriter::new(File::create(draft.data(id)).map_err(os)?);
        let view = self.metadata.view();
        for row in view.scan(Table::Entries, &key::object(id), &[]) {
            for entry in EntryRow::decode(row?.value())?.entries() {
                let name = RecoveredName {
                    name: escaped(entry.name.as_bytes()),
                    object: entry.object,
                };
                put_line(&mut names, &name)?;
            }
        }
        names.flush().map_err(os)?;
        Ok(true)
    }

    fn xattrs_of(&self, id: ObjectId) -> Result<Vec<(EscapedBytes, EscapedBytes)>> {
        let view = self.metadata.view();
        let rows = view.scan(Table::Xattrs, &key::object(id), &[]);
        rows.map(|row| {
            let xattr = XattrRow::decode(row?.value())?;
            Ok((escaped(xattr.name.as_bytes()), EscapedBytes(xattr.value)))
        })
        .collect()
    }
}

impl Draft {
    fn data(&self, id: ObjectId) -> PathBuf {
        self.home.join(DATA).join(data_name(id))
    }
}

fn put_line(lines: &mut BufWriter<File>, line: &impl Serialize) -> Result<()> {
    serde_json::to_writer(&mut *lines, line)
        .map_err(std::io::Error::from)
        .and_then(|()| lines.write_all(b"\n"))
        .map_err(|error| from_os("write down discarded versions", &error))
}

fn escaped(bytes: &[u8]) -> EscapedBytes {
    EscapedBytes(Bytes::copy_from_slice(bytes))
}

fn failed(error: StoreError) -> Error {
    match error {
        StoreError::Io { action, source, .. } => from_os(action, &source),
        other => Error::Io(other.to_string()),
    }
}

/// All fields of a row.
fn entry_of(id: ObjectId, row: &ObjectRow) -> RecoveredEntry {
    let mut entry = RecoveredEntry {
        mode: row.mode,
        links: row.links,
        owner: row.owner,
        group: row.group,
        size: row.size,
        change: row.change,
        accessed: row.accessed,
        modified: row.modified,
        changed: row.changed,
        created: row.created,
        ..removed(id)
    };
    entry.kind = match &row.content {
        Content::File(_) => RecoveredKind::File,
        Content::Directory(directory) => {
            entry.size = directory.entries;
            RecoveredKind::Directory
        }
        Content::Symlink(target) => {
            entry.target = Some(EscapedBytes(target.clone()));
            RecoveredKind::Symlink
        }
        Content::Fifo => RecoveredKind::Fifo,
        // Members of a set have no objects of this kind.
        Content::Elsewhere(_) => RecoveredKind::File,
        Content::Socket => RecoveredKind::Socket,
        Content::CharacterDevice { major, minor } => {
            entry.device = Some((*major, *minor));
            RecoveredKind::CharacterDevice
        }
        Content::BlockDevice { major, minor } => {
            entry.device = Some((*major, *minor));
            RecoveredKind::BlockDevice
        }
    };
    entry
}

fn removed(object: ObjectId) -> RecoveredEntry {
    let never = Timestamp::default();
    RecoveredEntry {
        object,
        kind: RecoveredKind::Removed,
        path: None,
        mode: 0,
        links: 0,
        owner: 0,
        group: 0,
        size: 0,
        change: ChangeAttribute(0),
        accessed: never,
        modified: never,
        changed: never,
        created: never,
        target: None,
        device: None,
        xattrs: Vec::new(),
        has_data: false,
        incomplete: false,
    }
}

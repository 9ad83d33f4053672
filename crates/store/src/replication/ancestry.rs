//! Where objects lie in the tree: for decisions about changes, and as text for people.

use bytes::Bytes;
use vfs::{Error, ObjectId, Result, ShownBytes};

use crate::metadata::{Table, View};
use crate::open_store::OpenStore;
use crate::rows::{Content, EntryRow, NameHash, key};

/// A path has at most this many parts.
const MAX_PARTS: usize = 4096;

/// Of a path with more parts, or with more bytes in its shown form, only the end is shown. Looking up a name for each directory of a
/// deep tree takes long, and people do not read it.
const PARTS_SHOWN: usize = 32;
const BYTES_SHOWN: usize = 1024;
/// Stands for the directories that are not shown.
const MORE: &str = "/…";

impl OpenStore {
    /// The directories that hold an object, one for each of its names, so a directory may be listed
    /// twice. Empty for the root and for an object that does not exist. Takes no lock that changes take.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] when rows cannot be read.
    pub fn parents(&self, id: ObjectId) -> Result<Vec<ObjectId>> {
        let row = match self.object(id) {
            Ok(row) => row,
            Err(Error::Stale) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        match row.content {
            Content::Directory(_) if id == ObjectId::ROOT => Ok(Vec::new()),
            Content::Directory(directory) => Ok(vec![directory.parent]),
            _ if row.links == 0 => Ok(Vec::new()),
            _ => {
                let view = self.metadata.view();
                let links = view.scan(Table::Links, &key::object(id), &[]);
                links
                    .map(|link| Ok(key::parse_link(link?.key())?.1))
                    .collect()
            }
        }
    }

    /// An object as text for people: its number, and a path if it has one.
    pub(crate) fn called(&self, id: ObjectId) -> String {
        match self.shown_path(id) {
            Ok(Some(path)) => format!("object {id} ({path})"),
            _ => format!("object {id}"),
        }
    }

    /// One path of an object from the root of the tree, for people to read. If the object has no name, the
    /// text says so.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] if the object does not exist; [`vfs::Error::Io`] when rows cannot be read.
    pub fn path_of(&self, id: ObjectId) -> Result<String> {
        self.object(id)?;
        let path = self.shown_path(id)?;
        Ok(path.unwrap_or_else(|| format!("(object {id} without a name)")))
    }

    /// One path of an object for people, or the end of the path.
    fn shown_path(&self, id: ObjectId) -> Result<Option<String>> {
        let view = self.metadata.view();
        let (mut at, mut parts, mut bytes) = (id, Vec::new(), 0);
        while at != ObjectId::ROOT {
            let Some((parent, name)) = one_name(&view, at)? else {
                return Ok(None);
            };
            let name = ShownBytes(&name).to_string();
            bytes += name.len();
            if !parts.is_empty() && (parts.len() == PARTS_SHOWN || bytes > BYTES_SHOWN) {
                break;
            }
            parts.push(name);
            at = parent;
        }
        let more = if at == ObjectId::ROOT { "" } else { MORE };
        parts.reverse();
        Ok(Some(format!("{more}/{}", parts.join("/"))))
    }

    /// One path of an object; `None` when it or a directory above it has no name.
    pub(crate) fn path_bytes(&self, id: ObjectId) -> Result<Option<Bytes>> {
        let view = self.metadata.view();
        let (mut at, mut parts) = (id, Vec::new());
        while at != ObjectId::ROOT && parts.len() < MAX_PARTS {
            let Some((parent, name)) = one_name(&view, at)? else {
                return Ok(None);
            };
            parts.push(name);
            at = parent;
        }
        parts.push(Bytes::new());
        parts.reverse();
        match parts.len() {
            1 => Ok(Some(Bytes::from_static(b"/"))),
            _ => Ok(Some(parts.join(&b'/').into())),
        }
    }
}

/// One name of an object and the directory it lies in; the links of directories are kept too.
fn one_name(view: &View<'_>, id: ObjectId) -> Result<Option<(ObjectId, Bytes)>> {
    for link in view.scan(Table::Links, &key::object(id), &[]) {
        let (_, parent, cookie) = key::parse_link(link?.key())?;
        let (hash, index) = NameHash::from_cookie(cookie);
        let Some(row) = view.row(Table::Entries, &key::entry(parent, hash))? else {
            continue;
        };
        let entries = EntryRow::decode(&row)?;
        let entry = entries
            .entries()
            .iter()
            .find(|entry| entry.index == index && entry.object == id);
        if let Some(entry) = entry {
            let name = Bytes::copy_from_slice(entry.name.as_bytes());
            return Ok(Some((parent, name)));
        }
    }
    Ok(None)
}

//! A home that is lost for good, with the directories that lived there: its names at the first server go, and files of the first server that had
//! names nowhere else get one.
//!
//! What must never enter: who says that it is lost.

use std::collections::BTreeMap;

use vfs::{
    Cookie, Credentials, Error, FileSystem, Name, NewObject, ObjectId, ObjectKind, ReplicaSlot,
    Result, SetAttributes, ShownBytes,
};

use crate::held::held_by;
use crate::pool_tree::{Part, PoolTree};

/// Entries that are read at once.
const ENTRIES_AT_ONCE: usize = 256;
/// How often names are looked for, while clients change some.
const WALKS: usize = 8;

/// A name at the first server of something that lives at another home.
struct NameAt {
    directory: ObjectId,
    name: Name,
    id: ObjectId,
    path: String,
}

impl PoolTree {
    /// The paths of what lives at another home and has a name here. Takes as long as listing the whole tree.
    ///
    /// # Errors
    /// When the tree cannot be read.
    pub async fn paths_at(&self, home: ReplicaSlot) -> Result<Vec<String>> {
        let found = self.names_at(home).await?.into_iter();
        Ok(found.map(|name| name.path).collect())
    }

    /// Gives up what lives at another home: its names here go. Files that live here and have names only there get one in a directory of the
    /// root, `lost+found.` and the number of the home. May be repeated when it was interrupted.
    ///
    /// # Errors
    /// When this server is not the first one, and those of the store; what is done then stays done.
    pub async fn give_up_home(&self, home: ReplicaSlot) -> Result<()> {
        let Part::First { leaving, .. } = &self.part else {
            return Err(Error::NotSupported);
        };
        leaving.write().await.insert(home);
        self.name_what_has_none(home).await?;
        for _ in 0..WALKS {
            let found = self.names_at(home).await?;
            if found.is_empty() {
                return Ok(());
            }
            for at in found {
                let removed = self.drop_elsewhere((at.directory, &at.name), at.id);
                match removed.await {
                    // Somebody else has changed it, which is looked for again.
                    Ok(_) | Err(Error::NotFound | Error::Stale | Error::Delay) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Err(Error::Delay)
    }

    async fn names_at(&self, home: ReplicaSlot) -> Result<Vec<NameAt>> {
        let (root, mut found) = (Credentials::root(), Vec::new());
        let mut directories = vec![(ObjectId::ROOT, String::new(), Cookie::START)];
        while let Some((directory, path, after)) = directories.pop() {
            let page = self
                .store
                .read_directory(&root, directory, after, ENTRIES_AT_ONCE);
            let page = match page.await {
                // Removed meanwhile.
                Err(Error::Stale) => continue,
                page => page?,
            };
            if let Some(last) = page.entries.last().filter(|_| !page.end) {
                directories.push((directory, path.clone(), last.cookie));
            }
            for entry in page.entries {
                let path = format!("{path}/{}", ShownBytes(entry.name.as_bytes()));
                let id = entry.attributes.id;
                if self.is_elsewhere(id) && id.slot() == home {
                    found.push(NameAt {
                        directory,
                        name: entry.name,
                        id,
                        path,
                    });
                } else if !self.is_elsewhere(id) && entry.attributes.is_directory() {
                    directories.push((id, path, Cookie::START));
                }
            }
        }
        Ok(found)
    }

    /// Gives files a name that are kept here only for names at a home.
    async fn name_what_has_none(&self, home: ReplicaSlot) -> Result<()> {
        let Some(hidden) = self.find_hidden().await? else {
            return Ok(());
        };
        let mut kept: BTreeMap<ObjectId, (u32, Option<Name>)> = BTreeMap::new();
        for (name, id) in self.hidden_names().await? {
            let Some((at, _)) = held_by(&name) else {
                continue;
            };
            let of_file = kept.entry(id).or_default();
            of_file.0 += u32::from(at == home);
            if at == home {
                of_file.1 = Some(name);
            }
        }
        for (id, (held, name)) in kept {
            let Some(name) = name else { continue };
            let links = match self.own.attributes(id).await {
                Ok(found) => found.links,
                Err(Error::Stale) => continue,
                Err(error) => return Err(error),
            };
            if links > held {
                continue;
            }
            let found = self.lost_and_found(home).await?;
            let shown = Name::new(format!("file-{:x}", id.as_u64()).into_bytes())?;
            let (from, to) = ((hidden, &name), (found, &shown));
            self.own.rename(&Credentials::root(), from, to).await?;
        }
        Ok(())
    }

    async fn lost_and_found(&self, home: ReplicaSlot) -> Result<ObjectId> {
        let (root, name) = (Credentials::root(), format!("lost+found.{}", home.0));
        let name = Name::new(name.into_bytes())?;
        let set = SetAttributes {
            mode: Some(0o700),
            ..SetAttributes::default()
        };
        let new = NewObject::Plain(ObjectKind::Directory);
        match self
            .own
            .create(&root, ObjectId::ROOT, &name, new, &set)
            .await
        {
            Ok(made) => Ok(made.attributes.id),
            Err(Error::Exists) => Ok(self.own.lookup(&root, ObjectId::ROOT, &name).await?.id),
            Err(error) => Err(error),
        }
    }
}

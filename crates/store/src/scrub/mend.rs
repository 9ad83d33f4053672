//! Replaces the content of a damaged file. The new content is collected in a separate file, its stable bytes are compared with the
//! expected digest, and it is put in place as a whole. So the new file uses other places on the disk than the old one. If a
//! file's bytes are elsewhere, the content is collected there.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use vfs::{Error, ObjectId, Result};

use super::content::{encode, hash_file};
use super::digests::{ContentDigest, Pace};
use crate::data::{Exclusive, Replacement};
use crate::error::from_os;
use crate::layout::Layout;
use crate::metadata::Table;
use crate::open_store::{OpenStore, blocking, detached};
use crate::replication::ContentPiece;
use crate::rows::key;
use crate::space::{Demand, ROW_BYTES};

/// A new content that is being collected. Dropping it changes nothing.
pub struct Mending {
    store: Arc<OpenStore>,
    id: ObjectId,
    gathered: Gathered,
}

/// Where a new content is collected.
enum Gathered {
    Here { file: Arc<File>, path: PathBuf },
    Elsewhere(Arc<dyn Replacement>),
}

impl fmt::Debug for Mending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mending").field("id", &self.id).finish()
    }
}

/// Removes what such attempts left at a crash.
pub(crate) fn clear_unfinished(layout: &Layout) {
    match fs::remove_dir_all(layout.mending()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("an unfinished content is left: {error}");
        }
        _ => {}
    }
}

impl OpenStore {
    /// Begins to replace the content of a file.
    ///
    /// # Errors
    /// [`vfs::Error::Stale`] and the errors for objects that are not files; [`vfs::Error::Io`] when
    /// nothing can be written.
    pub async fn begin_mending(self: &Arc<Self>, id: ObjectId) -> Result<Mending> {
        self.object(id)?.file()?;
        let store = Arc::clone(self);
        blocking(move || {
            if store.is_elsewhere(id)?
                && let Some(elsewhere) = &store.elsewhere
            {
                let gathered = Gathered::Elsewhere(elsewhere.replace(id)?.into());
                return Ok(Mending {
                    store,
                    id,
                    gathered,
                });
            }
            let failed = |error: io::Error| from_os("write a content", &error);
            let home = store.layout.mending();
            fs::create_dir_all(&home).map_err(failed)?;
            let path = home.join(format!("{:016x}", id.as_u64()));
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .map_err(failed)?;
            let file = Arc::new(file);
            Ok(Mending {
                store,
                id,
                gathered: Gathered::Here { file, path },
            })
        })
        .await
    }

    /// Whether the file has this version, is complete, and is at rest.
    fn may_mend(&self, id: ObjectId, content: &ContentDigest) -> Result<bool> {
        let row = self.object(id)?;
        let same = (row.change, row.size) == (content.change, content.size);
        let is_whole = !self.incomplete.contains(id) && !self.unfetched.contains(id);
        Ok(same && is_whole && row.links > 0 && !self.dirty.contains(id))
    }

    async fn put_mended(
        self: Arc<Self>,
        alone: Exclusive,
        mended: Mending,
        content: ContentDigest,
    ) -> Result<()> {
        let (store, id) = (Arc::clone(&self), mended.id);
        let mut mutation = self.begin_maintenance().await?;
        self.void_sums(&mut mutation, id);
        let ticket = mutation.commit_local()?;
        self.commits.wait(ticket, &self.health).await?;
        let size = content.size;
        let mended = blocking(move || {
            match &mended.gathered {
                Gathered::Here { path, .. } => {
                    let replaced = store.files.replace(mended.id, path);
                    replaced.map_err(|error| from_os("put a content in place", &error))?;
                }
                Gathered::Elsewhere(gathered) => gathered.put_in_place(size)?,
            }
            Ok(mended)
        })
        .await?;
        let mut mutation = self.begin_maintenance().await?;
        let mut row = mutation.object(id)?.clone();
        let file = row.file_mut()?;
        if !file.stored {
            file.stored = true;
            mutation.put_quietly(id, &row);
        }
        // Sums computed meanwhile may belong to the old content; they are computed again from the new one.
        self.void_sums(&mut mutation, id);
        if row.change == content.change {
            mutation.put_local(Table::Digests, &key::object(id), &encode(&content));
        }
        mutation.unmark(Table::Damaged, id);
        mutation.then(move |store, _| store.damaged.forget(id));
        let ticket = mutation.commit_local()?;
        drop((alone, mended));
        self.commits.wait(ticket, &self.health).await
    }
}

impl Mending {
    /// Writes a part of the content; ranges without a part are holes.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::Io`] when it cannot be written.
    pub async fn put(&self, part: ContentPiece) -> Result<()> {
        let ContentPiece::Data { offset, bytes } = part else {
            return Ok(());
        };
        let file = match &self.gathered {
            Gathered::Here { file, .. } => Arc::clone(file),
            Gathered::Elsewhere(gathered) => {
                let gathered = Arc::clone(gathered);
                return blocking(move || gathered.write(&bytes, offset)).await;
            }
        };
        let space = Demand::Space(bytes.len() as u64 + ROW_BYTES);
        let _admission = self.store.admit(space)?;
        blocking(move || {
            let written = file.write_all_at(&bytes, offset);
            written.map_err(|error| from_os("write a content", &error))
        })
        .await
    }

    /// Compares the stable bytes with the digest, then puts the content in place, stably. Returns false if the file has another
    /// version or is not at rest.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the content has another digest; [`Error::Stale`] when the file is gone;
    /// [`Error::Delay`] when `pace` returns false; [`Error::Io`] when storage fails.
    pub async fn finish(
        self,
        content: ContentDigest,
        mut pace: Box<dyn FnMut(u64) -> bool + Send>,
    ) -> Result<bool> {
        let gathered = self.gathered.share();
        let hash = blocking(move || {
            let pace: &mut Pace<'_> = &mut *pace;
            gathered.hash(content.size, pace)
        })
        .await?;
        if hash != content.hash {
            return Err(Error::Invalid("the content is not what it should be"));
        }
        let store = Arc::clone(&self.store);
        let alone = store.guards.exclude(self.id).await;
        if !store.may_mend(self.id, &content)? {
            return Ok(false);
        }
        // Detached, so that a cancelled call does not leave half of this.
        detached(store.put_mended(alone, self, content)).await?;
        Ok(true)
    }
}

impl Gathered {
    fn share(&self) -> Gathered {
        match self {
            Gathered::Here { file, path } => Gathered::Here {
                file: Arc::clone(file),
                path: path.clone(),
            },
            Gathered::Elsewhere(gathered) => Gathered::Elsewhere(Arc::clone(gathered)),
        }
    }

    /// The digest of the stable bytes.
    fn hash(&self, size: u64, pace: &mut Pace<'_>) -> Result<[u8; 32]> {
        match self {
            Gathered::Here { file, .. } => {
                let failed = |error: io::Error| from_os("write a content", &error);
                file.set_len(size).map_err(failed)?;
                file.sync_all().map_err(failed)?;
                hash_file(Some(&**file), size, pace, &mut |_, _| Ok(()))
            }
            Gathered::Elsewhere(gathered) => {
                gathered.sync()?;
                let gathered: &dyn Replacement = &**gathered;
                hash_file(Some(&gathered), size, pace, &mut |_, _| Ok(()))
            }
        }
    }
}

impl Drop for Mending {
    fn drop(&mut self) {
        if let Gathered::Here { path, .. } = &self.gathered {
            // The file is gone if it was put in place.
            let _gone = fs::remove_file(path);
        }
    }
}

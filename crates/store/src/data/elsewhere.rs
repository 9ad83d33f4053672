//! Files whose bytes are not in data files of the store: where their rows say that they are, and what is different for them.
//!
//! A place elsewhere may be out of reach for a while, also when the store is opened. So nothing waits for it that concerns other
//! files, and recovery is put off: a file that was marked at a crash stays marked, counts as unstable and as too long, and is cut
//! before it grows.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use vfs::{Error, ObjectId, Result};

use super::MAX_FILE_BYTES;
use super::contents::Content;
use super::dirty::Origin;
use crate::metadata::Table;
use crate::mutation::{Mutation, Touch};
use crate::open_store::OpenStore;
use crate::ownership::strip_set_id;
use crate::rows::{MAX_PLACEMENT_BYTES, ObjectRow, key};
use crate::waiting::wait;

/// How long the store's own thread waits for a file that is in use.
const PATIENCE: Duration = Duration::from_millis(100);

impl OpenStore {
    /// The bytes of an object, wherever they are.
    pub(crate) fn content_of(&self, id: ObjectId) -> Result<Content<'_>> {
        self.content_in(id, self.placement_of(id)?)
    }

    /// The bytes of an object whose row is gone, and which said where they are.
    pub(crate) fn content_at(&self, id: ObjectId, placement: &[u8]) -> Result<Content<'_>> {
        let placement = (!placement.is_empty()).then(|| Arc::from(placement));
        self.content_in(id, placement)
    }

    fn content_in(&self, id: ObjectId, placement: Option<Arc<[u8]>>) -> Result<Content<'_>> {
        match (&self.elsewhere, placement) {
            (_, None) => Ok(Content::new(&self.files, id, None)),
            (Some(elsewhere), placement) => Ok(Content::new(&**elsewhere, id, placement)),
            (None, Some(_)) => Err(Error::Io(format!(
                "the data of object {id} is elsewhere, and nobody said where"
            ))),
        }
    }

    /// Whether the bytes of an object are not in a data file. Without a place elsewhere it costs nothing to ask.
    pub(crate) fn is_elsewhere(&self, id: ObjectId) -> Result<bool> {
        Ok(self.placement_of(id)?.is_some())
    }

    fn placement_of(&self, id: ObjectId) -> Result<Option<Arc<[u8]>>> {
        if !self.places {
            return Ok(None);
        }
        match self.object(id) {
            Ok(row) => Ok(row.placement().cloned()),
            Err(Error::Stale) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where the bytes of a new file are to be. A tree that has other copies keeps them in its data files.
    pub(crate) fn place_for(&self, id: ObjectId) -> Option<Arc<[u8]>> {
        let elsewhere = self.elsewhere.as_ref()?;
        if self.is_replicated() {
            return None;
        }
        let placement = elsewhere.place(id)?;
        let fits = (1..=MAX_PLACEMENT_BYTES).contains(&placement.len());
        debug_assert!(fits, "a placement has {} bytes", placement.len());
        fits.then(|| placement.into())
    }

    /// Whether it is known that no bytes lie behind the size in the row. Of data files that are not marked it is not, since
    /// looking costs little.
    pub(super) fn tail_is_clean(&self, id: ObjectId, row: &ObjectRow) -> bool {
        let unmarked = row.placement().is_some() && !self.dirty.contains(id);
        unmarked || self.dirty.tail_is_clean(id)
    }

    /// Bytes of a file that were not stable elsewhere are lost: a client that wrote some must write them again, and no client
    /// may go on with what it has read.
    pub(super) fn note_loss(&self, id: ObjectId, why: &str) -> Result<()> {
        tracing::warn!(%id, why, "unstable data is lost; clients are told to write it again");
        self.change_verifier();
        let mut mutation = self.begin_blocking()?;
        match mutation.touch(id, Touch::Content) {
            Ok(_) | Err(Error::Stale) => {}
            Err(error) => return Err(error),
        }
        mutation.commit_local().map(|_| ())
    }

    /// Removes what failed writes have left behind the size of files that have been left alone for a while.
    pub(crate) fn cut_tails_elsewhere(&self, rest: Duration) -> Result<()> {
        for id in self.dirty.unclean_elsewhere(rest) {
            let begun = Instant::now();
            let gives_up = || self.is_closing() || begun.elapsed() > PATIENCE;
            let Some(_alone) = wait(self.guards.exclude(id), gives_up) else {
                continue;
            };
            let row = match self.object(id) {
                Ok(row) if !self.dirty.tail_is_clean(id) => row,
                Ok(_) | Err(Error::Stale) => continue,
                Err(error) => return Err(error),
            };
            match self.cut_contents(id, row.size) {
                Ok(_) => self.dirty.set_tail_clean(id, true),
                Err(error) => tracing::debug!(%id, %error, "data elsewhere is not cut now"),
            }
        }
        Ok(())
    }

    /// Treats a file that was marked when the store was last left.
    pub(crate) fn recover_elsewhere(&self, mut mutation: Mutation<'_>, id: ObjectId) -> Result<()> {
        // There may be bytes of a write whose row was lost; they go with the file.
        mutation.object_mut(id)?.file_mut()?.stored = true;
        mutation.touch(id, Touch::Content)?;
        mutation.then(move |store, ticket| {
            let origin = Origin {
                elsewhere: true,
                ..Origin::default()
            };
            store.dirty.mark(id, ticket, origin, 0);
            store.dirty.set_tail_clean(id, false);
            store.dirty.changed(id, false);
        });
        mutation.commit_local().map(|_| ())
    }
}

/// What a row is to say from now on of an object whose bytes are elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The object.
    pub id: ObjectId,
    /// Where its bytes are, in 1 to 64 bytes.
    pub placement: Vec<u8>,
    /// From now on bytes may be written of which the store hears later. What a write takes away goes now: set-id bits, and the verifier of
    /// an exclusive creation.
    pub is_lent: bool,
    /// Bytes that the store has not heard of go up to here. A row that says more stays as it is.
    pub reach: Option<u64>,
    /// Such bytes were written, or may have been: the file gets another version, and new times.
    pub is_changed: bool,
}

impl Placed {
    /// The same bytes, wherever they are.
    #[must_use]
    pub fn at(id: ObjectId, placement: Vec<u8>) -> Placed {
        Placed {
            id,
            placement,
            is_lent: false,
            reach: None,
            is_changed: false,
        }
    }

    fn enter(&self, mutation: &mut Mutation<'_>) -> Result<()> {
        let mut row = mutation.object(self.id)?.clone();
        let file = row.file_mut()?;
        file.placement = Some(self.placement.clone().into());
        if self.is_lent || self.is_changed {
            file.stored = true;
            row.forget_verifier();
        }
        if self.is_lent {
            row.mode = strip_set_id(row.mode, false);
        }
        if let Some(reach) = self.reach {
            row.size = row.size.max(reach.min(MAX_FILE_BYTES));
            row.space_used = row.size.next_multiple_of(512);
        }
        match self.is_changed {
            true => {
                *mutation.object_mut(self.id)? = row;
                mutation.touch(self.id, Touch::Content).map(|_| ())
            }
            false => {
                mutation.put_quietly(self.id, &row);
                Ok(())
            }
        }
    }
}

/// What the code that keeps bytes elsewhere needs of a store's rows. It does not keep the store
/// open.
#[derive(Clone)]
pub struct PlacedRows(Weak<OpenStore>);

impl std::fmt::Debug for PlacedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PlacedRows")
    }
}

impl OpenStore {
    /// For the code that keeps bytes elsewhere, see [`crate::Elsewhere`].
    #[must_use]
    pub fn placed_rows(self: &Arc<Self>) -> PlacedRows {
        PlacedRows(Arc::downgrade(self))
    }
}

impl PlacedRows {
    /// Where the bytes of an object are, as its row says, or what is left of it once it was removed; `None` when they are in a data
    /// file, or gone.
    ///
    /// # Errors
    /// [`Error::Io`] when rows cannot be read, or the store was closed.
    pub fn placement(&self, id: ObjectId) -> Result<Option<Vec<u8>>> {
        let store = self.store()?;
        if let Some(placement) = store.placement_of(id)? {
            return Ok(Some(placement.to_vec()));
        }
        let left = store.metadata.row(Table::Removals, &key::object(id))?;
        Ok(left.map(|row| row.to_vec()).filter(|row| !row.is_empty()))
    }

    /// What a file is called in messages: by its number, and where it is if that is known.
    #[must_use]
    pub fn called(&self, id: ObjectId) -> String {
        match self.store() {
            Ok(store) => store.called(id),
            Err(_) => format!("object {id}"),
        }
    }

    /// How long a file is, as its row says; `None` of what is gone.
    ///
    /// # Errors
    /// [`Error::Io`] when rows cannot be read, or the store was closed.
    pub fn size(&self, id: ObjectId) -> Result<Option<u64>> {
        match self.store()?.object(id) {
            Ok(row) => Ok(Some(row.size)),
            Err(Error::Stale) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`crate::OpenStore::facts`].
    ///
    /// # Errors
    /// [`Error::Io`] when rows cannot be read, or the store was closed.
    pub fn facts(&self, prefix: &[u8]) -> Result<Vec<(Bytes, Bytes)>> {
        self.store()?.facts(prefix)
    }

    /// Changes facts as [`crate::OpenStore::put_facts`] does, and in the same batch what the rows of some objects say of their bytes.
    /// An object that is gone is left alone. Returns when it is stable.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key or a placement that is too long; [`Error::Io`] when storage fails, or the store was closed.
    pub async fn keep(
        &self,
        placed: Vec<Placed>,
        facts: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    ) -> Result<()> {
        let store = self.store()?;
        let mut mutation = store.begin_maintenance().await?;
        mutation.enter_facts(facts)?;
        for placed in placed {
            if !(1..=MAX_PLACEMENT_BYTES).contains(&placed.placement.len()) {
                return Err(Error::Invalid("a placement has 1 to 64 bytes"));
            }
            match placed.enter(&mut mutation) {
                Ok(()) => {}
                Err(Error::Stale) => {
                    let key = key::object(placed.id);
                    let left = store.metadata.row(Table::Removals, &key)?;
                    if left.is_some() {
                        mutation.put_local(Table::Removals, &key, &placed.placement);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let ticket = mutation.commit_local()?;
        store.commits.ask_for(ticket);
        store.commits.wait(ticket, &store.health).await
    }

    fn store(&self) -> Result<Arc<OpenStore>> {
        let store = self.0.upgrade();
        store.ok_or_else(|| Error::Io("the store is closed".into()))
    }
}

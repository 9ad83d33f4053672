//! Files whose bytes are not in data files of the store: where their rows say the bytes are, and how such files differ.
//!
//! A place elsewhere may be unreachable for a while, also when the store is opened. So work on other files never waits for it,
//! and recovery is postponed: a file that was marked at a crash stays marked, counts as unstable and as too long, and is cut
//! before it grows.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;
use vfs::{Error, ObjectId, Result, Space, WriteVerifier};

use super::MAX_FILE_BYTES;
use super::contents::{Content, Place};
use super::dirty::Origin;
use crate::committer::Ticket;
use crate::metadata::Table;
use crate::mutation::{Mutation, Touch};
use crate::open_store::{OpenStore, blocking};
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

    /// The same for bytes that will be changed.
    ///
    /// # Errors
    /// [`Error::Stale`] when the object is gone. The place of its bytes is unknown then, and a write must not create a data file,
    /// because nothing would remove that file.
    pub(super) fn content_to_change(&self, id: ObjectId) -> Result<Content<'_>> {
        match self.places {
            true => self.content_in(id, self.object(id)?.placement().cloned()),
            false => self.content_in(id, None),
        }
    }

    /// The bytes of a removed object; `placement` is where its row said they are.
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

    /// Whether the bytes of an object are not in a data file. Cheap if the store has no place elsewhere.
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

    /// The placement of a new file's bytes. Each copy of a tree has its own.
    pub(crate) fn place_for(&self, id: ObjectId) -> Option<Arc<[u8]>> {
        fitting(self.elsewhere.as_ref()?.place(id)?)
    }

    /// Whether it is known that no bytes lie behind the size in the row. This is not known for unmarked data files, where checking
    /// is cheap.
    pub(super) fn tail_is_clean(&self, id: ObjectId, row: &ObjectRow) -> bool {
        let unmarked = row.placement().is_some() && !self.dirty.contains(id);
        unmarked || self.dirty.tail_is_clean(id)
    }

    /// Handles the loss of a file's bytes that were not stable elsewhere: clients that wrote some must write them again, and no client
    /// may rely on what it has read.
    ///
    /// In a tree with other copies, all of them have to agree on the version of a file, so the file is listed
    /// ([`OpenStore::recovered`]). Lost data of another primary was not acknowledged, and comes again.
    pub(super) fn note_loss(&self, id: ObjectId, why: &str) -> Result<()> {
        tracing::warn!(%id, why, "unstable data is lost; clients are told to write it again");
        let is_own = self.dirty.is_own(id);
        self.change_verifier();
        let mut mutation = self.begin_blocking()?;
        if self.is_replicated() {
            if is_own && mutation.object(id).is_ok() {
                mutation.mark(Table::Recovered, id);
                mutation.then(|store, _| store.found_lost.send_modify(|count| *count += 1));
            }
            return mutation.commit_local().map(|_| ());
        }
        match mutation.touch(id, Touch::Content) {
            Ok(_) | Err(Error::Stale) => {}
            Err(error) => return Err(error),
        }
        mutation.commit_local().map(|_| ())
    }

    /// Removes what failed writes left behind the size of files that no task has touched for a while.
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

    /// Recovers a file that was marked when the store stopped. `foreign`: only for data of another primary.
    pub(crate) fn recover_elsewhere(
        &self,
        mut mutation: Mutation<'_>,
        id: ObjectId,
        foreign: bool,
    ) -> Result<()> {
        // There may be bytes of a write whose row was lost; they are removed with the file.
        let mut row = mutation.object(id)?.clone();
        row.file_mut()?.stored = true;
        match self.shared.load(Ordering::Relaxed) {
            true => {
                mutation.put_quietly(id, &row);
                if !foreign {
                    mutation.mark(Table::Recovered, id);
                }
            }
            false => {
                *mutation.object_mut(id)? = row;
                mutation.touch(id, Touch::Content)?;
            }
        }
        mutation.then(move |store, ticket| {
            let origin = Origin {
                elsewhere: true,
                foreign,
                ..Origin::default()
            };
            store.dirty.mark(id, ticket, origin, 0);
            store.dirty.set_tail_clean(id, false);
            store.dirty.changed(id, false);
        });
        mutation.commit_local().map(|_| ())
    }
}

/// A placement, if a row can hold its length.
fn fitting(placement: Vec<u8>) -> Option<Arc<[u8]>> {
    let fits = (1..=MAX_PLACEMENT_BYTES).contains(&placement.len());
    debug_assert!(fits, "a placement has {} bytes", placement.len());
    fits.then(|| placement.into())
}

impl OpenStore {
    /// As [`OpenStore::place_for`], for files of a tree that replaces the one that was here. Always `None` without a place elsewhere.
    pub(crate) fn places_anew(&self) -> Result<impl Fn(ObjectId) -> Option<Arc<[u8]>> + use<>> {
        let elsewhere = self.elsewhere.as_ref();
        let place = elsewhere.map(|elsewhere| elsewhere.place_anew());
        let place = place.transpose()?;
        Ok(move |id| fitting(place.as_ref()?(id)?))
    }

    /// A counter that grows when bytes of files may be lost that were not stable elsewhere ([`OpenStore::recovered`]).
    #[must_use]
    pub fn found_lost(&self) -> watch::Receiver<u64> {
        self.found_lost.subscribe()
    }

    /// As [`vfs::FileSystem::space`], for the contents of files at the place where new ones are put.
    ///
    /// # Errors
    /// As [`vfs::FileSystem::space`].
    pub fn space_for_contents(&self) -> Result<Space> {
        let own = self.headroom.space(self.statistics().objects)?;
        Ok(match &self.elsewhere {
            Some(elsewhere) => elsewhere.space(own),
            None => own,
        })
    }

    /// Makes data of a file stable that another primary has sent. Also fails when data was lost since [`OpenStore::verifier`] returned
    /// `before`: then the data has to come again.
    pub(crate) async fn stabilise_sent(
        self: &Arc<Self>,
        id: ObjectId,
        before: WriteVerifier,
    ) -> Result<Ticket> {
        let released = self.stabilise(id).await?;
        match self.verifier() == before {
            true => Ok(released),
            false => Err(Error::Delay),
        }
    }

    /// If contents elsewhere are lost in part, replaces them by empty contents, so that data from another primary can be
    /// written. The file is marked as damaged, so that it cannot be read until all of it has come from another copy.
    pub(super) async fn replace_lost(self: &Arc<Self>, id: ObjectId) -> Result<bool> {
        let alone = self.guards.exclude(id).await;
        let (Some(elsewhere), Some(placement)) = (&self.elsewhere, self.placement_of(id)?) else {
            return Ok(false);
        };
        let place = Place {
            id,
            placement: &placement,
        };
        if !elsewhere.has_lost_part(place) {
            return Ok(false);
        }
        let mut mutation = self.begin_maintenance().await?;
        mutation.mark(Table::Damaged, id);
        mutation.unmark(Table::Digests, id);
        mutation.then(move |store, _| store.damaged.add(id));
        let ticket = mutation.commit_local()?;
        self.commits.wait(ticket, &self.health).await?;
        let (store, elsewhere) = (Arc::clone(self), Arc::clone(elsewhere));
        blocking(move || {
            let size = store.object(id)?.size;
            elsewhere.replace(id)?.put_in_place(size)
        })
        .await?;
        drop(alone);
        Ok(true)
    }
}

/// The new state of the row of an object whose bytes are elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The object.
    pub id: ObjectId,
    /// Where its bytes are, 1 to 64 bytes.
    pub placement: Vec<u8>,
    /// From now on bytes may be written that the store learns of later. What a write clears is cleared now: set-id bits, and the verifier
    /// of an exclusive creation.
    pub is_lent: bool,
    /// Bytes that the store has not learned of end here at most. The row keeps a larger size.
    pub reach: Option<u64>,
    /// Such bytes were written, or may have been: the file gets a new version and new times.
    pub is_changed: bool,
}

impl Placed {
    /// A new placement for the same bytes.
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

/// Access to a store's rows for the code that keeps bytes elsewhere. It does not keep the store
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
    /// The placement of an object's bytes, from its row or from the list of removed objects; `None` when they are in a data
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

    /// The same, together with the placement that is remembered while another copy's tree replaces the tree.
    ///
    /// # Errors
    /// As [`PlacedRows::placement`].
    pub fn all_placements(&self, id: ObjectId) -> Result<Vec<Vec<u8>>> {
        let remembered = self.store()?.remembered_placement(id)?;
        let remembered = remembered.map(|placement| placement.to_vec());
        Ok(self.placement(id)?.into_iter().chain(remembered).collect())
    }

    /// Whether it is known that no bytes lie behind the size of a file: nothing that failed, or was interrupted, is to be cut.
    ///
    /// # Errors
    /// As [`PlacedRows::placement`].
    pub fn tail_is_clean(&self, id: ObjectId) -> Result<bool> {
        let store = self.store()?;
        match store.object(id) {
            Ok(row) => Ok(store.tail_is_clean(id, &row)),
            Err(Error::Stale) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The name of a file in messages: its number, and its path if known.
    #[must_use]
    pub fn called(&self, id: ObjectId) -> String {
        match self.store() {
            Ok(store) => store.called(id),
            Err(_) => format!("object {id}"),
        }
    }

    /// The size of a file in its row; `None` if the file is gone.
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

    /// Changes facts like [`crate::OpenStore::put_facts`], and the placements in the rows of some objects in the same batch.
    /// Skips objects that are gone. Returns when the batch is stable.
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
            // While a tree is replaced, its rows may be dropped again.
            store.remember_placement(&mut mutation, placed.id, &placed.placement)?;
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

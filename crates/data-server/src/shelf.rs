//! What a data server stores: contents, fences, and the numbers by which a metadata server recognizes it.
//!
//! Contents are files of the shelf's own store. Fences and the identity are facts of that store. Facts can be written even on a full disk,
//! so a full data server can still cut and remove.

use crate::counters::{self, Counters};
use bytes::Bytes;
use pool::data_server::Fenced;
use pool::{
    Act, ContentsId, Generation, HomeNumber, Intent, IntentNumber, KeyNumber, Listing,
    PlacementNumber, Report, StoreIdentity,
};
use store::{NewStore, Store, StoreError, StoreOptions};
use vfs::{
    AccessCheck, Commitment, Cookie, Creation, Credentials, Error, FileSystem, Name, NewObject,
    ObjectId, ObjectKind, Result, SetAttributes, Space, Stability, WriteVerifier, Written,
};

/// Why a shelf cannot be used. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// Its store cannot be opened or created.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its contents cannot be read or written.
    #[error("cannot read what the data server keeps: {0}; check the disk, or run `meridian check`")]
    Content(#[from] Error),
    /// The row with its identity is damaged.
    #[error(
        "the row that says which data server this is is damaged, so nobody can tell whose contents these are; restore the whole data directory from one backup"
    )]
    Identity,
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}; check /dev/urandom")]
    Random(getrandom::Error),
}

/// Contents, fences and identity of one data server, in a store of its own.
///
/// It judges nothing: [`crate::DataServer`] decides which access is allowed and in which order.
#[derive(Debug)]
pub struct Shelf {
    store: Kept,
    /// Directory of contents.
    contents: ObjectId,
    identity: u128,
    counters: tokio::sync::Mutex<Counters>,
    run: u64,
}

/// A store without debug output.
struct Kept(Store);

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

/// The directory of contents in the store.
const CONTENTS: &str = "contents";
/// Key prefix, before object (8) and placement (4), of a fence. Its row: generation (8), number of the last intent (8), and 1 for removed
/// contents (1).
const FENCED: &[u8] = b"fenced/";
/// Key prefix, before home (2), key (4), object (8) and placement (4), of an empty row: these contents are removed, and no later key of
/// that home has sealed a handle of them.
const REMOVED: &[u8] = b"removed/";
/// Key prefix, before object (8) and placement (4), of an offset (8): these contents end there at least, although there was no space to
/// make them that long.
const ENDS: &[u8] = b"ends/";
/// At most this many tombstones are cleared in one step.
const CLEARED_AT_ONCE: usize = 1024;

impl Shelf {
    /// Opens the shelf in the directory that the options name, or creates an empty one if there is none. The options apply to its store.
    ///
    /// # Errors
    /// [`ShelfError`], each with what to do next.
    pub async fn open(options: &StoreOptions) -> std::result::Result<Shelf, ShelfError> {
        let options = options.clone();
        let opened = tokio::task::spawn_blocking(move || {
            Store::open_or_create(&options, &NewStore::default())
        });
        let opened = opened.await;
        let store = opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
        // No client opens files here, so none can reclaim opens: removed files are deleted at once.
        store.end_reclaim().await?;
        let contents = directory_in(&store, CONTENTS).await?;
        let (identity, mut counters) = match counters::read(&store)? {
            Some(kept) => kept.ok_or(ShelfError::Identity)?,
            None => (u128::from_be_bytes(random()?), Counters::default()),
        };
        put(&store, counters.count_start(identity)).await?;
        Ok(Shelf {
            store: Kept(store),
            contents,
            identity,
            counters: tokio::sync::Mutex::new(counters),
            run: u64::from_be_bytes(random()?),
        })
    }

    /// The identity to show a home. With `answered`, the home has answered the previous one, and this one has a larger counter, stably.
    ///
    /// # Errors
    /// When the counter cannot be made stable.
    pub async fn identity(&self, home: HomeNumber, answered: bool) -> Result<StoreIdentity> {
        let mut counters = self.counters.lock().await;
        let (counter, row) = counters.next((self.identity, home), answered);
        if let Some(row) = row {
            put(&self.store.0, vec![row]).await?;
            counters.set(home, counter);
        }
        Ok(StoreIdentity {
            store: self.identity,
            counter,
            run: self.run,
        })
    }

    /// The stable fence of some contents. `None` if they were never fenced.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read.
    pub fn fenced(&self, contents: ContentsId) -> Result<Option<Fenced>> {
        let found = self.store.0.facts(&fenced_key(contents))?.pop();
        let damaged = || Error::Io("what a data server has fenced is damaged".into());
        found
            .map(|(_, row)| parse_fenced(&row).ok_or_else(damaged))
            .transpose()
    }

    /// Bytes from `offset` on. Holes read as zeros. `None` beyond the end of the contents.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be read or are damaged.
    pub async fn read(
        &self,
        contents: ContentsId,
        offset: u64,
        count: u32,
    ) -> Result<Option<Bytes>> {
        let Some(file) = self.find(contents).await? else {
            return Ok(None);
        };
        let who = Credentials::root();
        let read = self
            .store
            .0
            .read(AccessCheck::Open(&who), file, offset, count);
        let read = read.await?.bytes;
        Ok((!read.is_empty() || count == 0).then_some(read))
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::TooLarge`], [`Error::Io`].
    pub async fn write(
        &self,
        contents: ContentsId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written> {
        let file = self.find_or_make(contents).await?;
        let who = Credentials::root();
        let store = &self.store.0;
        let written = store.write(AccessCheck::Open(&who), file, offset, data, stability);
        let written = written.await?;
        Ok(Written {
            verifier: self.verifier(),
            attributes: None,
            ..written
        })
    }

    /// Makes earlier writes stable.
    ///
    /// # Errors
    /// [`Error::Io`] when that fails.
    pub async fn commit(&self, contents: ContentsId) -> Result<Commitment> {
        if let Some(file) = self.find(contents).await? {
            self.store.0.commit(file, 0, 0).await?;
        }
        Ok(Commitment {
            verifier: self.verifier(),
        })
    }

    /// The end of the contents, and the space that they use, both in bytes.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read.
    pub async fn extent(&self, contents: ContentsId) -> Result<(u64, u64)> {
        match self.find(contents).await? {
            Some(file) => {
                let attributes = self.store.0.attributes(file).await?;
                let end = attributes.size.max(self.beyond(contents)?);
                Ok((end, attributes.space_used))
            }
            None => Ok((self.beyond(contents)?, 0)),
        }
    }

    /// The length of the contents, as far as there was space.
    async fn size(&self, contents: ContentsId) -> Result<u64> {
        match self.find(contents).await? {
            Some(file) => Ok(self.store.0.attributes(file).await?.size),
            None => Ok(0),
        }
    }

    /// The end that the contents should have but for which there was no space. 0 if there was space.
    fn beyond(&self, contents: ContentsId) -> Result<u64> {
        let damaged = |_| Error::Io("what a data server has noted of an end is damaged".into());
        match self.store.0.facts(&key_of(ENDS, contents))?.pop() {
            Some((_, row)) => row[..].try_into().map(u64::from_be_bytes).map_err(damaged),
            None => Ok(0),
        }
    }

    /// Carries an intent out, stably, and records that. No other task may use the contents meanwhile. Removed contents leave a tombstone
    /// until [`Shelf::forget`] names a key of the home after `key`.
    ///
    /// # Errors
    /// When it cannot be made stable. It may then be done in part, and must be requested again before the contents are served.
    pub async fn carry_out(
        &self,
        intent: Intent,
        (home, key): (HomeNumber, KeyNumber),
    ) -> Result<()> {
        let contents = intent.contents;
        // The act comes first: after a crash in between, the old generation is still recorded, and the whole intent is requested again.
        let beyond = self.act(contents, intent.act).await?;
        self.commit(contents).await?;
        let before = self.fenced(contents)?;
        let generation = before.map_or(intent.generation, |fenced| {
            fenced.generation.max(intent.generation)
        });
        let fenced = Fenced {
            generation,
            // A home that removes what a lost home has left has its own numbers.
            through: before.map_or(intent.number, |fenced| fenced.through.max(intent.number)),
            removed: intent.act == Act::Remove || before.is_some_and(|fenced| fenced.removed),
        };
        let mut rows = vec![(fenced_key(contents), Some(encode_fenced(fenced)))];
        if matches!(intent.act, Act::Truncate(_) | Act::Remove) {
            let end = beyond.map(|end: u64| end.to_be_bytes().to_vec());
            rows.push((key_of(ENDS, contents), end));
        }
        if intent.act == Act::Remove {
            rows.push((removed_key((home, key), contents), Some(Vec::new())));
        }
        put(&self.store.0, rows).await
    }

    /// No key of that home before `oldest` is valid any more: clears some of the tombstones for such keys. Returns their number. Call it
    /// again until it returns 0.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be read, or their removal cannot be made stable.
    pub async fn forget(&self, home: HomeNumber, oldest: KeyNumber) -> Result<usize> {
        let of_home = [REMOVED, &home.0.to_be_bytes()].concat();
        let first = self.store.0.first_facts(&of_home, CLEARED_AT_ONCE)?;
        let mut rows = Vec::new();
        for (row, _) in first {
            let (key, contents) = parse_removed(&row, home)
                .ok_or_else(|| Error::Io("what a data server has removed is damaged".into()))?;
            if key >= oldest {
                break;
            }
            rows.push((row.to_vec(), None));
            rows.push((fenced_key(contents), None));
        }
        let gone = rows.len() / 2;
        if gone > 0 {
            put(&self.store.0, rows).await?;
        }
        Ok(gone)
    }

    /// The report about some contents.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read.
    pub async fn report(&self, contents: ContentsId) -> Result<Report> {
        let (end, writes) = match self.find(contents).await? {
            Some(file) => {
                let attributes = self.store.0.attributes(file).await?;
                (attributes.size, attributes.change.0)
            }
            None => (0, 0),
        };
        Ok(Report {
            end: end.max(self.beyond(contents)?),
            run: self.run,
            writes,
        })
    }

    /// The space of the shelf.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read.
    pub async fn space(&self) -> Result<Space> {
        self.store.0.space().await
    }

    /// The number of contents.
    #[must_use]
    pub fn contents_kept(&self) -> u64 {
        // Without the root and the directory of contents.
        self.store.0.statistics().objects.saturating_sub(2)
    }

    /// Lists contents by pages: at most `count` after a position, and the next position. `None` at the end.
    ///
    /// # Errors
    /// [`Error::Io`] when they cannot be read.
    pub async fn list(&self, after: Cookie, count: usize) -> Result<(Listing, Option<Cookie>)> {
        let who = Credentials::root();
        let store = &self.store.0;
        let page = store.read_directory(&who, self.contents, after, count);
        let page = page.await?;
        let mut listing = Listing::default();
        for entry in &page.entries {
            if let Some(contents) = parse_name(entry.name.as_bytes()) {
                let fenced = self.fenced(contents)?;
                let generation = fenced.map_or(Generation::FIRST, |fenced| fenced.generation);
                listing.0.push((contents, generation));
            }
        }
        let last = page.entries.last().map(|entry| entry.cookie);
        Ok((listing, last.filter(|_| !page.end)))
    }

    /// Whether stable storage has failed, so that nothing more can be promised.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.store.0.statistics().failed
    }

    /// Puts everything on stable storage.
    ///
    /// # Errors
    /// When that fails.
    pub async fn sync(&self) -> Result<()> {
        self.store.0.sync().await
    }

    /// Notes that contents are damaged, so that reads fail, and what an intent cuts off is not checked: the disk has changed a block at its edge, or
    /// cannot read it, and the home must not wait for ever.
    ///
    /// # Errors
    /// While the contents are written, and when storage fails.
    pub(crate) async fn note_damaged(&self, contents: ContentsId) -> Result<()> {
        let store = &self.store.0;
        let file = self.find(contents).await?.ok_or(Error::Stale)?;
        store.sync().await?;
        let version = store.attributes(file).await?.change;
        match store.note_damaged(file, version, false).await? {
            true => Ok(()),
            false => Err(Error::Delay),
        }
    }

    /// Carries out an act. Returns the end that the contents should have, if there is no space for it.
    async fn act(&self, contents: ContentsId, act: Act) -> Result<Option<u64>> {
        let (store, who) = (&self.store.0, Credentials::root());
        let access = AccessCheck::Open(&who);
        match act {
            Act::Fence => {}
            Act::Truncate(size) => {
                let set = SetAttributes {
                    size: Some(size),
                    ..SetAttributes::default()
                };
                let resized = match self.find(contents).await? {
                    None if size == 0 => return Ok(None),
                    None => match self.find_or_make(contents).await {
                        Ok(file) => store.set_attributes(access, file, &set).await,
                        Err(error) => Err(error),
                    },
                    Some(file) => store.set_attributes(access, file, &set).await,
                };
                match resized {
                    Ok(_) => {}
                    // A missing enlargement is acceptable only if nothing must be cut.
                    Err(Error::NoSpace) if self.size(contents).await? <= size => {
                        return Ok(Some(size));
                    }
                    Err(error) => return Err(error),
                }
            }
            Act::Punch(extent) => {
                if let Some(file) = self.find(contents).await? {
                    store.deallocate(access, file, extent).await?;
                }
            }
            Act::Remove => {
                let name = name_of(contents)?;
                match store.remove(&who, self.contents, &name).await {
                    Ok(_) | Err(Error::NotFound) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(None)
    }

    async fn find(&self, contents: ContentsId) -> Result<Option<ObjectId>> {
        let (who, name) = (Credentials::root(), name_of(contents)?);
        match self.store.0.lookup(&who, self.contents, &name).await {
            Ok(found) => Ok(Some(found.id)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn find_or_make(&self, contents: ContentsId) -> Result<ObjectId> {
        if let Some(file) = self.find(contents).await? {
            return Ok(file);
        }
        let (who, new) = (Credentials::root(), NewObject::File(Creation::Unchecked));
        let (name, set) = (name_of(contents)?, SetAttributes::default());
        let made = self.store.0.create(&who, self.contents, &name, new, &set);
        Ok(made.await?.attributes.id)
    }

    /// Differs from the verifier of every other data server and of every other run of this one (rule 9).
    fn verifier(&self) -> WriteVerifier {
        let identity = (self.identity >> 64) as u64 ^ self.identity as u64;
        WriteVerifier((identity ^ self.run).to_be_bytes())
    }
}

fn name_of(contents: ContentsId) -> Result<Name> {
    let ContentsId { object, placement } = contents;
    let name = format!("{:016x}.{:08x}", object.as_u64(), placement.0);
    Ok(Name::new(name.into_bytes())?)
}

/// The contents that a file of this name has.
fn parse_name(name: &[u8]) -> Option<ContentsId> {
    let (object, placement) = std::str::from_utf8(name).ok()?.split_once('.')?;
    Some(ContentsId {
        object: ObjectId::from_u64(u64::from_str_radix(object, 16).ok()?),
        placement: PlacementNumber(u32::from_str_radix(placement, 16).ok()?),
    })
}

async fn directory_in(store: &Store, name: &str) -> Result<ObjectId> {
    let (who, name) = (Credentials::root(), Name::new(name.as_bytes().to_vec())?);
    let (new, set) = (
        NewObject::Plain(ObjectKind::Directory),
        SetAttributes::default(),
    );
    let made = store.create(&who, ObjectId::ROOT, &name, new, &set);
    match made.await {
        Ok(made) => Ok(made.attributes.id),
        Err(Error::Exists) => Ok(store.lookup(&who, ObjectId::ROOT, &name).await?.id),
        Err(error) => Err(error),
    }
}

/// Puts facts on stable storage.
async fn put(store: &Store, rows: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Result<()> {
    let ticket = store.put_facts(rows).await?;
    store.wait_stable(ticket).await
}

fn fenced_key(contents: ContentsId) -> Vec<u8> {
    key_of(FENCED, contents)
}

fn key_of(prefix: &[u8], contents: ContentsId) -> Vec<u8> {
    let ContentsId { object, placement } = contents;
    let (object, placement) = (object.as_u64().to_be_bytes(), placement.0.to_be_bytes());
    [prefix, &object, &placement].concat()
}

fn removed_key((home, key): (HomeNumber, KeyNumber), contents: ContentsId) -> Vec<u8> {
    let ContentsId { object, placement } = contents;
    let (home, key) = (home.0.to_be_bytes(), key.0.to_be_bytes());
    let (object, placement) = (object.as_u64().to_be_bytes(), placement.0.to_be_bytes());
    [REMOVED, &home, &key, &object, &placement].concat()
}

fn parse_removed(row: &[u8], home: HomeNumber) -> Option<(KeyNumber, ContentsId)> {
    let rest = row.strip_prefix(REMOVED)?;
    let (key, rest) = (rest.strip_prefix(&home.0.to_be_bytes())?).split_first_chunk()?;
    let (object, placement) = rest.split_first_chunk()?;
    let contents = ContentsId {
        object: ObjectId::from_u64(u64::from_be_bytes(*object)),
        placement: PlacementNumber(u32::from_be_bytes(placement.try_into().ok()?)),
    };
    Some((KeyNumber(u32::from_be_bytes(*key)), contents))
}

fn encode_fenced(fenced: Fenced) -> Vec<u8> {
    let (generation, through) = (fenced.generation.0, fenced.through.0);
    let removed = [u8::from(fenced.removed)];
    [
        &generation.to_be_bytes()[..],
        &through.to_be_bytes(),
        &removed,
    ]
    .concat()
}

fn parse_fenced(row: &[u8]) -> Option<Fenced> {
    let (generation, rest) = row.split_first_chunk()?;
    let (through, removed) = rest.split_first_chunk()?;
    Some(Fenced {
        generation: Generation(u64::from_be_bytes(*generation)),
        through: IntentNumber(u64::from_be_bytes(*through)),
        removed: match removed {
            [0] => false,
            [1] => true,
            _ => return None,
        },
    })
}

/// See [`crate::decode_as_anything`].
pub(crate) fn decode_as_anything(bytes: &[u8]) {
    counters::decode_as_anything(bytes);
    if let Some((key, contents)) = parse_removed(bytes, HomeNumber(1)) {
        assert_eq!(removed_key((HomeNumber(1), key), contents), bytes);
    }
    if let Some(fenced) = parse_fenced(bytes) {
        assert_eq!(encode_fenced(fenced), bytes, "{fenced:?}");
    }
}

fn random<const BYTES: usize>() -> std::result::Result<[u8; BYTES], ShelfError> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(ShelfError::Random)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tombstones_are_in_the_order_of_their_keys() {
        let contents = |object| ContentsId {
            object: ObjectId::from_u64(object),
            placement: PlacementNumber(1),
        };
        let row = |home, key, object| {
            let of = (HomeNumber(home), KeyNumber(key));
            removed_key(of, contents(object))
        };
        let rows = [row(1, 2, 9), row(1, 256, 3), row(1, 257, 1), row(2, 1, 1)];
        assert!(rows.is_sorted());
        let parsed = parse_removed(&rows[1], HomeNumber(1));
        assert_eq!(parsed, Some((KeyNumber(256), contents(3))));
        assert_eq!(parse_removed(&rows[1], HomeNumber(2)), None);
        assert_eq!(parse_removed(&rows[1][..25], HomeNumber(1)), None);
    }

    #[test]
    fn what_was_fenced_is_read_as_it_was_noted_and_nothing_else_is() {
        for removed in [false, true] {
            let fenced = Fenced {
                generation: Generation(u64::MAX - 9),
                through: IntentNumber(7),
                removed,
            };
            let row = encode_fenced(fenced);
            assert_eq!(parse_fenced(&row), Some(fenced));
            assert_eq!(parse_fenced(&row[..16]), None);
            assert_eq!(parse_fenced(&[&row[..16], &[2]].concat()), None);
            assert_eq!(parse_fenced(&[&row[..], &[0]].concat()), None);
        }
    }
}

//! What a data server keeps: contents, fences, and the numbers by which a metadata server recognises it.

use std::path::Path;

use bytes::Bytes;
use pool::{Act, ContentsId, Generation, Report};
use store::{NewStore, Store, StoreError, StoreOptions};
use vfs::{
    AccessCheck, Commitment, Creation, Credentials, Error, FileSystem, Name, NewObject, ObjectId,
    ObjectKind, Result, SetAttributes, Stability, WriteVerifier, Written,
};

use crate::fences::{Fence, Fences};
use crate::guards::Guards;

/// Which contents a data server has (rule 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Drawn at random when the shelf was made.
    pub identity: u128,
    /// How often this was asked for, stably: an older copy of the shelf shows a smaller one.
    pub counter: u64,
}

/// What came of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// It is carried out, stably, and this is what there is now.
    Done(Report),
    /// It had been carried out before, or something newer: nothing was done.
    Before(Report),
}

/// Why a shelf cannot be used. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// Its store cannot be opened or made.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something of it cannot be read or written.
    #[error("cannot read what the data server keeps: {0}; check the disk, or run `meridian check`")]
    Content(#[from] Error),
    /// The file that names it is not as it was written.
    #[error(
        "the file `standing` of the data server is damaged, so nobody can tell whose contents these are; restore the whole data directory from one backup"
    )]
    Standing,
    /// No random numbers are to be had.
    #[error("the system gives no random numbers: {0}; check /dev/urandom")]
    Random(getrandom::Error),
}

/// Contents, fences and standing of one data server, in a store of its own. Each contents has up to two names there, in a
/// directory of contents and in one of fences.
#[derive(Debug)]
pub struct Shelf {
    store: Kept,
    /// Directory of contents.
    contents: ObjectId,
    standing_file: ObjectId,
    identity: u128,
    counter: tokio::sync::Mutex<u64>,
    fences: Fences,
    guards: Guards,
    run: u64,
}

/// A store, which shows nothing of itself.
struct Kept(Store);

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

/// Of contents that nobody has fenced.
const FIRST_GENERATION: Generation = Generation(1);

const CONTENTS: &str = "contents";
const FENCES: &str = "fences";
const STANDING: &str = "standing";
/// Identity (16) and counter (8).
const STANDING_BYTES: u32 = 24;

impl Shelf {
    /// Opens the shelf in a directory, or makes a new, empty one where there is none.
    ///
    /// # Errors
    /// [`ShelfError`], each with what to do next.
    pub async fn open_or_make(directory: &Path) -> std::result::Result<Shelf, ShelfError> {
        let options = StoreOptions::new(directory);
        let opened = tokio::task::spawn_blocking(move || {
            Store::open_or_create(&options, &NewStore::default())
        });
        let opened = opened.await;
        let store = opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
        let contents = directory_in(&store, CONTENTS).await?;
        let fences = directory_in(&store, FENCES).await?;
        let (standing_file, standing) = standing_in(&store).await?;
        let run = store.commit(standing_file, 0, 0).await?.verifier;
        Ok(Shelf {
            fences: Fences::new(fences),
            store: Kept(store),
            contents,
            standing_file,
            identity: standing.identity,
            counter: tokio::sync::Mutex::new(standing.counter),
            guards: Guards::default(),
            run: u64::from_be_bytes(run.0),
        })
    }

    /// What to show a home, under a larger counter than ever before.
    ///
    /// # Errors
    /// When the counter cannot be made stable.
    pub async fn next_standing(&self) -> Result<Standing> {
        let mut counter = self.counter.lock().await;
        let standing = Standing {
            identity: self.identity,
            counter: *counter + 1,
        };
        put_standing(&self.store.0, self.standing_file, standing).await?;
        *counter = standing.counter;
        Ok(standing)
    }

    /// Bytes from `offset` on, if handles of this generation count. Holes are zeros; `None` where the contents have ended.
    ///
    /// # Errors
    /// [`Error::Stale`] when they do not count.
    pub async fn read(
        &self,
        contents: ContentsId,
        generation: Generation,
        (offset, count): (u64, u32),
    ) -> Result<Option<Bytes>> {
        let _begun = self.begin(contents, generation).await?;
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

    /// Writes, if handles of this generation count.
    ///
    /// # Errors
    /// [`Error::Stale`] when they do not, [`Error::NoSpace`], [`Error::TooLarge`], [`Error::Io`].
    pub async fn write(
        &self,
        contents: ContentsId,
        generation: Generation,
        (offset, data): (u64, Bytes),
        stability: Stability,
    ) -> Result<Written> {
        let _begun = self.begin(contents, generation).await?;
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

    /// Makes what was written stable, if handles of this generation count.
    ///
    /// # Errors
    /// [`Error::Stale`] when they do not.
    pub async fn commit(&self, contents: ContentsId, generation: Generation) -> Result<Commitment> {
        let _begun = self.begin(contents, generation).await?;
        self.settle(contents).await?;
        Ok(Commitment {
            verifier: self.verifier(),
        })
    }

    /// Where the contents end, and what they take up, if handles of this generation count.
    ///
    /// # Errors
    /// [`Error::Stale`] when they do not.
    pub async fn extent(&self, contents: ContentsId, generation: Generation) -> Result<(u64, u64)> {
        let _begun = self.begin(contents, generation).await?;
        match self.find(contents).await? {
            Some(file) => {
                let attributes = self.store.0.attributes(file).await?;
                Ok((attributes.size, attributes.space_used))
            }
            None => Ok((0, 0)),
        }
    }

    /// Whether handles of this generation count now.
    ///
    /// # Errors
    /// [`Error::Io`] when that cannot be told.
    pub async fn counts(&self, contents: ContentsId, generation: Generation) -> Result<bool> {
        Ok(match self.fences.of(&self.store.0, contents).await? {
            Some(fence) => !fence.removed && fence.generation == generation,
            None => generation == FIRST_GENERATION,
        })
    }

    /// From now on only handles of this generation count, and with that, stably, something is done to the contents. Waits for
    /// reads and writes that have begun. What comes once more is not done once more, so that nothing is cut that was written since.
    ///
    /// # Errors
    /// When it cannot be made stable; it may be done in part then, and has to be asked for again before anything is served.
    pub async fn raise(
        &self,
        contents: ContentsId,
        generation: Generation,
        act: Act,
    ) -> Result<Raised> {
        let _alone = self.guards.exclude(contents).await;
        let before = self.fences.of(&self.store.0, contents).await?;
        let is_done = before.is_some_and(|fence| {
            fence.removed || (fence.generation >= generation && act != Act::Remove)
        });
        if is_done {
            return Ok(Raised::Before(self.report_alone(contents).await?));
        }
        // The act comes first: where a crash comes between, the old generation stands, and all of it is asked for again.
        self.carry_out(contents, act).await?;
        self.settle(contents).await?;
        let fence = Fence {
            generation: before.map_or(generation, |fence| fence.generation.max(generation)),
            removed: act == Act::Remove,
        };
        self.fences.raise(&self.store.0, contents, fence).await?;
        Ok(Raised::Done(self.report_alone(contents).await?))
    }

    /// What there is of some contents, stably, once reads and writes that have begun are finished.
    ///
    /// # Errors
    /// When it cannot be made stable.
    pub async fn report(&self, contents: ContentsId) -> Result<Report> {
        let _alone = self.guards.exclude(contents).await;
        self.settle(contents).await?;
        self.report_alone(contents).await
    }

    /// Puts everything on stable storage.
    ///
    /// # Errors
    /// When that fails.
    pub async fn sync(&self) -> Result<()> {
        self.store.0.sync().await
    }

    async fn carry_out(&self, contents: ContentsId, act: Act) -> Result<()> {
        let (store, who) = (&self.store.0, Credentials::root());
        let access = AccessCheck::Open(&who);
        match act {
            Act::Fence => {}
            Act::Truncate(size) => {
                let file = match size {
                    0 => self.find(contents).await?,
                    _ => Some(self.find_or_make(contents).await?),
                };
                let set = SetAttributes {
                    size: Some(size),
                    ..SetAttributes::default()
                };
                if let Some(file) = file {
                    store.set_attributes(access, file, &set).await?;
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
        Ok(())
    }

    async fn report_alone(&self, contents: ContentsId) -> Result<Report> {
        let (end, writes) = match self.find(contents).await? {
            Some(file) => {
                let attributes = self.store.0.attributes(file).await?;
                (attributes.size, attributes.change.0)
            }
            None => (0, 0),
        };
        Ok(Report {
            end,
            run: self.run,
            writes,
        })
    }

    async fn settle(&self, contents: ContentsId) -> Result<()> {
        match self.find(contents).await? {
            Some(file) => self.store.0.commit(file, 0, 0).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Judges a generation and holds off whoever would change what it is worth.
    async fn begin(
        &self,
        contents: ContentsId,
        generation: Generation,
    ) -> Result<tokio::sync::OwnedRwLockReadGuard<()>> {
        let begun = self.guards.share(contents).await;
        match self.counts(contents, generation).await? {
            true => Ok(begun),
            false => Err(Error::Stale),
        }
    }

    async fn find(&self, contents: ContentsId) -> Result<Option<ObjectId>> {
        find_in(&self.store.0, self.contents, &name_of(contents)?).await
    }

    async fn find_or_make(&self, contents: ContentsId) -> Result<ObjectId> {
        match self.find(contents).await? {
            Some(file) => Ok(file),
            None => file_in(&self.store.0, self.contents, &name_of(contents)?).await,
        }
    }

    /// Differs from that of every other data server and every other run of this one (rule 9).
    fn verifier(&self) -> WriteVerifier {
        let identity = (self.identity >> 64) as u64 ^ self.identity as u64;
        WriteVerifier((identity ^ self.run).to_be_bytes())
    }
}

/// The object under a name.
pub(crate) async fn find_in(
    store: &Store,
    directory: ObjectId,
    name: &Name,
) -> Result<Option<ObjectId>> {
    match store.lookup(&Credentials::root(), directory, name).await {
        Ok(found) => Ok(Some(found.id)),
        Err(Error::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn name_of(contents: ContentsId) -> Result<Name> {
    let ContentsId { object, placement } = contents;
    let name = format!("{:016x}.{:08x}", object.as_u64(), placement.0);
    Ok(Name::new(name.into_bytes())?)
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

pub(crate) async fn file_in(store: &Store, directory: ObjectId, name: &Name) -> Result<ObjectId> {
    let (who, new) = (Credentials::root(), NewObject::File(Creation::Unchecked));
    let set = SetAttributes::default();
    let made = store.create(&who, directory, name, new, &set);
    Ok(made.await?.attributes.id)
}

/// The file, and what it says. A new one is written before anything else is done.
async fn standing_in(store: &Store) -> std::result::Result<(ObjectId, Standing), ShelfError> {
    let (who, name) = (
        Credentials::root(),
        Name::new(STANDING).map_err(Error::from)?,
    );
    let file = file_in(store, ObjectId::ROOT, &name).await?;
    let read = store.read(AccessCheck::Open(&who), file, 0, STANDING_BYTES + 1);
    let read = read.await?.bytes;
    if let Some(standing) = parse_standing(&read) {
        return Ok((file, standing));
    }
    if !read.is_empty() {
        return Err(ShelfError::Standing);
    }
    let mut identity = [0; 16];
    getrandom::fill(&mut identity).map_err(ShelfError::Random)?;
    let standing = Standing {
        identity: u128::from_be_bytes(identity),
        counter: 0,
    };
    put_standing(store, file, standing).await?;
    Ok((file, standing))
}

fn parse_standing(bytes: &[u8]) -> Option<Standing> {
    let (identity, counter) = bytes.split_at_checked(16)?;
    Some(Standing {
        identity: u128::from_be_bytes(identity.try_into().ok()?),
        counter: u64::from_be_bytes(counter.try_into().ok()?),
    })
}

async fn put_standing(store: &Store, file: ObjectId, standing: Standing) -> Result<()> {
    let (identity, counter) = (
        standing.identity.to_be_bytes(),
        standing.counter.to_be_bytes(),
    );
    let bytes = Bytes::from([&identity[..], &counter].concat());
    let who = Credentials::root();
    let written = store.write(AccessCheck::Open(&who), file, 0, bytes, Stability::File);
    written.await.map(|_| ())
}

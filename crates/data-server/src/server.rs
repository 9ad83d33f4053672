//! Judges handles (rule 3) and does what they are good for.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use nfs4_server::{ContentsExtent, NotServed};
use pool::{Access, Capability, ContentsId, DataServerNumber, HandleKeys, HomeNumber, IssueNumber};
use throttle::Throttle;
use vfs::{Commitment, Error, Stability, Written};

use crate::shelf::Shelf;

/// What is told of contents that cannot be read or written, once and then in sums.
static REFUSALS: Throttle = Throttle::new();

/// What a data server knows of a home.
#[derive(Clone, Debug)]
pub struct HomeSide {
    /// Handles of another issue number are worth nothing.
    pub issue: IssueNumber,
    /// What its handles are sealed with.
    pub keys: HandleKeys,
}

/// A data server: whoever shows a handle that a home has sealed for it may do with its contents what the handle is good for.
#[derive(Debug)]
pub struct DataServer {
    number: DataServerNumber,
    shelf: Arc<Shelf>,
    homes: RwLock<HashMap<HomeNumber, HomeSide>>,
}

impl DataServer {
    /// A data server that answers for no home yet.
    #[must_use]
    pub fn new(number: DataServerNumber, shelf: Arc<Shelf>) -> DataServer {
        DataServer {
            number,
            shelf,
            homes: RwLock::default(),
        }
    }

    /// From now on it answers for a home, to handles of this issue number.
    pub fn answer_for(&self, home: HomeNumber, side: HomeSide) {
        let mut homes = self.homes.write().unwrap_or_else(PoisonError::into_inner);
        homes.insert(home, side);
    }

    /// From now on it answers to no handle of a home.
    pub fn answer_no_more_for(&self, home: HomeNumber) {
        let mut homes = self.homes.write().unwrap_or_else(PoisonError::into_inner);
        homes.remove(&home);
    }

    /// What a handle says, if its seal is good and its home has not fenced everything since.
    fn open(&self, handle: &[u8]) -> Result<(ContentsId, Capability), NotServed> {
        let homes = self.homes.read().unwrap_or_else(PoisonError::into_inner);
        let keys = |home| homes.get(&home).map(|side| &side.keys);
        let opened = Capability::open(handle, self.number, keys);
        let capability = opened.map_err(|_| NotServed::Stale)?;
        let issue = homes.get(&capability.home).map(|side| side.issue);
        let contents = ContentsId {
            object: capability.object,
            placement: capability.placement,
        };
        match issue == Some(capability.issue) {
            true => Ok((contents, capability)),
            false => Err(NotServed::Stale),
        }
    }

    /// An answer counts only if the home has not fenced everything while it was made.
    fn answer<T>(&self, handle: &[u8], done: vfs::Result<T>) -> Result<T, NotServed> {
        self.open(handle)?;
        done.map_err(|error| {
            if error != Error::Stale {
                let sum = REFUSALS.failed(("contents are not served", 0), Instant::now());
                if let Some(sum) = sum {
                    tracing::warn!(%error, %sum, "contents are not served; their client asks the metadata server");
                }
            }
            NotServed::Stale
        })
    }
}

#[async_trait]
impl nfs4_server::DataServer for DataServer {
    async fn check(&self, handle: &[u8]) -> Result<(), NotServed> {
        let (contents, capability) = self.open(handle)?;
        match self.shelf.counts(contents, capability.generation).await {
            Ok(true) => Ok(()),
            counts => self.answer(handle, counts.and(Err(Error::Stale))),
        }
    }

    async fn read(&self, handle: &[u8], offset: u64, count: u32) -> Result<Bytes, NotServed> {
        let (contents, capability) = self.open(handle)?;
        let range = (offset, count);
        let read = self.shelf.read(contents, capability.generation, range);
        let read = read.await;
        self.answer(handle, read)?.ok_or(NotServed::Hole)
    }

    async fn write(
        &self,
        handle: &[u8],
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written, NotServed> {
        let (contents, capability) = self.open(handle)?;
        if capability.access != Access::ReadWrite {
            return Err(NotServed::Stale);
        }
        let bytes = (offset, data);
        let written = self
            .shelf
            .write(contents, capability.generation, bytes, stability);
        let written = written.await;
        self.answer(handle, written)
    }

    async fn commit(&self, handle: &[u8]) -> Result<Commitment, NotServed> {
        let (contents, capability) = self.open(handle)?;
        let done = self.shelf.commit(contents, capability.generation).await;
        self.answer(handle, done)
    }

    async fn extent(&self, handle: &[u8]) -> Result<ContentsExtent, NotServed> {
        let (contents, capability) = self.open(handle)?;
        let found = self.shelf.extent(contents, capability.generation).await;
        let (end, space_used) = self.answer(handle, found)?;
        Ok(ContentsExtent { end, space_used })
    }
}

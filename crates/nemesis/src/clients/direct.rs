//! A client that reads and writes at data servers by layouts (RFC 8881, chapter 13). It supports only files whose pieces lie within one stripe
//! unit each. Without a layout, or if a data server fails, it goes through the metadata server, as Linux does.
//!
//! What must never enter: what is read and written.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use nfs4::{LayoutIomode4, NfsFh4, StableHow4, Stateid4, Verifier4};
use nfs4_client::{Client, Error, OpenFile, Striped};

use super::Worker;
use super::answers::within;

/// The time limit of a request to a data server.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// A file with a layout, and with sessions to all its data servers.
#[derive(Debug)]
pub(super) struct Direct(Striped);

/// Why a data server did not carry a request out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undone {
    /// It refused.
    Refused,
    /// It did not answer.
    Lost,
}

impl Undone {
    fn from(error: &Error) -> Undone {
        match error {
            Error::Status { .. } | Error::Unexpected(_) => Undone::Refused,
            _ => Undone::Lost,
        }
    }
}

/// The answer of a data server, within the time limit.
async fn asked<T>(asking: impl Future<Output = Result<T, Error>>) -> Result<T, Undone> {
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    let answer = answer.map_err(|_| Undone::Lost)?;
    answer.map_err(|error| Undone::from(&error))
}

impl Direct {
    pub(super) fn stateid(&self) -> Stateid4 {
        self.0.stateid
    }

    pub(super) async fn read(&self, offset: u64, count: u32) -> Result<Bytes, Undone> {
        let read = asked(self.0.read(offset, count)).await;
        read.map(|read| read.data)
    }

    /// Writes all bytes, stably or under a verifier.
    pub(super) async fn write(
        &self,
        offset: u64,
        bytes: Bytes,
        how: StableHow4,
    ) -> Result<Verifier4, Undone> {
        let length = bytes.len();
        let written = asked(self.0.write(offset, bytes, how)).await?;
        match written.count as usize == length {
            true => Ok(written.writeverf),
            false => Err(Undone::Refused),
        }
    }

    /// The same, and makes it stable.
    pub(super) async fn write_stably(
        &self,
        offset: u64,
        bytes: Bytes,
        commits: bool,
    ) -> Result<(), Undone> {
        if !commits {
            let written = self.write(offset, bytes, StableHow4::FileSync);
            return written.await.map(drop);
        }
        let written = self.write(offset, bytes, StableHow4::Unstable).await?;
        let committed = asked(self.0.commit()).await?;
        let there = (self.0.server_at(offset), written);
        match committed.contains(&there) {
            true => Ok(()),
            false => Err(Undone::Refused),
        }
    }

    /// The same with handles that no server has made: one bit is flipped.
    pub(super) fn forged(self, bit: u64) -> Direct {
        let forge = |handle: &NfsFh4| {
            let mut bytes = handle.0.to_vec();
            let bit = bit as usize % (bytes.len() * 8).max(1);
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            NfsFh4(bytes.into())
        };
        Direct(self.0.with_handles(forge))
    }
}

impl Worker {
    /// A layout of an open file; `None` if the client goes through the metadata server.
    pub(super) async fn direct(
        &mut self,
        client: &Client,
        file: &OpenFile,
        mode: LayoutIomode4,
    ) -> Option<Direct> {
        let got = within(client.layout(&file.handle, file.stateid, mode)).await;
        let (got, layout) = got.ok()?;
        let layout = (got.stateid, layout);
        let reached = Striped::by(layout, client, file, &self.data_servers);
        let reached = asked(reached).await;
        if reached.is_err() {
            self.give_back(client, file, got.stateid).await;
        }
        reached.ok().map(Direct)
    }

    /// Counts requests done at a data server. After a request without an answer the next requests use new sessions.
    pub(super) async fn note<T>(&self, done: &Result<T, Undone>) {
        match done {
            Ok(_) => {
                self.common.direct.fetch_add(1, Ordering::Relaxed);
            }
            Err(Undone::Lost) => self.data_servers.forget().await,
            Err(Undone::Refused) => {}
        }
    }

    /// Returns layouts of a file, if the server still knows them.
    pub(super) async fn give_back(&self, client: &Client, file: &OpenFile, stateid: Stateid4) {
        // It may have been fenced, and the client's session may be gone; the next request shows that.
        let _ = within(client.return_layout(&file.handle, stateid)).await;
    }
}

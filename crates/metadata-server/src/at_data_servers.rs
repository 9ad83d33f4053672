//! Reads and writes of a home's files for this server's clients, at the data servers if the file is large.
//!
//! Small files go through the home, and so do small writes while there is no layout: a layout costs as much. The home is also asked where
//! data servers refuse.
//!
//! What must never enter: how layouts are kept.

use bytes::Bytes;
use vfs::{FileSystem, ObjectId, ReadData, Result, Stability, Written};

use crate::remote_tree::RemoteTree;

/// Smaller writes go through the home, unless still smaller files do not.
const WRITE_MIN: u64 = 1 << 16;

impl RemoteTree {
    /// Reads for a client that has the file open. `None`: the home must be asked.
    pub(crate) async fn read_directly(
        &self,
        clients: u64,
        file: ObjectId,
        (offset, count): (u64, u32),
    ) -> Option<ReadData> {
        let (servers, size_min) = self.direct.servers()?;
        let end = offset.checked_add(count.into())?;
        let size = self.attributes(file).await.ok()?.size;
        // The home says where the file ends.
        if size < *size_min || end > size {
            return None;
        }
        let held = self.own_layout(file, false, clients).await?;
        let read = servers.read(&held.layout, &held.device, offset, count);
        match read.await {
            Some(bytes) => Some(ReadData {
                bytes,
                end_of_file: end == size,
            }),
            None => {
                self.direct.did_not_serve(&held);
                None
            }
        }
    }

    /// Writes for a client that has the file open. `None`: the home must be asked, and no earlier write at the data servers can happen any
    /// more. What is written here is stable at once. The verifier is the home's all the same: clients compare it with that of other writes.
    pub(crate) async fn write_directly(
        &self,
        clients: u64,
        file: ObjectId,
        (offset, data): (u64, &Bytes),
    ) -> Result<Option<Written>> {
        self.direct.until_certain(file).await?;
        let Some((servers, size_min)) = self.direct.servers() else {
            return Ok(None);
        };
        let length = data.len() as u64;
        let Some(end) = offset.checked_add(length) else {
            return Ok(None);
        };
        let is_large = length >= WRITE_MIN.min(*size_min) && end >= *size_min;
        if !is_large {
            self.direct.until_answered(file).await;
            if !self.direct.is_for_writing(file) {
                return Ok(None);
            }
        }
        let Some(held) = self.own_layout(file, true, clients).await else {
            return Ok(None);
        };
        let verifier = match self.direct.verifier() {
            Some(known) => known,
            None => self.commit(file, 0, 0).await?.verifier,
        };
        if let Some(writing) = self.direct.begin(&held) {
            let write = servers.write(&held.layout, &held.device, offset, data.clone());
            if write.await {
                writing.done();
                return Ok(Some(Written {
                    // A request has 32 bits.
                    count: data.len() as u32,
                    stability: Stability::File,
                    verifier,
                    attributes: None,
                }));
            }
        }
        self.direct.until_certain(file).await?;
        Ok(None)
    }
}

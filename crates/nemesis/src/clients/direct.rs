//! A client that reads and writes at data servers by layouts (RFC 8881, chapter 13), as far as it takes for files whose pieces lie within a
//! stripe unit each. It goes through the metadata server where it has no layout, or a data server does not do its part, as Linux does.
//!
//! What must never enter: what is read and written.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use nfs4::callback::CbLayoutrecallArgs;
use nfs4::{
    ArgOp4, FileLayout4, LayoutIomode4, NfsFh4, NfsStat4, ResOp4, StableHow4, Stateid4, Verifier4,
};
use nfs4_client::{Callbacks, Client, OpenFile, ops};

use super::{Worker, within};

/// How long a data server is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// What a data server does not look at.
const ANY: Stateid4 = Stateid4 {
    seqid: 0,
    other: [0; 12],
};

/// The lower bits of a stripe unit are flags (RFC 8881, section 13.3).
const UNIT: u32 = !0x3f;

/// Gives layouts back soon, whoever asks for them: none is kept for longer than a few requests.
#[derive(Debug)]
pub(super) struct GivesBackSoon;

impl Callbacks for GivesBackSoon {
    fn recall_layout(&self, _: &CbLayoutrecallArgs) -> NfsStat4 {
        NfsStat4::Delay
    }
}

/// A file of which the client has a layout, with sessions to all its data servers.
#[derive(Debug, Clone)]
pub(super) struct Direct {
    pub(super) stateid: Stateid4,
    layout: FileLayout4,
    order: Vec<u32>,
    servers: Vec<Client>,
}

/// Why a data server did not do its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undone {
    /// It refused.
    Refused,
    /// It did not answer.
    Lost,
}

impl Direct {
    /// The data server that has the byte at an offset, and the handle of the file there.
    fn place(&self, offset: u64) -> Option<(&Client, &NfsFh4)> {
        let unit = u64::from(self.layout.util & UNIT).max(1);
        let stripe = offset / unit + u64::from(self.layout.first_stripe_index);
        let place = stripe % (self.order.len() as u64).max(1);
        let index = *self.order.get(place as usize)? as usize;
        Some((self.servers.get(index)?, self.layout.fh_list.get(index)?))
    }

    async fn ask(&self, offset: u64, operation: ArgOp4) -> Result<ResOp4, Undone> {
        let (server, handle) = self.place(offset).ok_or(Undone::Refused)?;
        let asking = server.compound(vec![ops::putfh(handle), operation]);
        match tokio::time::timeout(PATIENCE, asking).await {
            Ok(Ok(mut reply)) if reply.status.is_ok() => reply.results.pop().ok_or(Undone::Refused),
            Ok(Ok(_)) => Err(Undone::Refused),
            Ok(Err(_)) | Err(_) => Err(Undone::Lost),
        }
    }

    pub(super) async fn read(&self, offset: u64, count: u32) -> Result<Bytes, Undone> {
        match self.ask(offset, ops::read(ANY, offset, count)).await? {
            ResOp4::Read(Ok(read)) => Ok(read.data),
            _ => Err(Undone::Refused),
        }
    }

    /// Writes all of it, stably or under a verifier.
    pub(super) async fn write(
        &self,
        offset: u64,
        bytes: Bytes,
        how: StableHow4,
    ) -> Result<Verifier4, Undone> {
        let length = bytes.len();
        let write = ops::write(ANY, offset, how, bytes);
        match self.ask(offset, write).await? {
            ResOp4::Write(Ok(written)) if written.count as usize == length => Ok(written.writeverf),
            _ => Err(Undone::Refused),
        }
    }

    /// The same, and has it made stable.
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
        match self.ask(offset, ops::commit(0, 0)).await? {
            ResOp4::Commit(Ok(done)) if done.writeverf == written => Ok(()),
            _ => Err(Undone::Refused),
        }
    }

    /// The same with handles that no server has made: one bit is another.
    pub(super) fn forged(&self, bit: u64) -> Direct {
        let mut forged = self.clone();
        for handle in &mut forged.layout.fh_list {
            let mut bytes = handle.0.to_vec();
            let bit = bit as usize % (bytes.len() * 8).max(1);
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            handle.0 = bytes.into();
        }
        forged
    }
}

impl Worker {
    /// A layout of an open file; none where the client goes through the metadata server.
    pub(super) async fn direct(
        &mut self,
        client: &Client,
        file: &OpenFile,
        mode: LayoutIomode4,
    ) -> Option<Direct> {
        let got = within(client.layout(&file.handle, file.stateid, mode)).await;
        let (got, layout) = got.ok()?;
        let direct = self.reached(client, got.stateid, layout).await;
        if direct.is_none() {
            self.give_back(client, file, got.stateid).await;
        }
        direct
    }

    async fn reached(
        &mut self,
        client: &Client,
        stateid: Stateid4,
        layout: FileLayout4,
    ) -> Option<Direct> {
        let device = within(client.device(layout.deviceid)).await.ok()?;
        let mut servers = Vec::new();
        for addresses in &device.multipath_ds_list {
            let address = addresses.0.first()?.socket()?;
            servers.push(self.data_server(address).await?);
        }
        Some(Direct {
            stateid,
            layout,
            order: device.stripe_indices,
            servers,
        })
    }

    async fn data_server(&mut self, address: SocketAddr) -> Option<Client> {
        if let Some(known) = self.data_servers.get(&address) {
            return Some(known.clone());
        }
        self.generation += 1;
        let name = format!("nemesis {} {} of layouts", self.common.seed, self.number);
        let target = self.target.with_address(address);
        let connecting = target.client(&name, self.generation);
        let connected = tokio::time::timeout(PATIENCE, connecting).await;
        let client = connected.ok()?.ok()?;
        self.data_servers.insert(address, client.clone());
        Some(client)
    }

    /// Counts what was done at a data server. After a request without an answer the next ones get other sessions.
    pub(super) fn note<T>(&mut self, done: &Result<T, Undone>) {
        match done {
            Ok(_) => {
                self.common.direct.fetch_add(1, Ordering::Relaxed);
            }
            Err(Undone::Lost) => self.data_servers.clear(),
            Err(Undone::Refused) => {}
        }
    }

    /// Gives layouts of a file back, if the server still knows them.
    pub(super) async fn give_back(&self, client: &Client, file: &OpenFile, stateid: Stateid4) {
        // It may have been fenced, and the client's session may be gone; the next request tells.
        let _ = within(client.return_layout(&file.handle, stateid)).await;
    }
}

//! Requests as the Linux client makes them: the operations in one COMPOUND, and the reaction when the server
//! asks to retry later.
//!
//! What must never enter: when a request is made; the cache decides.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use nfs4::{
    ArgOp4, Attributes4, NfsFh4, NfsStat4, OpenClaim4, OpenResOk, ResOp4, StableHow4, Stateid4,
    access,
};
use nfs4_client::{Client, How, STAT, ops};

use super::work::Counts;

/// Linux's first and longest pauses after NFS4ERR_DELAY; each is twice as long as the one before
/// (`NFS4_POLL_RETRY_MIN` and `_MAX`).
const POLL_MIN: Duration = Duration::from_millis(100);
const POLL_MAX: Duration = Duration::from_secs(15);

/// The number of delays of a request that counts as a fault.
const DELAYS_MAX: u32 = 12;

/// The rights that every ACCESS asks for.
const RIGHTS: u32 = access::READ
    | access::LOOKUP
    | access::MODIFY
    | access::EXTEND
    | access::DELETE
    | access::EXECUTE;

/// A client whose requests are counted.
#[derive(Debug)]
pub(crate) struct Requests {
    client: Client,
    /// The counts so far.
    pub(crate) counts: Counts,
}

/// An object as a reply shows it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) handle: NfsFh4,
    pub(crate) attributes: Attributes4,
}

impl Requests {
    pub(crate) fn of(client: Client) -> Self {
        Self {
            client,
            counts: Counts::default(),
        }
    }

    /// The most data in one request, in bytes.
    pub(crate) fn io_max(&self) -> usize {
        self.client.io_max() as usize
    }

    /// The client itself, for requests that are not counted.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// LOOKUP; nothing if the name does not exist.
    pub(crate) async fn lookup(&mut self, directory: &NfsFh4, name: &str) -> Result<Option<Found>> {
        let request = vec![
            ops::putfh(directory),
            ops::lookup(name),
            ops::getfh(),
            ops::getattr(STAT),
        ];
        match self.ask(request).await? {
            Ok(results) => Ok(Some(found(&results)?)),
            Err(NfsStat4::NoEnt) => Ok(None),
            Err(status) => bail!("LOOKUP of {name} failed: {status}"),
        }
    }

    /// GETATTR.
    pub(crate) async fn attributes(&mut self, object: &NfsFh4) -> Result<Attributes4> {
        let request = vec![ops::putfh(object), ops::getattr(STAT)];
        attributes(&self.demand(request).await?)
    }

    /// OPEN by name, with ACCESS and GETATTR.
    pub(crate) async fn open(
        &mut self,
        directory: &NfsFh4,
        name: &str,
        how: &How,
    ) -> Result<(Found, Stateid4)> {
        let request = vec![
            ops::putfh(directory),
            how.operation(OpenClaim4::Null(name.into())),
            ops::getfh(),
            ops::access(RIGHTS),
            ops::getattr(STAT),
        ];
        let results = self.demand(request).await?;
        let opened = results.iter().find_map(|result| match result {
            ResOp4::Open(Ok(opened)) => Some(opened),
            _ => None,
        });
        let OpenResOk { stateid, .. } = opened.context("a reply to OPEN lacks its result")?;
        Ok((found(&results)?, *stateid))
    }

    /// CLOSE with GETATTR.
    pub(crate) async fn close(&mut self, file: &NfsFh4, stateid: Stateid4) -> Result<Attributes4> {
        let request = vec![ops::putfh(file), ops::getattr(STAT), ops::close(stateid)];
        attributes(&self.demand(request).await?)
    }

    /// One WRITE with GETATTR.
    pub(crate) async fn write(
        &mut self,
        file: &NfsFh4,
        stateid: Stateid4,
        offset: u64,
        data: bytes::Bytes,
        stable: StableHow4,
    ) -> Result<Attributes4> {
        let length = data.len();
        self.counts.written += length as u64;
        let request = vec![
            ops::putfh(file),
            ops::write(stateid, offset, stable, data),
            ops::getattr(STAT),
        ];
        let results = self.demand(request).await?;
        let taken = results.iter().find_map(|result| match result {
            ResOp4::Write(Ok(taken)) => Some(taken.count as usize),
            _ => None,
        });
        if taken != Some(length) {
            bail!("a WRITE of {length} bytes took {taken:?}");
        }
        attributes(&results)
    }

    /// Any request with one change at its end.
    pub(crate) async fn demand(&mut self, ops: Vec<ArgOp4>) -> Result<Vec<ResOp4>> {
        let names: Vec<u32> = ops.iter().map(ArgOp4::opnum).collect();
        match self.ask(ops).await? {
            Ok(results) => Ok(results),
            Err(status) => bail!("a request of operations {names:?} failed: {status}"),
        }
    }

    /// Sends a request, and repeats it while the server asks for that.
    async fn ask(&mut self, ops: Vec<ArgOp4>) -> Result<Result<Vec<ResOp4>, NfsStat4>> {
        let mut pause = POLL_MIN;
        for _ in 0..DELAYS_MAX {
            self.counts.requests += 1;
            let reply = self.client.compound(ops.clone()).await?;
            match reply.status {
                NfsStat4::Ok => return Ok(Ok(reply.results)),
                NfsStat4::Delay | NfsStat4::Grace => {}
                status => return Ok(Err(status)),
            }
            self.counts.delays += 1;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(POLL_MAX);
        }
        bail!("the server asked {DELAYS_MAX} times to come back later")
    }
}

pub(super) fn found(results: &[ResOp4]) -> Result<Found> {
    let handle = results.iter().find_map(|result| match result {
        ResOp4::Getfh(Ok(found)) => Some(found.object.clone()),
        _ => None,
    });
    Ok(Found {
        handle: handle.context("a reply lacks a handle")?,
        attributes: attributes(results)?,
    })
}

/// The attributes in a reply with GETATTR.
pub(crate) fn attributes(results: &[ResOp4]) -> Result<Attributes4> {
    let encoded = results.iter().find_map(|result| match result {
        ResOp4::Getattr(Ok(found)) => Some(&found.obj_attributes),
        _ => None,
    });
    let encoded = encoded.context("a reply lacks attributes")?;
    Ok(Attributes4::decode(encoded)?)
}

/// The attributes of a SETATTR of a size.
pub(super) fn of_size(size: u64) -> Attributes4 {
    Attributes4 {
        size: Some(size),
        ..Attributes4::default()
    }
}

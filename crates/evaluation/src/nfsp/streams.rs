//! Clients that read and write large files, each through one server or at the data servers themselves.
//!
//! What must never enter: the choice of servers, and the measurements.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::client::Target;
use bytes::Bytes;
use nfs4::{LayoutIomode4, NfsFh4, NfsStat4, Verifier4};
use nfs4_client::{Client, DataServers, Error as ClientError, How, OpenFile, StableHow4, Striped};
use tokio::task::JoinSet;

use super::bytes::{BLOCK, Contents};

/// The number of active requests of a client at one server.
pub(super) const DEPTH: usize = 4;

/// The same where clients write: a metadata server passes what it takes on to twelve data servers, and a few requests leave most of them idle.
pub(super) const DEPTH_WRITING: usize = 16;

/// The number of active requests of a client with pNFS for each data server: while one is answered, the next ones wait there, so that no server's card is
/// idle because its next client waits for another server.
pub(super) const DEPTH_OF_EACH: usize = 4;

/// The maximum delay of a request: in effect unlimited, like a client that has mounted `hard`.
const REQUEST_PATIENCE: Duration = Duration::from_secs(600);

/// How long a layout is requested again while the server says that it will soon be available, and a request repeated at a data server that has no lease at
/// the moment. It has none when the machine is too busy to renew it in time.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// A client with a tree mounted.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    client: Client,
    root: NfsFh4,
    /// Set if it reads and writes at the data servers.
    direct: Option<DataServers>,
}

/// An open file.
#[derive(Debug)]
enum Contact {
    Through(Client, OpenFile),
    Direct(Striped),
}

impl Stream {
    /// Connects to a server; it finds the data servers when it reads or writes.
    pub(super) async fn begin(target: &Target, is_direct: bool) -> Result<Self> {
        let (client, root) = target.client_with(REQUEST_PATIENCE).await?;
        let target = target.clone();
        let reach = move |address| {
            let target = Target {
                address,
                ..target.clone()
            };
            target.options()
        };
        Ok(Self {
            client,
            root,
            direct: is_direct.then(|| DataServers::reached(reach)),
        })
    }

    /// How often its server has delayed a request (`NFS4ERR_DELAY`).
    pub(super) fn times_put_off(&self) -> u64 {
        self.client.session().times_put_off()
    }

    /// Ends its sessions.
    pub(super) async fn end(self) -> Result<()> {
        if let Some(direct) = self.direct {
            direct.leave().await?;
        }
        Ok(self.client.leave().await?)
    }

    /// Reads a file of the root and compares it.
    pub(super) async fn read(&self, name: &str, contents: &Contents, size: u64) -> Result<()> {
        let file = self.client.open(&self.root, name, &How::read()).await?;
        let contact = Arc::new(self.contact(&file, LayoutIomode4::Read).await?);
        let reading = {
            let (contact, contents) = (Arc::clone(&contact), contents.clone());
            move |offset| {
                let (contact, contents) = (Arc::clone(&contact), contents.clone());
                async move {
                    let expected = contents.block(offset);
                    let read = contact.read_block(offset).await?;
                    ensure!(read == expected, "a file differs near byte {offset}");
                    Ok(())
                }
            }
        };
        for_each_block(size, contact.depth(DEPTH), reading).await?;
        self.give_back(&contact, &file).await?;
        Ok(self.client.close(&file).await?)
    }

    /// Writes a new file in the root, and returns when it is durable and closed.
    pub(super) async fn write(&self, name: &str, contents: &Contents, size: u64) -> Result<()> {
        let how = How::create_new(0o644);
        let file = self.client.open(&self.root, name, &how).await?;
        let contact = Arc::new(self.contact(&file, LayoutIomode4::ReadWrite).await?);
        let verifiers = Arc::new(Verifiers::default());
        let writing = {
            let (contact, contents) = (Arc::clone(&contact), contents.clone());
            let verifiers = Arc::clone(&verifiers);
            move |offset| {
                let (contact, data) = (Arc::clone(&contact), contents.block(offset));
                let verifiers = Arc::clone(&verifiers);
                async move { contact.write_block(offset, data, &verifiers).await }
            }
        };
        for_each_block(size, contact.depth(DEPTH_WRITING), writing).await?;
        match &*contact {
            Contact::Through(client, file) => {
                verifiers.note(0, client.commit(&file.handle, 0, 0).await?)?;
            }
            Contact::Direct(striped) => {
                for (server, verifier) in served(|| striped.commit()).await? {
                    verifiers.note(server, verifier)?;
                }
                let last = size.saturating_sub(1);
                let commit = self
                    .client
                    .commit_layout(&file.handle, striped.stateid, last);
                commit.await?;
            }
        }
        self.give_back(&contact, &file).await?;
        Ok(self.client.close(&file).await?)
    }

    /// Removes a file of the root.
    pub(super) async fn remove(&self, name: &str) -> Result<()> {
        Ok(self.client.remove(&self.root, name).await?)
    }

    async fn contact(&self, file: &OpenFile, mode: LayoutIomode4) -> Result<Contact> {
        let Some(known) = &self.direct else {
            return Ok(Contact::Through(self.client.clone(), file.clone()));
        };
        let began = Instant::now();
        loop {
            let soon = [
                NfsStat4::RecallConflict,
                NfsStat4::BadLayout,
                NfsStat4::LayoutTryLater,
            ];
            match Striped::open(&self.client, file, mode, known).await {
                Ok(striped) => return Ok(Contact::Direct(striped)),
                Err(error)
                    if error.status().is_some_and(|status| soon.contains(&status))
                        && began.elapsed() < PATIENCE =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error).context("no layout was given"),
            }
        }
    }

    async fn give_back(&self, contact: &Contact, file: &OpenFile) -> Result<()> {
        if let Contact::Direct(striped) = contact {
            self.client
                .return_layout(&file.handle, striped.stateid)
                .await?;
        }
        Ok(())
    }
}

impl Contact {
    /// The number of active requests; `through`: of one at a server.
    fn depth(&self, through: usize) -> usize {
        match self {
            Contact::Through(..) => through,
            Contact::Direct(striped) => through.max(DEPTH_OF_EACH * striped.width()),
        }
    }

    async fn read_block(&self, offset: u64) -> Result<Bytes> {
        let mut block = Vec::new();
        while (block.len() as u64) < BLOCK {
            let at = offset + block.len() as u64;
            let count = (BLOCK - block.len() as u64) as u32;
            let part = match self {
                Contact::Through(client, file) => client.read(file, at, count).await?,
                Contact::Direct(striped) => served(|| striped.read(at, count)).await?,
            };
            ensure!(!part.data.is_empty(), "a file ends at byte {at}");
            if block.is_empty() && part.data.len() as u64 == BLOCK {
                return Ok(part.data);
            }
            block.extend_from_slice(&part.data);
        }
        Ok(block.into())
    }

    async fn write_block(&self, offset: u64, data: Bytes, verifiers: &Verifiers) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let (at, part) = (offset + done as u64, data.slice(done..));
            let (server, written) = match self {
                Contact::Through(client, file) => {
                    let write = client.write(file, at, part, StableHow4::Unstable);
                    (0, write.await?)
                }
                Contact::Direct(striped) => {
                    let write = || striped.write(at, part.clone(), StableHow4::Unstable);
                    (striped.server_at(at), served(write).await?)
                }
            };
            ensure!(written.count > 0, "a server takes nothing at byte {at}");
            verifiers.note(server, written.writeverf)?;
            done += written.count as usize;
        }
        Ok(())
    }
}

/// Asks a data server until it serves the handle.
async fn served<T, F>(ask: impl Fn() -> F) -> std::result::Result<T, ClientError>
where
    F: Future<Output = std::result::Result<T, ClientError>>,
{
    let began = Instant::now();
    loop {
        match ask().await {
            Err(error) if error.status() == Some(NfsStat4::Stale) && began.elapsed() < PATIENCE => {
                tokio::time::sleep(PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// For each server, the verifier of its writes and of its commits.
#[derive(Debug, Default)]
struct Verifiers(Mutex<BTreeMap<usize, Verifier4>>);

impl Verifiers {
    /// Fails when a server was restarted meanwhile.
    fn note(&self, server: usize, verifier: Verifier4) -> Result<()> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = *known.entry(server).or_insert(verifier);
        ensure!(known == verifier, "a server was started anew");
        Ok(())
    }
}

/// Does the same with every block of a file, with this many active at once.
async fn for_each_block<F>(
    size: u64,
    depth: usize,
    work: impl Fn(u64) -> F + Clone + Send + 'static,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send,
{
    let next = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..depth {
        let (next, work) = (Arc::clone(&next), work.clone());
        workers.spawn(async move {
            loop {
                let offset = next.fetch_add(BLOCK, Ordering::Relaxed);
                if offset >= size {
                    return Ok::<(), anyhow::Error>(());
                }
                work(offset).await?;
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done??;
    }
    Ok(())
}

//! Files on an NFS server, as a client of one site reaches it.
//!
//! What must never enter: which server it is, and when files are written and read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::client::Target;
use bytes::Bytes;
use nfs4::{NfsFh4, NfsStat4};
use nfs4_client::{Client, How, OpenFile, STAT, StableHow4};
use tokio::task::JoinSet;

use super::material::{BLOCK, Checksum, Material};

/// The number of active requests while a file is written or read. At 120 ms they contain twice the capacity of a link of 1 Gbit/s.
const DEPTH: usize = 32;

/// The maximum delay of a request. A server with much to send to others makes its clients wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// The maximum time until another site sees a new directory.
const VISIBLE: Duration = Duration::from_secs(30);

/// A directory at one server, with a subdirectory for the files of each site, or one for the files of all.
#[derive(Debug, Clone)]
pub(crate) struct NfsFolder {
    client: Client,
    folders: Vec<NfsFh4>,
}

impl NfsFolder {
    /// Makes the directory with `count` subdirectories: one per site, or a single one.
    pub(crate) async fn make(target: &Target, name: &str, count: usize) -> Result<Self> {
        let (client, root) = target.client_with(PATIENCE).await?;
        let home = client.create_directory(&root, name, 0o755).await?;
        let mut folders = Vec::new();
        for site in 0..count {
            let own = site_name(site);
            folders.push(client.create_directory(&home, &*own, 0o755).await?);
        }
        Ok(Self { client, folders })
    }

    /// Finds it, perhaps at another site, once all of it is visible there.
    pub(crate) async fn find(target: &Target, name: &str, count: usize) -> Result<Self> {
        let (client, root) = target.client_with(PATIENCE).await?;
        let mut folders = Vec::new();
        for site in 0..count {
            let path = format!("{name}/{}", site_name(site));
            folders.push(appearing(&client, &root, &path).await?);
        }
        Ok(Self { client, folders })
    }

    /// The directory with the files of a site.
    fn folder(&self, site: usize) -> &NfsFh4 {
        &self.folders[site % self.folders.len()]
    }

    /// Writes a file and closes it, so that all of it is stable.
    pub(crate) async fn write(&self, site: usize, name: &str, material: Material) -> Result<()> {
        let create = How::create(0o644).by(name.to_owned());
        let file = self.client.open(self.folder(site), name, &create).await?;
        match material.blocks() {
            0 => {}
            1 => write_once(&self.client, &file, material.block(0)).await?,
            _ => {
                write_blocks(&self.client, &file, material).await?;
                self.client.commit(&file.handle, 0, 0).await?;
            }
        }
        Ok(self.client.close(&file).await?)
    }

    /// Whether there is a file of this name.
    pub(crate) async fn has(&self, site: usize, name: &str) -> Result<bool> {
        match self.client.lookup(self.folder(site), name).await {
            Ok(_) => Ok(true),
            Err(error) if error.status() == Some(NfsStat4::NoEnt) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a whole file, and returns its checksum.
    pub(crate) async fn read(&self, site: usize, name: &str) -> Result<Checksum> {
        let open = How::read().by(format!("{name} again"));
        let file = self.client.open(self.folder(site), name, &open).await?;
        let attributes = self.client.getattr(&file.handle, STAT).await?;
        let length = attributes.size.context("a file has no size")?;
        let crcs = read_blocks(&self.client, &file, length).await?;
        self.client.close(&file).await?;
        Ok(Checksum::of(length, crcs.into_iter()))
    }

    /// Removes the directory with everything in it, and ends the session.
    pub(crate) async fn remove(self, target: &Target, name: &str) -> Result<()> {
        let root = self.client.mount(&target.export).await?;
        let home = self.client.lookup(&root, name).await?;
        for (site, folder) in self.folders.iter().enumerate() {
            for entry in self.client.readdir(folder, STAT).await? {
                self.client.remove(folder, entry.name).await?;
            }
            self.client.remove(&home, &*site_name(site)).await?;
        }
        self.client.remove(&root, name).await?;
        self.leave().await
    }

    /// Ends the session.
    pub(crate) async fn leave(self) -> Result<()> {
        Ok(self.client.leave().await?)
    }
}

fn site_name(site: usize) -> String {
    format!("site-{site}")
}

/// An object made at another site, once it is visible here.
async fn appearing(client: &Client, root: &NfsFh4, path: &str) -> Result<NfsFh4> {
    let deadline = Instant::now() + VISIBLE;
    loop {
        match client.walk(root, path).await {
            Ok(found) => return Ok(found),
            Err(error) if error.status() != Some(NfsStat4::NoEnt) => return Err(error.into()),
            Err(_) if Instant::now() > deadline => bail!("{path} did not appear"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// A single WRITE FILE_SYNC, as Linux writes data that fits into one request; otherwise with a COMMIT.
async fn write_once(client: &Client, file: &OpenFile, data: Bytes) -> Result<()> {
    if data.len() > client.io_max() as usize {
        return Ok(client.write_all(file, 0, &data).await?);
    }
    let length = data.len();
    let written = client.write(file, 0, data, StableHow4::FileSync).await?;
    ensure!(written.count as usize == length, "a WRITE fell short");
    Ok(())
}

async fn write_blocks(client: &Client, file: &OpenFile, material: Material) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let mut writers = JoinSet::new();
    for _ in 0..DEPTH.min(material.blocks() as usize) {
        let (client, file, next) = (client.clone(), file.clone(), Arc::clone(&next));
        writers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= material.blocks() {
                    return Ok::<(), anyhow::Error>(());
                }
                let mut offset = number * BLOCK as u64;
                let mut data = material.block(number);
                while !data.is_empty() {
                    let part = data.split_to(data.len().min(client.io_max() as usize));
                    let length = part.len();
                    let written = client.write(&file, offset, part, StableHow4::Unstable);
                    ensure!(
                        written.await?.count as usize == length,
                        "a WRITE fell short"
                    );
                    offset += length as u64;
                }
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done??;
    }
    Ok(())
}

/// The CRC-32C of each block.
async fn read_blocks(client: &Client, file: &OpenFile, length: u64) -> Result<Vec<u32>> {
    let count = length.div_ceil(BLOCK as u64);
    let next = Arc::new(AtomicU64::new(0));
    let mut readers = JoinSet::new();
    for _ in 0..DEPTH.min(count as usize) {
        let (client, file, next) = (client.clone(), file.clone(), Arc::clone(&next));
        readers.spawn(async move {
            let mut found = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok::<_, anyhow::Error>(found);
                }
                let begin = number * BLOCK as u64;
                let end = length.min(begin + BLOCK as u64);
                found.push((number, read_block(&client, &file, begin, end).await?));
            }
        });
    }
    let mut crcs = vec![0; count as usize];
    while let Some(found) = readers.join_next().await {
        for (number, crc) in found?? {
            crcs[number as usize] = crc;
        }
    }
    Ok(crcs)
}

async fn read_block(client: &Client, file: &OpenFile, begin: u64, end: u64) -> Result<u32> {
    let (mut at, mut crc) = (begin, 0);
    while at < end {
        let wanted = (end - at).min(client.io_max().into()) as u32;
        let part = client.read(file, at, wanted).await?;
        ensure!(!part.data.is_empty(), "a file ends early, at byte {at}");
        crc = crc32c::crc32c_append(crc, &part.data);
        at += part.data.len() as u64;
    }
    Ok(crc)
}

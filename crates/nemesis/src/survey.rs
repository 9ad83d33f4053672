//! The whole tree as one server shows it, read when everything is quiet.
//!
//! What must never enter: comparison; see `check`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use nfs4::{Attr, Bitmap4, LayoutIomode4, NfsFh4, NfsFtype4, NfsStat4};
use nfs4_client::{Client, DataServers, How, OpenFile, STAT, Striped};

use crate::clients::content::{RECORD_SIZE, VALUE_SIZE, of_record, value_in};
use crate::clients::tree::{COUNTER_FILES, EXPORT, REGISTERS, REPLACED_NAMES, Tree, replaced_path};
use crate::clients::{Target, data_servers};
use crate::history::Seen;

/// How a tree is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Source {
    /// The number of the site.
    pub site: usize,
    /// Whether contents are read at data servers.
    pub by_layouts: bool,
}

impl Source {
    /// How the tree of a site is read if clients get these layouts there. With layouts for reading only, every file must have one,
    /// since no client writes any more.
    pub fn of(site: usize, layouts: Option<LayoutIomode4>) -> impl Iterator<Item = Self> {
        let has_all = layouts == Some(LayoutIomode4::Read);
        let ways = [false, true].into_iter();
        ways.filter(move |by_layouts| has_all || !by_layouts)
            .map(move |by_layouts| Self { site, by_layouts })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.by_layouts { " by layouts" } else { "" };
        write!(f, "{}{way}", self.site)
    }
}

/// The tree as a server shows it.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The site, and how it was read.
    pub site: Source,
    /// Everything, by its path below the export.
    pub objects: BTreeMap<String, Object>,
    /// The content of each register.
    pub registers: Vec<Option<Seen>>,
    /// The content of each replaced name.
    pub replaced: Vec<Option<Seen>>,
    /// The value of each counter.
    pub counters: Vec<Option<Seen>>,
    /// For each log: which records are as they were written.
    pub logs: Vec<Vec<bool>>,
}

/// A file or directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object {
    /// All attributes that are the same at every site.
    pub attributes: String,
    /// The checksum of a file's content.
    pub digest: Option<String>,
}

/// A file that is read, and what is recorded of it.
struct Content {
    digest: blake3::Hash,
    /// The first bytes: one byte more than a value has.
    head: Vec<u8>,
    /// Which records of a log are right.
    records: Vec<bool>,
}

impl Survey {
    /// Reads everything through the server of a site.
    pub async fn take(site: Source, target: &Target, tree: &Tree) -> Result<Self> {
        let owner = format!("survey {site}");
        let name = format!("{owner}, contents");
        let known = site.by_layouts.then(|| data_servers(target, name));
        let client = in_time(target.client(&owner, 1)).await?;
        let root = in_time(client.mount(EXPORT)).await?;
        let mut survey = Self {
            site,
            registers: vec![None; REGISTERS],
            replaced: vec![None; REPLACED_NAMES],
            counters: vec![None; COUNTER_FILES],
            logs: vec![Vec::new(); tree.logs.len()],
            ..Self::default()
        };
        let mut directories = vec![(root, String::new())];
        while let Some((directory, path)) = directories.pop() {
            let listed = client.readdir(&directory, Bitmap4::of(&[Attr::Type]));
            let entries = in_time(listed).await;
            for entry in entries.with_context(|| format!("could not list /{path}"))? {
                let name = String::from_utf8_lossy(&entry.name.0).into_owned();
                let path = match path.is_empty() {
                    true => name.clone(),
                    false => format!("{path}/{name}"),
                };
                let handle = in_time(client.lookup(&directory, entry.name)).await;
                let handle = handle.with_context(|| format!("could not find /{path}"))?;
                let client = (&client, known.as_ref());
                if survey.object(client, tree, &handle, &path).await? {
                    directories.push((handle, path));
                }
            }
        }
        if let Some(known) = known {
            in_time(known.leave()).await?;
        }
        in_time(client.leave()).await?;
        Ok(survey)
    }

    /// Takes an object in; true for a directory.
    async fn object(
        &mut self,
        (client, known): (&Client, Option<&DataServers>),
        tree: &Tree,
        handle: &NfsFh4,
        path: &str,
    ) -> Result<bool> {
        let attributes = in_time(client.getattr(handle, compared())).await?;
        let is_file = attributes.type_ == Some(NfsFtype4::Reg);
        let is_directory = attributes.type_ == Some(NfsFtype4::Dir);
        let mut object = Object {
            attributes: shown(&format!("{attributes:?}")),
            digest: None,
        };
        if is_file {
            let log = tree.logs.iter().position(|log| log.path == path);
            let size = attributes.size.unwrap_or_default();
            let content = in_time(async {
                let reading = Reading::open(client, known, handle, size).await?;
                read(reading, log).await
            });
            let content = content.await;
            let content = content.with_context(|| format!("could not read /{path}"))?;
            object.digest = Some(content.digest.to_string());
            self.keep(tree, path, log, content);
        }
        self.objects.insert(path.to_owned(), object);
        Ok(is_directory)
    }

    fn keep(&mut self, tree: &Tree, path: &str, log: Option<usize>, content: Content) {
        let seen = Some(value_in(&content.head));
        if let Some(log) = log {
            self.logs[log] = content.records;
        } else if let Some(number) = tree.registers.iter().position(|one| one.path == path) {
            self.registers[number] = seen;
        } else if let Some(number) = tree.counters.iter().position(|one| one.path == path) {
            self.counters[number] = seen;
        } else if let Some(number) = (0..REPLACED_NAMES).find(|&one| replaced_path(one) == path) {
            self.replaced[number] = seen;
        }
    }

    /// Whether a record of a log is as it was written.
    pub fn has_record(&self, log: usize, number: u64) -> bool {
        let records = self.logs.get(log);
        records.and_then(|records| records.get(number as usize)) == Some(&true)
    }
}

/// More than any step takes when everything is at rest; all steps together take longer the longer clients have worked.
const PATIENCE: Duration = Duration::from_secs(30);

async fn in_time<T, E: Into<anyhow::Error>>(
    step: impl Future<Output = std::result::Result<T, E>>,
) -> Result<T> {
    match tokio::time::timeout(PATIENCE, step).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => bail!("it takes longer than {PATIENCE:?}"),
    }
}

/// Attributes that are the same at every site: without the time when a copy was read, and the space that it takes.
fn compared() -> Bitmap4 {
    let mut attributes = STAT;
    attributes.remove(Attr::TimeAccess);
    attributes.remove(Attr::SpaceUsed);
    attributes
}

/// Without absent attributes.
fn shown(attributes: &str) -> String {
    let inner = attributes.trim_start_matches("Attributes4 { ");
    let parts = inner.split(", ").filter(|part| !part.ends_with(": None"));
    parts.collect::<Vec<_>>().join(", ")
}

/// The pause between two attempts to get a layout.
const AGAIN: Duration = Duration::from_millis(100);

/// An open file, which is read at data servers if it has any.
struct Reading<'c> {
    client: &'c Client,
    file: OpenFile,
    size: u64,
    there: Option<(Striped, &'c DataServers)>,
}

impl<'c> Reading<'c> {
    async fn open(
        client: &'c Client,
        known: Option<&'c DataServers>,
        handle: &NfsFh4,
        size: u64,
    ) -> Result<Self> {
        let file = client.open_handle(handle, &How::read()).await?;
        let there = match known {
            // An empty file may lie on no data server.
            Some(known) if size > 0 => Some((layout(client, &file, known).await?, known)),
            _ => None,
        };
        Ok(Self {
            client,
            file,
            size,
            there,
        })
    }

    /// Bytes from an offset on, and whether they are the last ones.
    async fn part(&mut self, offset: u64) -> Result<(Bytes, bool)> {
        let count = self.client.io_max();
        while let Some((striped, known)) = &mut self.there {
            match striped.read(offset, count).await {
                Ok(read) => {
                    let end = offset + read.data.len() as u64;
                    return Ok((read.data, end >= self.size));
                }
                // Meanwhile its keys have changed.
                Err(error) if error.status() == Some(NfsStat4::Stale) => {
                    *striped = layout(self.client, &self.file, known).await?;
                }
                Err(error) if error.status() == Some(NfsStat4::PnfsIoHole) => break,
                Err(error) => return Err(error).context("at a data server"),
            }
        }
        let read = self.client.read(&self.file, offset, count).await?;
        Ok((read.data, read.eof))
    }

    async fn close(self) -> Result<()> {
        if let Some((striped, _)) = self.there {
            let returned = self
                .client
                .return_layout(&self.file.handle, striped.stateid);
            returned.await?;
        }
        Ok(self.client.close(&self.file).await?)
    }
}

/// Waits for a layout for reading.
async fn layout(client: &Client, file: &OpenFile, known: &DataServers) -> Result<Striped> {
    const LATER: [NfsStat4; 3] = [
        NfsStat4::BadLayout,
        NfsStat4::RecallConflict,
        NfsStat4::Delay,
    ];
    loop {
        match Striped::open(client, file, LayoutIomode4::Read, known).await {
            Ok(striped) => return Ok(striped),
            Err(error) if error.status().is_some_and(|status| LATER.contains(&status)) => {
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => return Err(error).context("no layout"),
        }
    }
}

async fn read(mut reading: Reading<'_>, log: Option<usize>) -> Result<Content> {
    let mut hasher = blake3::Hasher::new();
    let mut head = Vec::new();
    let mut records = Vec::new();
    let mut rest: Vec<u8> = Vec::new();
    let mut offset = 0;
    loop {
        let (data, is_last) = reading.part(offset).await?;
        offset += data.len() as u64;
        hasher.update(&data);
        if head.len() <= VALUE_SIZE as usize {
            let space = VALUE_SIZE as usize + 1 - head.len();
            head.extend(&data[..data.len().min(space)]);
        }
        if let Some(log) = log {
            rest.extend(&data);
            let mut whole = rest.chunks_exact(RECORD_SIZE as usize);
            for record in &mut whole {
                let number = records.len() as u64;
                records.push(*record == of_record(log, number));
            }
            rest = whole.remainder().to_vec();
        }
        if is_last || data.is_empty() {
            break;
        }
    }
    reading.close().await?;
    Ok(Content {
        digest: hasher.finalize(),
        head,
        records,
    })
}

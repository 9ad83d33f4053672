//! The whole tree as one server shows it, read when everything is quiet.
//!
//! What must never enter: comparison; see `check`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nfs4::{Attr, Bitmap4, NfsFh4, NfsFtype4};
use nfs4_client::{Client, How, STAT};

use crate::clients::Target;
use crate::clients::content::{RECORD_SIZE, VALUE_SIZE, of_record, value_in};
use crate::clients::tree::{COUNTER_FILES, EXPORT, REGISTERS, REPLACED_NAMES, Tree, replaced_path};
use crate::history::Seen;

/// What a server shows.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The number of the site.
    pub site: usize,
    /// Everything, by its path below the export.
    pub objects: BTreeMap<String, Object>,
    /// What each register holds.
    pub registers: Vec<Option<Seen>>,
    /// What each replaced name holds.
    pub replaced: Vec<Option<Seen>>,
    /// What each counter says.
    pub counters: Vec<Option<Seen>>,
    /// Of each log, which records are as they were written.
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

/// A file that is read, and what of it is kept.
struct Content {
    digest: blake3::Hash,
    /// The first bytes, one more than a value has.
    head: Vec<u8>,
    /// Which records are right, for a log.
    records: Vec<bool>,
}

impl Survey {
    /// Reads everything through the server of a site.
    pub async fn take(site: usize, target: &Target, tree: &Tree) -> Result<Self> {
        let owner = format!("survey {site}");
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
                if survey.object(&client, tree, &handle, &path).await? {
                    directories.push((handle, path));
                }
            }
        }
        in_time(client.leave()).await?;
        Ok(survey)
    }

    /// Takes an object in; true for a directory.
    async fn object(
        &mut self,
        client: &Client,
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
            let content = in_time(read(client, handle, log)).await;
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

/// No step takes so long when everything is at rest; all of them together take longer the longer clients have worked.
const PATIENCE: Duration = Duration::from_secs(30);

async fn in_time<T, E: Into<anyhow::Error>>(
    step: impl Future<Output = std::result::Result<T, E>>,
) -> Result<T> {
    match tokio::time::timeout(PATIENCE, step).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => bail!("it takes longer than {PATIENCE:?}"),
    }
}

/// Attributes that are the same at every site: not when a copy was read, and not the space that it takes.
fn compared() -> Bitmap4 {
    let mut attributes = STAT;
    attributes.remove(Attr::TimeAccess);
    attributes.remove(Attr::SpaceUsed);
    attributes
}

/// Without those that are absent.
fn shown(attributes: &str) -> String {
    let inner = attributes.trim_start_matches("Attributes4 { ");
    let parts = inner.split(", ").filter(|part| !part.ends_with(": None"));
    parts.collect::<Vec<_>>().join(", ")
}

async fn read(client: &Client, handle: &NfsFh4, log: Option<usize>) -> Result<Content> {
    let file = client.open_handle(handle, &How::read()).await?;
    let mut hasher = blake3::Hasher::new();
    let mut head = Vec::new();
    let mut records = Vec::new();
    let mut rest: Vec<u8> = Vec::new();
    let mut offset = 0;
    loop {
        let part = client.read(&file, offset, client.io_max()).await?;
        offset += part.data.len() as u64;
        hasher.update(&part.data);
        if head.len() <= VALUE_SIZE as usize {
            let space = VALUE_SIZE as usize + 1 - head.len();
            head.extend(&part.data[..part.data.len().min(space)]);
        }
        if let Some(log) = log {
            rest.extend(&part.data);
            let mut whole = rest.chunks_exact(RECORD_SIZE as usize);
            for record in &mut whole {
                let number = records.len() as u64;
                records.push(*record == of_record(log, number));
            }
            rest = whole.remainder().to_vec();
        }
        if part.eof || part.data.is_empty() {
            break;
        }
    }
    client.close(&file).await?;
    Ok(Content {
        digest: hasher.finalize(),
        head,
        records,
    })
}

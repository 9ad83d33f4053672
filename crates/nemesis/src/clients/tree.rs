//! The files that clients work on, made before anything fails.
//!
//! What must never enter: how they are used.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use nfs4::NfsFh4;
use nfs4_client::{Client, How};

use super::content::of_value;

/// The path of the export.
pub const EXPORT: &str = "/export";

/// Directories below the root.
pub const RELAXED: &str = "registers";
/// The directory with the durability `majority`.
pub const LEDGER: &str = "ledger";
const CONTEST: &str = "contest";
/// Here kernels make names that no other client uses. All sites share it, so that they ask each other.
pub const OWN: &str = "own";
const REPLACED: &str = "replaced";
const COUNTERS: &str = "counters";
const RINGS: [&str; 3] = ["ring-a", "ring-b", "ring-c"];
/// Where each log lies, relaxed ones first.
const LOGS: [&str; 2] = ["logs", LEDGER];

/// The number of registers.
pub const REGISTERS: usize = 6;
/// The number of registers in the directory with `majority`.
const LEDGER_REGISTERS: usize = 2;
/// The number of names that are replaced.
pub const REPLACED_NAMES: usize = 2;
/// The number of files that move.
pub const TOKENS: usize = 8;
/// The number of files with a counter.
pub const COUNTER_FILES: usize = 2;

/// A name in a directory, and the handle of what it names.
#[derive(Debug, Clone)]
pub struct Place {
    /// The directory.
    pub directory: NfsFh4,
    /// The name in it.
    pub name: String,
    /// The object with that name.
    pub handle: NfsFh4,
    /// The path below the export.
    pub path: String,
}

/// The handles of everything, which are the same at every site.
#[derive(Debug, Clone)]
pub struct Tree {
    /// Files that are overwritten.
    pub registers: Vec<Place>,
    /// The directory in which clients make names that no other client uses.
    pub own: NfsFh4,
    /// The directory of the names that clients compete for.
    pub contest: NfsFh4,
    /// The directory of the names that are replaced.
    pub replaced: NfsFh4,
    /// The directories between which files move.
    pub rings: Vec<NfsFh4>,
    /// Files with counters.
    pub counters: Vec<Place>,
    /// A file for each log.
    pub logs: Vec<Place>,
}

impl Tree {
    /// Makes everything through the first client's server, with two logs for each site: one relaxed, one with `majority`. The last client
    /// makes the directories whose files are not striped over data servers, and all of them make directories between which files move.
    /// Where each makes some at another server, they live there.
    pub async fn plant(clients: &[Client], sites: usize) -> Result<Self> {
        let [client, ..] = clients else {
            anyhow::bail!("no client makes the files");
        };
        let gardener = clients.last().unwrap_or(client);
        let root = client.mount(EXPORT).await?;
        let mut registers = Vec::new();
        let relaxed = directory(client, &root, RELAXED).await?;
        let ledger = directory(client, &root, LEDGER).await?;
        let logs = directory(client, &root, LOGS[0]).await?;
        for number in 0..REGISTERS {
            let (home, path) = match number < REGISTERS - LEDGER_REGISTERS {
                true => (&relaxed, RELAXED),
                false => (&ledger, LEDGER),
            };
            registers.push(
                file(
                    client,
                    home,
                    path,
                    &format!("register-{number}"),
                    of_value(0),
                )
                .await?,
            );
        }
        let contest = directory(gardener, &root, CONTEST).await?;
        let own = directory(gardener, &root, OWN).await?;
        let replaced = directory(gardener, &root, REPLACED).await?;
        for number in 0..REPLACED_NAMES {
            file(
                client,
                &replaced,
                REPLACED,
                &replaced_name(number),
                of_value(0),
            )
            .await?;
        }
        let mut rings = Vec::new();
        for (maker, name) in clients.iter().cycle().zip(RINGS) {
            rings.push(directory(maker, &root, name).await?);
        }
        for token in 0..TOKENS {
            let ring = token % RINGS.len();
            let content = of_value(token as u64);
            file(
                client,
                &rings[ring],
                RINGS[ring],
                &token_name(token),
                content,
            )
            .await?;
        }
        let counters = directory(gardener, &root, COUNTERS).await?;
        let mut counter_files = Vec::new();
        for number in 0..COUNTER_FILES {
            let name = format!("counter-{number}");
            counter_files.push(file(client, &counters, COUNTERS, &name, of_value(0)).await?);
        }
        let mut log_files = Vec::new();
        for number in 0..sites * 2 {
            let home = [&logs, &ledger][number % 2];
            let name = format!("log-{number}");
            log_files.push(file(client, home, LOGS[number % 2], &name, Bytes::new()).await?);
        }
        Ok(Self {
            registers,
            own,
            contest,
            replaced,
            rings,
            counters: counter_files,
            logs: log_files,
        })
    }
}

/// The name in the contest.
pub fn contest_name(number: u64) -> String {
    format!("prize-{number}")
}

/// The name that is replaced.
pub fn replaced_name(number: usize) -> String {
    format!("current-{number}")
}

/// The name that moves.
pub fn token_name(token: usize) -> String {
    format!("token-{token}")
}

/// The path of a contested name below the export.
pub fn contest_path(number: u64) -> String {
    format!("{CONTEST}/{}", contest_name(number))
}

/// The path of a replaced name below the export.
pub fn replaced_path(number: usize) -> String {
    format!("{REPLACED}/{}", replaced_name(number))
}

/// The paths that a token may have.
pub fn token_paths(token: usize) -> [String; 3] {
    RINGS.map(|ring| format!("{ring}/{}", token_name(token)))
}

/// The first directory of a token.
pub fn token_start(token: usize) -> usize {
    token % RINGS.len()
}

async fn directory(client: &Client, root: &NfsFh4, name: &str) -> Result<NfsFh4> {
    let made = client.create_directory(root, name, 0o777).await;
    made.with_context(|| format!("could not make {name}"))
}

async fn file(
    client: &Client,
    home: &NfsFh4,
    path: &str,
    name: &str,
    content: Bytes,
) -> Result<Place> {
    let file = client.open(home, name, &How::create_new(0o666)).await?;
    client.write_all(&file, 0, &content).await?;
    client.close(&file).await?;
    ensure!(!file.handle.0.is_empty(), "{name} has no handle");
    Ok(Place {
        directory: home.clone(),
        name: name.to_owned(),
        handle: file.handle,
        path: format!("{path}/{name}"),
    })
}

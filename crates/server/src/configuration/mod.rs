//! The configuration of a server before anything runs: defaults, the configuration file, the command line, in rising
//! order of precedence.
//!
//! What must never enter: effects. A configuration is a value; nothing is opened or made here.

mod address;
mod collisions;
mod duration;
mod file;
mod log_filter;
mod names;
mod nearest;
mod offer;
mod page;
mod pool;
mod problem;
mod reload;
mod replication;
mod section;

use std::io;
use std::path::{Path, PathBuf};

use nfs4_server::{AccessMode, AccessRule, AddressRange, Limits, PseudoPath, Squash};
use plain_file::ReadError;
use store::CommitMode;

pub use address::{
    ClientAddress, ListenAddress, NFS_PORT, PEER_PORT, PeerAddress, PeerListenAddress,
};
pub use duration::{format_duration, parse_duration};
pub use file::{TREE_WANTED, is_tree_name};
pub use log_filter::LogFilter;
pub use offer::Offer;
pub use page::PageConfiguration;
pub use pool::PoolConfiguration;
pub use problem::{ConfigurationError, Place, Problem};
pub(crate) use reload::Difference;
pub use reload::ReloadAnswer;
pub use replication::ReplicationConfiguration;
pub use section::parse_size;

/// The default user and group for squashed callers, `nobody` on most systems.
const NOBODY: u32 = 65534;
/// The maximum size of a configuration file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The tree that is exported unless an export names another.
pub const DEFAULT_TREE: &str = "default";
/// Where the default tree is exported.
const DEFAULT_EXPORT: &str = "/export";
/// The default path of a data directory.
pub(crate) const DEFAULT_DATA: &str = "/var/lib/meridian";
const METRICS_PORT: u16 = 9649;
const PAGE_PORT: u16 = 9650;

/// A complete and validated configuration.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The data directory.
    pub data: PathBuf,
    /// Where to accept NFS connections. Not empty.
    pub listen: Vec<ListenAddress>,
    /// What to serve. Not empty, and no two overlap.
    pub exports: Vec<ExportConfiguration>,
    /// The domain whose root also shows the exports, and junctions.
    pub domain: Option<::names::Domain>,
    /// When changes of the name space are answered.
    pub commit: CommitMode,
    /// Bounds on the state that clients can create in the service, and its timeouts.
    pub limits: Limits,
    /// Bounds on the resources that connections can take.
    pub transport: TransportLimits,
    /// Bounds of each tree's store.
    pub store: StoreConfiguration,
    /// How the replicated tree is kept equal everywhere.
    pub replication: ReplicationConfiguration,
    /// How the first metadata server of a pool manages its data servers.
    pub pool: PoolConfiguration,
    /// The address for Prometheus.
    pub metrics: Offer,
    /// The address of the status page.
    pub page: PageConfiguration,
    /// What to log, and how.
    pub log: LogConfiguration,
}

/// One tree, shown at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportConfiguration {
    /// Where clients find it.
    pub path: PseudoPath,
    /// Its name in the data directory.
    pub tree: String,
    /// The access rules; the first matching one decides.
    pub rules: Vec<AccessRule>,
}

/// Bounds on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportLimits {
    /// The maximum number of connections. For each further one, a connection without a session is closed.
    pub connections: usize,
    /// The maximum number of requests of one connection that are executing or whose replies wait to be sent. At the
    /// limit, reading pauses.
    pub requests_per_connection: usize,
    /// The maximum memory for requests and replies of all connections in transit, in bytes.
    pub buffer_bytes: u64,
}

/// Bounds of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreConfiguration {
    /// Memory for the cache of metadata, in bytes, for each tree.
    pub cache_bytes: u64,
    /// Data files kept open at a time, for each tree.
    pub open_files: usize,
    /// Free space of the underlying file system, in bytes, that clients cannot use; with `None` the store decides.
    pub reserve_bytes: Option<u64>,
    /// Whether contents have checksums, which every read verifies.
    pub checksums: bool,
}

impl Default for StoreConfiguration {
    fn default() -> StoreConfiguration {
        StoreConfiguration {
            cache_bytes: 64 << 20,
            open_files: 1024,
            reserve_bytes: None,
            checksums: true,
        }
    }
}

/// What to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfiguration {
    /// Which messages are logged.
    pub filter: LogFilter,
    /// The format of log lines.
    pub format: LogFormat,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line, for machines.
    Json,
}

impl Default for Configuration {
    fn default() -> Configuration {
        Configuration {
            data: PathBuf::from(DEFAULT_DATA),
            listen: vec![ListenAddress::EVERYWHERE],
            exports: vec![ExportConfiguration::default()],
            domain: None,
            commit: CommitMode::Sync,
            limits: Limits::default(),
            transport: TransportLimits {
                connections: 4096,
                requests_per_connection: 256,
                buffer_bytes: Limits::default().buffer_bytes(),
            },
            store: StoreConfiguration::default(),
            replication: ReplicationConfiguration::default(),
            pool: PoolConfiguration::default(),
            metrics: Offer::here(METRICS_PORT),
            page: PageConfiguration::default(),
            log: LogConfiguration {
                filter: LogFilter::default(),
                format: LogFormat::Text,
            },
        }
    }
}

impl Default for ExportConfiguration {
    fn default() -> ExportConfiguration {
        let path = DEFAULT_EXPORT
            .parse()
            .expect("the default export is a path");
        ExportConfiguration {
            path,
            tree: DEFAULT_TREE.to_owned(),
            rules: default_rules(),
        }
    }
}

/// All clients may read and write; the superuser is trusted only on this machine.
fn default_rules() -> Vec<AccessRule> {
    let rule = |clients, squash| AccessRule {
        clients,
        mode: AccessMode::ReadWrite,
        squash,
        anonymous_user: NOBODY,
        anonymous_group: NOBODY,
        secure: true,
    };
    let loopback = ["127.0.0.0/8", "::1"];
    let loopback = loopback.map(|range| range.parse().expect("loopback is an address range"));
    let mut rules = loopback.map(|range| rule(range, Squash::None)).to_vec();
    rules.push(rule(AddressRange::ANY, Squash::Root));
    rules
}

/// The command-line options; they take precedence over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--data`.
    pub data: Option<PathBuf>,
    /// `--listen`, which replaces all addresses of the file.
    pub listen: Vec<ListenAddress>,
    /// `--export`: where to show the only tree.
    pub export: Option<String>,
    /// `--log`.
    pub log: Option<LogFilter>,
}

impl Configuration {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`ConfigurationError`] with every problem of the file.
    pub fn read(path: &Path) -> Result<Configuration, ConfigurationError> {
        let unreadable = |source| ConfigurationError::Unreadable {
            file: path.to_owned(),
            source,
        };
        let bytes = plain_file::read(path, FILE_BYTES_MAX).map_err(|error| match error {
            ReadError::NotRegular if path.is_dir() => io::ErrorKind::IsADirectory.into(),
            error => error.into_io(),
        });
        let text = String::from_utf8(bytes.map_err(unreadable)?)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()));
        let text = text.map_err(unreadable)?;
        Configuration::parse(path, &text)
    }

    /// Reads the text of a configuration file; `path` is for messages.
    ///
    /// # Errors
    /// [`ConfigurationError`] with every problem of the text.
    pub fn parse(path: &Path, text: &str) -> Result<Configuration, ConfigurationError> {
        file::parse(text).map_err(|problems| ConfigurationError::wrong(path.into(), text, problems))
    }

    /// Applies the command-line options.
    ///
    /// # Errors
    /// [`ConfigurationError::CommandLine`] when it contradicts itself or the file.
    pub fn with(mut self, overrides: Overrides) -> Result<Configuration, ConfigurationError> {
        if let Some(data) = overrides.data {
            self.data = data;
        }
        if !overrides.listen.is_empty() {
            collisions::refuse(&overrides.listen)?;
            self.listen = overrides.listen;
        }
        if let Some(filter) = overrides.log {
            self.log.filter = filter;
        }
        if let Some(path) = overrides.export {
            let [export] = &mut self.exports[..] else {
                return Err(ConfigurationError::CommandLine(
                    "--export cannot say which of several exports it means; change `path` in the configuration file instead"
                        .to_owned(),
                ));
            };
            let wrong = |error: nfs4_server::NamespaceError| {
                ConfigurationError::CommandLine(format!("--export: {error}"))
            };
            export.path = path.parse().map_err(wrong)?;
        }
        Ok(self)
    }

    /// The largest request or reply with its record mark, in bytes.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.limits.request_bytes.max(self.limits.response_bytes) as usize
    }
}

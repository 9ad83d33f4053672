//! Meridian in a site: runs its program on a data directory, sends it requests, and makes it a member of a set or pool.
//!
//! The only module here that knows the command line of the server under test.
//!
//! What must never enter: the content of configurations, and judgements of answers.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::service::Service;
use crate::site::Site;

/// The server's program on one data directory of one site, whether it serves or not.
#[derive(Debug, Clone)]
pub struct Meridian {
    site: Site,
    program: PathBuf,
    data: PathBuf,
    /// Words before the program, see [`Meridian::through`].
    through: Vec<OsString>,
    /// See [`Meridian::with_environment`].
    environment: Vec<(OsString, OsString)>,
}

/// The role of a server in the set or pool that it joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// In a set: keeps a copy of the tree.
    Replica,
    /// In a set: votes, and keeps no contents.
    Witness,
    /// In a pool: keeps contents of files.
    DataServer,
    /// In a pool: shows clients the names that the first one keeps.
    MetadataServer,
}

impl Role {
    /// The command for an invitation.
    fn invite(self) -> &'static [&'static str] {
        match self {
            Role::Replica => &["set", "invite"],
            Role::Witness => &["set", "invite", "--witness"],
            Role::DataServer => &["pool", "invite", "--data-server"],
            Role::MetadataServer => &["pool", "invite", "--metadata-server"],
        }
    }

    /// The command that follows an invitation.
    fn command(self) -> &'static str {
        match self {
            Role::Replica | Role::Witness => "set",
            Role::DataServer | Role::MetadataServer => "pool",
        }
    }
}

impl Meridian {
    /// The path that clients mount by default.
    pub const EXPORT: &str = "/export";

    /// Tables of a configuration that lets all clients write, with root as root. They are needed because only loopback addresses are trusted by default,
    /// and the address of a site is not one. Top-level keys of the file come before them.
    pub const OPEN: &str = r#"[metrics]
listen = "off"
[[export]]
path = "/export"
[[export.allow]]
clients = "*"
squash = "none"
"#;

    /// The default port for connections between servers of a set or pool.
    pub const PEER_PORT: u16 = 7643;

    /// The program on a data directory, which need not exist yet.
    pub fn new(site: &Site, program: impl Into<PathBuf>, data: impl Into<PathBuf>) -> Self {
        Self {
            site: site.clone(),
            program: program.into(),
            data: data.into(),
            through: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// The same, started by another program with these words before Meridian's, such as `timeout 5`.
    #[must_use]
    pub fn through<W: Into<OsString>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.through = words.into_iter().map(Into::into).collect();
        self
    }

    /// The same with variables in its environment.
    #[must_use]
    pub fn with_environment<K: Into<OsString>, V: Into<OsString>>(
        mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let variables = variables.into_iter();
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        self.environment.extend(variables);
        self
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// A command of the program on the data directory, to run in the site.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = match self.through.split_first() {
            None => self.site.command(&self.program),
            Some((first, rest)) => {
                let mut command = self.site.command(first);
                command.args(rest).arg(&self.program);
                command
            }
        };
        command.args(words).arg("--data").arg(&self.data);
        command.env_remove("MERIDIAN_LOG");
        command.envs(self.environment.iter().cloned());
        command
    }

    /// Starts the server, which serves clients at `listen`, without waiting for it. Its configuration is written to `NAME.toml`, and its
    /// log to `NAME.log`, in the site's folder.
    ///
    /// # Errors
    /// Fails when the configuration cannot be written, or the program cannot be started.
    pub fn start(&self, name: &str, listen: &str, configuration: &str) -> Result<Service> {
        let file = self.site.folder().join(format!("{name}.toml"));
        fs::write(&file, configuration)
            .with_context(|| format!("could not write {}", file.display()))?;
        let mut command = self.command(&["serve", "--listen", listen]);
        command.arg("--config").arg(file);
        Service::start(&self.site, name, command)
    }

    /// The same, and waits until it answers.
    ///
    /// # Errors
    /// As [`Meridian::start`] and [`Service::wait_for_nfs`].
    pub fn serve(&self, name: &str, listen: SocketAddr, configuration: &str) -> Result<Service> {
        let mut service = self.start(name, &listen.to_string(), configuration)?;
        service.wait_for_nfs(listen)?;
        Ok(service)
    }

    /// Runs a command to a successful end, and returns what it printed.
    ///
    /// # Errors
    /// Otherwise fails with everything it printed.
    pub fn ask(&self, words: &[&str]) -> Result<String> {
        let output = self.command(words).output();
        let output =
            output.with_context(|| format!("could not start {}", self.program.display()))?;
        ensure!(
            output.status.success(),
            "meridian {} on {} ended with {}: {}{}",
            words.join(" "),
            self.data.display(),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The running server's status of the replicated tree that it exports.
    ///
    /// # Errors
    /// Fails when it does not answer, and when it exports no such tree.
    pub fn replication(&self) -> Result<Value> {
        let status: Value = serde_json::from_str(&self.ask(&["status", "--json"])?)?;
        let found = status.pointer("/exports/0/replication").cloned();
        let found = found.filter(|found| !found.is_null());
        found.with_context(|| format!("{} is no replicated tree", self.data.display()))
    }

    /// The status of the set that keeps its first tree, or otherwise of the pool that it belongs to.
    ///
    /// # Errors
    /// As [`Meridian::memberships`].
    pub fn membership(&self) -> Result<Value> {
        Ok(self.memberships()?.remove(0))
    }

    /// The status of the set and of the pool, if it belongs to both; at least one.
    ///
    /// # Errors
    /// As [`Meridian::ask`], and when it belongs to neither.
    pub fn memberships(&self) -> Result<Vec<Value>> {
        let status: Value = serde_json::from_str(&self.ask(&["status", "--json"])?)?;
        let found = ["/exports/0/replication", "/pool"]
            .into_iter()
            .filter_map(|at| status.pointer(at))
            .filter(|found| !found.is_null());
        let found: Vec<Value> = found.cloned().collect();
        ensure!(
            !found.is_empty(),
            "{} belongs to no set and no pool",
            self.data.display()
        );
        Ok(found)
    }

    /// Begins a set; other servers will reach it at this address.
    ///
    /// # Errors
    /// As [`Meridian::ask`].
    pub fn begin_set(&self, address: SocketAddr) -> Result<()> {
        self.at(&["set", "create"], address)
    }

    /// Begins a pool, with these options; other servers will reach it at this address.
    ///
    /// # Errors
    /// As [`Meridian::ask`].
    pub fn begin_pool(&self, options: &[&str], address: SocketAddr) -> Result<()> {
        self.at(&[&["pool", "create"], options].concat(), address)
    }

    /// Joins the set or pool of another running server; other servers will reach it at this address.
    ///
    /// # Errors
    /// As [`Meridian::ask`].
    pub fn join(&self, inviter: &Self, role: Role, address: SocketAddr) -> Result<()> {
        self.follow(inviter, role, "join", address)
    }

    /// The same for a server whose copy cannot be trusted any more: it becomes a new member of its set.
    ///
    /// # Errors
    /// As [`Meridian::ask`].
    pub fn rejoin(&self, inviter: &Self, role: Role, address: SocketAddr) -> Result<()> {
        self.follow(inviter, role, "rejoin", address)
    }

    fn follow(&self, inviter: &Self, role: Role, how: &str, address: SocketAddr) -> Result<()> {
        let token = inviter.ask(role.invite())?;
        self.at(&[role.command(), how, token.trim()], address)
    }

    fn at(&self, words: &[&str], address: SocketAddr) -> Result<()> {
        let address = address.to_string();
        self.ask(&[words, &["--address", &address]].concat())
            .map(drop)
    }
}

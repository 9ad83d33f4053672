//! What the stories have in common: a served store, and guests that have mounted it.
//!
//! What must never enter: expectations.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use testbed::{Guest, Meridian, Mount, Script, Service, Site};

pub use crate::hands::{Hand, MOUNT, PATIENCE, eventually, finish, lines, program, run};

/// Everybody may write, and root is root: what most stories want.
pub const OPEN_EXPORT: &str = "\
[[export]]
path = \"/export\"
[[export.allow]]
clients = \"*\"
squash = \"none\"
";

/// A lease that outlives a busy machine's hiccups.
pub const LONG_LEASE: &str = "[time]\nlease_seconds = 30\n";

/// A lease for stories that wait for its end.
pub const SHORT_LEASE: &str = "[time]\nlease_seconds = 6\n";

/// `meridian serve` on a new store in a site of its own.
pub struct Scene {
    pub site: Site,
    pub server: Service,
    pub listen: SocketAddr,
}

impl Scene {
    /// Serves `/export` with a long lease.
    pub fn open() -> Result<Self> {
        Self::with(&[OPEN_EXPORT, LONG_LEASE])
    }

    /// Serves with these parts of a configuration.
    pub fn with(configuration: &[&str]) -> Result<Self> {
        Self::beneath("", configuration)
    }

    /// The same after shell commands that prepare, with `$DATA` set, what lies beneath the store.
    /// File systems they mount are seen by the server alone and vanish with it.
    pub fn beneath(preparation: &str, configuration: &[&str]) -> Result<Self> {
        let site = Site::new()?;
        let listen = site.nfs_address();
        let data = site.folder().join("data");
        let serve = format!("set -e\n{preparation}\nexec \"$@\"");
        let meridian = on_data(&site).through(["bash", "-c", &serve, "serve"]);
        let meridian = meridian.with_environment([("DATA", data)]);
        let configuration = configuration.concat() + "[metrics]\nlisten = \"off\"\n";
        let server = meridian.serve("meridian", listen, &configuration)?;
        Ok(Self {
            site,
            server,
            listen,
        })
    }

    /// The plain mount of `/export`.
    pub fn mount(&self) -> Mount {
        Mount::of(self.listen, "/export")
    }

    /// Boots a guest that mounts `/export`.
    pub fn guest(&self, name: &str) -> Result<Guest> {
        self.guest_with(name, &self.mount())
    }

    /// Boots a guest with a mount of its own kind.
    pub fn guest_with(&self, name: &str, mount: &Mount) -> Result<Guest> {
        let guest = Guest::boot(&self.site, name)?;
        guest.mount(mount, MOUNT)?;
        Ok(guest)
    }

    /// Ends the server as a crash would, and starts it again.
    pub fn crash_server(&mut self) -> Result<()> {
        self.server.kill()?;
        self.start_server()
    }

    /// Stops the server in an orderly way, and starts it again.
    pub fn restart_server(&mut self) -> Result<()> {
        let status = self.server.stop()?;
        ensure!(status.success(), "the server stopped with {status}");
        self.start_server()
    }

    /// Starts the server that was ended.
    pub fn start_server(&mut self) -> Result<()> {
        self.server.restart()?;
        self.server.wait_for_nfs(self.listen)
    }

    /// Stops the server, and fails unless `meridian check` finds nothing wrong with its data.
    pub fn check_store(&mut self) -> Result<()> {
        let status = self.server.stop()?;
        ensure!(status.success(), "the server stopped with {status}");
        let checked = on_data(&self.site).ask(&["check"]);
        checked.context("the store is damaged").map(drop)
    }

    /// Starts a process in the guest that does what it is told, step by step. Each is a lock owner of
    /// its own. It works in the mounted folder, as root.
    pub fn hand(&self, guest: &Guest) -> Result<Hand> {
        self.hand_of(guest, |script| script)
    }

    /// The same with a change to how the process starts, such as another user or folder.
    pub fn hand_of(&self, guest: &Guest, change: impl FnOnce(Script) -> Script) -> Result<Hand> {
        Hand::begin(&self.site, guest, change)
    }
}

/// The program on the data of a site.
fn on_data(site: &Site) -> Meridian {
    let data = site.folder().join("data");
    Meridian::new(site, env!("CARGO_BIN_EXE_meridian"), data)
}

//! GridFTP, the transfer service of Grids, with the server and the client of Debian: a peer to compare with.
//!
//! Access is anonymous and without encryption, which needs the fewest round trips. The server acts as root on the
//! machine's files, so it must not be reachable from outside the testbed; its site is a separate network.
//!
//! What must never enter: use by the server under test, and the choice of files.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};

use crate::private::{PrivateFiles, plain};
use crate::service::Service;
use crate::world::{Place, World};

/// GridFTP's own port (IANA, `gsiftp`).
const PORT: u16 = 2811;

/// A server in a place, and its client.
#[derive(Debug)]
pub struct GridFtp {
    place: Place,
    files: PrivateFiles,
    service: Service,
    lists: AtomicU64,
}

/// The options of `globus-url-copy`; see its manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridFtpOptions {
    /// The number of parallel TCP streams for each file, `-p`.
    pub streams: u32,
    /// The number of files at once, each with its own connection, `-cc`.
    pub connections: u32,
    /// Whether requests for further files are sent before the answers arrive, `-pp`.
    pub pipelining: bool,
}

impl GridFtpOptions {
    /// Eight parallel streams and one file after another, as in "Hierarchical Replication Control in a Global
    /// File System", section 4.2.
    pub const EIGHT_STREAMS: Self = Self {
        streams: 8,
        connections: 1,
        pipelining: false,
    };

    /// The manual's advice for many small files.
    pub const MANY_FILES: Self = Self {
        streams: 1,
        connections: 32,
        pipelining: true,
    };
}

impl GridFtp {
    /// Starts a server in a place of a world, and waits until it listens.
    pub fn start(world: &World, place: &Place) -> Result<Self> {
        let files = PrivateFiles::hosts(world, place)?;
        let folder = place.site().folder();
        // The package's configuration in /etc is not part of the comparison.
        let configuration = folder.join("gridftp.conf");
        fs::write(&configuration, "")?;
        let address = place.address().to_string();
        let mut command = files.command(place, "globus-gridftp-server");
        command
            .env("GLOBUS_HOSTNAME", &address)
            .arg("-c")
            .arg(configuration);
        command.args([
            "-aa",
            "-anonymous-user",
            "root",
            "-anonymous-group",
            "root",
            "-allow-root",
        ]);
        command.args([
            "-p",
            &PORT.to_string(),
            "-hostname",
            &address,
            "-d",
            "error,warn",
        ]);
        command.arg("-l").arg(folder.join("gridftp-transfers.log"));
        let mut service = Service::start(place.site(), "gridftp", command)?;
        service.wait_for_port(place.at(PORT))?;
        Ok(Self {
            place: place.clone(),
            files,
            service,
            lists: AtomicU64::new(0),
        })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.place.at(PORT)
    }

    /// The process, to be killed, stopped and restarted.
    pub fn service(&mut self) -> &mut Service {
        &mut self.service
    }

    /// Sends files of this place to another, one after another in one session: pairs of a file here and its
    /// path there, all absolute. Returns when the last one has arrived.
    ///
    /// # Errors
    /// Fails when a path is not plain, and when the client reports anything but success.
    pub fn send(
        &self,
        to: &GridFtp,
        pairs: &[(PathBuf, PathBuf)],
        options: GridFtpOptions,
    ) -> Result<()> {
        let mut text = String::new();
        for (here, there) in pairs {
            text += &format!("file://{} {}\n", plain(here)?, to.url(there)?);
        }
        let number = self.lists.fetch_add(1, Ordering::Relaxed);
        let name = format!("gridftp-list-{}-{number}", to.place.name());
        let list = self.place.site().folder().join(name);
        fs::write(&list, text)?;
        let mut command = self.client(options);
        command.arg("-f").arg(&list);
        run(command)?;
        Ok(fs::remove_file(list)?)
    }

    /// Sends all files in a folder of this place, including subfolders, to a folder of another.
    ///
    /// # Errors
    /// As [`GridFtp::send`].
    pub fn send_folder(
        &self,
        to: &GridFtp,
        here: &Path,
        there: &Path,
        options: GridFtpOptions,
    ) -> Result<()> {
        let mut command = self.client(options);
        command.args(["-cd", "-r", &format!("file://{}/", plain(here)?)]);
        command.arg(format!("{}/", to.url(there)?));
        run(command)
    }

    /// The program at the sender.
    fn client(&self, options: GridFtpOptions) -> Command {
        let mut command = self.files.command(&self.place, "globus-url-copy");
        command.env("GLOBUS_HOSTNAME", self.place.address().to_string());
        command.args(["-fast", "-p", &options.streams.to_string()]);
        if options.connections > 1 {
            command.args(["-cc", &options.connections.to_string()]);
        }
        if options.pipelining {
            command.arg("-pp");
        }
        command
    }

    fn url(&self, path: &Path) -> Result<String> {
        Ok(format!("ftp://{}{}", self.address(), plain(path)?))
    }
}

/// Runs the client to its end.
fn run(mut command: Command) -> Result<()> {
    let output = command
        .output()
        .context("could not start globus-url-copy; `testbed requirements` may help")?;
    ensure!(
        output.status.success(),
        "globus-url-copy failed ({}): {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout).trim(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

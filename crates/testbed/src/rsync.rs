//! rsync with its own daemon: copies files to another site repeatedly.
//!
//! What must never enter: how often it runs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::private::plain;
use crate::service::Service;
use crate::world::Place;

/// rsync's port (IANA).
const PORT: u16 = 873;

/// The name of the one folder that is served.
const MODULE: &str = "files";

/// A daemon in a place that lets other places write to one folder.
#[derive(Debug)]
pub struct Rsync {
    place: Place,
    service: Service,
}

impl Rsync {
    /// Serves a folder, which must exist, to all clients that reach the place, as root.
    pub fn start(place: &Place, folder: &Path) -> Result<Self> {
        let own = place.site().folder();
        let configuration = own.join("rsyncd.conf");
        let text = format!(
            "uid = root\ngid = root\nuse chroot = no\nmax connections = 0\n\
             lock file = {lock}\n[{MODULE}]\npath = {path}\nread only = no\n",
            lock = plain(&own.join("rsyncd.lock"))?,
            path = plain(folder)?,
        );
        fs::write(&configuration, text)?;
        let mut command = place.command("rsync");
        command.args(["--daemon", "--no-detach", "--log-file=/dev/stderr"]);
        command.args(["--address", &place.address().to_string()]);
        command.args(["--port", &PORT.to_string()]);
        command.arg("--config").arg(configuration);
        let mut service = Service::start(place.site(), "rsync", command)?;
        service.wait_for_port(place.at(PORT))?;
        Ok(Self {
            place: place.clone(),
            service,
        })
    }

    /// The process, to be killed, stopped and restarted.
    pub fn service(&mut self) -> &mut Service {
        &mut self.service
    }

    /// Makes the served folder equal to a folder of another place: `rsync --archive --delete`. Modification times are compared
    /// to the nanosecond; by default rsync misses a change within a second that keeps the length.
    ///
    /// # Errors
    /// Fails when rsync does, also when a file disappears meanwhile.
    pub fn update_from(&self, place: &Place, folder: &Path) -> Result<()> {
        let mut command = place.command("rsync");
        command.args(["--archive", "--delete", "--modify-window=-1"]);
        command.arg(format!("{}/", plain(folder)?));
        command.arg(format!("rsync://{}/{MODULE}/", self.place.at(PORT)));
        let output = command
            .output()
            .context("could not start rsync; `testbed requirements` may help")?;
        ensure!(
            output.status.success(),
            "rsync failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(())
    }
}

//! The servers that are compared, each with a name, a promise of durability, and a process.
//!
//! What must never enter: the work on them.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::client::Target;
use bench::processor::ProcessorTime;
use rustix::process::Pid;
use serde::Serialize;
use testbed::{Ganesha, Meridian, Service, Site};

/// The server, and its commit mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Meridian with `commit = "async"`.
    MeridianAsync,
    /// NFS-Ganesha as Debian ships it, on an ordinary directory.
    Ganesha,
    /// Meridian with `commit = "sync"`, its default.
    MeridianSync,
    /// NFS-Ganesha on a directory with the attribute `D` of chattr(1), under which the file system
    /// makes changes of names durable before they return.
    GaneshaDirsync,
}

impl Kind {
    /// All of them, each Meridian before its peer.
    pub(crate) const ALL: [Self; 4] = [
        Kind::MeridianAsync,
        Kind::Ganesha,
        Kind::MeridianSync,
        Kind::GaneshaDirsync,
    ];

    /// Its title in tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Kind::MeridianAsync => "Meridian async",
            Kind::Ganesha => "Ganesha",
            Kind::MeridianSync => "Meridian sync",
            Kind::GaneshaDirsync => "Ganesha dirsync",
        }
    }

    /// Whether a change of names is durable when it is answered.
    pub(crate) fn is_durable(self) -> bool {
        matches!(self, Kind::MeridianSync | Kind::GaneshaDirsync)
    }

    fn folder(self) -> &'static str {
        match self {
            Kind::MeridianAsync => "meridian-async",
            Kind::Ganesha => "ganesha",
            Kind::MeridianSync => "meridian-sync",
            Kind::GaneshaDirsync => "ganesha-dirsync",
        }
    }

    fn port(self) -> u16 {
        match self {
            Kind::MeridianAsync => 2049,
            Kind::Ganesha => 2050,
            Kind::MeridianSync => 2051,
            Kind::GaneshaDirsync => 2052,
        }
    }
}

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Contender {
    kind: Kind,
    target: Target,
    server: Server,
}

#[derive(Debug)]
enum Server {
    Meridian(Service),
    Ganesha(Ganesha),
}

impl Contender {
    /// Starts a server on a new folder in `disk`.
    pub(crate) fn start(kind: Kind, site: &Site, disk: &Path, program: &Path) -> Result<Self> {
        let folder = disk.join(kind.folder());
        fs::create_dir(&folder)
            .with_context(|| format!("could not create {}", folder.display()))?;
        let address = SocketAddr::new(site.address(), kind.port());
        let server = match kind {
            Kind::MeridianAsync => meridian(site, &folder, address, program, "async")?,
            Kind::MeridianSync => meridian(site, &folder, address, program, "sync")?,
            Kind::Ganesha => Server::Ganesha(Ganesha::start_at(site, &folder, address)?),
            Kind::GaneshaDirsync => {
                make_names_durable(&folder)?;
                Server::Ganesha(Ganesha::start_at(site, &folder, address)?)
            }
        };
        Ok(Self {
            kind,
            target: Target {
                site: Some(site.clone()),
                address,
                export: Ganesha::EXPORT.to_owned(),
            },
            server,
        })
    }

    /// Which server it is.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// How to reach it.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Its process.
    pub(crate) fn pid(&mut self) -> Result<Pid> {
        let title = self.kind.title();
        let pid = self.service().pid();
        pid.with_context(|| format!("{title} was never started"))
    }

    fn service(&mut self) -> &mut Service {
        match &mut self.server {
            Server::Meridian(service) => service,
            Server::Ganesha(ganesha) => ganesha.service(),
        }
    }

    /// The processor time it has used so far.
    ///
    /// # Errors
    /// Fails when the server has died.
    pub(crate) fn processor_time(&mut self) -> Result<ProcessorTime> {
        let title = self.kind.title();
        let pid = self.pid()?;
        let service = self.service();
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))
            .with_context(|| format!("{title} has died; its log is {}", service.log().display()))?;
        let time = ProcessorTime::in_stat(&stat);
        time.with_context(|| format!("{title} has died; its log is {}", service.log().display()))
    }

    /// Waits until the server has finished its own work, such as compacting earlier
    /// data, so that it does not disturb the next turn.
    pub(crate) fn settle(&mut self, patience: Duration) -> Result<()> {
        const LOOK_EVERY: Duration = Duration::from_millis(100);
        const IDLE: Duration = Duration::from_millis(10);
        let began = Instant::now();
        let mut before = self.processor_time()?.total();
        while began.elapsed() < patience {
            std::thread::sleep(LOOK_EVERY);
            let now = self.processor_time()?.total();
            if now - before <= IDLE {
                return Ok(());
            }
            before = now;
        }
        Ok(())
    }
}

fn meridian(
    site: &Site,
    folder: &Path,
    address: SocketAddr,
    program: &Path,
    commit: &str,
) -> Result<Server> {
    let meridian = Meridian::new(site, program, folder);
    let name = format!("meridian-{commit}");
    let configuration = format!("commit = \"{commit}\"\n{}", Meridian::OPEN);
    let service = meridian.serve(&name, address, &configuration)?;
    Ok(Server::Meridian(service))
}

/// Sets the attribute `D` on a directory; directories made in it inherit it.
fn make_names_durable(folder: &Path) -> Result<()> {
    let output = Command::new("chattr").arg("+D").arg(folder).output();
    let output = output.context("could not start chattr; install e2fsprogs")?;
    ensure!(
        output.status.success(),
        "chattr +D failed, so there is no peer for the synchronous server on this file system: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

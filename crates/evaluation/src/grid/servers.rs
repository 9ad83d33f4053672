//! The servers for jobs: a set of three replicas and a GridFTP server at the three computing sites; and one NFS server of each kind at a
//! fourth site, at the same distance from each of them as they have from each other.
//!
//! What must never enter: the jobs, and their results.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bench::client::Target;
use bench::statistics::LATENESS;
use bench::trial::{self, Outcome};
use testbed::{Ganesha, GridFtp, LinkSettings, Place, World};
use tokio::runtime::Runtime;

use super::graph::{Graph, SITES};
use super::job::{self, Ground};
use crate::field::{Field, Folder};
use crate::files::{LocalFolder, NfsFolder};
use crate::sites::{Server, Sites};

/// The sites; the last has no computing node.
const NAMES: [&str; SITES + 1] = ["a", "b", "c", "server"];

/// The port of the second server of the fourth site.
const GANESHA_PORT: u16 = 2050;

/// The bandwidth of every link, in bits a second: the authors' machines had gigabit Ethernet.
pub(super) const BANDWIDTH: u64 = 1_000_000_000;

/// How the tasks of a job share their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// One distant Meridian.
    Distant,
    /// One distant NFS-Ganesha.
    DistantGanesha,
    /// Three replicas, one near each site; every site writes into its own directory.
    Replicated,
    /// The same, but all sites write into one directory.
    ReplicatedShared,
    /// As the first, but contents that are not read rest for long before they are sent.
    ReplicatedResting,
    /// Files staged by GridFTP.
    GridFtp,
}

impl System {
    /// All systems, in the order of their turns.
    pub(super) const ALL: [Self; 6] = [
        Self::Distant,
        Self::DistantGanesha,
        Self::Replicated,
        Self::ReplicatedShared,
        Self::ReplicatedResting,
        Self::GridFtp,
    ];

    /// The number of directories for the files of a job.
    fn folders(self) -> usize {
        match self {
            Self::ReplicatedShared => 1,
            _ => SITES,
        }
    }

    /// Lines of the configuration of the replicas.
    pub(super) fn settings(self) -> &'static str {
        match self {
            Self::ReplicatedResting => "[replication]\ndata_delay = \"10 s\"\n",
            _ => "",
        }
    }

    /// Its name in plots and tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Distant => "one NFS server: Meridian",
            Self::DistantGanesha => "one NFS server: Ganesha",
            Self::Replicated => "Meridian, 3 replicas",
            Self::ReplicatedShared => "3 replicas, one directory",
            Self::ReplicatedResting => "3 replicas, contents rest 10 s",
            Self::GridFtp => "GridFTP",
        }
    }
}

/// All servers, running.
pub(super) struct Servers {
    runtime: Runtime,
    sites: Sites,
    distant: Server,
    ganesha: Ganesha,
    transfers: Vec<Arc<GridFtp>>,
    jobs: u64,
    /// Dropped after the servers.
    folder: Folder,
}

impl Servers {
    /// Starts all of them, at sites with this distance; the configuration of the replicas ends with these lines. A
    /// connection that began at a shorter distance would never reach the full rate at a longer one.
    pub(super) fn start(field: &Field, round_trip: Duration, settings: &str) -> Result<Self> {
        let folder = field.folder()?;
        let link = LinkSettings::round_trip(round_trip).bandwidth(BANDWIDTH);
        let world = World::new(&NAMES, &link)?;
        let disk = folder.path().join("set");
        let sites = Sites::start_in(world, &field.program, &disk, SITES, settings)?;
        let fourth = fourth(&sites)?;
        let data = folder.path().join("distant");
        let distant = Server::start(fourth, &field.program, data, fourth.nfs_address(), "")?;
        let data = folder.path().join("ganesha");
        fs::create_dir(&data)?;
        let ganesha = Ganesha::start_at(fourth.site(), &data, fourth.at(GANESHA_PORT))?;
        let world = sites.world();
        let transfers = world.places()[..SITES].iter();
        let transfers = transfers.map(|place| GridFtp::start(world, place).map(Arc::new));
        Ok(Self {
            transfers: transfers.collect::<Result<_>>()?,
            runtime: runtime()?,
            sites,
            distant,
            ganesha,
            jobs: 0,
            folder,
        })
    }

    /// Runs a job and cleans up after it.
    ///
    /// # Errors
    /// Fails when an input differs from the written output, and when a server has died.
    pub(super) fn run(&mut self, graph: &Graph, divisor: u32, system: System) -> Result<Outcome> {
        self.jobs += 1;
        let name = format!("job-{}", self.jobs);
        let grounds = self.prepare(system, &name)?;
        self.sites.wait_for_quiet()?;
        let wire = self.sites.sent()?.wire;
        let field = job::Field {
            grounds: grounds.clone(),
            stage: match system {
                System::GridFtp => self.transfers.clone(),
                _ => Vec::new(),
            },
        };
        let ran = job::run(graph.clone(), divisor, self.jobs, field);
        let turnaround = self.runtime.block_on(ran)?;
        self.sites.wait_for_copies()?;
        let wire = self.sites.sent()?.wire - wire;
        self.check_running()?;
        self.clear(system, grounds, &name)?;
        let figures = [
            ("turnaround_s", turnaround.as_secs_f64()),
            ("wire_bytes", wire as f64),
            (LATENESS, self.sites.lateness()?.as_secs_f64() * 1e6),
        ];
        Ok(trial::named(figures))
    }

    /// Makes the job's folder for each site.
    fn prepare(&self, system: System, name: &str) -> Result<Vec<Ground>> {
        if system == System::GridFtp {
            // GridFTP wants absolute paths.
            let disk = self.folder.path().canonicalize()?;
            let folders = NAMES[..SITES].iter().map(|site| {
                let path = disk.join(format!("staged-{site}")).join(name);
                LocalFolder::make(path).map(Ground::Local)
            });
            return folders.collect();
        }
        self.runtime.block_on(async {
            let mut grounds = Vec::new();
            let folders = system.folders();
            for target in self.targets(system)? {
                let folder = match grounds.is_empty() {
                    true => NfsFolder::make(&target, name, folders).await?,
                    false => NfsFolder::find(&target, name, folders).await?,
                };
                grounds.push(Ground::Shared(folder));
            }
            Ok(grounds)
        })
    }

    /// The server of each site.
    fn targets(&self, system: System) -> Result<Vec<Target>> {
        let places = &self.sites.world().places()[..SITES];
        let from = |place: &Place| match system {
            System::DistantGanesha => self.ganesha_from(place),
            _ => self.distant.from(place),
        };
        Ok(match system {
            System::Replicated | System::ReplicatedShared | System::ReplicatedResting => {
                self.sites.replicas.iter().map(Server::target).collect()
            }
            _ => places.iter().map(from).collect(),
        })
    }

    /// Removes all files of a job, close to their server.
    fn clear(&self, system: System, grounds: Vec<Ground>, name: &str) -> Result<()> {
        self.runtime.block_on(async {
            for ground in grounds {
                match ground {
                    Ground::Local(folder) => folder.remove()?,
                    Ground::Shared(folder) => folder.leave().await?,
                }
            }
            let near = match system {
                System::GridFtp => return Ok(()),
                System::Distant => self.distant.target(),
                System::DistantGanesha => self.ganesha_from(fourth(&self.sites)?),
                System::Replicated | System::ReplicatedShared | System::ReplicatedResting => {
                    self.sites.replicas[0].target()
                }
            };
            let folder = NfsFolder::find(&near, name, system.folders()).await?;
            folder.remove(&near, name).await
        })
    }

    fn ganesha_from(&self, place: &Place) -> Target {
        Target {
            site: Some(place.site().clone()),
            address: self.ganesha.address(),
            export: Ganesha::EXPORT.to_owned(),
        }
    }

    /// Fails unless every server is the process that was started.
    fn check_running(&mut self) -> Result<()> {
        self.sites.check_running()?;
        self.distant.processor_time()?;
        let ended = self.ganesha.service().ended()?;
        anyhow::ensure!(ended.is_none(), "Ganesha has died");
        Ok(())
    }
}

fn fourth(sites: &Sites) -> Result<&Place> {
    let places = sites.world().places();
    places.get(SITES).context("there is a fourth site")
}

/// For clients of all sites at once.
pub(super) fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(2).enable_all().build()?)
}

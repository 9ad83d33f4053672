//! Sites far apart with a set of replicas, and a single server in the first site.
//!
//! What must never enter: the measurements.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::affinity;
use bench::client::Target;
use bench::processor::ProcessorTime;
use bench::waiting::Pressure;
use rustix::thread::CpuSet;
use serde_json::Value;
use testbed::{LinkSettings, Meridian, Place, Role, Service, Traffic, World, measure};

/// The port of the single server.
const ALONE_PORT: u16 = 2050;

/// The time limit for a set to become ready or quiet, or to copy everything.
const PATIENCE: Duration = Duration::from_secs(180);

/// The polling interval for the status of a server.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// The same where processor time is measured.
const ASK_CALMLY: Duration = Duration::from_secs(1);

/// The names of the sites, in the order of their replicas.
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    place: Place,
    meridian: Meridian,
    address: SocketAddr,
    service: Service,
    /// Dropped after the service.
    pressure: Option<Pressure>,
}

/// The sites, their WAN, and their servers.
#[derive(Debug)]
pub(crate) struct Sites {
    /// The replicas, each in its own site. The work is done at the first.
    pub(crate) replicas: Vec<Server>,
    /// A server without replicas in the first site.
    pub(crate) alone: Server,
    world: World,
    /// The view of the set when all replicas had connected.
    epoch: u64,
}

/// The traffic of a set, in bytes.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub(crate) struct Sent {
    /// On all links of the WAN, with all headers.
    pub(crate) wire: u64,
    /// File contents before compression, to all replicas together.
    pub(crate) content: u64,
    /// Update records, to all replicas together.
    pub(crate) records: u64,
}

impl Sites {
    /// Makes `count` sites and a set with a replica in each, in a new folder. The links have these settings from the beginning,
    /// and the configuration of all replicas ends with these lines. A connection that began at a shorter distance would never reach the full
    /// rate at a longer one: TCP's slow start ends early on links that seem busy (HyStart).
    pub(crate) fn start_with(
        link: &LinkSettings,
        program: &Path,
        disk: &Path,
        count: usize,
        settings: &str,
    ) -> Result<Self> {
        let names = NAMES.get(..count).context("there are names for 8 sites")?;
        let world = World::new(names, link)?;
        Self::start_in(world, program, disk, count, settings)
    }

    /// The same in the first `count` places of a world; the other places stay free.
    pub(crate) fn start_in(
        world: World,
        program: &Path,
        disk: &Path,
        count: usize,
        settings: &str,
    ) -> Result<Self> {
        eprintln!("evaluation: starting a set of {count} replicas");
        fs::create_dir(disk)?;
        let mut replicas: Vec<Server> = Vec::new();
        for place in world.places().iter().take(count) {
            let meridian = Meridian::new(place.site(), program, disk.join(place.name()));
            let address = place.at(Meridian::PEER_PORT);
            match replicas.first() {
                None => meridian.begin_set(address)?,
                Some(first) => meridian.join(&first.meridian, Role::Replica, address)?,
            }
            let listen = place.nfs_address();
            replicas.push(Server::serve(place, meridian, listen, settings)?);
        }
        let first = &world.places()[0];
        let alone = Server::start(first, program, disk.join("alone"), first.at(ALONE_PORT), "")?;
        let mut sites = Self {
            replicas,
            alone,
            world,
            epoch: 0,
        };
        sites.wait_for_all()?;
        sites.epoch = sites.replicas[0].epoch()?;
        Ok(sites)
    }

    /// The places, replicas first.
    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// Changes every link. Existing connections keep their estimates of the earlier distance.
    pub(crate) fn set(&self, settings: &LinkSettings) -> Result<()> {
        self.world.wan().set(settings)
    }

    /// The median round trip between the first and the second site, for small packets.
    pub(crate) fn round_trip(&self) -> Result<Duration> {
        const TIMES: u32 = 9;
        let [first, second] = self.two_places()?;
        let times = measure::round_trips(first.site(), second.site(), second.address(), TIMES)?;
        Ok(times[times.len() / 2])
    }

    /// The first two places.
    pub(crate) fn two_places(&self) -> Result<[&Place; 2]> {
        match self.world.places() {
            [first, second, ..] => Ok([first, second]),
            _ => bail!("there is no second site"),
        }
    }

    /// Waits until nothing is controlled and no server lacks anything.
    pub(crate) fn wait_for_quiet(&self) -> Result<()> {
        self.wait_until("quiet", ASK_EVERY, is_quiet)
    }

    /// The same, asking so rarely that the answers cost the servers nothing worth mentioning.
    pub(crate) fn wait_calmly_for_quiet(&self) -> Result<()> {
        self.wait_until("quiet", ASK_CALMLY, is_quiet)
    }

    /// Waits until every replica has everything.
    pub(crate) fn wait_for_copies(&self) -> Result<()> {
        self.wait_until("equal", ASK_EVERY, lacks_nothing)
    }

    /// See [`Self::wait_calmly_for_quiet`].
    pub(crate) fn wait_calmly_for_copies(&self) -> Result<()> {
        self.wait_until("equal", ASK_CALMLY, lacks_nothing)
    }

    /// Whether no replica lacks contents of files written at the first.
    pub(crate) fn has_contents(&self) -> Result<bool> {
        let status = self.replicas[0].replication()?;
        let peers = status["peers"]
            .as_array()
            .context("a status has no peers")?;
        let lacks = peers.iter().map(|peer| number(peer, "lag_files"));
        Ok(lacks.sum::<Result<f64>>()? == 0.0)
    }

    /// Bytes sent by the first site, with all headers.
    pub(crate) fn sent_by_first(&self) -> Result<u64> {
        let first = self.world.places()[0].name();
        let links = self.world.wan().links();
        let links = links.filter(|link| link.from() == first);
        links.map(|link| Ok(link.report()?.traffic.bytes)).sum()
    }

    /// See [`lateness`].
    pub(crate) fn lateness(&self) -> Result<Duration> {
        lateness(&self.world)
    }

    /// Fails unless every server is still the process that was started, and every replica has always taken part.
    pub(crate) fn check_running(&self) -> Result<()> {
        let mut all = self.replicas.iter().chain([&self.alone]);
        all.try_for_each(|server| server.processor_time().map(drop))?;
        let now = self.replicas[0].epoch()?;
        ensure!(
            now == self.epoch,
            "a replica was out of the set for a while: view {now} is in force, and it was {}",
            self.epoch
        );
        Ok(())
    }

    /// The traffic so far.
    pub(crate) fn sent(&self) -> Result<Sent> {
        let Traffic { bytes, .. } = self.world.wan().traffic()?;
        let mut sent = Sent {
            wire: bytes,
            ..Sent::default()
        };
        for replica in &self.replicas {
            let status = replica.replication()?;
            sent.content += number(&status, "shipped_content_bytes")? as u64;
            sent.records += number(&status, "shipped_record_bytes")? as u64;
        }
        Ok(sent)
    }

    /// Waits until every server has the tree and is connected to all others.
    pub(crate) fn wait_for_all(&self) -> Result<()> {
        self.wait_until("ready", ASK_EVERY, is_ready)
    }

    fn wait_until(
        &self,
        what: &str,
        every: Duration,
        fact: impl Fn(&Value) -> Result<bool>,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        for replica in &self.replicas {
            loop {
                let late = Instant::now() > deadline;
                let status = match replica.replication() {
                    // A restarting server is silent for a moment.
                    Err(_) if !late => Value::Null,
                    answer => answer?,
                };
                if !status.is_null() && fact(&status)? {
                    break;
                }
                if late {
                    let name = replica.place.name();
                    replica.place.site().keep_folder();
                    bail!(
                        "the replica at {name} is not {what} after {PATIENCE:?}; it says\n{}",
                        serde_json::to_string_pretty(&status)?
                    );
                }
                std::thread::sleep(every);
            }
        }
        Ok(())
    }
}

impl Server {
    /// Starts a server in a place; these lines are appended to its configuration.
    pub(crate) fn start(
        place: &Place,
        program: &Path,
        data: PathBuf,
        address: SocketAddr,
        settings: &str,
    ) -> Result<Self> {
        let meridian = Meridian::new(place.site(), program, data);
        Self::serve(place, meridian, address, settings)
    }

    fn serve(
        place: &Place,
        meridian: Meridian,
        address: SocketAddr,
        settings: &str,
    ) -> Result<Self> {
        let name = format!("meridian-{}", address.port());
        // Top-level keys of the file come before its tables.
        let text = settings.to_owned() + Meridian::OPEN;
        let service = meridian.serve(&name, address, &text)?;
        Ok(Self {
            place: place.clone(),
            meridian,
            address,
            pressure: pressure(&service),
            service,
        })
    }

    /// The target for its clients in a place.
    pub(crate) fn from(&self, place: &Place) -> Target {
        Target {
            site: Some(place.site().clone()),
            address: self.address,
            export: Meridian::EXPORT.to_owned(),
        }
    }

    /// The target for clients in its own site.
    pub(crate) fn target(&self) -> Target {
        self.from(&self.place)
    }

    /// The processor time it has used so far.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        processor_time(&self.service).inspect_err(|_| self.place.site().keep_folder())
    }

    /// Restricts it to these processors, until it is restarted.
    pub(crate) fn confine(&self, to: &CpuSet) -> Result<()> {
        affinity::confine(number_of(&self.service)?, to)
    }

    /// The total time in which one of its threads was ready and did not run. None if the kernel does not report it.
    pub(crate) fn waited(&self) -> Result<Option<Duration>> {
        self.pressure.as_ref().map(Pressure::waited).transpose()
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.service.kill()
    }

    /// Starts it again.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.service.restart()?;
        self.service.wait_for_nfs(self.address)
    }

    /// Its log file.
    pub(crate) fn log(&self) -> &Path {
        self.service.log()
    }

    /// Runs a command of the server's program on its data directory.
    pub(crate) fn ask(&self, words: &[&str]) -> Result<String> {
        self.meridian.ask(words)
    }

    /// Its present view.
    fn epoch(&self) -> Result<u64> {
        let epoch = self.replication()?["view"]["epoch"].as_u64();
        epoch.context("a status has no view")
    }

    /// Its replication status.
    pub(crate) fn replication(&self) -> Result<Value> {
        self.meridian.replication()
    }
}

/// The processor time that a server's process has used so far.
///
/// # Errors
/// Fails when it has died.
pub(crate) fn processor_time(service: &Service) -> Result<Duration> {
    let pid = service.pid().context("a server was not started")?;
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let time = stat.ok().and_then(|stat| ProcessorTime::in_stat(&stat));
    let time = time.with_context(|| {
        let log = service.log().display();
        format!("a server has died; its log is {log}")
    })?;
    Ok(time.total())
}

fn number_of(service: &Service) -> Result<u32> {
    let pid = service.pid().context("a server was not started")?;
    Ok(pid.as_raw_nonzero().get().unsigned_abs())
}

/// The pressure on a server's process from now on, until it is restarted.
fn pressure(service: &Service) -> Option<Pressure> {
    let found = number_of(service).and_then(Pressure::of);
    let told = found.inspect_err(|error| {
        eprintln!(
            "evaluation: time for which servers wait for a processor is not known: {error:#}"
        );
    });
    told.ok()
}

/// Whether a server has the whole tree, takes part with all others, and is connected to them.
pub(crate) fn is_ready(status: &Value) -> Result<bool> {
    let ready = status["ready"] == true;
    let peers = status["peers"]
        .as_array()
        .context("a status has no peers")?;
    let mut members = status["view"]["members"].as_array().into_iter().flatten();
    let in_view =
        status["view"]["takes_part"] != false && members.all(|member| member["active"] == true);
    Ok(ready && in_view && peers.iter().all(|peer| peer["connected"] == true))
}

/// Whether nothing is controlled, and no server lacks anything.
fn is_quiet(status: &Value) -> Result<bool> {
    Ok(lacks_nothing(status)? && number(status, "controls_total")? == 0.0)
}

/// Whether none of its peers lacks anything.
pub(crate) fn lacks_nothing(status: &Value) -> Result<bool> {
    let peers = status["peers"]
        .as_array()
        .context("a status has no peers")?;
    for peer in peers {
        if number(peer, "lag_updates")? + number(peer, "lag_files")? > 0.0 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn number(status: &Value, key: &str) -> Result<f64> {
    let value = status[key].as_f64();
    value.with_context(|| format!("a status has no number `{key}`"))
}

/// How late the WAN delivered frames since its settings changed: the mean of the worst
/// link. It shows how busy the machine was.
pub(crate) fn lateness(world: &World) -> Result<Duration> {
    let mut worst = Duration::ZERO;
    for link in world.wan().links() {
        worst = worst.max(link.report()?.lateness.mean());
    }
    Ok(worst)
}

impl Sent {
    /// The traffic since an earlier moment.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            wire: self.wire - earlier.wire,
            content: self.content - earlier.content,
            records: self.records - earlier.records,
        }
    }
}

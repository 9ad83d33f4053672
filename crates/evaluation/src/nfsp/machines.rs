//! Machines of one site: metadata servers and data servers of a pool, a central server, and clients.
//!
//! What must never enter: the work of clients.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::client::Target;
use serde_json::Value;
use testbed::measure::{self, Throughput};
use testbed::{Ganesha, LinkSettings, Meridian, Place, Role, Traffic, World};

use super::{CARD, ONE_WAY, STRIPE_UNIT};
use crate::extent::Extent;
use crate::field::Field;
use crate::sites::{Server, processor_time};

/// The time limit until all servers of a pool serve.
const PATIENCE: Duration = Duration::from_secs(120);

/// The polling interval.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// How long plain TCP is measured.
const TCP_TIME: Duration = Duration::from_secs(3);

/// The number of machines of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    /// Metadata servers; the first one is the home of all objects.
    pub(super) metadata: usize,
    /// Data servers, over which all files are striped.
    pub(super) data: usize,
    /// Clients.
    pub(super) clients: usize,
}

/// All machines, and their servers.
#[derive(Debug)]
pub(super) struct Machines {
    /// In the order of joining.
    pub(super) metadata: Vec<Server>,
    data: Vec<Server>,
    central: Ganesha,
    count: Count,
    program: PathBuf,
    disk: PathBuf,
    world: World,
}

/// The place of a machine among all: the central server comes first, then metadata servers, data servers, clients.
#[derive(Debug, Clone, Copy)]
enum Machine {
    Metadata(usize),
    Data(usize),
    Client(usize),
}

impl Machines {
    /// Starts a central server, and a pool with all its data servers and its first metadata server, with unlimited cards.
    /// [`Machines::grow`] adds others.
    pub(super) fn start(field: &Field, folder: &Path, count: Count) -> Result<Self> {
        let names = names(count);
        let world = World::new(
            &names.iter().map(String::as_str).collect::<Vec<_>>(),
            &LinkSettings::delay(ONE_WAY),
        )?;
        let place = &world.places()[0];
        let exported = folder.join("central");
        std::fs::create_dir(&exported)?;
        let central = Ganesha::start_at(place.site(), &exported, place.nfs_address())?;
        let mut machines = Self {
            metadata: Vec::new(),
            data: Vec::new(),
            central,
            count,
            program: field.program.clone(),
            disk: folder.to_owned(),
            world,
        };
        machines.begin_pool()?;
        machines.grow(1)?;
        Ok(machines)
    }

    fn begin_pool(&mut self) -> Result<()> {
        let place = self.place(Machine::Metadata(0)).clone();
        let unit = format!("{} KiB", STRIPE_UNIT >> 10);
        self.of(&place)
            .begin_pool(&["--stripe-unit", &unit], place.at(Meridian::PEER_PORT))?;
        let first = self.serve(&place)?;
        self.metadata.push(first);
        for number in 0..self.count.data {
            let server = self.joined(Machine::Data(number), Role::DataServer)?;
            self.data.push(server);
        }
        Ok(())
    }

    /// Adds metadata servers until there are this many, and waits until all servers serve.
    pub(super) fn grow(&mut self, metadata: usize) -> Result<()> {
        for number in self.metadata.len()..metadata {
            let server = self.joined(Machine::Metadata(number), Role::MetadataServer)?;
            self.metadata.push(server);
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = pool_status(&self.metadata[0])?;
            let servers = status["servers"].as_array().context("a pool has servers")?;
            let all = self.data.len() + self.metadata.len() - 1;
            let ready = |server: &&Value| {
                server["serves"] == true
                    && (server["role"] != "data server" || server["new_files"] == true)
            };
            if servers.iter().filter(ready).count() == all {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the pool is not ready after {PATIENCE:?}; its first server says\n{status:#}"
            );
            std::thread::sleep(ASK_EVERY);
        }
    }

    fn joined(&self, machine: Machine, role: Role) -> Result<Server> {
        let (place, first) = (self.place(machine), self.place(Machine::Metadata(0)));
        self.of(place)
            .join(&self.of(first), role, place.nfs_address())?;
        self.serve(place)
    }

    fn serve(&self, place: &Place) -> Result<Server> {
        let data = self.disk.join(place.name());
        Server::start(place, &self.program, data, place.nfs_address(), "")
    }

    fn of(&self, place: &Place) -> Meridian {
        Meridian::new(place.site(), &self.program, self.disk.join(place.name()))
    }

    fn place(&self, machine: Machine) -> &Place {
        let metadata = self.count.metadata;
        let index = match machine {
            Machine::Metadata(number) => 1 + number,
            Machine::Data(number) => 1 + metadata + number,
            Machine::Client(number) => 1 + metadata + self.count.data + number,
        };
        &self.world.places()[index]
    }

    /// A client's target for a metadata server.
    pub(super) fn metadata_server(&self, client: usize, server: usize) -> Target {
        self.metadata[server].from(self.place(Machine::Client(client)))
    }

    /// A client's target for the central server.
    pub(super) fn central_server(&self, client: usize) -> Target {
        Target {
            site: Some(self.place(Machine::Client(client)).site().clone()),
            address: self.central.address(),
            export: Ganesha::EXPORT.to_owned(),
        }
    }

    /// Limits what every machine sends and receives, with this many bytes that can wait in front of a card; or removes the limits.
    pub(super) fn bound_cards(&self, queue: Option<u64>) -> Result<()> {
        let settings = match queue {
            Some(bytes) => LinkSettings::default().bandwidth(CARD).queue(bytes),
            None => LinkSettings::default(),
        };
        let wan = self.world.wan();
        let mut names = wan.names().iter();
        names.try_for_each(|name| wan.set_access(name, &settings))
    }

    /// The rate of plain TCP from a client to a data server, in bytes a second. Fails unless two connections to two data servers
    /// have no higher total rate: the card is the limit.
    pub(super) fn plain_tcp(&self) -> Result<f64> {
        let client = self.place(Machine::Client(0));
        let to = |number: usize, time| -> Result<Throughput> {
            let server = self.place(Machine::Data(number));
            measure::throughput(client.site(), server.site(), server.address(), 1, time)
        };
        let one = to(0, TCP_TIME)?.second_half;
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(|| to(1, TCP_TIME));
            let one = to(0, TCP_TIME)?;
            let Ok(other) = other.join() else {
                bail!("measuring plain TCP has panicked");
            };
            Ok(one.second_half + other?.second_half)
        })?;
        let card = CARD as f64;
        ensure!(
            one > 0.8 * card && one.max(both) < 1.02 * card,
            "cards of {CARD} bit/s carry {one} bit/s to one, {both} bit/s to two"
        );
        Ok(one / 8.0)
    }

    /// The processor time that each server has used, by its machine. Fails when one has died.
    pub(super) fn processor_times(&mut self) -> Result<BTreeMap<String, Duration>> {
        let mut times = BTreeMap::new();
        let pool = self.metadata.iter().chain(&self.data);
        for (server, name) in pool.zip(self.world.wan().names().iter().skip(1)) {
            times.insert(name.clone(), server.processor_time()?);
        }
        let central = processor_time(self.central.service())?;
        times.insert(self.world.wan().names()[0].clone(), central);
        Ok(times)
    }

    /// The total bytes that all metadata servers have sent through their cards while these were limited.
    pub(super) fn sent_by_metadata_servers(&self) -> Result<u64> {
        let mut sent = 0;
        for number in 0..self.metadata.len() {
            let name = self.place(Machine::Metadata(number)).name();
            let [Traffic { bytes, .. }, _] = self.world.wan().access(name)?.map(|one| one.traffic);
            sent += bytes;
        }
        Ok(sent)
    }

    /// The final number of machines of each kind.
    pub(super) fn count(&self) -> Count {
        self.count
    }

    /// The world, for its lateness.
    pub(super) fn world(&self) -> &World {
        &self.world
    }
}

/// A server's status of its pool.
pub(super) fn pool_status(server: &Server) -> Result<Value> {
    let status: Value = serde_json::from_str(&server.ask(&["status", "--json"])?)?;
    let pool = status.get("pool").filter(|pool| !pool.is_null());
    pool.cloned().context("the server belongs to no pool")
}

/// Names of machines, see [`Machine`].
fn names(count: Count) -> Vec<String> {
    let several = |what: &str, count| {
        let numbers = 1..=count;
        numbers
            .map(|number| format!("{what}{number}"))
            .collect::<Vec<_>>()
    };
    let mut names = vec!["central".to_owned()];
    names.extend(several("metadata", count.metadata));
    names.extend(several("data", count.data));
    names.extend(several("client", count.clients));
    names
}

/// Figures of processor time between two moments: of each server's process, and of all processes of a kind together.
pub(super) fn processor_figures(
    before: &BTreeMap<String, Duration>,
    after: &BTreeMap<String, Duration>,
) -> Result<BTreeMap<String, f64>> {
    let mut figures = BTreeMap::new();
    for (name, time) in after {
        let earlier = before.get(name).context("a server is new")?;
        let used = time.saturating_sub(*earlier).as_secs_f64();
        let kind = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
        *figures.entry(format!("{kind}_cpu_s")).or_insert(0.0) += used;
        if kind != name {
            figures.insert(format!("{name}_cpu_s"), used);
        }
    }
    Ok(figures)
}

/// The machines of Figures 4 and 5.
pub(super) fn of_bandwidth(extent: Extent) -> Count {
    let whole = Count {
        metadata: 7,
        data: 12,
        clients: 21,
    };
    let quick = Count {
        metadata: 2,
        data: 3,
        clients: 4,
    };
    extent.choose(whole, quick)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_shown_for_each_process_and_each_kind() {
        let times = |all: [(&str, u64); 3]| {
            let all = all.map(|(name, time)| (name.to_owned(), Duration::from_secs(time)));
            BTreeMap::from(all)
        };
        let before = times([("central", 1), ("data1", 1), ("data2", 1)]);
        let after = times([("central", 1), ("data1", 3), ("data2", 5)]);
        let figures = processor_figures(&before, &after).unwrap();
        let expected = [
            ("central_cpu_s", 0.0),
            ("data1_cpu_s", 2.0),
            ("data2_cpu_s", 4.0),
            ("data_cpu_s", 6.0),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(figures, BTreeMap::from(expected));
        assert!(processor_figures(&BTreeMap::new(), &after).is_err());
    }
}

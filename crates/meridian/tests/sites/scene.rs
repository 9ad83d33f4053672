//! What the stories have in common: three sites, a server and a client at each, a WAN between them.
//!
//! What must never enter: expectations of a single story.

use std::fs;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use server::{ExportStatus, ReplicaStatus};
use testbed::{
    Guest, Job, LinkSettings, Meridian, Mount, NFS_PORT, Output, Place, Role, Script, Service, Wan,
    World,
};

use crate::hands::run;
pub use crate::hands::{Hand, MOUNT, PATIENCE, eventually, finish, lines, program};

/// The sites, in the order of their slots in the set.
pub const NAMES: [&str; 3] = ["paris", "oslo", "rome"];

/// Where each guest sees the tree without a cache, to judge what its server says.
pub const UNCACHED: &str = "/run/w";

/// At every address of a site, also at those that come later.
const LISTEN: &str = "0.0.0.0:2049";

/// Everybody may write, root is root, and leases outlive a busy machine's hiccups. Linux moves a mount to another server (drain) from
/// an ordinary port.
const CONFIGURATION: &str = "\
[[export]]
path = \"/export\"
[[export.allow]]
clients = \"*\"
secure = false
squash = \"none\"
[time]
lease_seconds = 30
[metrics]
listen = \"off\"
";

/// The distance of sites where a story does not choose another.
pub fn far() -> LinkSettings {
    LinkSettings::round_trip(Duration::from_millis(120)).bandwidth(1_000_000_000)
}

/// Three sites that keep one tree. Sites go by their place in [`NAMES`].
pub struct Sites {
    guests: Vec<Guest>,
    servers: Vec<Service>,
    world: World,
}

/// Worlds between stories: as many as stories are told at once.
static WORLDS: Mutex<Vec<Sites>> = Mutex::new(Vec::new());

fn worlds() -> MutexGuard<'static, Vec<Sites>> {
    WORLDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells a story in a world that the stories before left, or in a new one.
pub fn in_sites(story: impl FnOnce(&Sites) -> Result<()>) -> Result<()> {
    let sites = whole()?;
    let outcome = story(&sites).and_then(|()| sites.world.wan().set(&far()));
    match outcome {
        Ok(()) => {
            worlds().push(sites);
            Ok(())
        }
        Err(error) => {
            let places = sites.world.places().iter();
            places.for_each(|place| place.site().keep_folder());
            Err(error)
        }
    }
}

/// A world of stories before, or a new one, for a story that ends it.
pub fn whole() -> Result<Sites> {
    let left = worlds().pop();
    left.map_or_else(Sites::set_up, Ok)
}

/// Takes the worlds down.
pub fn end() {
    worlds().clear();
}

impl Sites {
    /// Does what the manual says under "Several sites", and mounts each server at its site.
    fn set_up() -> Result<Self> {
        let world = World::new(&NAMES, &far())?;
        let first = &world.places()[0];
        on_data(first).begin_set(peer_address(first))?;
        let mut servers = vec![serve(first)?];
        for place in &world.places()[1..] {
            on_data(place).join(&on_data(first), Role::Replica, peer_address(place))?;
            servers.push(serve(place)?);
        }
        let guests = world.everywhere(|place| place.guest("client"))?;
        let sites = Self {
            guests,
            servers,
            world,
        };
        for site in 0..NAMES.len() {
            eventually("every server has the tree and sees the others", || {
                let status = sites.status(site)?;
                let connected = status.peers.iter().filter(|peer| peer.connected).count();
                Ok(status.ready && connected + 1 == NAMES.len())
            })?;
        }
        for (guest, place) in sites.guests.iter().zip(sites.world.places()) {
            guest.mount(&Mount::of(place.nfs_address(), "/export"), MOUNT)?;
        }
        sites.mount_as("nosharecache,noac,lookupcache=none", UNCACHED)?;
        Ok(sites)
    }

    /// Mounts every server at its site once more, with options of nfs(5).
    pub fn mount_as(&self, options: &str, at: &str) -> Result<()> {
        for (guest, place) in self.guests.iter().zip(self.world.places()) {
            let mount = Mount::of(place.nfs_address(), "/export");
            guest.mount(&mount.option(options), at)?;
        }
        Ok(())
    }

    /// The network between the sites.
    pub fn wan(&self) -> &Wan {
        self.world.wan()
    }

    /// What this site's server says of its replica.
    pub fn status(&self, site: usize) -> Result<ReplicaStatus> {
        let replication = self.export(site)?.replication;
        replication.context("the server belongs to a set")
    }

    /// How many files without a name this site's server keeps.
    pub fn orphans(&self, site: usize) -> Result<u64> {
        Ok(self.export(site)?.store.orphans)
    }

    fn export(&self, site: usize) -> Result<ExportStatus> {
        let text = meridian(&self.world.places()[site], &["status", "--json"])?;
        let mut status: server::Status = serde_json::from_str(&text)?;
        Ok(status.exports.remove(0))
    }

    /// A process at this site that does what it is told, in the mounted tree.
    pub fn hand(&self, site: usize) -> Result<Hand> {
        let place = &self.world.places()[site];
        Hand::begin(place.site(), &self.guests[site], |script| script)
    }

    /// A client at this site that knows its server by a service address, which may move to another site.
    pub fn traveller(&self, site: usize, service: u8) -> Result<Guest> {
        let guest = self.world.places()[site].guest("traveller")?;
        let address = SocketAddr::new(self.wan().service_address(service), NFS_PORT);
        guest.mount(&Mount::of(address, "/export"), MOUNT)?;
        Ok(guest)
    }

    /// Mounts the server of a site at another client than its usual one.
    pub fn mount_at(&self, guest: &Guest, site: usize, at: &str) -> Result<()> {
        let address = self.world.places()[site].nfs_address();
        guest.mount(&Mount::of(address, "/export"), at)
    }

    /// A process of another client at this site than the usual one.
    pub fn hand_of(&self, site: usize, guest: &Guest) -> Result<Hand> {
        Hand::begin(self.world.places()[site].site(), guest, |script| script)
    }

    /// Chooses the durability of the whole tree.
    pub fn set_durability(&self, durability: &str) -> Result<()> {
        let first = &self.world.places()[0];
        meridian(first, &["durability", "/", durability]).map(drop)
    }

    /// Ends the server of this site with SIGKILL.
    pub fn kill_server(&mut self, site: usize) -> Result<()> {
        self.servers[site].kill()
    }

    /// Has the server of one site send its clients to that of another, and stop. Returns what is said meanwhile.
    pub fn drain(&self, from: usize, to: usize) -> Result<String> {
        let places = self.world.places();
        let to = places[to].address().to_string();
        meridian(&places[from], &["drain", "--to", &to])
    }

    /// One process at each site.
    pub fn hands(&self) -> Result<Vec<Hand>> {
        (0..NAMES.len()).map(|site| self.hand(site)).collect()
    }

    /// Runs a script at this site that must succeed.
    pub fn run(&self, site: usize, script: impl Into<Script>) -> Result<Output> {
        run(&self.guests[site], script).with_context(|| format!("at {}", NAMES[site]))
    }

    /// Starts a script at this site.
    pub fn start(&self, site: usize, script: impl Into<Script>) -> Result<Job> {
        self.guests[site].start(script)
    }

    /// Starts this at each site, and waits until all have ended well.
    pub fn everywhere<S: Into<Script>>(&self, script: impl Fn(usize) -> S) -> Result<()> {
        let sites = 0..NAMES.len();
        let jobs = sites.map(|site| self.start(site, script(site)));
        let jobs: Vec<Job> = jobs.collect::<Result<_>>()?;
        for (job, name) in jobs.iter().zip(NAMES) {
            finish(job).with_context(|| format!("at {name}"))?;
        }
        Ok(())
    }

    /// A folder of the host that every guest sees under the same path, for what a story brings along.
    pub fn host_folder(&self, name: &str) -> Result<std::path::PathBuf> {
        let folder = self.world.places()[0].site().folder().join(name);
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// Waits until every server has everything that was made at the others.
    pub fn quiet(&self) -> Result<()> {
        eventually("every server has everything", || {
            for site in 0..NAMES.len() {
                let status = self.status(site)?;
                let behind = |peer: &server::PeerView| {
                    !peer.connected || peer.lag_updates + peer.lag_files > 0
                };
                if status.peers.iter().any(behind) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Fails unless this folder of the tree is the same at every site: names, kinds, attributes and contents.
    /// Returns what it looks like, a line an entry.
    pub fn equal_everywhere(&self, folder: &str) -> Result<String> {
        self.quiet()?;
        let look = format!(
            "cd {UNCACHED}/{folder} && find . -printf '%P %y %m %U:%G %n %T@ %l\\n' | sort &&
             find . -type f -print0 | sort -z | xargs -0r sha256sum"
        );
        let seen = (0..NAMES.len()).map(|site| Ok(self.run(site, look.as_str())?.text()));
        let seen: Vec<String> = seen.collect::<Result<_>>()?;
        for (text, name) in seen.iter().zip(NAMES) {
            let differs = seen[0].lines().zip(text.lines());
            let differs = differs.filter(|(one, other)| one != other);
            let differs: Vec<_> = differs.take(10).collect();
            ensure!(
                *text == seen[0],
                "'{folder}' differs between {} and {name}, in {} and {} lines: {differs:#?}",
                NAMES[0],
                seen[0].lines().count(),
                text.lines().count()
            );
        }
        Ok(seen.into_iter().next().expect("there are sites"))
    }

    /// Ends clients and servers in order, and fails unless every store is in order.
    pub fn end_well(self) -> Result<()> {
        for guest in self.guests {
            guest.power_off()?;
        }
        for mut server in self.servers {
            let status = server.stop()?;
            ensure!(status.success(), "a server stopped with {status}");
        }
        for place in self.world.places() {
            meridian(place, &["check"]).context("a store is damaged")?;
        }
        Ok(())
    }
}

/// Waits until the job has done some more.
pub fn more(job: &Job) -> Result<()> {
    let goal = lines(job)? + 3;
    eventually("the work goes on", || {
        let ended = job.wait(Duration::ZERO)?;
        let error = ended.map(|output| output.error_text());
        ensure!(error.is_none(), "the work ended: {error:?}");
        Ok(lines(job)? >= goal)
    })
}

pub fn peer_address(place: &Place) -> SocketAddr {
    place.at(Meridian::PEER_PORT)
}

/// Starts the server of a place, and waits until it answers.
pub fn serve(place: &Place) -> Result<Service> {
    serve_with(place, "")
}

/// [`serve`] with some more lines of configuration.
pub fn serve_with(place: &Place, configuration: &str) -> Result<Service> {
    let configuration = CONFIGURATION.to_owned() + configuration;
    let mut server = on_data(place).start("meridian", LISTEN, &configuration)?;
    server.wait_for_nfs(place.nfs_address())?;
    Ok(server)
}

/// Runs the program to its good end, on the data of a place, and returns what it printed.
pub fn meridian(place: &Place, words: &[&str]) -> Result<String> {
    let said = on_data(place).ask(words);
    said.with_context(|| format!("at {}", place.name()))
}

/// Adds to an error what the servers of these places warned of last.
pub fn told_of(places: &[Place], outcome: Result<()>) -> Result<()> {
    outcome.with_context(|| {
        let said = places.iter().map(|place| {
            let log = fs::read_to_string(place.site().folder().join("meridian.log"));
            let log = log.unwrap_or_default();
            let warnings = log.lines().filter(|line| line.contains("WARN"));
            let last: Vec<&str> = warnings.rev().take(3).collect();
            format!("{} logged last: {last:?}", place.name())
        });
        said.collect::<Vec<_>>().join("; ")
    })
}

/// The program on the data of a place.
pub fn on_data(place: &Place) -> Meridian {
    let data = place.site().folder().join("data");
    Meridian::new(place.site(), env!("CARGO_BIN_EXE_meridian"), data)
}

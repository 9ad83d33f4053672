//! Servers for the package: sets of replicas and single servers, started when they are first needed.
//!
//! What must never enter: points, and figures.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use bench::affinity::Parts;
use bench::trial::Outcome;
use testbed::{LinkSettings, World};

use super::play::Play;
use crate::field::{Field, Folder};
use crate::replay::Pauses;
use crate::sites::{Server, Sites};

/// At most this many servers may be idle while others work: an idle set renews its leases, at a small
/// cost.
const SERVERS_MAX: usize = 14;

/// The pauses of the whole recording, in seconds.
const PAUSES: f64 = 182.0;

/// The settings of a replay.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setup {
    /// The number of replicas; one means a server without replication.
    pub(crate) replicas: usize,
    /// Lines of the configuration of all of them.
    pub(crate) settings: String,
    /// The round trip between any two replicas. A single server has its client beside it.
    pub(crate) round_trip: Duration,
    /// The treatment of the recorded pauses.
    pub(crate) pauses: Pauses,
    /// The maximum number of replayed steps.
    pub(crate) steps: usize,
    /// The work that may run at the same time.
    pub(crate) beside: Beside,
    /// Whether the client and its server have their own processors. Then nothing may run at the same time.
    pub(crate) is_apart: bool,
}

/// The work that may run during a replay without mutual interference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Nothing: the replay keeps the machine busy all the time.
    Nothing,
    /// Other replays, in its pauses; phases without pauses take turns.
    Pauses,
    /// Any number of other replays: this one waits for a distant server nearly all the time.
    Everything {
        /// The approximate number of round trips that the whole package waits for.
        round_trips: u32,
    },
}

/// Running servers.
struct Stand {
    replicas: usize,
    settings: String,
    link: LinkSettings,
    /// The assignment of processors, if they are kept apart.
    parts: Option<Parts>,
    servers: Servers,
    /// Dropped after the servers.
    _folder: Folder,
}

enum Servers {
    Set(Sites),
    Alone {
        server: Server,
        /// Dropped after the server.
        _world: World,
    },
}

impl Servers {
    /// Gives the first server its own processors; all others share the rest.
    fn keep_apart(&self, parts: &Parts) -> Result<()> {
        let (first, others, idle) = match self {
            Self::Alone { server, .. } => (server, &[][..], None),
            Self::Set(sites) => {
                let (first, others) = sites.replicas.split_first().context("an empty set")?;
                (first, others, Some(&sites.alone))
            }
        };
        first.confine(&parts.measured)?;
        let mut others = others.iter().chain(idle);
        others.try_for_each(|other| other.confine(&parts.others))
    }
}

impl Stand {
    /// Starts servers in a world with its final distances, before any connection is made.
    fn start(field: &Field, setup: &Setup) -> Result<Self> {
        let folder = field.folder()?;
        let link = setup.link();
        let (program, settings) = (&field.program, &setup.settings);
        let servers = match setup.replicas {
            1 => {
                let world = World::new(&["a"], &link)?;
                let place = world.places().first().context("a world has a place")?;
                let data = folder.path().join("alone");
                let address = place.nfs_address();
                let server = Server::start(place, program, data, address, settings)?;
                Servers::Alone {
                    server,
                    _world: world,
                }
            }
            count => {
                let disk = folder.path().join("set");
                Servers::Set(Sites::start_with(&link, program, &disk, count, settings)?)
            }
        };
        let parts = setup.is_apart.then(Parts::of_this_machine).transpose()?;
        if let Some(parts) = &parts {
            servers.keep_apart(parts)?;
        }
        Ok(Self {
            replicas: setup.replicas,
            settings: settings.clone(),
            link,
            parts,
            servers,
            _folder: folder,
        })
    }

    fn fits(&self, setup: &Setup) -> bool {
        let is_alike = self.replicas == setup.replicas && self.settings == setup.settings;
        let is_alike = is_alike && self.parts.is_some() == setup.is_apart;
        is_alike && self.link == setup.link()
    }

    fn play(&self, play: Play<'_>, home: &str) -> Result<Outcome> {
        match &self.parts {
            Some(parts) => parts.with_this_thread_apart(|| self.play_here(play, home))?,
            None => self.play_here(play, home),
        }
    }

    fn play_here(&self, play: Play<'_>, home: &str) -> Result<Outcome> {
        match &self.servers {
            Servers::Set(sites) => {
                // The settings do not change; this resets the lateness.
                sites.set(&self.link)?;
                let server = sites.replicas.first();
                Play { server, ..play }.at_set(sites, home)
            }
            Servers::Alone { server, .. } => {
                let play = Play {
                    server: Some(server),
                    ..play
                };
                let played = play.at(&server.target(), home)?;
                played.check_at(&server.target())?;
                server.processor_time()?;
                Ok(played.figures)
            }
        }
    }
}

/// The servers of a round.
pub(crate) struct Stands<'a> {
    field: &'a Field,
    stands: Vec<Stand>,
    played: usize,
}

impl<'a> Stands<'a> {
    /// No servers yet.
    pub(crate) fn of(field: &'a Field) -> Self {
        Self {
            field,
            stands: Vec::new(),
            played: 0,
        }
    }

    /// Replays the package at servers of this kind, which run already or are started.
    pub(crate) fn play(&mut self, setup: &Setup) -> Result<Outcome> {
        let home = self.home();
        let beginning = self.field.trace.beginning(setup.steps);
        let play = Play {
            trace: &beginning,
            pauses: setup.pauses,
            server: None,
            turn: (setup.beside == Beside::Pauses).then_some(&self.field.turn),
        };
        self.stand(setup)?.play(play, &home)
    }

    /// The set of this kind, with its distances.
    pub(crate) fn sites(&mut self, setup: &Setup) -> Result<&Sites> {
        let stand = self.stand(setup)?;
        match &stand.servers {
            Servers::Set(sites) => {
                // See `Stand::play`.
                sites.set(&stand.link)?;
                Ok(sites)
            }
            Servers::Alone { .. } => bail!("a single server is no set"),
        }
    }

    /// The name of a new directory.
    pub(crate) fn home(&mut self) -> String {
        self.played += 1;
        format!("work-{}", self.played)
    }

    fn stand(&mut self, setup: &Setup) -> Result<&Stand> {
        let at = match self.stands.iter().position(|stand| stand.fits(setup)) {
            Some(at) => at,
            None => {
                self.make_space(setup.replicas);
                self.stands.push(Stand::start(self.field, setup)?);
                self.stands.len() - 1
            }
        };
        Ok(&self.stands[at])
    }

    /// Stops the servers that were started first, as many as needed.
    fn make_space(&mut self, servers: usize) {
        let running = |stands: &[Stand]| stands.iter().map(|stand| stand.replicas).sum::<usize>();
        while !self.stands.is_empty() && running(&self.stands) + servers > SERVERS_MAX {
            self.stands.remove(0);
        }
    }
}

impl Setup {
    /// The links of its world. A single server needs none, so it serves for all distances.
    fn link(&self) -> LinkSettings {
        match self.replicas {
            1 => LinkSettings::default(),
            _ => LinkSettings::round_trip(self.round_trip),
        }
    }

    /// The approximate time at running servers for a package with `steps_all` steps. For the whole package a single server takes
    /// 9 s, including the comparison afterwards, and each replica takes another 5 s, because they share this machine.
    pub(crate) fn expected(&self, steps_all: usize) -> Duration {
        let share = self.steps.min(steps_all) as f64 / steps_all as f64;
        let work = 4.0 + 5.0 * self.replicas as f64;
        let pauses = match self.pauses {
            Pauses::None => 0.0,
            Pauses::Whole => PAUSES,
            Pauses::Shortened(divisor) => PAUSES / f64::from(divisor),
        };
        let waits = match self.beside {
            Beside::Everything { round_trips } => {
                self.round_trip.as_secs_f64() * f64::from(round_trips)
            }
            _ => 0.0,
        };
        Duration::from_secs_f64(1.0 + share * (work + pauses + waits))
    }
}

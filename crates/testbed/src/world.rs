//! Places far apart on one machine: sites joined by a WAN, for tests with several servers.
//!
//! What must never enter: the command lines of servers, and what tests expect.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use anyhow::{Context, Result};

use crate::guest::{Guest, GuestConfig};
use crate::site::{NFS_PORT, Site};
use crate::wan::{LinkSettings, Wan};

/// Memory of a guest in MiB. Several places share one machine, and tests need little.
const GUEST_MEMORY_MIB: u32 = 384;

/// Several sites and the WAN between them. All of it, including services and guests, is removed when the world is dropped or the
/// process ends.
#[derive(Debug)]
pub struct World {
    wan: Wan,
    places: Vec<Place>,
}

/// One site of a world.
#[derive(Clone, Debug)]
pub struct Place {
    name: String,
    address: IpAddr,
    site: Site,
}

impl World {
    /// Makes a site for each name, and joins them with equal settings in every direction. Needs everything
    /// in [`crate::Requirements::with_wan`].
    pub fn new(names: &[&str], settings: &LinkSettings) -> Result<Self> {
        let sites = names.iter().map(|_| Site::new());
        let sites: Vec<Site> = sites.collect::<Result<_>>()?;
        let pairs: Vec<(&str, &Site)> = names.iter().copied().zip(&sites).collect();
        let wan = Wan::join(&pairs, settings)?;
        let place = |(name, site): (&str, &Site)| {
            Ok(Place {
                name: name.to_owned(),
                address: wan.address(name)?,
                site: site.clone(),
            })
        };
        Ok(Self {
            places: pairs.into_iter().map(place).collect::<Result<_>>()?,
            wan,
        })
    }

    /// The network between the places.
    pub fn wan(&self) -> &Wan {
        &self.wan
    }

    /// All places, in the order of their names at the beginning.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The place of this name.
    pub fn place(&self, name: &str) -> Result<&Place> {
        let mut places = self.places.iter();
        let place = places.find(|place| place.name == name);
        place.with_context(|| format!("the world has no place '{name}'"))
    }

    /// Does the same in every place at the same time, and returns the results in the order of the
    /// places.
    ///
    /// # Errors
    /// Fails with the first place's error, after all have ended.
    pub fn everywhere<T: Send>(&self, work: impl Fn(&Place) -> Result<T> + Sync) -> Result<Vec<T>> {
        std::thread::scope(|scope| {
            let work = &work;
            let places = self.places.iter();
            let threads: Vec<_> = places
                .map(|place| (place, scope.spawn(move || work(place))))
                .collect();
            let outcomes = threads.into_iter().map(|(place, thread)| {
                let outcome = thread.join();
                outcome
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    .with_context(|| format!("at {}", place.name))
            });
            let outcomes: Vec<Result<T>> = outcomes.collect();
            outcomes.into_iter().collect()
        })
    }
}

impl Place {
    /// The name of the site on the WAN.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The site itself.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// The address at which every place and every guest reaches this place over the WAN. Its own
    /// guests reach it too, without crossing the WAN.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// [`Place::address`] with a port.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address, port)
    }

    /// [`Place::address`] with the standard NFS port.
    pub fn nfs_address(&self) -> SocketAddr {
        self.at(NFS_PORT)
    }

    /// A command that will run in this place.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.site.command(program)
    }

    /// Boots a guest in this place, a real Linux client on a local cable. Its host name begins with the
    /// place's name, so that a server never takes clients of different places for one. Two guests of
    /// one place need different names.
    pub fn guest(&self, name: &str) -> Result<Guest> {
        let config = GuestConfig {
            memory_mib: GUEST_MEMORY_MIB,
            ..GuestConfig::default()
        };
        Guest::boot_with(&self.site, &format!("{}-{name}", self.name), &config)
    }
}

//! A wide area network between sites on one machine.
//!
//! [`Wan::join`] gives every site a TUN device and an address, and forwards packets
//! between them. Each direction has its own delay, jitter, loss and bandwidth. All of these can be
//! changed, and links cut and healed, while traffic flows; the traffic is counted. Linux's
//! `netem` does similar things, but not every machine's kernel has it, and it counts less.
//!
//! ```text
//!   site a                                                        site b
//!   10.200.1.1 ── wan0 ──┐                                ┌── wan0 ── 10.200.2.1
//!                        └── forwarder: a line each way ──┘
//! ```
//!
//! A frame is read from one device, goes through the model of its line (`line`), waits until it is
//! due, and is written to the other device. TCP's super-frames cross as a whole, which is cheap.
//! They are counted and lost as the packets that a wire would have carried (`frame`).
//!
//! Exactness, measured by `testbed wan measure`: README.md of this crate.
//!
//! The forwarder is a thread of the process that made the [`Wan`], so that any test can have one. When
//! that process ends for any reason, devices and sites are removed. For shells, `testbed wan up` is such
//! a process, and every `Wan` accepts `testbed wan` commands (`control`).
//!
//! What must never enter: knowledge of the traffic.

mod addresses;
mod buffers;
mod control;
mod device;
mod forwarder;
mod frame;
mod line;
mod settings;
mod units;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

pub use control::WanControl;
pub use settings::{Lateness, LinkSettings, Traffic};

use crate::site::Site;
use addresses::SITES_MAX;
use control::Listener;
use forwarder::{Forwarder, Which};
use line::Line;

/// A WAN between sites, by their names. Clones are the same WAN; it ends with the last one.
#[derive(Clone, Debug)]
pub struct Wan {
    network: Arc<Network>,
    /// None in the copy of the listener itself.
    listener: Option<Arc<Listener>>,
}

#[derive(Debug)]
struct Network {
    names: Vec<String>,
    forwarder: Forwarder,
    sites: Vec<Site>,
}

impl Wan {
    /// Joins sites under these names, with equal settings in every direction. Needs root and
    /// `/dev/net/tun`; see [`crate::Requirements::with_wan`].
    ///
    /// # Errors
    /// Fails when a name is used twice or is not made of letters, digits and hyphens, and when a site
    /// belongs to a WAN already.
    pub fn join(sites: &[(&str, &Site)], settings: &LinkSettings) -> Result<Self> {
        settings.check()?;
        let names: Vec<String> = sites.iter().map(|(name, _)| (*name).to_owned()).collect();
        check_names(&names)?;
        let devices = sites.iter().enumerate();
        let devices = devices.map(|(index, (_, site))| device::join(site, index));
        let wan = Self {
            network: Arc::new(Network {
                names,
                forwarder: Forwarder::start(devices.collect::<Result<_>>()?, *settings)?,
                sites: sites.iter().map(|(_, site)| (*site).clone()).collect(),
            }),
            listener: None,
        };
        let (_, first) = sites.first().context("a WAN needs sites")?;
        let listener = Listener::start(first.folder(), wan.clone())?;
        Ok(Self {
            listener: Some(Arc::new(listener)),
            ..wan
        })
    }

    /// The names of the sites, in the order of joining.
    pub fn names(&self) -> &[String] {
        &self.network.names
    }

    /// The site of this name.
    pub fn site(&self, name: &str) -> Result<&Site> {
        Ok(&self.network.sites[self.index(name)?])
    }

    /// The address under which the other sites reach this one.
    pub fn address(&self, name: &str) -> Result<IpAddr> {
        Ok(addresses::site(self.index(name)?).into())
    }

    /// A service address: it belongs to no site until [`Wan::move_address`] gives it to one.
    /// Numbers count from 1.
    pub fn service_address(&self, number: u8) -> IpAddr {
        addresses::service(number).into()
    }

    /// Moves a service address to a site, which is then reachable at it from all sites. `None` takes
    /// it away from all sites. The site that had it loses it first, with its connections' packets.
    pub fn move_address(&self, number: u8, to: Option<&str>) -> Result<()> {
        let address = addresses::service(number);
        let to = to.map(|name| self.index(name)).transpose()?;
        let give = |to| {
            let forwarder = &self.network.forwarder;
            forwarder.ask(move |lines| lines.give(address, to))
        };
        let one = format!("{address}/32");
        let configure = |site: usize, verb: &str| {
            self.network.sites[site].configure(&["addr", verb, &one, "dev", "lo"])
        };
        if let Some(previous) = give(None)? {
            configure(previous, "del")?;
        }
        if let Some(to) = to {
            configure(to, "add")?;
            give(Some(to))?;
        }
        Ok(())
    }

    /// The direction from one site to another; the other direction is a separate link.
    pub fn link(&self, from: &str, to: &str) -> Result<Link<'_>> {
        let (from, to) = (self.index(from)?, self.index(to)?);
        ensure!(from != to, "a site has no link to itself");
        Ok(Link {
            wan: self,
            from,
            to,
        })
    }

    /// All links, one for each ordered pair of sites.
    pub fn links(&self) -> impl Iterator<Item = Link<'_>> {
        let count = self.network.names.len();
        let pairs = (0..count).flat_map(move |from| (0..count).map(move |to| (from, to)));
        let pairs = pairs.filter(|(from, to)| from != to);
        pairs.map(|(from, to)| Link {
            wan: self,
            from,
            to,
        })
    }

    /// Changes the settings of every link.
    pub fn set(&self, settings: &LinkSettings) -> Result<()> {
        self.links().try_for_each(|link| link.set(settings))
    }

    /// Cuts both directions between two sites. When this returns nothing passes, and packets on their
    /// way are lost.
    pub fn cut(&self, a: &str, b: &str) -> Result<()> {
        self.link(a, b)?.cut()?;
        self.link(b, a)?.cut()
    }

    /// Joins both directions between two sites again.
    pub fn heal(&self, a: &str, b: &str) -> Result<()> {
        self.link(a, b)?.heal()?;
        self.link(b, a)?.heal()
    }

    /// Joins all links again.
    pub fn heal_all(&self) -> Result<()> {
        self.links().try_for_each(|link| link.heal())
    }

    /// Cuts every link between a site of `group` and a site outside it, both ways. Links within each part
    /// stay unchanged.
    pub fn partition(&self, group: &[&str]) -> Result<()> {
        let indices = group.iter().map(|name| self.index(name));
        let inside: Vec<usize> = indices.collect::<Result<_>>()?;
        let crosses = |link: &Link| inside.contains(&link.from) != inside.contains(&link.to);
        let mut crossing = self.links().filter(crosses);
        crossing.try_for_each(|link| link.cut())
    }

    /// Bounds the total traffic that a site sends, and that it receives, as a network card and
    /// its cable do. Each direction has these settings, in addition to those of the links. The default bounds nothing.
    pub fn set_access(&self, site: &str, settings: &LinkSettings) -> Result<()> {
        settings.check()?;
        let (site, settings) = (self.index(site)?, *settings);
        self.network.forwarder.ask(move |lines| {
            for which in [Which::OutOf(site), Which::Into(site)] {
                lines.at(which).set(settings);
            }
        })
    }

    /// The state of the lines of [`Wan::set_access`]: sent and received traffic. Only traffic
    /// during a bound is counted.
    pub fn access(&self, site: &str) -> Result<[LinkReport; 2]> {
        let site = self.index(site)?;
        self.network.forwarder.ask(move |lines| {
            [Which::OutOf(site), Which::Into(site)].map(|which| LinkReport::of(lines.at(which)))
        })
    }

    /// The traffic in all directions together.
    pub fn traffic(&self) -> Result<Traffic> {
        self.links().try_fold(Traffic::default(), |sum, link| {
            Ok(sum + link.report()?.traffic)
        })
    }

    /// The socket on which this WAN takes `testbed wan` commands; see [`WanControl`].
    pub fn control_path(&self) -> &Path {
        let listener = self.listener.as_ref();
        listener
            .expect("only the listener's own copy has none, and that never leaves it")
            .path()
    }

    fn index(&self, name: &str) -> Result<usize> {
        let mut names = self.network.names.iter();
        names.position(|known| known == name).with_context(|| {
            let known = self.network.names.join(", ");
            format!("the WAN has no site '{name}'; its sites are {known}")
        })
    }
}

/// One direction between two sites.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    wan: &'a Wan,
    from: usize,
    to: usize,
}

/// The state of a link at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkReport {
    /// Its settings.
    pub settings: LinkSettings,
    /// Whether nothing passes.
    pub is_cut: bool,
    /// Its traffic.
    pub traffic: Traffic,
    /// The lateness of frames since the last change of settings.
    pub lateness: Lateness,
}

impl LinkReport {
    fn of<F>(line: &Line<F>) -> Self {
        Self {
            settings: line.settings(),
            is_cut: line.is_cut(),
            traffic: line.traffic(),
            lateness: line.lateness(),
        }
    }
}

impl<'a> Link<'a> {
    /// The name of the site that sends.
    pub fn from(&self) -> &'a str {
        &self.wan.network.names[self.from]
    }

    /// The name of the site that receives.
    pub fn to(&self) -> &'a str {
        &self.wan.network.names[self.to]
    }

    /// Changes all settings, for later packets. Packets on their way keep their time,
    /// and are not overtaken.
    pub fn set(&self, settings: &LinkSettings) -> Result<()> {
        let settings = *settings;
        self.update(move |old| {
            *old = settings;
            Ok(())
        })
    }

    /// Changes some settings and keeps the others.
    pub fn update(
        &self,
        change: impl FnOnce(&mut LinkSettings) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (from, to) = (self.from, self.to);
        self.wan.network.forwarder.ask(move |lines| {
            let line = lines.at(Which::Between(from, to));
            let mut settings = line.settings();
            change(&mut settings)?;
            settings.check()?;
            line.set(settings);
            Ok(())
        })?
    }

    /// Cuts this direction. When this returns nothing passes, and packets on their way are lost.
    pub fn cut(&self) -> Result<()> {
        self.set_cut(true)
    }

    /// Joins this direction again.
    pub fn heal(&self) -> Result<()> {
        self.set_cut(false)
    }

    /// Settings, state and counters.
    pub fn report(&self) -> Result<LinkReport> {
        let (from, to) = (self.from, self.to);
        let which = Which::Between(from, to);
        let forwarder = &self.wan.network.forwarder;
        forwarder.ask(move |lines| LinkReport::of(lines.at(which)))
    }

    /// The traffic in this direction.
    pub fn traffic(&self) -> Result<Traffic> {
        Ok(self.report()?.traffic)
    }

    fn set_cut(&self, is_cut: bool) -> Result<()> {
        let (from, to) = (self.from, self.to);
        let which = Which::Between(from, to);
        let forwarder = &self.wan.network.forwarder;
        forwarder.ask(move |lines| lines.at(which).set_cut(is_cut, Instant::now()))
    }
}

/// Names appear on command lines, in lists with commas.
fn check_names(names: &[String]) -> Result<()> {
    ensure!(
        (1..=SITES_MAX).contains(&names.len()),
        "a WAN joins 1 to {SITES_MAX} sites"
    );
    for (index, name) in names.iter().enumerate() {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        ensure!(
            name.bytes().all(plain) && name.starts_with(|first: char| first.is_alphanumeric()),
            "'{name}' is no name for a site; use letters, digits and hyphens"
        );
        ensure!(
            !names[..index].contains(name),
            "two sites are called '{name}'"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sites_are_plain_and_differ() {
        let check = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            check_names(&names)
        };
        assert!(check(&["a", "b-2"]).is_ok());
        for wrong in [&[][..], &["a", "a"], &["a,b"], &[""], &["--a"], &["a b"]] {
            assert!(check(wrong).is_err(), "{wrong:?}");
        }
    }
}

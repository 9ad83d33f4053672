//! Sites far apart with a server each, and the faults that they can suffer.
//!
//! What must never enter: when faults happen (`schedule`), and clients.

pub mod clock;
pub mod disk;
mod plan;
pub mod server;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use testbed::{LinkSettings, Meridian, Place, Signal, World};

use crate::schedule::{Blow, FIRST, Fault, POOLED, is_data_server, name, numbers};
use clock::Clock;
use disk::Disk;
use server::Server;

pub use plan::{Plan, Together};

/// How long a set may take to become ready.
const PATIENCE: Duration = Duration::from_secs(120);

/// The interval between checks meanwhile.
const POLL: Duration = Duration::from_millis(100);

/// The number of controls shown; there can be hundreds.
const CONTROLS_SHOWN: usize = 4;

/// The bandwidth between sites, in bits a second.
const BANDWIDTH: u64 = 1_000_000_000;

/// The time from a data server of a site to the site's other server and back.
const WITHIN_SITE: Duration = Duration::from_millis(1);

/// The sites of a run.
#[derive(Debug)]
pub struct Sites {
    /// By their numbers.
    servers: BTreeMap<usize, Mutex<Server>>,
    /// The slots of the servers, in the order of the sites.
    slots: Mutex<Vec<u16>>,
    /// The number of sites with clients; witnesses and data servers come last and have none.
    serving: usize,
    /// For each direction between two sites, the number of faults that cut it.
    cuts: Mutex<BTreeMap<(usize, usize), u32>>,
    /// The bandwidths of slow links, one for each fault that slows the link down.
    slow: Mutex<BTreeMap<(usize, usize), Vec<u64>>>,
    world: World,
}

impl Sites {
    /// Sets the servers up and waits until all of them are ready.
    pub fn set_up(plan: &Plan) -> Result<Self> {
        disk::sweep();
        let numbers: Vec<usize> = numbers(plan.sites, plan.kind.data_servers()).collect();
        let names: Vec<&str> = numbers.iter().copied().map(name).collect();
        let links = LinkSettings::round_trip(plan.round_trip).bandwidth(BANDWIDTH);
        let world = World::new(&names, &links)?;
        join_within_site(&world, &numbers)?;
        let mut servers: BTreeMap<usize, Server> = BTreeMap::new();
        for (&number, place) in numbers.iter().zip(world.places()) {
            let disk = Disk::mount(&plan.folder.join(place.name()))?;
            let inviter = servers.get(&plan.kind.inviter(number));
            let server = Server::set_up(number, place, plan, disk, inviter);
            servers.insert(
                number,
                server.with_context(|| format!("at {}", place.name()))?,
            );
        }
        let servers = servers.into_iter();
        let sites = Self {
            servers: servers.map(|(number, one)| (number, one.into())).collect(),
            slots: Mutex::new((1..).take(plan.sites).collect()),
            serving: plan.kind.serving(plan.sites),
            cuts: Mutex::default(),
            slow: Mutex::default(),
            world,
        };
        sites.wait_until("ready", is_whole)?;
        Ok(sites)
    }

    /// The number of each server.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.servers.keys().copied()
    }

    /// The places with clients, in the order of the sites.
    pub fn serving(&self) -> &[Place] {
        &self.world.places()[..self.serving]
    }

    /// A handle for requests to each server.
    pub fn handles(&self) -> Vec<(usize, Meridian)> {
        let servers = self.numbers();
        servers
            .map(|number| (number, self.server(number).handle()))
            .collect()
    }

    /// A server. Faults and restarts of one site exclude each other.
    pub fn server(&self, number: usize) -> MutexGuard<'_, Server> {
        // An interrupted fault leaves a usable server.
        self.servers[&number]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a fault begin.
    pub fn begin(&self, fault: &Fault) -> Result<()> {
        let mut server = self.server(fault.victim);
        match &fault.blow {
            Blow::Kill => server.kill(),
            Blow::Restart => server.stop(),
            Blow::Remove => server.leave(),
            Blow::Expel => {
                server.expect_removal();
                Ok(())
            }
            Blow::Stop => server.signal(Signal::STOP),
            Blow::Fill(left) => server.disk().fill(*left),
            Blow::Lose => server.lose(),
            Blow::Rollback => server.copy_data(),
            Blow::WrongClock(seconds) => {
                server.kill()?;
                server.start(Clock::Wrong(*seconds))
            }
            Blow::UnevenClock(millionths) => {
                server.kill()?;
                server.start(Clock::Uneven(*millionths))
            }
            Blow::Jump(seconds) => server.jump(*seconds),
            Blow::Slow(_, bits) => self.slow_down(fault, *bits),
            Blow::Cut(_) | Blow::Mute(_) | Blow::Deafen(_) => self.cut(fault),
        }
    }

    /// Continues a fault that takes more than one step.
    pub fn go_on(&self, fault: &Fault) -> Result<()> {
        match fault.blow {
            Blow::Remove => self.remove(fault.victim).map(drop),
            Blow::Expel => {
                self.expel(fault.victim);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Removes a server that was told to end from the set; whether it is removed.
    fn remove(&self, site: usize) -> Result<bool> {
        let slot = self.slots()[site].to_string();
        let inviter = self.server(FIRST).handle();
        let mut server = self.server(site);
        if server.is_leaving() && !server.is_down() {
            // It hands over what only it had.
            let said = server.handle().membership();
            if said.is_ok_and(|status| takes_part(&status)) {
                server.stop()?;
            }
        } else if server.is_leaving() {
            server.removed(inviter.ask(&["set", "remove", &slot]))?;
        }
        Ok(!server.is_leaving())
    }

    /// Removes a running server from the set. It controls objects all the time, so the removal discards what only it has. A majority has
    /// everything that it has answered.
    fn expel(&self, site: usize) {
        let slot = self.slots()[site].to_string();
        let inviter = self.server(FIRST).handle();
        let mut server = self.server(site);
        if !server.is_leaving() {
            return;
        }
        match inviter.ask(&["set", "remove", &slot, "--discard"]) {
            Ok(_) => server.expelled(),
            Err(error) => {
                server.wait_for(format!("`meridian set remove --discard` fails: {error:#}"));
            }
        }
    }

    /// Replaces a server that was removed while it ran, once it says that it was removed. If it still took part, the replacement would never come.
    fn replace_expelled(&self, site: usize) -> Result<bool> {
        self.expel(site);
        {
            let mut server = self.server(site);
            if server.is_leaving() {
                return Ok(false);
            }
            if server.is_expelled() {
                let said = server.handle().membership();
                if !said.is_ok_and(|status| status["removed"] == true) {
                    server.wait_for("its own word that it was removed".to_owned());
                    return Ok(false);
                }
                server.lose()?;
            }
        }
        self.replace(site)
    }

    /// Ends a fault. Whether it has ended; otherwise to be called again a little later.
    pub fn end(&self, fault: &Fault) -> Result<bool> {
        match fault.blow {
            Blow::Lose => self.replace(fault.victim),
            Blow::Remove => match self.remove(fault.victim)? {
                true => self.replace(fault.victim),
                false => Ok(false),
            },
            Blow::Expel => self.replace_expelled(fault.victim),
            Blow::Rollback => self.roll_back(fault.victim),
            _ => self.mend(fault).map(|()| true),
        }
    }

    /// Puts a server back to its copy, and replaces it once it says that it was put back. If it took part again, the replacement
    /// would never come, and the run would not end.
    fn roll_back(&self, site: usize) -> Result<bool> {
        {
            let mut server = self.server(site);
            if server.has_copy() {
                server.put_back()?;
                return Ok(false);
            }
            if !server.is_lost() {
                let said = server.handle().membership();
                if said.is_ok_and(|status| status["rolled_back"].is_string()) {
                    server.give_up()?;
                } else if server.was_put_back() {
                    return Ok(false);
                }
            }
        }
        self.replace(site)
    }

    /// Removes a lost server from the set; another server joins in its place and gets the tree. Each step may fail as long as
    /// other servers suffer a fault.
    fn replace(&self, site: usize) -> Result<bool> {
        let mut slots = self.slots();
        let inviter = self.server(FIRST);
        let mut server = self.server(site);
        if server.is_lost() {
            // A second removal does no harm. It is refused until other servers have taken over the objects that the server controlled.
            let slot = slots[site].to_string();
            if let Err(error) = inviter.handle().ask(&["set", "remove", &slot]) {
                server.wait_for(format!("`meridian set remove` is refused: {error:#}"));
                return Ok(false);
            }
            if let Err(error) = server.replace(&inviter) {
                server.wait_for(format!("no other one joins: {error:#}"));
                return Ok(false);
            }
        }
        let Ok(status) = server.handle().membership() else {
            return Ok(false);
        };
        // Even if a later step fails, the next removal concerns this slot.
        let slot = status["slot"].as_u64().context("it says no slot")?;
        slots[site] = u16::try_from(slot)?;
        Ok(is_whole(&status))
    }

    fn slots(&self) -> MutexGuard<'_, Vec<u16>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mend(&self, fault: &Fault) -> Result<()> {
        let mut server = self.server(fault.victim);
        match &fault.blow {
            Blow::Kill | Blow::Restart => server.start(Clock::True),
            Blow::Stop => server.signal(Signal::CONT),
            Blow::Fill(_) => server.disk().empty(),
            Blow::WrongClock(_) | Blow::UnevenClock(_) => {
                server.kill()?;
                server.start(Clock::True)
            }
            Blow::Cut(_) | Blow::Mute(_) | Blow::Deafen(_) => self.heal(fault),
            Blow::Jump(_) => server.jump(0),
            Blow::Slow(_, bits) => self.speed_up(fault, *bits),
            Blow::Remove | Blow::Expel | Blow::Lose | Blow::Rollback => Ok(()),
        }
    }

    fn cut(&self, fault: &Fault) -> Result<()> {
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        for (from, to) in directions(fault) {
            *cuts.entry((from, to)).or_default() += 1;
            self.world.wan().link(name(from), name(to))?.cut()?;
        }
        Ok(())
    }

    fn slow_down(&self, fault: &Fault, bits: u64) -> Result<()> {
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        for link in directions(fault) {
            let faults = slow.entry(link).or_default();
            faults.push(bits);
            self.carry(link, faults)?;
        }
        Ok(())
    }

    fn speed_up(&self, fault: &Fault, bits: u64) -> Result<()> {
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        for link in directions(fault) {
            let faults = slow.entry(link).or_default();
            if let Some(at) = faults.iter().position(|one| *one == bits) {
                faults.remove(at);
            }
            self.carry(link, faults)?;
        }
        Ok(())
    }

    /// Sets the bandwidth of a link to the lowest of its faults.
    fn carry(&self, (from, to): (usize, usize), faults: &[u64]) -> Result<()> {
        let bits = faults.iter().min().copied().unwrap_or(BANDWIDTH);
        let link = self.world.wan().link(name(from), name(to))?;
        link.update(move |settings| {
            *settings = settings.bandwidth(bits);
            Ok(())
        })
    }

    fn heal(&self, fault: &Fault) -> Result<()> {
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        for (from, to) in directions(fault) {
            let count = cuts.entry((from, to)).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.world.wan().link(name(from), name(to))?.heal()?;
            }
        }
        Ok(())
    }

    /// How many other servers do not have the whole tree, or do not take part, by their own status.
    pub fn missing_but(&self, victim: usize) -> usize {
        let others = self.numbers().filter(|&site| site != victim);
        let missing = others.filter(|&site| {
            let said = self.server(site).handle().membership();
            !said.is_ok_and(|status| takes_part(&status))
        });
        missing.count()
    }

    /// The status of a server, as a text.
    pub fn says(&self, site: usize) -> String {
        let said = self.server(site).handle().membership();
        let said = said.map_or_else(|error| format!("nothing: {error:#}"), shown);
        format!("{} says\n{said}", name(site))
    }

    /// Waits until the fact holds in the status of every server.
    pub fn wait_until(&self, what: &str, fact: impl Fn(&Value) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        for (site, handle) in self.handles() {
            loop {
                let statuses = handle.memberships();
                if statuses.as_ref().is_ok_and(|all| all.iter().all(&fact)) {
                    break;
                }
                if Instant::now() > deadline {
                    let said = match statuses {
                        Ok(all) => all.into_iter().map(shown).collect(),
                        Err(error) => format!("nothing: {error:#}"),
                    };
                    bail!(
                        "{} is not {what} after {PATIENCE:?}; it says\n{said}",
                        name(site)
                    );
                }
                std::thread::sleep(POLL);
            }
        }
        Ok(())
    }
}

/// Puts data servers close to the server of their pool.
fn join_within_site(world: &World, numbers: &[usize]) -> Result<()> {
    let links = LinkSettings::round_trip(WITHIN_SITE).bandwidth(BANDWIDTH);
    for &number in numbers.iter().filter(|number| is_data_server(**number)) {
        for (from, to) in [(number, POOLED), (POOLED, number)] {
            let link = world.wan().link(name(from), name(to))?;
            link.update(move |settings| {
                *settings = links;
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// The directions of a fault: no packets pass there, or few bits.
fn directions(fault: &Fault) -> Vec<(usize, usize)> {
    let victim = fault.victim;
    let out = |sites: &[usize]| sites.iter().map(|&site| (victim, site)).collect::<Vec<_>>();
    let back = |sites: &[usize]| sites.iter().map(|&site| (site, victim)).collect::<Vec<_>>();
    match &fault.blow {
        Blow::Cut(sites) | Blow::Slow(sites, _) => [out(sites), back(sites)].concat(),
        Blow::Mute(sites) => out(sites),
        Blow::Deafen(sites) => back(sites),
        _ => Vec::new(),
    }
}

/// A status with only the first few of its controls.
fn shown(mut status: Value) -> String {
    if let Some(controls) = status["controls"].as_array_mut() {
        controls.truncate(CONTROLS_SHOWN);
    }
    format!("{status:#}")
}

/// The whole tree is here, and this server is in the present view, if there are views.
fn takes_part(status: &Value) -> bool {
    status["ready"] == true
        && status["view"]["takes_part"] != false
        && status["view"]["up_to_date"] != false
}

/// The server takes part, is connected to all others, and all are active in its view, if there are views. In a pool: all servers are connected and serve.
pub fn is_whole(status: &Value) -> bool {
    if let Some(servers) = status["servers"].as_array() {
        let does_its_part =
            |server: &Value| server["connected"] == true && server["serves"] == true;
        // Data servers take new files; a server that does not know omits this.
        let mut striped = servers
            .iter()
            .filter(|server| server["role"] == "data server");
        return servers.iter().all(does_its_part)
            && striped.all(|server| server["new_files"] == true);
    }
    let Some(peers) = status["peers"].as_array() else {
        return false;
    };
    let all_in_view = status["view"]["members"].as_array().is_none_or(|members| {
        members.len() == peers.len() + 1 && members.iter().all(|member| member["active"] == true)
    });
    takes_part(status) && all_in_view && peers.iter().all(|peer| peer["connected"] == true)
}

/// Whether it is whole, no server lacks anything, nothing is controlled, and nothing waits for a data server.
pub fn is_quiet(status: &Value) -> bool {
    if let Some(mut servers) = status["servers"].as_array().map(|servers| servers.iter()) {
        return is_whole(status) && servers.all(|server| server["waits"] == 0);
    }
    let mut peers = status["peers"].as_array().into_iter().flatten();
    let lacks = |peer: &Value| peer["lag_updates"] != 0 || peer["lag_files"] != 0;
    is_whole(status) && status["controls_total"] == 0 && !peers.any(lacks)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schedule::Kind;

    #[test]
    fn directions_are_those_in_which_nothing_passes() {
        let fault = |blow| Fault {
            victim: 1,
            kind: Kind::Cut,
            blow,
            begin: Duration::ZERO,
            end: Duration::ZERO,
        };
        let cut = directions(&fault(Blow::Cut(vec![0, 2])));
        assert_eq!(cut, [(1, 0), (1, 2), (0, 1), (2, 1)]);
        assert_eq!(directions(&fault(Blow::Mute(vec![0]))), [(1, 0)]);
        assert_eq!(directions(&fault(Blow::Deafen(vec![0]))), [(0, 1)]);
        let slow = directions(&fault(Blow::Slow(vec![2], 500_000)));
        assert_eq!(slow, [(1, 2), (2, 1)]);
        assert_eq!(directions(&fault(Blow::Kill)), []);
    }

    #[test]
    fn a_set_is_quiet_when_nobody_lacks_or_controls_anything() {
        let status = |controls: u64, lag: u64, connected: bool| {
            json!({"ready": true, "controls_total": controls, "peers": [
                {"connected": connected, "lag_updates": lag, "lag_files": 0}]})
        };
        assert!(is_quiet(&status(0, 0, true)));
        assert!(!is_quiet(&status(1, 0, true)));
        assert!(!is_quiet(&status(0, 1, true)));
        assert!(!is_quiet(&status(0, 0, false)));
        assert!(is_whole(&status(1, 1, true)));
        assert!(!is_quiet(&json!({})));
        let mut late = status(0, 0, true);
        late["view"] = json!({"takes_part": true, "up_to_date": false});
        assert!(!is_whole(&late));
        let in_view = |takes_part: bool, active: bool| {
            let mut status = status(0, 0, true);
            let members = json!([{"active": active}, {"active": true}]);
            status["view"] = json!({"takes_part": takes_part, "members": members});
            is_whole(&status)
        };
        assert!(in_view(true, true) && !in_view(false, true) && !in_view(true, false));
        let in_pool = |serves: bool, new_files: bool, waits: u64| {
            let data = json!({"role": "data server", "connected": true, "serves": serves,
                "new_files": new_files, "waits": waits});
            let names = json!({"role": "metadata server", "connected": true, "serves": true,
                "new_files": false, "waits": 0});
            let status = json!({"servers": [names, data]});
            (is_whole(&status), is_quiet(&status))
        };
        assert_eq!(in_pool(true, true, 0), (true, true));
        assert_eq!(in_pool(true, true, 1), (true, false));
        assert_eq!(in_pool(true, false, 0), (false, false));
        assert_eq!(in_pool(false, true, 0), (false, false));
        let mut early = status(0, 0, true);
        early["view"] = json!({"takes_part": true, "members": [{"active": true}]});
        assert!(!is_whole(&early), "a peer is not a member of the view yet");
    }
}

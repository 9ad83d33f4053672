//! One run from its beginning to its verdict.
//!
//! What must never enter: what single clients do, and judgement.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use testbed::Place;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::check::{self, Violation};
use crate::clients::kernel::{self, Kernel};
use crate::clients::tree::{LEDGER, Tree};
use crate::clients::{Common, Target, employ};
use crate::history::{Event, Time};
use crate::sampling::{Sample, Samples};
use crate::schedule::{FIRST, Kind, Profile, name};
use crate::stage::{Stage, Suffered};
use crate::survey::{Source, Survey};
use crate::world::{Plan, Sites, Together, is_quiet};

/// How long clients may take to finish their present operation.
const FAREWELL: Duration = Duration::from_secs(120);

/// The settings of a run.
#[derive(Debug, Serialize)]
pub struct Order {
    /// The profile from which faults are drawn.
    pub profile: Profile,
    /// How the servers work together.
    pub kind: Together,
    /// The round trip between two sites.
    pub round_trip: Duration,
    /// Longer waits of clients at sites without faults are violations.
    pub stall_limit: Option<Duration>,
    /// Additional configuration of the servers.
    pub settings: String,
    /// Whether directories live at the metadata server of the pool where clients make them.
    pub homes: bool,
    /// Whether the client of a Linux kernel works at every site, too.
    pub kernels: bool,
    /// The server program.
    pub program: PathBuf,
    /// The folder for the run's files.
    pub folder: PathBuf,
}

/// The results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The operations of clients.
    pub events: Vec<Event>,
    /// The faults.
    pub faults: Vec<Suffered>,
    /// The status of the servers.
    pub samples: Vec<Sample>,
    /// The broken promises.
    pub violations: Vec<Violation>,
    /// How often a server answered that the client has to ask again later.
    pub put_off: u64,
    /// The number of reads and writes of clients at data servers.
    pub direct: u64,
}

/// Carries a run out.
///
/// # Errors
/// Fails if the run could not be done; errors of the servers are in the outcome.
pub fn run(order: &Order) -> Result<Outcome> {
    let disks = order.folder.join("disks");
    let sites = Sites::set_up(&Plan {
        program: &order.program,
        sites: order.profile.sites,
        kind: order.kind,
        jumps: order.profile.kinds.contains(&Kind::Jump),
        round_trip: order.round_trip,
        settings: &order.settings,
        folder: &disks,
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let outcome = in_sites(order, &sites, &runtime);
    for site in sites.numbers() {
        sites.server(site).keep_log(&order.folder)?;
    }
    runtime.shutdown_background();
    let mut outcome = outcome?;
    check_data(order, &sites, &mut outcome)?;
    Ok(outcome)
}

/// Checks every server's data, and keeps a copy if a promise was broken.
fn check_data(order: &Order, sites: &Sites, outcome: &mut Outcome) -> Result<()> {
    for site in sites.numbers() {
        if let Some(found) = sites.server(site).check()? {
            outcome.violations.push(Violation {
                promise: "the data on disk is in order",
                what: format!("that of {} is not: {found}", name(site)),
                at: None,
            });
        }
    }
    if !outcome.violations.is_empty() {
        for site in sites.numbers() {
            sites.server(site).keep_data(&order.folder)?;
        }
    }
    Ok(())
}

/// Makes the files that clients use; if several servers are homes, some of them through each.
async fn plant(order: &Order, places: &[Place]) -> Result<Tree> {
    let homes = match order.homes {
        true => places.len(),
        false => 1,
    };
    let mut clients = Vec::new();
    for (number, place) in places.iter().take(homes).enumerate() {
        let name = format!("gardener {number}");
        clients.push(Target::of(place).client(&name, 1).await?);
    }
    let tree = Tree::plant(&clients, places.len()).await?;
    for client in clients {
        client.leave().await?;
    }
    Ok(tree)
}

fn in_sites(order: &Order, sites: &Sites, runtime: &Runtime) -> Result<Outcome> {
    let places = sites.serving();
    let tree = runtime.block_on(plant(order, places))?;
    if order.kind != Together::Pool {
        let path = format!("/{LEDGER}");
        sites
            .server(FIRST)
            .handle()
            .ask(&["durability", &path, "majority"])?;
    }
    sites.wait_until("quiet", is_quiet)?;

    let kernels = match order.kernels {
        true => Kernel::at_all(places)?,
        false => Vec::new(),
    };
    eprintln!("nemesis: {} sites at work", places.len());
    let common = Arc::new(Common::new(order.profile.seed, tree));
    let samples = Arc::new(Samples::default());
    let (clients, natives) = {
        let _context = runtime.enter();
        let mut clients = employ(&common, places, |site| order.kind.layouts(site));
        let natives = clients.len();
        clients.extend(kernel::employ(&common, kernels, natives));
        (clients, natives)
    };
    let askers = samples.begin(&common, sites.handles());
    let mut stage = Stage::new(sites, &common);
    let suffered = stage.faults(&order.profile);
    let after = suffered.and_then(|()| stage.afterwards());
    common.done.store(true, Ordering::Relaxed);
    let stuck = runtime.block_on(farewell(clients));
    for asker in askers {
        asker
            .join()
            .ok()
            .context("a thread that asks servers died")?;
    }
    after?;
    let mut violations = stage.violations;
    violations.extend(stuck);
    eprintln!("nemesis: waiting until everything is everywhere");
    violations.extend(verdict_at_rest(order.kind, sites, &common, runtime));
    let events = common.recorder.events();
    if let Some(limit) = order.stall_limit {
        // A kernel waits up to a quarter of a minute before it asks again.
        let mut events = events.clone();
        events.retain(|event| event.client < natives);
        violations.extend(stalls(&events, &stage.faults, limit));
    }
    violations.sort_by_key(|violation| violation.at.unwrap_or(Time::MAX));
    Ok(Outcome {
        events,
        faults: stage.faults,
        samples: samples.all(),
        violations,
        put_off: common.put_off.load(Ordering::Relaxed),
        direct: common.direct.load(Ordering::Relaxed),
    })
}

/// Waits for clients to finish.
async fn farewell(clients: Vec<JoinHandle<()>>) -> Option<Violation> {
    let deadline = tokio::time::Instant::now() + FAREWELL;
    let mut stuck = 0;
    for client in clients {
        match tokio::time::timeout_at(deadline, client).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => stuck += 1,
        }
    }
    (stuck > 0).then(|| Violation {
        promise: "no operation waits for ever",
        what: format!("{stuck} clients have no answer {FAREWELL:?} after everything was mended"),
        at: None,
    })
}

/// Waits until nothing changes any more, and judges everything that can be judged then.
fn verdict_at_rest(
    kind: Together,
    sites: &Sites,
    common: &Common,
    runtime: &Runtime,
) -> Vec<Violation> {
    let in_the_end = |promise, error: anyhow::Error| Violation {
        promise,
        what: format!("{error:#}"),
        at: None,
    };
    let mut violations = Vec::new();
    if let Err(error) = sites.wait_until("quiet", is_quiet) {
        violations.push(in_the_end("everything comes to rest", error));
    }
    let mut surveys = Vec::new();
    for (site, place) in sites.serving().iter().enumerate() {
        let target = Target::of(place);
        for source in Source::of(site, kind.layouts(site)) {
            match runtime.block_on(Survey::take(source, &target, &common.tree)) {
                Ok(survey) => surveys.push(survey),
                Err(error) => {
                    let error = error.context(format!("at site {source}, {}", name(site)));
                    violations.push(in_the_end("the whole tree can be read", error));
                }
            }
        }
    }
    violations.extend(check::judge(&common.recorder.events(), &surveys));
    violations
}

/// Waits that were too long although the client's own site had no fault meanwhile.
fn stalls(events: &[Event], faults: &[Suffered], limit: Duration) -> Vec<Violation> {
    let limit = limit.as_micros() as Time;
    let suffers = |event: &Event| {
        faults.iter().any(|suffered| {
            suffered.fault.victim == event.site
                && suffered.begin < event.end
                && suffered.end.is_none_or(|end| end + limit > event.begin)
        })
    };
    let long = events
        .iter()
        .filter(|event| event.end - event.begin > limit);
    let broken = long.filter(|event| !suffers(event)).map(|event| Violation {
        promise: "no operation waits for long while a majority is up",
        what: format!(
            "client {} at {} waited {:.1} s for: {}",
            event.client,
            name(event.site),
            (event.end - event.begin) as f64 / 1e6,
            event.act.kind()
        ),
        at: Some(event.begin),
    });
    broken.collect()
}

/// Makes a new, empty folder for a run.
pub fn folder(base: &Path, seed: u64) -> Result<PathBuf> {
    crate::world::disk::sweep();
    let folder = base.join(seed.to_string());
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("could not remove {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("could not create {}", folder.display()))?;
    folder
        .canonicalize()
        .with_context(|| format!("could not find {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{self, Act};
    use crate::schedule::{Blow, Fault};

    #[test]
    fn only_waits_at_sites_without_a_fault_count() {
        let event = |site, begin, end| Event {
            site,
            client: 0,
            begin,
            end,
            act: Act::Write {
                register: 0,
                value: 1,
            },
            outcome: history::Outcome::Done,
        };
        let suffered = Suffered {
            fault: Fault {
                victim: 0,
                kind: Kind::Kill,
                blow: Blow::Kill,
                begin: Duration::ZERO,
                end: Duration::ZERO,
            },
            begin: 1_000_000,
            end: Some(9_000_000),
        };
        let limit = Duration::from_secs(5);
        let faults = [suffered];
        let judged = |event: Event| stalls(&[event], &faults, limit).len();
        assert_eq!(judged(event(0, 2_000_000, 10_000_000)), 0);
        assert_eq!(judged(event(1, 2_000_000, 10_000_000)), 1);
        assert_eq!(judged(event(1, 2_000_000, 6_000_000)), 0);
        assert_eq!(judged(event(0, 20_000_000, 28_000_000)), 1);
    }
}

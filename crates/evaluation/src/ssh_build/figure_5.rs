//! Figure 5: one server without replicas, at growing distances from its client.
//!
//! What must never enter: how the package is played.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::chart;
use bench::client::Target;
use bench::program;
use bench::statistics::{LATENESS, Results};
use bench::table::{self, Figure, Heads};
use bench::trial::{Job, Outcome, Point};
use plot::{Axis, Chart, Plot};
use testbed::{Ganesha, LinkSettings, Requirements, World};

use super::play::time_of;
use super::sweep::side_by_side;
use super::{Play, SERVER, TOTAL, figures, round_trip, shortened};
use crate::experiment::{Book, Experiment, Peer, Shown};
use crate::extent::Extent;
use crate::field::{Field, Folder};
use crate::replay::Pauses;
use crate::sites::{Server, lateness};
use crate::trace::Trace;

const MERIDIAN: &str = "Meridian";
const GANESHA: &str = "NFS-Ganesha";

/// From this round trip on the machine is idle most of the time, and so all replays run side by side; nearer ones
/// run side by side only while programs think.
const IDLE_FROM: Duration = Duration::from_millis(20);
const SIDE_BY_SIDE: usize = 30;
const NEAR_SIDE_BY_SIDE: usize = 8;

/// The farthest place, in milliseconds, at which the whole package is replayed: at 120 ms it would take an hour and a half.
const WHOLE_UP_TO: &str = "20";

/// The phase that is left out beyond this.
const BUILD: &str = "build";

/// The number of steps in a quick run.
const QUICK_STEPS: usize = 250;

/// Figure 5.
#[derive(Debug)]
pub(crate) struct Figure5;

/// A server and, far from it, the site of its client.
struct Distant {
    world: World,
    target: Target,
    server: Kind,
    /// Dropped after the server.
    _folder: Folder,
}

enum Kind {
    Meridian(Server),
    Ganesha(Ganesha),
}

impl Distant {
    fn start(field: &Field, series: &str, distance: Duration) -> Result<Self> {
        let folder = field.folder()?;
        let world = World::new(&["server", "client"], &LinkSettings::round_trip(distance))?;
        let (place, client) = (world.place("server")?, world.place("client")?);
        let server = match series {
            MERIDIAN => {
                let data = folder.path().join("data");
                let address = place.nfs_address();
                Kind::Meridian(Server::start(place, &field.program, data, address, "")?)
            }
            _ => {
                let address = place.nfs_address();
                Kind::Ganesha(Ganesha::start_at(place.site(), folder.path(), address)?)
            }
        };
        let target = match &server {
            Kind::Meridian(server) => server.from(client),
            Kind::Ganesha(ganesha) => Target {
                site: Some(client.site().clone()),
                address: ganesha.address(),
                export: Ganesha::EXPORT.to_owned(),
            },
        };
        Ok(Self {
            target,
            server,
            world,
            _folder: folder,
        })
    }

    fn play(&mut self, play: Play<'_>, home: &str) -> Result<Outcome> {
        let played = play.at(&self.target, home)?;
        let late = lateness(&self.world)?;
        // The files are the same at any distance.
        self.world.wan().set(&LinkSettings::default())?;
        played.check_at(&self.target)?;
        match &mut self.server {
            Kind::Meridian(server) => drop(server.processor_time()?),
            Kind::Ganesha(ganesha) => {
                let ended = ganesha.service().ended()?;
                ensure!(ended.is_none(), "{GANESHA} has ended: {ended:?}");
            }
        }
        let mut figures = played.figures;
        figures.insert(LATENESS.to_owned(), late.as_secs_f64() * 1e6);
        Ok(figures)
    }
}

impl Experiment for Figure5 {
    fn name(&self) -> &'static str {
        "figure-5"
    }

    fn needs(&self) -> Requirements {
        Requirements::site().with_wan().with_ganesha()
    }

    fn peers(&self) -> Result<Vec<Peer>> {
        let version = program::version(Path::new("ganesha.nfsd"), "-v")?;
        let name = GANESHA.to_owned();
        Ok(vec![Peer { name, version }])
    }

    fn settings(&self, _: Extent) -> String {
        format!("{QUICK_STEPS} {SIDE_BY_SIDE} {NEAR_SIDE_BY_SIDE} {IDLE_FROM:?} {WHOLE_UP_TO}")
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let distances: &[&str] = extent.choose(&["0.2", "20", "60", "120"], &["0.2", "20", "120"]);
        let both = |x: &&str| [MERIDIAN, GANESHA].map(|series| Point::new("", series, x));
        distances.iter().flat_map(both).collect()
    }

    /// The whole package makes about 46800 requests, one after another, and has pauses of 182 s; without the build phase it has 11600
    /// requests and pauses of 36 s.
    fn expected(&self, point: &Point, extent: Extent) -> Duration {
        let distance = round_trip(&point.x).unwrap_or_default();
        let whole = extent.choose((46_800.0, 200.0), (200.0, 4.0));
        let part = extent.choose((11_600.0, 45.0), (200.0, 4.0));
        let (requests, rest) = if is_whole(distance) { whole } else { part };
        let seconds = distance.as_secs_f64() * requests + rest;
        if distance < IDLE_FROM {
            return Duration::from_secs_f64(seconds / NEAR_SIDE_BY_SIDE as f64);
        }
        // All wait for the farthest place, and its jobs begin at the same time.
        let all = f64::from(2 * extent.trials());
        match self.points(extent).last() {
            Some(farthest) if farthest.x == point.x => Duration::from_secs_f64(seconds / all),
            _ => Duration::ZERO,
        }
    }

    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let is_short = field.extent == Extent::Quick;
        let part = match is_short {
            true => field.trace.beginning(QUICK_STEPS),
            false => field.trace.beginning(steps_before(&field.trace, BUILD)),
        };
        let play = |job: &Job, turn| {
            let distance = round_trip(&job.point.x)?;
            let is_whole = is_whole(distance);
            let mut distant = Distant::start(field, &job.point.series, distance)?;
            let package = Play {
                trace: if is_whole && !is_short {
                    &field.trace
                } else {
                    &part
                },
                pauses: Pauses::Whole,
                server: None,
                turn,
            };
            let outcome = distant.play(package, "package");
            let mut outcome = outcome.with_context(|| job.to_string())?;
            if !is_whole && !is_short {
                // These are for less work, so they are not comparable; phases are.
                outcome.retain(|name, _| {
                    name == LATENESS || part.phases.iter().any(|one| *name == time_of(one))
                });
            }
            book.keep(job, outcome)
        };
        let is_near = |job: &&Job| round_trip(&job.point.x).is_ok_and(|time| time < IDLE_FROM);
        let (near, far): (Vec<&Job>, Vec<&Job>) = jobs.iter().partition(is_near);
        side_by_side(NEAR_SIDE_BY_SIDE, &near, |job| play(job, Some(&field.turn)))?;
        side_by_side(SIDE_BY_SIDE, &far, |job| play(job, None))
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let about = format!(
            "The package played at one server without replicas, at a growing distance from the client, with think time: that of \
             the programs is in all times. At 0.2 ms up to {NEAR_SIDE_BY_SIDE} plays go on in each other's pauses; unpacking, which has \
             none, never goes on beside other unpacking. From 20 ms on, where everybody mostly waits for packets, up to {SIDE_BY_SIDE} \
             plays go on side by side, each with a server of its own. Beyond {WHOLE_UP_TO} ms the package is unpacked and configured, but \
             not built, which would take an hour and a half at 120 ms. Compared afterwards is what the server itself shows.{}",
            shortened(extent, QUICK_STEPS)
        );
        let heads = Heads::of("server", "round trip (ms)");
        let mut columns = figures(results);
        columns.insert(0, Figure::plain(SERVER, "all, without pauses (s)"));
        let chart = |figure: Figure| Chart {
            title: figure.title.replace(" (s)", ""),
            x: Axis::log("round trip between client and server (ms)"),
            y: Axis::log("time (s)"),
            marks: chart::lines(results, "", figure.name, 1.0, None),
        };
        let charts = columns.iter().copied().map(chart).collect();
        Shown {
            title: "Figure 5: one distant server",
            about,
            claims: include_str!("../claims/figure-5.md"),
            tables: vec![table::by_point(results, heads, &columns, Some(GANESHA))],
            plots: vec![Plot::only(
                "SSH-Build at one distant server (Figure 5)",
                2,
                charts,
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let x = WHOLE_UP_TO;
        let ratios = table::ratios(results, "", x, TOTAL, GANESHA)?;
        Some(format!("time at {x} ms: {ratios}"))
    }
}

/// Whether the whole package is replayed at this distance.
fn is_whole(distance: Duration) -> bool {
    round_trip(WHOLE_UP_TO).is_ok_and(|last| distance <= last)
}

/// The number of steps before a phase.
fn steps_before(trace: &Trace, phase: &str) -> usize {
    let before = trace.phases.iter().take_while(|one| one.name != phase);
    before.map(|one| one.steps.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Action, Phase, Step};

    #[test]
    fn far_away_everything_before_the_build_is_played() {
        assert!(is_whole(Duration::from_millis(20)) && !is_whole(Duration::from_millis(60)));
        let mut trace = Trace::new("made up".to_owned());
        for (name, steps) in [("unpack", 2), ("configure", 3), (BUILD, 4)] {
            let step = Step {
                think_us: 1,
                action: Action::MakeDirectory { path: 0 },
            };
            trace.phases.push(Phase {
                name: name.to_owned(),
                steps: vec![step; steps],
            });
        }
        let part = trace.beginning(steps_before(&trace, BUILD));
        let names: Vec<String> = part.phases.iter().map(time_of).collect();
        assert_eq!(names, ["unpack_s", "configure_s"]);
        assert_eq!(part.steps(), 5);
    }
}

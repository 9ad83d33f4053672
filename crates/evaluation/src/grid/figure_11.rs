//! Figure 11: the turnaround of the NAS Grid Benchmarks over distance.
//!
//! What must never enter: how a job runs.

use std::time::Duration;

use anyhow::{Context, Result};
use bench::chart;
use bench::program;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::{Job, Point};
use plot::{Axis, Chart, Plot};
use testbed::Requirements;

use super::graph::{Benchmark, Class, Graph};
use super::servers::{BANDWIDTH, Servers, System};
use super::{divisor, divisors, job, panel, problem, scaled};
use crate::experiment::{Book, Experiment, Peer, Shown, by_place};
use crate::extent::Extent;
use crate::field::Field;
use crate::peers;
use crate::ssh_build::round_trip;
use crate::ssh_build::sweep::side_by_side;

/// The plotted figure.
const TURNAROUND: &str = "turnaround_s";

/// The turnaround divided by the time of the same computing on one node, from Table 2.
const TO_ONE_NODE: &str = "to_one_node";

/// The difference between the two experiments.
const SMALL: &str = "The distances are measured side by side, each with sites and servers of its own: everybody mostly waits, for computing or \
    for each other.";
const LARGE: &str = "In this class nothing goes on beside a job. One NFS server stands for both, and the directory that all share is \
    left to the [smaller classes](figure-11.md). *Contents rest 10 s* means `data_delay = \"10 s\"`: what is written is sent to the other sites \
    when it is read there, or after 10 s; these run at a set of their own, after the others, and only the two problems in which sites write much that only they \
    read.";

/// The systems for the small classes.
const SMALL_SYSTEMS: [System; 5] = [
    System::Distant,
    System::DistantGanesha,
    System::Replicated,
    System::ReplicatedShared,
    System::GridFtp,
];

/// The systems for the large class.
const LARGE_SYSTEMS: [System; 4] = [
    System::DistantGanesha,
    System::Replicated,
    System::ReplicatedResting,
    System::GridFtp,
];

/// Whether a system is useful for a problem. In the other two problems, no large output is read only by its own site.
fn is_of_use(system: System, benchmark: Benchmark) -> bool {
    let keeps = matches!(benchmark, Benchmark::Vp | Benchmark::Mb);
    keeps || system != System::ReplicatedResting
}

/// Whether jobs of a class move little data for their time: then they mostly wait, and others may run beside them.
fn waits(class: Class) -> bool {
    class != Class::A
}

/// Figure 11, in two experiments: the small classes wait, the large one moves data.
#[derive(Debug)]
pub(crate) struct Figure11 {
    is_large: bool,
}

impl Figure11 {
    /// Classes S and W.
    pub(crate) const SMALL: Self = Self { is_large: false };

    /// Class A.
    pub(crate) const LARGE: Self = Self { is_large: true };

    fn classes(&self) -> &'static [Class] {
        match self.is_large {
            true => &[Class::A],
            false => &[Class::S, Class::W],
        }
    }

    fn problems(&self, extent: Extent) -> Vec<(Benchmark, Class)> {
        let with = |&class: &Class| Benchmark::ALL.map(|benchmark| (benchmark, class));
        match (extent, self.is_large) {
            (Extent::Whole, _) => self.classes().iter().flat_map(with).collect(),
            (Extent::Quick, false) => vec![(Benchmark::Ed, Class::S), (Benchmark::Mb, Class::W)],
            (Extent::Quick, true) => vec![(Benchmark::Hc, Class::A)],
        }
    }

    /// Round trips in milliseconds.
    fn distances(&self, extent: Extent) -> &'static [&'static str] {
        match (extent, self.is_large) {
            (Extent::Whole, false) => &["0.2", "60", "120"],
            (Extent::Whole, true) => &["0.2", "120"],
            (Extent::Quick, _) => &["60"],
        }
    }

    fn systems(&self) -> &'static [System] {
        match self.is_large {
            true => &LARGE_SYSTEMS,
            false => &SMALL_SYSTEMS,
        }
    }

    fn about(&self, extent: Extent) -> String {
        let which = match self.is_large {
            true => LARGE,
            false => SMALL,
        };
        format!(
            "Nine tasks, given to three sites in turns, each of which takes the outputs of others. A task waits for semaphore \
         files, looking for them every {poll} ms; reads its inputs; computes; and writes its outputs, each with a \
         semaphore. The volumes are those of Table 1 of the papers. **Computing is not done but waited for**: the authors' \
         time on one node (Table 2){divided}, shared among the tasks, one at a time at each site. It is the \
         same for all and counts for nobody; the smaller it is, the more the files decide. Every input is compared with what \
         its task has written, by a checksum, where it is read.\n\n\
         *One NFS server* stands at a fourth site, as far from the three as these are from each other. *Meridian, 3 replicas* is \
         a set with a server at each site, with defaults; every site writes into a directory of its own, as each of the papers' nodes \
         has a folder of its own. *One directory* means that all sites write into the same, so that it is always controlled \
         by somebody else. *GridFTP* writes to local files and copies what another site needs by \
         `globus-url-copy` with eight streams, output and semaphore in one session, to several consumers at the same time; \
         it is run anonymously and without encryption, and neither launching nor cleaning up counts, as in the papers. Links carry \
         1 Gbit/s. NFS clients are native ones, which keep up to 32 requests of 1 MiB under way. NFS servers answer when data is on \
         the disk; local files of GridFTP need not be there. *On the wire* counts until all replicas have everything, \
         also what no task at the other sites reads. {which}",
            poll = job::POLL.as_millis(),
            divided = match divisor(self.classes()[0], extent) {
                1 => String::new(),
                divisor => format!(" divided by **{divisor}**"),
            },
        )
    }

    /// All trials at one place, at servers that are started for it, and restarted for other settings.
    fn measure_at(&self, x: &str, jobs: &[&Job], field: &Field, book: &dyn Book) -> Result<()> {
        let mut servers: Option<(&str, Servers)> = None;
        let mut jobs: Vec<(System, &&Job)> = jobs
            .iter()
            .map(|job| Ok((system(&job.point.series)?, job)))
            .collect::<Result<_>>()?;
        jobs.sort_by_key(|(system, _)| system.settings());
        for (system, job) in jobs {
            let settings = system.settings();
            if servers.as_ref().is_none_or(|(of, _)| *of != settings) {
                // The earlier servers stop first.
                drop(servers.take());
                servers = Some((settings, Servers::start(field, round_trip(x)?, settings)?));
            }
            let (_, running) = servers.as_mut().context("servers were started")?;
            let (benchmark, class) = problem(&job.point.panel)?;
            let graph = Graph::of(benchmark, class);
            let outcome = running.run(&graph, divisor(class, field.extent), system);
            let mut outcome = outcome.with_context(|| job.to_string())?;
            let one_node = scaled(benchmark, class, field.extent).as_secs_f64();
            if let Some(turnaround) = outcome.get(TURNAROUND) {
                outcome.insert(TO_ONE_NODE.to_owned(), turnaround / one_node);
            }
            book.keep(job, outcome)?;
        }
        Ok(())
    }
}

/// By the name in plots and tables.
fn system(series: &str) -> Result<System> {
    let mut systems = System::ALL.into_iter();
    let system = systems.find(|system| system.name() == series);
    system.context("there is no such series")
}

impl Experiment for Figure11 {
    fn name(&self) -> &'static str {
        match self.is_large {
            true => "figure-11-large",
            false => "figure-11",
        }
    }

    fn needs(&self) -> Requirements {
        Requirements::site()
            .with_wan()
            .with_ganesha()
            .with_gridftp()
    }

    fn peers(&self) -> Result<Vec<Peer>> {
        Ok(vec![
            Peer {
                name: "NFS-Ganesha".to_owned(),
                version: program::version("ganesha.nfsd".as_ref(), "-v")?,
            },
            peers::gridftp()?,
        ])
    }

    fn settings(&self, extent: Extent) -> String {
        format!("{:?} {BANDWIDTH} {:?}", divisors(extent), job::POLL)
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let mut points = Vec::new();
        for (benchmark, class) in self.problems(extent) {
            for x in self.distances(extent) {
                let panel = panel(benchmark, class);
                let systems = self.systems().iter();
                let systems = systems.filter(|system| is_of_use(**system, benchmark));
                points.extend(systems.map(|system| Point::new(&panel, system.name(), x)));
            }
        }
        points
    }

    fn trials(&self, extent: Extent) -> u32 {
        extent.choose(extent.trials(), 1)
    }

    fn expected(&self, point: &Point, extent: Extent) -> Duration {
        let Ok((benchmark, class)) = problem(&point.panel) else {
            return Duration::ZERO;
        };
        if waits(class) && self.distances(extent).last() != Some(&point.x.as_str()) {
            // All wait for the farthest place.
            return Duration::ZERO;
        }
        // The tasks of most graphs keep two sites busy. A chain waits for all its nine tasks, the others for fewer. A
        // transfer by GridFTP begins with a dozen round trips.
        let graph = Graph::of(benchmark, class);
        let distance = round_trip(&point.x).unwrap_or_default();
        let computing = scaled(benchmark, class, extent) / 2;
        let is_staged = point.series == System::GridFtp.name();
        let hops = if benchmark == Benchmark::Hc { 9 } else { 5 };
        let waits = distance * hops * if is_staged { 20 } else { 11 };
        let transfers = Duration::from_secs_f64(2.5 + graph.bytes() as f64 / 60e6);
        transfers + waits + computing
    }

    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        for class in self.classes() {
            let mut groups = by_place(jobs);
            for (_, jobs) in &mut groups {
                jobs.retain(|job| problem(&job.point.panel).is_ok_and(|(_, of)| of == *class));
            }
            groups.retain(|(_, jobs)| !jobs.is_empty());
            let at_once = if waits(*class) { groups.len() } else { 1 };
            side_by_side(at_once, &groups, |(x, jobs)| {
                self.measure_at(x, jobs, field, book)
            })?;
        }
        Ok(())
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let figures = [
            Figure {
                name: "wire_bytes",
                title: "on the wire (MB)",
                unit: 1e6,
            },
            Figure::plain(TO_ONE_NODE, "by one node (Table 2)"),
            Figure::plain(TURNAROUND, "turnaround (s)"),
        ];
        let heads = Heads {
            panel: "problem",
            series: "files",
            x: "round trip (ms)",
        };
        let charts = results.panels().into_iter().map(|panel| {
            Chart::over_distance(
                panel,
                Axis::linear("turnaround (s)"),
                chart::lines(results, panel, TURNAROUND, 1.0, None),
            )
        });
        let replicated = Some(System::Replicated.name());
        Shown {
            title: match self.is_large {
                true => "Figure 11: the NAS Grid Benchmarks, class A",
                false => "Figure 11: the NAS Grid Benchmarks, classes S and W",
            },
            about: self.about(extent),
            claims: include_str!("../claims/figure-11.md"),
            tables: vec![table::by_point(results, heads, &figures, replicated)],
            plots: vec![Plot::only(
                "Turnaround of the NAS Grid Benchmarks",
                extent.choose(4, 2),
                charts.collect(),
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let lines = results.panels().into_iter().map(|panel| {
            let x = results.last_place(panel)?;
            let [ours, theirs] = [System::Replicated, System::GridFtp];
            let [one, other] = [ours, theirs].map(|system| Point::new(panel, system.name(), x));
            let ratio = results.ratio(&one, &other, TURNAROUND)?;
            Some(format!("{panel} {}", table::cell(ratio, 1.0)))
        });
        let lines: Option<Vec<String>> = lines.collect();
        let x = results.last_place(results.panels().first()?)?;
        let lines = lines?.join(", ");
        Some(format!(
            "turnaround with 3 replicas by that with GridFTP, {x} ms: {lines}"
        ))
    }
}

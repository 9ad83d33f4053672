//! Figure 11: the turnaround of the NAS Grid Benchmarks over distance.
//!
//! What must never enter: how a job runs.

use std::time::Duration;

use anyhow::{Context, Result};
use testbed::Requirements;

use super::graph::{Benchmark, Class, Graph, single_node};
use super::servers::{BANDWIDTH, Servers, System};
use super::{divisor, job, panel, problem};
use crate::contender::version;
use crate::paper::experiment::{Book, Experiment, Extent, Job, Peer, Point, Shown, by_place};
use crate::paper::field::Field;
use crate::paper::peers;
use crate::paper::plot::{self, Axis, Chart, Plot};
use crate::paper::statistics::Results;
use crate::paper::table::{self, Figure, Heads};

/// The figure that is plotted.
const TURNAROUND: &str = "turnaround_s";

/// Figure 11.
#[derive(Debug)]
pub(crate) struct Figure11;

impl Experiment for Figure11 {
    fn name(&self) -> &'static str {
        "figure-11"
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
                version: version("ganesha.nfsd".as_ref(), "-v")?,
            },
            peers::gridftp()?,
        ])
    }

    fn settings(&self, extent: Extent) -> String {
        format!("{} {BANDWIDTH} {:?}", divisor(extent), job::POLL)
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let mut points = Vec::new();
        for (benchmark, class) in problems(extent) {
            for x in distances(class, extent) {
                let panel = panel(benchmark, class);
                let series = System::ALL.map(|system| Point::new(&panel, system.name(), x));
                points.extend(series);
            }
        }
        points
    }

    fn expected(&self, point: &Point, extent: Extent) -> Duration {
        let Ok((benchmark, class)) = problem(&point.panel) else {
            return Duration::ZERO;
        };
        // The tasks of most graphs keep two sites busy, and a transfer by GridFTP begins with a dozen round trips.
        let graph = Graph::of(benchmark, class);
        let distance = point.x.parse::<f64>().unwrap_or(0.0) / 1000.0;
        let computing = single_node(benchmark, class) / divisor(extent) / 2;
        let transfers = graph.bytes() as f64 / 60e6 + 60.0 * distance;
        Duration::from_secs_f64(1.5 + transfers) + computing
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        for (x, jobs) in by_place(jobs) {
            let distance = x.parse::<f64>().context("a place is a number")?;
            let round_trip = Duration::from_secs_f64(distance / 1000.0);
            let mut servers = Servers::start(field, round_trip)?;
            for job in jobs {
                let (benchmark, class) = problem(&job.point.panel)?;
                let mut systems = System::ALL.into_iter();
                let system = systems.find(|system| system.name() == job.point.series);
                let system = system.context("there is no such series")?;
                let graph = Graph::of(benchmark, class);
                let outcome = servers.run(&graph, divisor(field.extent), system);
                book.keep(job, outcome.with_context(|| job.to_string())?)?;
            }
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
                plot::lines(results, panel, TURNAROUND, 1.0, None),
            )
        });
        let replicated = Some(System::Replicated.name());
        Shown {
            title: "Figure 11: the NAS Grid Benchmarks",
            about: about(extent),
            claims: include_str!("../claims/figure-11.md"),
            tables: vec![table::by_point(results, heads, &figures, replicated)],
            plots: vec![Plot {
                name: "",
                title: "Turnaround of the NAS Grid Benchmarks".to_owned(),
                columns: extent.choose(4, 2),
                charts: charts.collect(),
            }],
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

/// What is run.
fn problems(extent: Extent) -> Vec<(Benchmark, Class)> {
    let with = |class| Benchmark::ALL.map(|benchmark| (benchmark, class));
    match extent {
        Extent::Whole => Class::ALL.into_iter().flat_map(with).collect(),
        Extent::Quick => vec![(Benchmark::Hc, Class::S), (Benchmark::Mb, Class::W)],
    }
}

/// Round trips in milliseconds.
fn distances(class: Class, extent: Extent) -> &'static [&'static str] {
    match (extent, class) {
        (Extent::Quick, _) => &["0.2", "60"],
        (Extent::Whole, Class::A) => &["0.2", "60", "120"],
        (Extent::Whole, _) => &["0.2", "30", "60", "90", "120"],
    }
}

fn about(extent: Extent) -> String {
    format!(
        "Nine tasks, given to three sites in turns, each of which takes the outputs of others. A task waits for semaphore \
         files, looking for them every {poll} ms; reads its inputs; computes; and writes its outputs, each with a \
         semaphore. The volumes are those of Table 1 of the papers. **Computing is not done but waited for**: the authors' \
         time on one node (Table 2) divided by **{divisor}**, shared among the tasks, one at a time at each site. It is the \
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
         also what no task at the other sites reads.",
        poll = job::POLL.as_millis(),
        divisor = divisor(extent),
    )
}

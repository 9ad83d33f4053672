//! The processor time of an update: at the replica that makes it, at the replicas that receive it, and at a single server.
//!
//! What must never enter: how long an operation takes; that is `latency`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::{self, Job, Outcome, Point};
use bytes::Bytes;
use nfs4::NfsFh4;
use nfs4_client::{Client, How, StableHow4};
use plot::{Axis, Chart, Plot};

use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::field::{Field, runtime};
use crate::replay::Pauses;
use crate::sites::Sites;
use crate::ssh_build::round_trip;
use crate::ssh_build::stands::{Beside, Setup, Stands};

/// Round trips between sites, in milliseconds.
const DISTANCES: [&str; 3] = ["0.2", "60", "120"];

/// Sets, by their numbers of replicas.
const SETS: [(&str, usize); 2] = [("two replicas", 2), ("three replicas", 3)];

/// The size of a file.
const SIZE: usize = 4096;

/// The number of files made at one server before the same number is made at the other.
const IN_TURN: usize = 50;

/// The deciding ratio.
const RATIO: &str = "primary_ratio";

/// One of the two servers, with a directory for a trial.
struct Side {
    client: Client,
    home: NfsFh4,
}

impl Side {
    async fn at(server: &crate::sites::Server, name: &str) -> Result<Self> {
        let (client, root) = server.target().client().await?;
        let home = client.create_directory(&root, name, 0o755).await?;
        Ok(Self { client, home })
    }

    async fn make(&self, number: usize) -> Result<()> {
        let (client, how) = (&self.client, How::create_new(0o644));
        let file = client.open(&self.home, &*name(number), &how).await?;
        let data = Bytes::from_static(&[0x61; SIZE]);
        let write = client.write(&file, 0, data, StableHow4::FileSync);
        write.await?;
        Ok(client.close(&file).await?)
    }

    async fn remove(&self, number: usize) -> Result<()> {
        self.client.remove(&self.home, &*name(number)).await?;
        Ok(())
    }
}

fn name(number: usize) -> String {
    format!("file-{number}")
}

/// Processor time used so far by the first replica, by all others together, and by the single server.
fn used(sites: &Sites) -> Result<[Duration; 3]> {
    let [first, others @ ..] = &*sites.replicas else {
        anyhow::bail!("a set has replicas");
    };
    let others = others.iter().map(|server| server.processor_time());
    Ok([
        first.processor_time()?,
        others.sum::<Result<Duration>>()?,
        sites.alone.processor_time()?,
    ])
}

/// Makes files at both servers, in turns, and removes them once all replicas have them. Returns the cost until no server lacks
/// anything, in microseconds per file.
async fn measure(sites: &Sites, home: &str, files: usize) -> Result<Outcome> {
    let set = Side::at(&sites.replicas[0], home).await?;
    let alone = Side::at(&sites.alone, home).await?;
    sites.wait_for_quiet()?;
    let before = used(sites)?;
    for from in (0..files).step_by(IN_TURN) {
        for side in [&set, &alone] {
            for number in from..files.min(from + IN_TURN) {
                side.make(number).await?;
            }
        }
    }
    sites.wait_calmly_for_copies()?;
    for from in (0..files).step_by(IN_TURN) {
        for side in [&set, &alone] {
            for number in from..files.min(from + IN_TURN) {
                side.remove(number).await?;
            }
        }
    }
    sites.wait_calmly_for_quiet()?;
    let after = used(sites)?;
    for side in [set, alone] {
        side.client.leave().await?;
    }
    let each = |at: usize| {
        let used = after[at].saturating_sub(before[at]).as_secs_f64();
        used * 1e6 / files as f64
    };
    let (primary, alone) = (each(0), each(2));
    let follower = each(1) / (sites.replicas.len() - 1) as f64;
    ensure!(alone > 0.0, "too few files for the clock of processor time");
    let figures = [
        ("alone_us", alone),
        ("primary_us", primary),
        ("follower_us", follower),
        (RATIO, primary / alone),
        ("follower_ratio", follower / primary),
    ];
    Ok(trial::named(figures))
}

/// The experiment about the cost of an update.
#[derive(Debug)]
pub(crate) struct Cost;

/// The number of files in a trial: enough that the ticks of 10 ms of processor time hardly matter.
fn files(extent: Extent) -> usize {
    extent.choose(4000, 800)
}

impl Experiment for Cost {
    fn name(&self) -> &'static str {
        "cost"
    }

    fn settings(&self, extent: Extent) -> String {
        format!("{} {SIZE} {IN_TURN}", files(extent))
    }

    fn points(&self, _: Extent) -> Vec<Point> {
        let places = DISTANCES.into_iter();
        let points = places.flat_map(|x| SETS.map(|(series, _)| Point::new("", series, x)));
        points.collect()
    }

    fn expected(&self, _: &Point, extent: Extent) -> Duration {
        Duration::from_millis(5) * u32::try_from(files(extent)).unwrap_or(u32::MAX)
    }

    /// Servers are started once for all trials.
    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let mut stands = Stands::of(field);
        for job in jobs {
            let Point { series, x, .. } = &job.point;
            let known = SETS.iter().find(|(name, _)| name == series);
            let setup = Setup {
                replicas: known.context("there is no such set")?.1,
                settings: String::new(),
                round_trip: round_trip(x)?,
                is_apart: false,
                pauses: Pauses::None,
                steps: 0,
                beside: Beside::Nothing,
            };
            let home = stands.home();
            let sites = stands.sites(&setup)?;
            let measured = runtime()?.block_on(measure(sites, &home, files(field.extent)))?;
            sites.check_running()?;
            book.keep(job, measured)?;
        }
        Ok(())
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let heads = Heads::of("set", "round trip (ms)");
        let columns = [
            Figure::plain("alone_us", "alone (µs)"),
            Figure::plain("primary_us", "primary (µs)"),
            Figure::plain("follower_us", "each follower (µs)"),
            Figure::plain(RATIO, "primary / alone"),
            Figure::plain("follower_ratio", "follower / primary"),
        ];
        let marks = chart::lines(results, "", RATIO, 1.0, None);
        Shown {
            title: "What an update costs",
            about: format!(
                "{} files of 4 KiB are made (OPEN, WRITE with FILE_SYNC, CLOSE) by one client with one request under way at a time; when all sites have their \
                 contents, they are removed. That is done at the first replica of a set and, in turns of {IN_TURN} files, at a server that is \
                 *alone* in the same site and on the same disk. Shown is the processor time of each server's process (`utime` and `stime` of \
                 proc(5)), for each file, from the first OPEN until nobody lacks anything and nothing is controlled: what it does on its own \
                 in that time is part of it. Time for which a process was ready and not run is not. All have `commit = \"sync\"` and \
                 `relaxed` durability.",
                files(extent)
            ),
            claims: include_str!("claims/cost.md"),
            tables: vec![table::by_point(results, heads, &columns, None)],
            plots: vec![Plot::only(
                "Processor time of an update at its primary",
                1,
                vec![Chart::over_distance(
                    "",
                    Axis::linear("server alone: 1"),
                    marks,
                )],
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let x = results.last_place("")?;
        let ratios = SETS.iter().map(|(series, _)| {
            let ratio = results.summary(&Point::new("", series, x), RATIO)?;
            Some(format!("{series} {}", table::cell(ratio, 1.0)))
        });
        let ratios: Option<Vec<String>> = ratios.collect();
        let ratios = ratios?.join(", ");
        Some(format!(
            "processor time of an update at its primary, {x} ms: {ratios} (server alone: 1)"
        ))
    }
}

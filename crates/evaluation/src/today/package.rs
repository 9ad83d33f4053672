//! SSH-Build beside GlusterFS.
//!
//! What must never enter: how a trace is replayed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::{Job, Outcome, Point};
use plot::{Axis, Chart, Plot};
use testbed::Requirements;

use super::stand::{Mounted, Stand};
use super::{BANDWIDTH, DISTANCES, GLUSTER, MERIDIAN, at_each_place, outcome};
use crate::experiment::{Book, Experiment, Peer, Shown};
use crate::extent::Extent;
use crate::field::{Field, runtime};
use crate::peers;
use crate::replay::{self, Calls, Pauses, Replay, same_tree};
use crate::ssh_build::make_directory;
use crate::trace::Trace;

/// The comparison.
#[derive(Debug)]
pub(crate) struct Package;

/// The number of replayed steps of the package: each costs GlusterFS several round trips.
fn steps(extent: Extent) -> usize {
    extent.choose(400, 60)
}

impl Experiment for Package {
    fn name(&self) -> &'static str {
        "today-ssh-build"
    }

    fn needs(&self) -> Requirements {
        Requirements::site().with_wan().with_gluster()
    }

    fn peers(&self) -> Result<Vec<Peer>> {
        Ok(vec![peers::gluster()?])
    }

    fn settings(&self, extent: Extent) -> String {
        format!("{} {BANDWIDTH}", steps(extent))
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let distances: &[&str] = extent.choose(DISTANCES, &["60"]);
        let series = |x: &&str| [MERIDIAN, GLUSTER].map(|series| Point::new("", series, x));
        distances.iter().flat_map(series).collect()
    }

    fn expected(&self, point: &Point, extent: Extent) -> Duration {
        let distance = point.x.parse::<f64>().unwrap_or(0.0) / 1000.0;
        let round_trips = if point.series == GLUSTER { 2.3 } else { 0.01 };
        let seconds = 2.0 + round_trips * distance * steps(extent) as f64;
        Duration::from_secs_f64(seconds)
    }

    /// Everything is started once for all trials at a place, and the series alternate there.
    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let trace = field.trace.beginning(steps(field.extent));
        let reference = |stand: &Stand| {
            let reference = stand.local(0)?;
            play_calls(&trace, reference.clone())?;
            Ok(reference)
        };
        at_each_place(
            field,
            jobs,
            book,
            reference,
            |stand, mounted, reference, job, name| match job.point.series.as_str() {
                MERIDIAN => at_set(stand, &trace, name),
                GLUSTER => at_gluster(mounted, &trace, name, reference),
                _ => bail!("there is no such series"),
            },
        )
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let figures = [
            Figure::plain("everywhere_s", "at all sites (s)"),
            Figure::plain("total_s", "work (s)"),
        ];
        let heads = Heads::of("files", "round trip (ms)");
        let chart = Chart::over_distance(
            "",
            Axis::log("time (s)"),
            chart::lines(results, "", "total_s", 1.0, None),
        );
        Shown {
            title: "Today: SSH-Build beside GlusterFS",
            about: format!(
                "The first {} steps of the package, without think time, at one of three sites; links of 1 Gbit/s. \
                 **GlusterFS** keeps a replica at each site with the defaults of its package, and is mounted through FUSE by the \
                 host's kernel, whose caches work for it; the steps are system calls. For **Meridian** the native client models \
                 the caches of Linux. The result is compared at the last site, with what the same steps leave on a local \
                 disk and with what was written. *At all sites* is the time until the other two have everything; GlusterFS answers \
                 when they have.",
                steps(extent)
            ),
            claims: include_str!("../claims/today-ssh-build.md"),
            tables: vec![table::by_point(results, heads, &figures, Some(MERIDIAN))],
            plots: vec![Plot::only(
                "The beginning of SSH-Build at one of three sites",
                1,
                vec![chart],
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let x = results.last_place("")?;
        let ratios = table::ratios(results, "", x, "total_s", MERIDIAN)?;
        Some(format!("time at {x} ms: {ratios}"))
    }
}

/// Replays all phases by system calls in a folder.
fn play_calls(trace: &Trace, folder: PathBuf) -> Result<Duration> {
    let mut calls = Calls::begin(trace, folder);
    let mut took = Duration::ZERO;
    for phase in &trace.phases {
        took += calls.play(&phase.steps)?;
    }
    Ok(took)
}

/// Replays all phases in the mounted volume at the first site, and compares at the last.
fn at_gluster(mounted: &Mounted, trace: &Trace, home: &str, reference: &Path) -> Result<Outcome> {
    let [first, .., last] = &mounted.mounts[..] else {
        bail!("GlusterFS has several sites");
    };
    let here = first.path().join(home);
    fs::create_dir(&here)?;
    let took = play_calls(trace, here)?;
    same_tree(reference, &last.path().join(home))
        .context("the last site has something else than was written")?;
    Ok(outcome([("total_s", took), ("everywhere_s", took)]))
}

/// Replays all phases at the first replica, and compares at the last.
fn at_set(stand: &Stand, trace: &Trace, home: &str) -> Result<Outcome> {
    let runtime = runtime()?;
    let sites = &stand.sites;
    let first = sites.replicas[0].target();
    make_directory(&first, home)?;
    // Control of the directory from before would save the package its first election.
    sites.wait_for_quiet()?;
    let (took, left) = runtime.block_on(async {
        let (client, root) = first.client().await?;
        let folder = client.lookup(&root, home).await?;
        let mut replay = Replay::begin(trace, client.clone(), folder, Pauses::None);
        let mut took = Duration::ZERO;
        for phase in &trace.phases {
            took += replay.play(&phase.steps).await?.took;
        }
        let left = replay.outcome();
        client.leave().await?;
        anyhow::Ok((took, left))
    })?;
    let done = Instant::now();
    sites.wait_for_copies()?;
    let everywhere = took + done.elapsed();
    sites.wait_for_quiet()?;
    let last = sites.replicas.last().context("a set has replicas")?;
    runtime.block_on(async {
        let (client, root) = last.target().client().await?;
        let folder = client.lookup(&root, home).await?;
        let same = replay::compare(&client, &folder, &left).await;
        same.context("the last replica has something else than was written")?;
        anyhow::Ok(client.leave().await?)
    })?;
    Ok(outcome([("total_s", took), ("everywhere_s", everywhere)]))
}

//! One large file by several numbers of connections for contents (`data_lanes`), on lines that lose packets.
//!
//! What must never enter: files of other sizes, and other work meanwhile.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::{Job, Outcome, Point, named};
use plot::{Axis, Chart, Plot};
use testbed::LinkSettings;

use super::{BANDWIDTH, ROUND_TRIP, check_copy, gigabytes, noise, share, transfer};
use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::field::{Field, runtime};
use crate::sites::Sites;

/// Shares of packets that are lost in each direction, with their series.
const LOSSES: [(&str, f64); 3] = [("no loss", 0.0), ("0.01 %", 0.0001), ("0.1 %", 0.001)];

/// Connections for contents.
const LANES: [&str; 4] = ["1", "2", "4", "8"];

/// The deciding figure.
const TOTAL: &str = "total_s";

/// The experiment.
#[derive(Debug)]
pub(crate) struct Lanes;

fn size(extent: Extent) -> u64 {
    extent.choose(128 << 20, 16 << 20)
}

async fn measure(sites: &Sites, name: &str, size: u64) -> Result<Outcome> {
    let (client, root) = sites.replicas[0].target().client().await?;
    let home = client.create_directory(&root, name, 0o777).await?;
    sites.wait_for_quiet()?;
    let random = Arc::new(noise());
    let is_over = AtomicBool::new(false);
    let (_, complete) = transfer(sites, &client, &home, &random, size, &is_over).await?;
    check_copy(sites, name, &random, size).await?;
    client.leave().await?;
    let figures = [(TOTAL, complete), ("link_share", share(size, complete))];
    Ok(named(figures))
}

impl Experiment for Lanes {
    fn name(&self) -> &'static str {
        "lanes"
    }

    fn settings(&self, extent: Extent) -> String {
        format!("{ROUND_TRIP:?} {BANDWIDTH} {} {LOSSES:?}", size(extent))
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let lanes: &[&str] = extent.choose(&LANES, &["1", "4"]);
        let points = LOSSES.iter().flat_map(|(series, _)| {
            let lanes = lanes.iter();
            lanes.map(move |x| Point::new("", series, x))
        });
        points.collect()
    }

    fn expected(&self, point: &Point, extent: Extent) -> Duration {
        let slow = if point.series == LOSSES[0].0 { 10 } else { 40 };
        Duration::from_secs(extent.choose(slow, slow / 4))
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        for job in jobs {
            let known = LOSSES
                .iter()
                .find(|(series, _)| *series == job.point.series);
            let (_, loss) = known.context("there is no such loss")?;
            let folder = field.folder()?;
            let link = LinkSettings::round_trip(ROUND_TRIP).bandwidth(BANDWIDTH);
            let settings = format!("[replication]\ndata_lanes = {}\n", job.point.x);
            let disk = folder.path().join("set");
            let link = link.loss(*loss);
            let sites = Sites::start_with(&link, &field.program, &disk, 2, &settings)?;
            let outcome = runtime()?.block_on(measure(&sites, "lanes", size(field.extent)));
            sites.check_running()?;
            book.keep(job, outcome.with_context(|| job.to_string())?)?;
        }
        Ok(())
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let heads = Heads::of("packets lost", "data_lanes");
        let columns = [
            Figure::plain(TOTAL, "there (s)"),
            Figure {
                name: "link_share",
                title: "share of the line (%)",
                unit: 0.01,
            },
        ];
        Shown {
            title: "Connections for contents, with loss",
            about: format!(
                "A file of {} that no compression makes smaller is written at one of two replicas {} ms apart, on a line of {} Gbit/s that loses packets at \
                 random in both directions. Shown is how long it takes from its first WRITE until the other replica has all of it, by the number of \
                 connections for contents (`data_lanes`, 4 by default). Servers and connections are new in each trial, and the copy is compared.",
                gigabytes(size(extent)),
                ROUND_TRIP.as_millis(),
                BANDWIDTH / 1_000_000_000
            ),
            claims: include_str!("../claims/lanes.md"),
            tables: vec![table::by_point(results, heads, &columns, None)],
            plots: vec![Plot::only(
                "A large file by the number of connections",
                1,
                vec![Chart::untitled(
                    Axis::linear("data_lanes"),
                    Axis::log("until the other site has it (s)"),
                    chart::lines(results, "", TOTAL, 1.0, None),
                )],
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let times = LOSSES.iter().map(|(series, _)| {
            let times = LANES.iter().map(|x| {
                let time = results.summary(&Point::new("", series, x), TOTAL)?;
                Some(table::cell(time, 1.0))
            });
            let times: Option<Vec<String>> = times.collect();
            Some(format!("{series} {}", times?.join(", ")))
        });
        let times: Option<Vec<String>> = times.collect();
        Some(format!(
            "seconds by {} lanes: {}",
            LANES.join(", "),
            times?.join("; ")
        ))
    }
}

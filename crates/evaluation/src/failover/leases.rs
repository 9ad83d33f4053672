//! The cost of being prepared while nothing fails: the same work with normal leases, and with leases renewed ten times less often. A
//! second set with normal leases shows how much two equal sets differ.
//!
//! What must never enter: turns of one set without turns of the others right beside them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::{Job, Outcome, Point};
use bytes::Bytes;
use nfs4::NfsFh4;
use nfs4_client::{Client, How, StableHow4};
use plot::{Axis, Chart, Plot};

use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::failover::{start, where_words};
use crate::field::{Field, runtime};

/// Sets by name, with their settings. The first two are equal, to show how much equal sets differ; the last one asks for
/// its lease ten times less often.
const SETS: [(&str, &str); 3] = [
    (USUAL, ""),
    ("the same at another set", ""),
    (
        "ten times as long",
        "[replication]\nsite_lease = \"50 s\"\n",
    ),
];
const USUAL: &str = "as by default";

/// The size of each file, in bytes.
const SIZE: usize = 4096;

/// The number of files made in a turn.
fn files(extent: Extent) -> usize {
    extent.choose(300, 100)
}

/// Gives each set its turns, round after round; the first set changes.
async fn measure(
    clients: &[(Client, NfsFh4)],
    jobs: &[Job],
    extent: Extent,
    book: &dyn Book,
) -> Result<()> {
    let rounds = jobs.iter().map(|job| job.trial).max().unwrap_or(0);
    for round in 1..=rounds {
        for place in 0..SETS.len() {
            let which = (round as usize + place) % SETS.len();
            let mut jobs = jobs.iter().filter(|job| job.trial == round);
            let Some(job) = jobs.find(|job| job.point.series == SETS[which].0) else {
                continue;
            };
            let took = turn(&clients[which], round, files(extent)).await?;
            let us = took.as_secs_f64() * 1e6 / files(extent) as f64;
            book.keep(job, Outcome::from([("us_per_file".to_owned(), us)]))?;
        }
    }
    Ok(())
}

/// Makes files; the first file wins control, and is not counted.
async fn turn((client, root): &(Client, NfsFh4), round: u32, files: usize) -> Result<Duration> {
    let name = format!("round-{round}");
    let home = client.create_directory(root, &*name, 0o755).await?;
    make(client, &home, "first").await?;
    let began = Instant::now();
    for file in 0..files {
        make(client, &home, &format!("file-{file}")).await?;
    }
    Ok(began.elapsed())
}

async fn make(client: &Client, home: &NfsFh4, name: &str) -> Result<()> {
    let file = client.open(home, name, &How::create_new(0o644)).await?;
    let data = Bytes::from_static(&[5; SIZE]);
    client.write(&file, 0, data, StableHow4::FileSync).await?;
    Ok(client.close(&file).await?)
}

/// The experiment about the cost of leases.
#[derive(Debug)]
pub(crate) struct Leases;

impl Experiment for Leases {
    fn name(&self) -> &'static str {
        "leases"
    }

    fn settings(&self, extent: Extent) -> String {
        format!("{SETS:?} {} {SIZE}", files(extent))
    }

    fn points(&self, _: Extent) -> Vec<Point> {
        SETS.map(|(name, _)| Point::new("", name, "")).to_vec()
    }

    fn trials(&self, extent: Extent) -> u32 {
        extent.choose(20, 6)
    }

    fn expected(&self, _: &Point, _: Extent) -> Duration {
        Duration::from_secs(1)
    }

    /// Sets that run all the time have their turns side by side.
    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let folder = field.folder()?;
        let mut sets = Vec::new();
        for (name, settings) in SETS {
            let set = start(field, &folder.path().join(name), settings, "relaxed");
            sets.push(set.with_context(|| format!("leases {name}"))?);
        }
        runtime()?.block_on(async {
            let mut clients = Vec::new();
            for sites in &sets {
                clients.push(sites.replicas[0].target().client().await?);
            }
            measure(&clients, jobs, field.extent, book).await?;
            for (client, _) in clients {
                client.leave().await?;
            }
            sets.iter().try_for_each(|sites| sites.check_running())
        })
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let heads = Heads::of("leases", "");
        let columns = [Figure::plain("us_per_file", "one file (µs)")];
        Shown {
            title: "Leases while nothing fails",
            about: format!(
                "{} Three such sets, two with leases as they are by default and one with leases ten times as long, make {} files of 4 KiB in turns, \
                 one request under way at a time; durability is `relaxed`. The second line is the noise: two sets that differ in nothing. No \
                 copies are compared.",
                where_words(),
                files(extent)
            ),
            claims: "",
            tables: vec![table::by_point(results, heads, &columns, Some(USUAL))],
            plots: vec![Plot::only(
                "One file, by how often leases are asked for",
                1,
                vec![Chart::untitled(
                    Axis::linear(""),
                    Axis::linear("one file (µs)"),
                    chart::bars(results, "", "us_per_file", 1.0),
                )],
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        table::ratios(results, "", "", "us_per_file", USUAL)
    }
}

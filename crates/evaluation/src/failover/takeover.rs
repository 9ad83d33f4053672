//! The time from the death of a primary until another client may write the file that it controlled.
//!
//! What must never enter: work that clients do not request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::chart;
use bench::client::Target;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::{Job, Outcome, Point};
use bytes::Bytes;
use nfs4::NfsFh4;
use nfs4_client::{Client, How, StableHow4};
use plot::{Axis, Chart, Plot};
use tokio::runtime::Runtime;

use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::failover::{runtime, seconds, start, where_words};
use crate::field::Field;
use crate::sites::Sites;

/// Settings by name: the defaults, and shorter times for sites with good links.
const SETTINGS: [(&str, &str); 2] = [
    ("default", "[time]\nlease_seconds = 5\n"),
    (
        "tuned",
        "[time]\nlease_seconds = 5\n[replication]\nsite_lease = \"2 s\"\n",
    ),
];

/// The size of one write, in bytes.
const SIZE: usize = 4096;

/// The first writer works for this long before it loses its server.
const RUN_UP: Duration = Duration::from_secs(2);

/// A client that is told to retry does so after this time.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Without success for this long a trial has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// The times until a write was accepted, of the longest stall elsewhere, and until the killed server was back.
fn one(sites: &mut Sites, runtime: &Runtime, trial: u32) -> Result<[Duration; 3]> {
    let targets: Vec<Target> = sites
        .replicas
        .iter()
        .map(|server| server.target())
        .collect();
    let name = format!("contested-{trial}");
    let file = runtime.block_on(prepare(&targets[0], &name))?;
    let writer = runtime.spawn(write_on(targets[0].clone(), file.clone()));
    let over = Arc::new(AtomicBool::new(false));
    let onlooker = onlook(
        targets[2].clone(),
        format!("onlooker-{trial}"),
        Arc::clone(&over),
    );
    let onlooker = runtime.spawn(onlooker);
    let (heir, _) = runtime.block_on(targets[1].client_with(AGAIN_AFTER / 2))?;
    std::thread::sleep(RUN_UP);

    ensure!(!onlooker.is_finished(), "the onlooker has ended early");
    sites.replicas[0].kill()?;
    let killed = Instant::now();
    let accepted = runtime.block_on(succeed(&heir, &file, killed))?;
    over.store(true, Ordering::Relaxed);
    let stall = runtime.block_on(onlooker)??;
    writer.abort();

    sites.replicas[0].restart()?;
    let restarted = Instant::now();
    sites.wait_for_all()?;
    sites.wait_for_copies()?;
    Ok([accepted, stall, restarted.elapsed()])
}

async fn prepare(target: &Target, name: &str) -> Result<NfsFh4> {
    let (client, root) = target.client().await?;
    let file = client.open(&root, name, &How::create_new(0o666)).await?;
    client.close(&file).await?;
    client.leave().await?;
    Ok(file.handle)
}

/// Writes steadily until its server is gone.
async fn write_on(target: Target, file: NfsFh4) -> Result<()> {
    let (client, _) = target.client().await?;
    let file = client.open_handle(&file, &How::write()).await?;
    loop {
        let data = Bytes::from_static(&[1; SIZE]);
        client.write(&file, 0, data, StableHow4::FileSync).await?;
    }
}

/// Opens, writes and closes the file at another site, as soon as that is accepted.
async fn succeed(client: &Client, file: &NfsFh4, since: Instant) -> Result<Duration> {
    loop {
        let attempt = async {
            let open = client.open_handle(file, &How::write()).await?;
            let data = Bytes::from_static(&[2; SIZE]);
            client.write(&open, 0, data, StableHow4::FileSync).await?;
            let accepted = since.elapsed();
            client.close(&open).await?;
            Ok::<Duration, nfs4_client::Error>(accepted)
        };
        match attempt.await {
            Ok(accepted) => return Ok(accepted),
            Err(error) if since.elapsed() > PATIENCE => {
                return Err(error).context("no write was accepted elsewhere");
            }
            Err(_) => tokio::time::sleep(AGAIN_AFTER).await,
        }
    }
}

/// Makes files in its own directory at a third site, and returns the longest time of one of its
/// operations.
pub(super) async fn onlook(
    target: Target,
    name: String,
    over: Arc<AtomicBool>,
) -> Result<Duration> {
    let (client, root) = target.client_with(PATIENCE).await?;
    let home = client.create_directory(&root, &*name, 0o755).await?;
    let mut longest = Duration::ZERO;
    for number in 0.. {
        let began = Instant::now();
        let how = How::create_new(0o644);
        let file = client.open(&home, &*format!("file-{number}"), &how).await?;
        let opened = began.elapsed();
        let data = Bytes::from_static(&[3; SIZE]);
        client.write(&file, 0, data, StableHow4::FileSync).await?;
        let written = began.elapsed();
        client.close(&file).await?;
        let closed = began.elapsed();
        for step in [opened, written - opened, closed - written] {
            longest = longest.max(step);
        }
        if over.load(Ordering::Relaxed) {
            client.leave().await?;
            return Ok(longest);
        }
    }
    bail!("the onlooker ran out of numbers")
}

/// A primary that is killed.
#[derive(Debug)]
pub(crate) struct Takeover;

impl Experiment for Takeover {
    fn name(&self) -> &'static str {
        "takeover"
    }

    fn settings(&self, _: Extent) -> String {
        format!("{SETTINGS:?} {RUN_UP:?} {SIZE}")
    }

    fn points(&self, _: Extent) -> Vec<Point> {
        SETTINGS.map(|(name, _)| Point::new("", name, "")).to_vec()
    }

    fn trials(&self, extent: Extent) -> u32 {
        extent.choose(10, 3)
    }

    fn expected(&self, _: &Point, _: Extent) -> Duration {
        Duration::from_secs(20)
    }

    /// A set goes through all trials.
    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let runtime = runtime()?;
        for (series, settings) in SETTINGS {
            let mut jobs = jobs.iter().filter(|job| job.point.series == series);
            let Some(first) = jobs.next() else { continue };
            let folder = field.folder()?;
            let mut sites = start(field, &folder.path().join("set"), settings, "majority")?;
            for job in std::iter::once(first).chain(jobs) {
                sites.wait_for_all()?;
                sites.wait_for_quiet()?;
                let times = one(&mut sites, &runtime, job.trial);
                let [accepted, stall, returned] = times.with_context(|| job.to_string())?;
                let figures = [
                    seconds("accepted_s", accepted),
                    seconds("stall_s", stall),
                    seconds("returned_s", returned),
                ];
                book.keep(job, Outcome::from(figures))?;
            }
        }
        Ok(())
    }

    fn shown(&self, results: &Results, _: Extent) -> Shown {
        let heads = Heads::of("settings", "");
        let columns = [
            Figure::plain("accepted_s", "accepted elsewhere after (s)"),
            Figure::plain("stall_s", "longest operation at the third site (s)"),
            Figure::plain("returned_s", "back after (s)"),
        ];
        let charts = columns.map(|column| Chart {
            title: column.title.replace(" (s)", ""),
            x: Axis::linear(""),
            y: Axis::linear("time (s)"),
            marks: chart::bars(results, "", column.name, 1.0),
        });
        Shown {
            title: "A primary is killed",
            about: format!(
                "{} A client writes a file at one site, 4 KiB at a time, so that its server decides about the file. That server is killed as by \
                 `kill -9`. A client at a second site opens the file, writes and closes it, again and again until that is *accepted*; a client at \
                 the third site makes files in a directory of its own all the while. Then the killed server is started again, and is *back* when it \
                 has everything and takes part. Durability is `majority`; clients' leases are 5 s instead of 90 s, so that a restarted server's \
                 grace period is soon over. *Tuned* is a `site_lease` of 2 s. No copies are compared.",
                where_words()
            ),
            claims: "",
            tables: vec![table::by_point(results, heads, &columns, None)],
            plots: vec![Plot::only("A primary is killed", 3, charts.to_vec())],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let cells = results.points().iter().map(|point| {
            let found = results.summary(point, "accepted_s")?;
            Some(format!("{} {} s", point.series, table::cell(found, 1.0)))
        });
        let cells: Option<Vec<String>> = cells.collect();
        Some(format!(
            "a write is accepted elsewhere after: {}",
            cells?.join(", ")
        ))
    }
}

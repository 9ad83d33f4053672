//! A server is away while other sites change as much as in an hour; then it comes back and catches up.
//!
//! The hour is compressed: the number of files is that of an hour at the stated rate, but they are made as fast as the servers accept them.
//! In one case the servers keep all updates for the absent one; in the other they keep too few, so that its copy has to be compared
//! with another one. A client at a third site continues to write all the time.
//!
//! What must never enter: an incomplete return, without some update or content.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::chart;
use bench::client::Target;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::{Job, Outcome, Point};
use bytes::Bytes;
use nfs4::Bitmap4;
use nfs4_client::{How, StableHow4};
use plot::{Axis, Chart, Plot};
use tokio::runtime::Runtime;

use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::failover::takeover::onlook;
use crate::failover::{runtime, seconds, start, where_words};
use crate::field::Field;
use crate::sites::Sites;

/// The size of each file, in bytes.
const SIZE: usize = 4096;

/// The number of clients that make them.
const CLIENTS: usize = 8;

/// For this long the writer elsewhere is measured before the return, as a baseline.
const BEFORE: Duration = Duration::from_secs(10);

/// The ways to catch up, with the settings for each: update after update, or by a whole copy of which only the
/// differences are fetched.
const WAYS: [(&str, &str); 2] = [
    ("by log", ""),
    (COMPARING, "[replication]\nkept_updates = 10000\n"),
];
const COMPARING: &str = "comparing";

/// The number of files made while a server is away: those of an hour at 10 per second.
fn files(extent: Extent) -> usize {
    extent.choose(36_000, 1_800)
}

/// Lets the last server miss `updates` files, and come back in the way of the servers' settings.
fn measure(sites: &mut Sites, runtime: &Runtime, way: &str, updates: usize) -> Result<Outcome> {
    sites.wait_for_quiet()?;
    let last = sites.replicas.len() - 1;
    let (busy, away) = (sites.replicas[0].target(), sites.replicas[last].target());
    let writer = sites.replicas[1].target();
    let copies = copies_taken(sites, last)?;
    sites.replicas[last].kill()?;
    let began = Instant::now();
    let each = updates / CLIENTS;
    runtime.block_on(make_all(&busy, each))?;
    let made = began.elapsed();
    let before = watch(runtime, &writer, "before", || {
        std::thread::sleep(BEFORE);
        Ok(())
    })?;
    let mut returned = Duration::ZERO;
    let during = watch(runtime, &writer, "during", || {
        sites.replicas[last].restart()?;
        let restarted = Instant::now();
        sites.wait_for_all()?;
        returned = restarted.elapsed();
        Ok(())
    })?;
    sites.wait_for_copies()?;
    let compared = copies_taken(sites, last)? > copies;
    ensure!(
        compared == (way == COMPARING),
        "the server that was away was to catch up {way}, and did not"
    );
    runtime.block_on(verify(&away, each))?;
    let files = (each * CLIENTS) as f64;
    let figures = [
        ("files".to_owned(), files),
        ("files_per_s".to_owned(), files / returned.as_secs_f64()),
        seconds("made_s", made),
        seconds("returned_s", returned),
        seconds("stall_before_s", before),
        seconds("stall_s", during),
    ];
    Ok(figures.into())
}

/// How often a server has logged that it takes a whole copy.
fn copies_taken(sites: &Sites, at: usize) -> Result<usize> {
    let log = sites.replicas[at].log();
    let text = std::fs::read_to_string(log).context("a server's log cannot be read")?;
    Ok(text.matches("receiving the tree").count())
}

/// Runs a client during some work; returns the longest time of one of its operations.
fn watch(
    runtime: &Runtime,
    at: &Target,
    name: &str,
    happens: impl FnOnce() -> Result<()>,
) -> Result<Duration> {
    let over = Arc::new(AtomicBool::new(false));
    let name = format!("writer-{name}");
    let writer = runtime.spawn(onlook(at.clone(), name, Arc::clone(&over)));
    let happened = happens();
    over.store(true, Ordering::Relaxed);
    let longest = runtime.block_on(writer)?;
    happened?;
    longest
}

fn directory(number: usize) -> String {
    format!("absence-{number}")
}

async fn make_all(target: &Target, each: usize) -> Result<()> {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(make(target.clone(), number, each)))
        .collect();
    for client in clients {
        client.await??;
    }
    Ok(())
}

async fn make(target: Target, number: usize, count: usize) -> Result<()> {
    let (client, root) = target
        .client_with(std::time::Duration::from_secs(120))
        .await?;
    let home = client
        .create_directory(&root, &*directory(number), 0o755)
        .await?;
    for file in 0..count {
        let how = How::create_new(0o644);
        let file = client.open(&home, &*format!("file-{file}"), &how).await?;
        let data = Bytes::from_static(&[4; SIZE]);
        client.write(&file, 0, data, StableHow4::FileSync).await?;
        client.close(&file).await?;
    }
    Ok(client.leave().await?)
}

/// Checks that everything is there.
async fn verify(target: &Target, each: usize) -> Result<()> {
    let (client, root) = target.client().await?;
    for number in 0..CLIENTS {
        let home = client.lookup(&root, &*directory(number)).await?;
        let entries = client.readdir(&home, Bitmap4::EMPTY).await?;
        ensure!(
            entries.len() == each,
            "{} of {each} files are there after the return",
            entries.len()
        );
        for entry in entries {
            let file = client.open(&home, entry.name, &How::read()).await?;
            let content = client.read_to_end(&file).await?;
            ensure!(*content == [4; SIZE], "a file differs after the return");
            client.close(&file).await?;
        }
    }
    Ok(client.leave().await?)
}

/// The experiment with an absent server.
#[derive(Debug)]
pub(crate) struct Absence;

impl Experiment for Absence {
    fn name(&self) -> &'static str {
        "absence"
    }

    fn settings(&self, extent: Extent) -> String {
        format!("{WAYS:?} {} {CLIENTS} {SIZE}", files(extent))
    }

    fn points(&self, _: Extent) -> Vec<Point> {
        WAYS.map(|(name, _)| Point::new("", name, "")).to_vec()
    }

    fn trials(&self, extent: Extent) -> u32 {
        extent.choose(3, 1)
    }

    fn expected(&self, _: &Point, extent: Extent) -> Duration {
        extent.choose(Duration::from_secs(90), Duration::from_secs(40))
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let runtime = runtime()?;
        for job in jobs {
            let known = WAYS.iter().find(|(name, _)| *name == job.point.series);
            let (way, settings) = known.context("there is no such way")?;
            let folder = field.folder()?;
            let mut sites = start(field, &folder.path().join("set"), settings, "relaxed")?;
            let outcome = measure(&mut sites, &runtime, way, files(field.extent));
            book.keep(job, outcome.with_context(|| job.to_string())?)?;
        }
        Ok(())
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let heads = Heads::of("caught up", "");
        let columns = [
            Figure::plain("made_s", "made in (s)"),
            Figure::plain("returned_s", "back after (s)"),
            Figure::plain("files_per_s", "files a second"),
            Figure::plain("stall_before_s", "longest operation elsewhere before (s)"),
            Figure::plain("stall_s", "during the return (s)"),
        ];
        Shown {
            title: "A server is away",
            about: format!(
                "{} One of the servers is killed. At another site {} files of 4 KiB are made, which is an hour at {} a second, as fast as the servers take \
                 them; durability is `relaxed`. Then the killed server is started again, and it is measured how long it takes until it has everything \
                 and takes part. Once the others have kept all updates for it (`by log`), and once too few (`kept_updates`), so that its copy has to \
                 be compared with another one (`comparing`). A client at a third site makes files all the while: its longest operation during the return \
                 says how long the last step holds writers up, its longest one in the {} s before how it fares without.",
                where_words(),
                files(extent),
                files(extent) as f64 / 3600.0,
                BEFORE.as_secs()
            ),
            claims: "",
            tables: vec![table::by_point(results, heads, &columns, None)],
            plots: vec![Plot::only(
                "A server that was away catches up",
                1,
                vec![Chart::untitled(
                    Axis::linear(""),
                    Axis::linear("back after (s)"),
                    chart::bars(results, "", "returned_s", 1.0),
                )],
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let cells = results.points().iter().map(|point| {
            let found = results.summary(point, "returned_s")?;
            Some(format!("{} {} s", point.series, table::cell(found, 1.0)))
        });
        let cells: Option<Vec<String>> = cells.collect();
        Some(format!(
            "back after an hour's changes: {}",
            cells?.join(", ")
        ))
    }
}

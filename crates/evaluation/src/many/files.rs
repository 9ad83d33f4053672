//! A tree of many files, a tenth of them in one directory.
//!
//! What must never enter: clients except those that fill and list it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::{self, Job, Outcome, Point};
use bytes::Bytes;
use nfs4::NfsFh4;
use nfs4_client::{Client, How, STAT, StableHow4};
use plot::{Axis, Chart, Plot};
use testbed::{LinkSettings, Meridian, Role, World};
use tokio::task::JoinSet;

use super::Single;
use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::field::{Field, runtime};
use crate::sites::{is_ready, lacks_nothing};

/// What is measured.
const SERIES: &str = "Meridian";

/// One file in this number has contents, of [`SIZE`] bytes.
const FILLED: u64 = 100;
const SIZE: usize = 4096;

/// The number of files in each directory except the large one.
const IN_DIRECTORY: u64 = 1000;

/// The number of files made at the same time.
const DEPTH: usize = 64;

/// The number of files looked up one after another.
const LOOKUPS: u64 = 1000;

/// Longer than a new replica may take.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The experiment.
#[derive(Debug)]
pub(crate) struct Files;

/// The name of a file. Names with near numbers differ as much as possible.
fn name(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Makes files with these numbers in a directory.
async fn fill(client: &Client, place: &NfsFh4, numbers: std::ops::Range<u64>) -> Result<()> {
    let (next, end) = (Arc::new(AtomicU64::new(numbers.start)), numbers.end);
    let mut makers = JoinSet::new();
    for _ in 0..DEPTH {
        let (client, place, next) = (client.clone(), place.clone(), Arc::clone(&next));
        makers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return anyhow::Ok(());
                }
                let how = How::create_new(0o644).by(format!("maker-{number}"));
                let file = client.open(&place, &*name(number), &how).await?;
                if number.is_multiple_of(FILLED) {
                    let data = Bytes::from_static(&[0x61; SIZE]);
                    client.write(&file, 0, data, StableHow4::FileSync).await?;
                }
                client.close(&file).await?;
            }
        });
    }
    while let Some(made) = makers.join_next().await {
        made??;
    }
    Ok(())
}

/// Makes all files, and returns the large directory.
async fn fill_tree(client: &Client, root: &NfsFh4, files: u64) -> Result<NfsFh4> {
    let large = client.create_directory(root, "large", 0o755).await?;
    fill(client, &large, 0..files / 10).await?;
    for begin in (files / 10..files).step_by(IN_DIRECTORY as usize) {
        let place = client
            .create_directory(root, &*format!("part-{begin}"), 0o755)
            .await?;
        fill(client, &place, begin..files.min(begin + IN_DIRECTORY)).await?;
    }
    Ok(large)
}

/// Lists the large directory with attributes, and looks up files in it; returns both times.
async fn look(client: &Client, large: &NfsFh4, files: u64) -> Result<[f64; 2]> {
    let began = Instant::now();
    let found = client.readdir(large, STAT).await?.len() as u64;
    let listed = began.elapsed().as_secs_f64();
    ensure!(
        found == files / 10,
        "{found} names were listed of {}",
        files / 10
    );
    let began = Instant::now();
    for turn in 0..LOOKUPS {
        let number = turn.wrapping_mul(7_368_787) % (files / 10);
        client.lookup(large, &*name(number)).await?;
    }
    let each = began.elapsed().as_secs_f64() / LOOKUPS as f64;
    Ok([found as f64 / listed, each * 1e6])
}

fn measure(field: &Field, files: u64) -> Result<Outcome> {
    let folder = field.folder()?;
    let world = World::new(&["a", "b"], &LinkSettings::default())?;
    let [first, second] = world.places() else {
        anyhow::bail!("a world of two has two places");
    };
    let data = folder.path().join("first");
    let mut server = Single::start(first, &field.program, &data, "")?;
    let here = runtime()?;
    let (client, root) = here.block_on(server.target().client_with(PATIENCE))?;
    let began = Instant::now();
    let large = here.block_on(fill_tree(&client, &root, files))?;
    let filled = began.elapsed().as_secs_f64();
    let memory = server.memory()?;
    let [listed, looked_up] = here.block_on(look(&client, &large, files))?;
    here.block_on(client.leave())?;
    let started = server.killed_and_started()?;
    let memory_after = server.memory()?;
    server.service.stop()?;
    let began = Instant::now();
    let all_is_well = server.meridian.ask(&["check"])?;
    let checked = began.elapsed().as_secs_f64();
    ensure!(!all_is_well.is_empty(), "check says nothing");
    let figures = [
        ("made_per_s", files as f64 / filled),
        ("memory_bytes", memory),
        ("listed_per_s", listed),
        ("lookup_us", looked_up),
        ("start_s", started.as_secs_f64()),
        ("started_bytes", memory_after),
        ("check_s", checked),
    ];
    let mut outcome: Outcome = trial::named(figures);
    server.meridian.begin_set(first.at(Meridian::PEER_PORT))?;
    server.started()?;
    let data = folder.path().join("second");
    let other = Meridian::new(second.site(), &field.program, &data);
    let began = Instant::now();
    other.join(
        &server.meridian,
        Role::Replica,
        second.at(Meridian::PEER_PORT),
    )?;
    let other = Single::start(second, &field.program, &data, "")?;
    wait_for_copy([&server.meridian, &other.meridian], began)?;
    let copied = began.elapsed().as_secs_f64();
    outcome.insert("copy_s".to_owned(), copied);
    outcome.insert("copied_per_s".to_owned(), files as f64 / copied);
    outcome.insert("copier_bytes".to_owned(), other.memory()?);
    let found = here.block_on(async {
        let (client, root) = other.target().client_with(PATIENCE).await?;
        let large = client.lookup(&root, "large").await?;
        let found = client.readdir(&large, STAT).await?.len() as u64;
        client.leave().await?;
        anyhow::Ok(found)
    })?;
    ensure!(
        found == files / 10,
        "the copy lists {found} names of {}",
        files / 10
    );
    Ok(outcome)
}

/// Waits until a new replica takes part and lacks nothing, according to both servers.
fn wait_for_copy(both: [&Meridian; 2], began: Instant) -> Result<()> {
    loop {
        ensure!(
            began.elapsed() < PATIENCE,
            "the new replica has no copy after {PATIENCE:?}"
        );
        // A starting server is silent for a moment.
        if let [Ok(first), Ok(new)] = both.map(Meridian::replication)
            && is_ready(&first)?
            && is_ready(&new)?
            && lacks_nothing(&first)?
        {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

impl Experiment for Files {
    fn name(&self) -> &'static str {
        "many-files"
    }

    fn settings(&self, _: Extent) -> String {
        format!("{FILLED} {SIZE} {IN_DIRECTORY} {DEPTH} {LOOKUPS}")
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let counts: &[u64] = extent.choose(&[100_000, 1_000_000, 10_000_000], &[2_000, 10_000]);
        counts
            .iter()
            .map(|count| Point::new("", SERIES, count))
            .collect()
    }

    /// A tree of ten million files takes most of an hour.
    fn trials(&self, _: Extent) -> u32 {
        1
    }

    fn expected(&self, point: &Point, _: Extent) -> Duration {
        let files: f64 = point.x.parse().unwrap_or_default();
        Duration::from_secs_f64(10.0 + files / 4000.0)
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        for job in jobs {
            let files = job.point.x.parse().context("no number of files")?;
            let outcome = measure(field, files).with_context(|| job.to_string())?;
            book.keep(job, outcome)?;
        }
        Ok(())
    }

    fn shown(&self, results: &Results, _: Extent) -> Shown {
        let heads = Heads::of("", "files");
        let mib = |name, title| Figure {
            name,
            title,
            unit: 1024.0 * 1024.0,
        };
        let columns = [
            Figure::plain("made_per_s", "made (1/s)"),
            mib("memory_bytes", "memory when full (MiB)"),
            Figure::plain("listed_per_s", "entries listed (1/s)"),
            Figure::plain("lookup_us", "LOOKUP (µs)"),
            Figure::plain("start_s", "start after kill -9 (s)"),
            mib("started_bytes", "memory then (MiB)"),
            Figure::plain("check_s", "check (s)"),
            Figure::plain("copy_s", "a new replica's copy (s)"),
            Figure::plain("copied_per_s", "files copied (1/s)"),
            mib("copier_bytes", "its memory (MiB)"),
        ];
        let chart = |title: &str, figure: &str| Chart {
            title: title.to_owned(),
            x: Axis::log("files"),
            y: Axis::linear(title),
            marks: chart::lines(results, "", figure, 1.0, None),
        };
        Shown {
            title: "Many files",
            about: format!(
                "A tree of that many files at one server, a tenth of them in one directory and the others in directories of {IN_DIRECTORY}; one file in {FILLED} has \
                 contents, of {SIZE} bytes. They are made by one client with {DEPTH} requests under way (OPEN and CLOSE, answered when stable). Then one client \
                 lists the large directory with attributes and looks {LOOKUPS} files up in it, one after the other; the server is killed with `kill -9` and started, \
                 which is over when it answers; `meridian check` looks at everything; the server becomes the first of a set, and a new replica beside it takes a copy, \
                 from `meridian set join` until it lacks nothing. Memory is the resident memory of the process. One trial."
            ),
            claims: "",
            tables: vec![table::by_point(results, heads, &columns, None)],
            plots: vec![Plot::only(
                "By the number of files",
                3,
                vec![
                    chart("start after kill -9 (s)", "start_s"),
                    chart("files made (1/s)", "made_per_s"),
                    chart("files copied (1/s)", "copied_per_s"),
                ],
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let x = results.last_place("")?;
        let point = Point::new("", SERIES, x);
        let [start, made, copied] =
            ["start_s", "made_per_s", "copied_per_s"].map(|figure| results.summary(&point, figure));
        let [start, made, copied] = [start?, made?, copied?].map(|one| table::cell(one, 1.0));
        Some(format!(
            "{x} files: start after kill -9 {start} s, made {made}/s, copied {copied}/s"
        ))
    }
}

//! One large file: the time from its first WRITE until the other site has all of it, compared with the same bytes over
//! plain TCP; and the time of a `mkdir` by other clients meanwhile.
//!
//! What must never enter: files of other sizes.

mod lanes;
mod plain_tcp;

pub(crate) use lanes::Lanes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::chart;
use bench::processor::ProcessorTime;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::tally::Tally;
use bench::trial::{Job, Outcome, Point, named};
use bytes::Bytes;
use fastrand::Rng;
use nfs4::NfsFh4;
use nfs4_client::{Client, How, OpenFile, StableHow4};
use plot::{Axis, Chart, Plot};
use testbed::LinkSettings;
use tokio::task::JoinSet;

use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::field::{Field, runtime};
use crate::sites::Sites;

/// The round trip between the sites.
const ROUND_TRIP: Duration = Duration::from_millis(120);

/// The bandwidth of the link, in bits a second.
const BANDWIDTH: u64 = 1_000_000_000;

/// The panel of the file, and that of other clients meanwhile.
const FILE: &str = "the file";
const NEIGHBOURS: &str = "mkdir by others";

/// The series with the file.
const REPLICATED: &str = "two replicas";

/// Plain TCP by this many connections.
const TCP: [(&str, usize); 2] = [
    ("plain TCP, 1 connection", 1),
    ("plain TCP, 4 connections", 4),
];

/// The places of other clients, and the times of their work.
const PLACES: [&str; 2] = ["first site", "second site"];
const TIMES: [&str; 2] = ["before", "meanwhile"];

/// The size of one request.
const BLOCK: usize = 1 << 20;

/// The number of active WRITE requests.
const DEPTH: usize = 8;

/// How long the client of the other file pauses between two directories.
const PAUSE: Duration = Duration::from_millis(100);

/// Measures everything in folders of this name at a set whose links have their final settings.
async fn measure(sites: &Sites, name: &str, size: u64) -> Result<Vec<(Point, Outcome)>> {
    let (client, root) = sites.replicas[0].target().client().await?;
    let home = client.create_directory(&root, name, 0o777).await?;
    for place in PLACES {
        client.create_directory(&home, place, 0o777).await?;
    }
    let random = Arc::new(noise());
    let mut outcomes = Vec::new();
    for (series, flows) in TCP {
        let (total, cpu) = plain_tcp::send_all(sites, flows, size)?;
        let figures = [
            ("total_s", total),
            ("link_share", share(size, total)),
            ("own_cpu_s", cpu),
        ];
        outcomes.push((Point::new(FILE, series, gigabytes(size)), named(figures)));
    }
    sites.wait_for_quiet()?;
    let before = neighbours(sites, [name, TIMES[0]], Work::For(Duration::from_secs(5))).await?;
    sites.wait_for_quiet()?;

    let (wire, cpu) = (sites.sent()?.wire, cpu(sites)?);
    let stop = Arc::new(AtomicBool::new(false));
    let meanwhile = neighbours(sites, [name, TIMES[1]], Work::Until(Arc::clone(&stop)));
    let transfer = transfer(sites, &client, &home, &random, size, &stop);
    let (meanwhile, times) = tokio::join!(meanwhile, transfer);
    let (written, complete) = times?;
    let (wire_after, cpu_after) = (sites.sent()?.wire, self::cpu(sites)?);
    let figures = [
        ("written_s", written),
        ("total_s", complete),
        ("link_share", share(size, complete)),
        ("wire_bytes", (wire_after - wire) as f64),
        ("first_cpu_s", cpu_after[0] - cpu[0]),
        ("second_cpu_s", cpu_after[1] - cpu[1]),
        ("own_cpu_s", cpu_after[2] - cpu[2]),
    ];
    let point = Point::new(FILE, REPLICATED, gigabytes(size));
    outcomes.push((point, named(figures)));
    for (time, figures) in TIMES.into_iter().zip([before, meanwhile?]) {
        for (place, tally) in PLACES.into_iter().zip(figures) {
            let [median, most, longest] = [0.5, 0.95, 1.0].map(|part| tally.percentile(part));
            let figures = [
                ("median_us", median as f64),
                ("most_us", most as f64),
                ("longest_us", longest as f64),
            ];
            outcomes.push((Point::new(NEIGHBOURS, place, time), named(figures)));
        }
    }
    check_copy(sites, name, &random, size).await?;
    client.leave().await?;
    Ok(outcomes)
}

/// The used share of the link's bandwidth.
fn share(size: u64, seconds: f64) -> f64 {
    size as f64 * 8.0 / seconds / BANDWIDTH as f64
}

/// A size in the form of points.
fn gigabytes(size: u64) -> String {
    format!("{} MiB", size >> 20)
}

/// Writes the file and waits until the other replica has it; returns both times in seconds from the beginning.
async fn transfer(
    sites: &Sites,
    client: &Client,
    home: &NfsFh4,
    random: &Arc<Vec<u8>>,
    size: u64,
    stop: &AtomicBool,
) -> Result<(f64, f64)> {
    let outcome = async {
        let began = Instant::now();
        let file = client.open(home, "large", &How::create(0o644)).await?;
        write(client, &file, random, size).await?;
        client.commit(&file.handle, 0, 0).await?;
        client.close(&file).await?;
        let written = began.elapsed().as_secs_f64();
        // Directories made meanwhile are always lacking for a moment; contents come last.
        while !sites.has_contents()? {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok((written, began.elapsed().as_secs_f64()))
    };
    let outcome = outcome.await;
    stop.store(true, Ordering::Relaxed);
    outcome
}

async fn write(client: &Client, file: &OpenFile, random: &Arc<Vec<u8>>, size: u64) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let mut writers = JoinSet::new();
    for _ in 0..DEPTH {
        let (client, file) = (client.clone(), file.clone());
        let (random, next) = (Arc::clone(random), Arc::clone(&next));
        writers.spawn(async move {
            loop {
                let offset = next.fetch_add(BLOCK as u64, Ordering::Relaxed);
                if offset >= size {
                    return Ok::<(), anyhow::Error>(());
                }
                let data = block(&random, offset);
                let written = client.write(&file, offset, data, StableHow4::Unstable);
                ensure!(written.await?.count as usize == BLOCK, "a WRITE fell short");
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done??;
    }
    Ok(())
}

/// Reads the file at the second replica once nothing is controlled, so that its own copy answers. The traffic on the WAN
/// meanwhile proves that.
async fn check_copy(sites: &Sites, name: &str, random: &[u8], size: u64) -> Result<()> {
    sites.wait_for_quiet()?;
    let before = sites.sent()?.wire;
    let (client, root) = sites.replicas[1].target().client().await?;
    let home = client.lookup(&root, name).await?;
    let file = client.open(&home, "large", &How::read()).await?;
    for offset in (0..size).step_by(BLOCK) {
        let part = client.read(&file, offset, BLOCK as u32).await?;
        ensure!(
            part.data == block(random, offset),
            "the copy at the second site differs near byte {offset}"
        );
    }
    client.close(&file).await?;
    client.leave().await?;
    let wire = sites.sent()?.wire - before;
    ensure!(
        wire < size / 10,
        "reading the copy moved {wire} bytes over the WAN, so there was none"
    );
    Ok(())
}

/// How long the other clients work.
#[derive(Clone)]
enum Work {
    For(Duration),
    Until(Arc<AtomicBool>),
}

/// Other clients at both sites that make directories.
async fn neighbours(sites: &Sites, [name, time]: [&str; 2], work: Work) -> Result<[Tally; 2]> {
    let mut makers = JoinSet::new();
    for (number, place) in PLACES.into_iter().enumerate() {
        let (client, root) = sites.replicas[number].target().client().await?;
        let home = client.lookup(&root, name).await?;
        let own = client.lookup(&home, place).await?;
        let place = client.create_directory(&own, time, 0o755).await?;
        let work = work.clone();
        makers.spawn(
            async move { Ok::<_, anyhow::Error>((number, make(client, place, work).await?)) },
        );
    }
    let mut figures: [Tally; 2] = Default::default();
    while let Some(made) = makers.join_next().await {
        let (number, tally) = made??;
        figures[number] = tally;
    }
    Ok(figures)
}

async fn make(client: Client, place: NfsFh4, work: Work) -> Result<Tally> {
    let (began, mut tally) = (Instant::now(), Tally::default());
    let goes_on = || match &work {
        Work::For(time) => began.elapsed() < *time,
        Work::Until(stop) => !stop.load(Ordering::Relaxed),
    };
    let mut number = 0;
    while goes_on() {
        let name = format!("directory-{number}");
        let at = Instant::now();
        client.create_directory(&place, &*name, 0o755).await?;
        tally.add(at, 1);
        number += 1;
        tokio::time::sleep(PAUSE).await;
    }
    client.leave().await?;
    Ok(tally)
}

/// Processor seconds of both servers and of this program.
fn cpu(sites: &Sites) -> Result<[f64; 3]> {
    let own = ProcessorTime::own()?.total().as_secs_f64();
    let [first, second] = [0, 1].map(|number: usize| sites.replicas[number].processor_time());
    Ok([first?.as_secs_f64(), second?.as_secs_f64(), own])
}

/// Incompressible bytes, more than a block.
fn noise() -> Vec<u8> {
    let mut random = Rng::with_seed(7);
    let mut noise = vec![0; 2 * BLOCK];
    random.fill(&mut noise);
    noise
}

/// The content of a block of the file: noise from a different offset in every block, with the block's offset.
fn block(random: &[u8], offset: u64) -> Bytes {
    let start = (offset / BLOCK as u64 * 4099 % BLOCK as u64) as usize;
    let mut block = random[start..start + BLOCK].to_vec();
    block[..8].copy_from_slice(&offset.to_be_bytes());
    block.into()
}

/// One large file.
#[derive(Debug)]
pub(crate) struct Bulk;

fn size(extent: Extent) -> u64 {
    extent.choose(1 << 30, 256 << 20)
}

impl Experiment for Bulk {
    fn name(&self) -> &'static str {
        "bulk"
    }

    fn settings(&self, _: Extent) -> String {
        format!("{ROUND_TRIP:?} {BANDWIDTH} {BLOCK} {DEPTH} {PAUSE:?}")
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let x = gigabytes(size(extent));
        let series = [REPLICATED, TCP[0].0, TCP[1].0];
        let mut points = series.map(|one| Point::new(FILE, one, &x)).to_vec();
        points.extend(TIMES.into_iter().flat_map(|time| {
            let places = PLACES.into_iter();
            places.map(move |place| Point::new(NEIGHBOURS, place, time))
        }));
        points
    }

    fn expected(&self, _: &Point, extent: Extent) -> Duration {
        extent.choose(Duration::from_secs(8), Duration::from_secs(3))
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let folder = field.folder()?;
        let link = LinkSettings::round_trip(ROUND_TRIP).bandwidth(BANDWIDTH);
        let disk = folder.path().join("set");
        let sites = Sites::start_with(&link, &field.program, &disk, 2, "")?;
        let outcomes = runtime()?.block_on(measure(&sites, "bulk", size(field.extent)))?;
        sites.check_running()?;
        for job in jobs {
            let found = outcomes.iter().find(|(point, _)| *point == job.point);
            let (_, outcome) = found.context("there is no such point")?;
            book.keep(job, outcome.clone())?;
        }
        Ok(())
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let heads = Heads::of("by", "size");
        let columns = [
            Figure::plain("written_s", "until the client's close (s)"),
            Figure::plain("total_s", "complete at the other site (s)"),
            Figure::plain("link_share", "share of the link"),
            Figure::plain("first_cpu_s", "CPU of the first server (s)"),
            Figure::plain("second_cpu_s", "CPU of the second (s)"),
            Figure::plain("own_cpu_s", "CPU of clients and WAN (s)"),
        ];
        let milliseconds = |name, title| Figure {
            name,
            title,
            unit: 1e3,
        };
        let others = [
            milliseconds("median_us", "mkdir, median (ms)"),
            milliseconds("most_us", "95 % within (ms)"),
            milliseconds("longest_us", "longest (ms)"),
        ];
        let when = Heads::of("at the", "when");
        Shown {
            title: "One large file",
            about: format!(
                "A file of {} is written at the first of two sites {} ms apart, with {DEPTH} requests of {} MiB under way, over links of \
                 {} Gbit/s; beside it, as many bytes by plain TCP over the same links. Meanwhile other clients at both sites make a directory \
                 every {} ms, each in a directory of its own. The file is read at the other site while the WAN shows that nothing \
                 crosses it, and compared.",
                gigabytes(size(extent)),
                ROUND_TRIP.as_millis(),
                BLOCK >> 20,
                BANDWIDTH / 1_000_000_000,
                PAUSE.as_millis()
            ),
            claims: "",
            tables: vec![
                table::by_point(&results.of_panel(FILE), heads, &columns, None),
                table::by_point(&results.of_panel(NEIGHBOURS), when, &others, None),
            ],
            plots: vec![Plot::only(
                "One large file, until it is complete at the other site",
                1,
                vec![Chart::untitled(
                    Axis::linear(""),
                    Axis::linear("time (s)"),
                    chart::bars(results, FILE, "total_s", 1.0),
                )],
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let x = results.last_place(FILE)?;
        let ratios = table::ratios(results, FILE, x, "total_s", REPLICATED)?;
        Some(format!("{x} complete at the other site: {ratios}"))
    }
}

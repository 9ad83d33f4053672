//! The age of data at a read: a file is replaced repeatedly at one site and read at another.
//!
//! What must never enter: distances, which the links have.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use bench::chart;
use bench::client::Target;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::{Job, Outcome, Point};
use bytes::Bytes;
use nfs4_client::{Client, How, OpenFile, StableHow4};
use plot::{Axis, Chart, Plot};
use testbed::{GlusterMount, Requirements, Rsync};
use tokio::runtime::Runtime;

use super::stand::Stand;
use super::{BANDWIDTH, DISTANCES, GLUSTER, MERIDIAN, RSYNC, at_each_place, outcome};
use crate::experiment::{Book, Experiment, Peer, Shown};
use crate::extent::Extent;
use crate::field::{Field, runtime};
use crate::peers;

/// The pause between two writes.
const WRITE_PAUSE: Duration = Duration::from_millis(50);

/// The pause between two reads.
const READ_PAUSE: Duration = Duration::from_millis(20);

/// The file.
const NAME: &str = "clock";

/// The comparison.
#[derive(Debug)]
pub(crate) struct Age;

/// The length of one trial.
fn span(extent: Extent) -> Duration {
    Duration::from_secs(extent.choose(15, 4))
}

impl Experiment for Age {
    fn name(&self) -> &'static str {
        "today-age"
    }

    fn needs(&self) -> Requirements {
        let needs = Requirements::site().with_wan();
        needs.with_gluster().with_rsync()
    }

    fn peers(&self) -> Result<Vec<Peer>> {
        Ok(vec![peers::gluster()?, peers::rsync()?])
    }

    fn settings(&self, extent: Extent) -> String {
        format!(
            "{WRITE_PAUSE:?} {READ_PAUSE:?} {:?} {BANDWIDTH}",
            span(extent)
        )
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let distances: &[&str] = extent.choose(DISTANCES, &["60"]);
        let series = |x: &&str| [MERIDIAN, GLUSTER, RSYNC].map(|series| Point::new("", series, x));
        distances.iter().flat_map(series).collect()
    }

    fn expected(&self, _point: &Point, extent: Extent) -> Duration {
        span(extent) + Duration::from_secs(2)
    }

    /// Everything is started once for all trials at a place, and the series alternate there.
    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let span = span(field.extent);
        let rsync = |stand: &Stand| Rsync::start(stand.place(1)?, &stand.local(1)?);
        at_each_place(
            field,
            jobs,
            book,
            rsync,
            |stand, mounted, rsync, job, name| match job.point.series.as_str() {
                MERIDIAN => at_set(stand, name, span),
                GLUSTER => at_gluster(&mounted.mounts, name, span),
                RSYNC => by_rsync(stand, rsync, [&stand.local(0)?, &stand.local(1)?], span),
                _ => bail!("there is no such series"),
            },
        )
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let figure = |name, title| Figure {
            name,
            title,
            unit: 1e-3,
        };
        let figures = [
            figure("write_s", "a write (ms)"),
            figure("read_s", "a look (ms)"),
            figure("age_max_s", "age at most (ms)"),
            figure("age_s", "age (ms)"),
        ];
        let heads = Heads::of("files", "round trip (ms)");
        let chart = Chart::over_distance(
            "",
            Axis::linear("age of what is read, mean (ms)"),
            chart::lines(results, "", "age_s", 1e-3, None),
        );
        Shown {
            title: "Today: how old is what I read",
            about: format!(
                "For {} s a small file gets a new content at one site, {} ms after the one before was written, and is opened, read and \
                 closed at another every {} ms. *Age* is for how long a newer content had already been written and closed when \
                 the reader began to open; zero means that nobody could have known better. Means over all looks, and the oldest one; \
                 writes and looks are medians. **rsync** copies the folder again and again without a pause, and is told to look at \
                 fractions of seconds of times of change, which it does not do by itself. **GlusterFS** is mounted with the defaults of its \
                 client, which believes what it knows of a file for a second.",
                span(extent).as_secs(),
                WRITE_PAUSE.as_millis(),
                READ_PAUSE.as_millis(),
            ),
            claims: include_str!("../claims/today-age.md"),
            tables: vec![table::by_point(results, heads, &figures, None)],
            plots: vec![Plot::only(
                "How old is what another site reads",
                1,
                vec![chart],
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let x = results.last_place("")?;
        let ages = results.series("").into_iter().map(|series| {
            let age = results.summary(&Point::new("", series, x), "age_s")?;
            Some(format!("{series} {} ms", table::cell(age, 1e-3)))
        });
        let ages: Option<Vec<String>> = ages.collect();
        Some(format!("age of what is read, {x} ms: {}", ages?.join(", ")))
    }
}

/// The actions of one side, with their times.
#[derive(Debug, Default)]
struct Log {
    /// When the write of each number was complete, from 1 on.
    complete: Vec<Instant>,
    writes: Vec<Duration>,
}

/// How long `got` had not been the newest when a read began.
fn age(complete: &[Instant], got: u64, began: Instant) -> Duration {
    let newer = complete.get(got as usize);
    newer.map_or(Duration::ZERO, |&newer| {
        began.saturating_duration_since(newer)
    })
}

/// Lets one thread write numbers from 1 on, and another read them, for this long. The number 0 is there already.
fn observe(
    mut write: impl FnMut(u64) -> Result<()> + Send,
    mut read: impl FnMut() -> Result<u64>,
    span: Duration,
) -> Result<Outcome> {
    let log = Mutex::new(Log::default());
    let end = Instant::now() + span;
    let writing = || -> Result<()> {
        for number in 1.. {
            let began = Instant::now();
            if began > end {
                break;
            }
            write(number)?;
            let mut log = log.lock().map_err(|_| anyhow!("the reader has died"))?;
            log.complete.push(Instant::now());
            log.writes.push(began.elapsed());
            drop(log);
            std::thread::sleep(WRITE_PAUSE);
        }
        Ok(())
    };
    let mut looks = Vec::new();
    let mut reading = || -> Result<()> {
        while Instant::now() < end {
            let began = Instant::now();
            let got = read()?;
            looks.push((got, began, began.elapsed()));
            std::thread::sleep(READ_PAUSE);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(writing);
        let read = reading();
        let wrote = writer.join();
        read.and(wrote.unwrap_or_else(|_| bail!("the writer has died")))
    })?;
    let log = log
        .into_inner()
        .map_err(|_| anyhow!("the writer has died"))?;
    ensure!(
        looks.windows(2).all(|pair| pair[0].0 <= pair[1].0),
        "a reader has seen an older content after a newer one"
    );
    let ages: Vec<Duration> = looks
        .iter()
        .map(|&(got, began, _)| age(&log.complete, got, began))
        .collect();
    let reads = looks.iter().map(|&(_, _, took)| took).collect();
    Ok(outcome([
        (
            "age_s",
            ages.iter().sum::<Duration>() / ages.len().max(1) as u32,
        ),
        ("age_max_s", ages.iter().copied().max().unwrap_or_default()),
        ("read_s", median(reads)),
        ("write_s", median(log.writes)),
    ]))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// A client with its own runtime on a thread.
struct Desk {
    runtime: Runtime,
    client: Client,
    root: nfs4::NfsFh4,
}

impl Desk {
    fn at(target: &Target) -> Result<Self> {
        let runtime = runtime()?;
        let (client, root) = runtime.block_on(target.client())?;
        Ok(Self {
            runtime,
            client,
            root,
        })
    }

    /// Opens, writes and closes.
    fn write(&self, name: &str, number: u64, how: &How) -> Result<()> {
        self.runtime.block_on(async {
            let file = self.client.open(&self.root, name, how).await?;
            let data = Bytes::copy_from_slice(&number.to_be_bytes());
            let written = self.client.write(&file, 0, data, StableHow4::FileSync);
            ensure!(written.await?.count == 8, "a WRITE fell short");
            Ok(self.client.close(&file).await?)
        })
    }

    /// Opens, reads and closes.
    fn read(&self, name: &str) -> Result<u64> {
        self.runtime.block_on(async {
            let file: OpenFile = self.client.open(&self.root, name, &How::read()).await?;
            let found = self.client.read(&file, 0, 8).await?;
            self.client.close(&file).await?;
            number(&found.data)
        })
    }
}

fn number(bytes: &[u8]) -> Result<u64> {
    let bytes: [u8; 8] = bytes.try_into().context("the file holds no number")?;
    Ok(u64::from_be_bytes(bytes))
}

fn at_set(stand: &Stand, name: &str, span: Duration) -> Result<Outcome> {
    let replicas = &stand.sites.replicas;
    let (writer, reader) = (
        Desk::at(&replicas[0].target())?,
        Desk::at(&replicas[1].target())?,
    );
    writer.write(name, 0, &How::create(0o644))?;
    stand.sites.wait_for_quiet()?;
    let seen = observe(
        |number| writer.write(name, number, &How::write()),
        || reader.read(name),
        span,
    );
    for desk in [writer, reader] {
        desk.runtime.block_on(desk.client.leave())?;
    }
    seen
}

fn at_gluster(mounts: &[GlusterMount], name: &str, span: Duration) -> Result<Outcome> {
    let [first, second, ..] = mounts else {
        bail!("GlusterFS has several sites");
    };
    let (here, there) = (first.path().join(name), second.path().join(name));
    fs::write(&here, 0_u64.to_be_bytes())?;
    let write = |number: u64| {
        let file = File::options().write(true).open(&here)?;
        Ok(file.write_all_at(&number.to_be_bytes(), 0)?)
    };
    observe(write, || number(&fs::read(&there)?), span)
}

fn by_rsync(
    stand: &Stand,
    rsync: &Rsync,
    [here, there]: [&std::path::Path; 2],
    span: Duration,
) -> Result<Outcome> {
    let place = stand.place(0)?;
    // A file beside the folder replaces the one in it, so that rsync never sees half of one.
    let source = here.join("age");
    fs::create_dir_all(&source)?;
    let write = |number: u64| {
        let fresh = here.join("fresh");
        fs::write(&fresh, number.to_be_bytes())?;
        Ok(fs::rename(fresh, source.join(NAME))?)
    };
    write(0)?;
    rsync.update_from(place, &source)?;
    let end = Instant::now() + span;
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| {
            while Instant::now() < end {
                rsync.update_from(place, &source)?;
            }
            Ok(())
        });
        let seen = observe(write, || number(&fs::read(there.join(NAME))?), span);
        let copied = copying.join();
        copied.unwrap_or_else(|_| bail!("the copying has died"))?;
        seen
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_content_ages_from_the_moment_its_successor_is_complete() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        // The numbers 1, 2 and 3.
        let complete = [at(100), at(200), at(300)];
        assert_eq!(age(&complete, 0, at(90)), Duration::ZERO);
        assert_eq!(age(&complete, 0, at(130)), Duration::from_millis(30));
        assert_eq!(age(&complete, 1, at(450)), Duration::from_millis(250));
        assert_eq!(age(&complete, 3, at(450)), Duration::ZERO);
        // Read before it was complete.
        assert_eq!(age(&complete, 4, at(450)), Duration::ZERO);
    }

    #[test]
    fn a_reader_that_lags_behind_is_seen_to() {
        let newest = std::sync::atomic::AtomicU64::new(0);
        let write = |number| {
            newest.store(number, Ordering::Relaxed);
            Ok(())
        };
        let current = || Ok(newest.load(Ordering::Relaxed));
        let span = Duration::from_millis(300);
        let fresh = observe(write, current, span).unwrap();
        assert_eq!(fresh["age_s"], 0.0);
        let stuck = observe(|_| Ok(()), || Ok(0), span).unwrap();
        assert!(stuck["age_max_s"] > 0.0);
        let mut turned = 1000;
        let backwards = || {
            turned -= 1;
            Ok(turned)
        };
        assert!(observe(|_| Ok(()), backwards, span).is_err());
    }
}

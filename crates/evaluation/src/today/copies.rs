//! Many small files, and a large one: the time from the first write until two other sites have everything.
//!
//! What must never enter: how files are written and copied.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::{Job, Outcome, Point};
use plot::{Axis, Chart, Plot};
use testbed::{GridFtp, GridFtpOptions, LinkSettings, Requirements, Rsync};
use tokio::runtime::Runtime;

use super::stand::{Mounted, SITES, Stand};
use super::{
    BANDWIDTH, DISTANCES, GLUSTER, GRIDFTP, MERIDIAN, RSYNC, link, note_lateness, outcome,
};
use crate::experiment::{Book, Experiment, Peer, Shown, by_place};
use crate::extent::Extent;
use crate::field::{Field, runtime};
use crate::files::{LocalFolder, Material, NfsFolder};
use crate::peers;

/// The deciding figure.
const EVERYWHERE: &str = "everywhere_s";

/// The size of a small file in bytes.
const SMALL: u64 = 4096;

/// The comparison.
#[derive(Debug)]
pub(crate) struct Copies;

/// The files to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// This many small files, one after another.
    Small(u64),
    /// One file of this many bytes.
    Large(u64),
}

impl Load {
    fn all(extent: Extent) -> [Self; 2] {
        let small = Self::Small(extent.choose(60, 10));
        [small, Self::Large(extent.choose(256 << 20, 64 << 20))]
    }

    fn panel(self) -> String {
        match self {
            Self::Small(count) => format!("{count} files of 4 KiB"),
            Self::Large(bytes) => format!("one file of {} MiB", bytes >> 20),
        }
    }

    fn of(panel: &str, extent: Extent) -> Result<Self> {
        let mut all = Self::all(extent).into_iter();
        let found = all.find(|load| load.panel() == panel);
        found.with_context(|| format!("there is no load '{panel}'"))
    }

    /// Names and contents, different for every seed.
    fn files(self, seed: u64) -> Vec<(String, Material)> {
        let file = |number, length| {
            let material = Material::new(seed << 10 | number, length);
            (format!("file-{number}"), material)
        };
        match self {
            Self::Small(count) => (0..count).map(|number| file(number, SMALL)).collect(),
            Self::Large(bytes) => vec![file(0, bytes)],
        }
    }

    fn options(self) -> GridFtpOptions {
        match self {
            Self::Small(_) => GridFtpOptions::MANY_FILES,
            Self::Large(_) => GridFtpOptions::EIGHT_STREAMS,
        }
    }
}

impl Experiment for Copies {
    fn name(&self) -> &'static str {
        "today-copies"
    }

    fn needs(&self) -> Requirements {
        let needs = Requirements::site().with_wan();
        needs.with_gluster().with_gridftp().with_rsync()
    }

    fn peers(&self) -> Result<Vec<Peer>> {
        Ok(vec![peers::gluster()?, peers::gridftp()?, peers::rsync()?])
    }

    fn settings(&self, _extent: Extent) -> String {
        let ways = [GridFtpOptions::MANY_FILES, GridFtpOptions::EIGHT_STREAMS];
        format!("{SMALL} {BANDWIDTH} {ways:?}")
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let distances: &[&str] = extent.choose(DISTANCES, &["60"]);
        let mut points = Vec::new();
        for load in Load::all(extent) {
            for x in distances {
                let series = [MERIDIAN, GLUSTER, GRIDFTP, RSYNC];
                points.extend(series.map(|series| Point::new(load.panel(), series, x)));
            }
        }
        points
    }

    fn trials(&self, extent: Extent) -> u32 {
        extent.choose(extent.trials(), 1)
    }

    fn expected(&self, point: &Point, extent: Extent) -> Duration {
        let distance = point.x.parse::<f64>().unwrap_or(0.0) / 1000.0;
        let seconds = match (Load::of(&point.panel, extent), point.series.as_str()) {
            (Ok(Load::Small(count)), GLUSTER) => 8.0 * distance * count as f64,
            (Ok(Load::Large(bytes)), _) => bytes as f64 / 50e6 + 20.0 * distance,
            _ => 20.0 * distance,
        };
        Duration::from_secs_f64(2.0 + seconds)
    }

    /// Everything is started once for all trials at a place, and the series alternate there.
    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        for (x, jobs) in by_place(jobs) {
            let mut bench = Bench::start(field, &link(x)?)?;
            for (number, job) in jobs.into_iter().enumerate() {
                let load = Load::of(&job.point.panel, field.extent)?;
                let seed = u64::from(job.trial) << 20 | number as u64;
                let name = format!("copies-{number}");
                let copied = bench.copy(&job.point.series, load, seed, &name);
                let mut copied = copied.with_context(|| job.to_string())?;
                note_lateness(&mut copied, &bench.stand)?;
                book.keep(job, copied)?;
            }
            bench.mounted.stop()?;
        }
        Ok(())
    }

    fn shown(&self, results: &Results, _extent: Extent) -> Shown {
        let figures = [
            Figure::plain("written_s", "written (s)"),
            Figure::plain(EVERYWHERE, "at all sites (s)"),
        ];
        let heads = Heads {
            panel: "what",
            series: "files",
            x: "round trip (ms)",
        };
        let charts = results.panels().into_iter().map(|panel| {
            Chart::over_distance(
                panel,
                Axis::log("time until all sites have it (s)"),
                chart::lines(results, panel, EVERYWHERE, 1.0, None),
            )
        });
        Shown {
            title: "Today: copies at three sites",
            about: "Files that do not compress are written at one of three sites, and must come to the two others; links of \
                    1 Gbit/s. *Written* is when the last one is closed, *at all sites* when both others have everything. With \
                    **Meridian** and **GlusterFS** that happens by itself. With **GridFTP** (8 streams for the large file; 32 \
                    connections and pipelining for the small ones) and **rsync** (its own daemon, `--archive --delete`) files are \
                    written to a local disk, and one run copies them to each site, both at the same time, as soon as the last one is \
                    written: a loop that does not know when that is takes longer. Every file is read at both sites afterwards and compared by a checksum. Meridian answers when a file is on the disk of its site, \
                    which the others are not asked for."
                .to_owned(),
            claims: include_str!("../claims/today-copies.md"),
            tables: vec![table::by_point(results, heads, &figures, Some(MERIDIAN))],
            plots: vec![Plot::only("From the first write until all three sites have it", 2, charts.collect())],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let lines = results.panels().into_iter().map(|panel| {
            let x = results.last_place(panel)?;
            let ratios = table::ratios(results, panel, x, EVERYWHERE, MERIDIAN)?;
            Some(format!("{panel} everywhere, {x} ms: {ratios}"))
        });
        let lines: Option<Vec<String>> = lines.collect();
        Some(lines?.join("; "))
    }
}

/// Everything that takes part. GlusterFS is dropped before the sites.
struct Bench {
    runtime: Runtime,
    mounted: Mounted,
    transfers: Vec<GridFtp>,
    rsyncs: Vec<Rsync>,
    stand: Stand,
}

impl Bench {
    fn start(field: &Field, link: &LinkSettings) -> Result<Self> {
        let stand = Stand::start(field, link)?;
        let (mut transfers, mut rsyncs) = (Vec::new(), Vec::new());
        for site in 0..SITES {
            let served = stand.local(site)?.join("rsync");
            fs::create_dir(&served)?;
            let place = stand.place(site)?;
            transfers.push(GridFtp::start(stand.sites.world(), place)?);
            rsyncs.push(Rsync::start(place, &served)?);
        }
        Ok(Self {
            runtime: runtime()?,
            mounted: stand.gluster()?,
            transfers,
            rsyncs,
            stand,
        })
    }

    /// Writes at the first site, waits until all sites have the files, and checks.
    fn copy(&mut self, series: &str, load: Load, seed: u64, name: &str) -> Result<Outcome> {
        let files = load.files(seed);
        let copied = match series {
            MERIDIAN => self.by_meridian(&files, name),
            GLUSTER => self.by_gluster(&files, name),
            GRIDFTP => self.by_gridftp(&files, name, load.options()),
            RSYNC => self.by_rsync(&files, name),
            _ => bail!("there is no such series"),
        };
        self.mounted.check_running()?;
        self.stand.sites.check_running()?;
        copied
    }

    fn by_meridian(&self, files: &[(String, Material)], name: &str) -> Result<Outcome> {
        let sites = &self.stand.sites;
        let targets = sites.replicas.iter().map(|replica| replica.target());
        let targets: Vec<_> = targets.collect();
        let make = NfsFolder::make(&targets[0], name, 1);
        let folder = self.runtime.block_on(make)?;
        sites.wait_for_quiet()?;
        let began = Instant::now();
        self.runtime.block_on(async {
            for (name, material) in files {
                folder.write(0, name, *material).await?;
            }
            anyhow::Ok(())
        })?;
        let written = began.elapsed();
        sites.wait_for_copies()?;
        let everywhere = began.elapsed();
        sites.wait_for_quiet()?;
        self.runtime.block_on(async {
            for target in &targets[1..] {
                let there = NfsFolder::find(target, name, 1).await?;
                for (name, material) in files {
                    let found = there.read(0, name).await?;
                    ensure!(found == material.checksum(), "{name} differs elsewhere");
                }
                there.leave().await?;
            }
            folder.remove(&targets[0], name).await
        })?;
        Ok(outcome([("written_s", written), (EVERYWHERE, everywhere)]))
    }

    fn by_gluster(&self, files: &[(String, Material)], name: &str) -> Result<Outcome> {
        let paths = self
            .mounted
            .mounts
            .iter()
            .map(|mount| mount.path().join(name));
        let paths: Vec<_> = paths.collect();
        let folder = LocalFolder::make(paths[0].clone())?;
        let written = self.write(&folder, files)?;
        for path in &paths[1..] {
            self.check(path, files)?;
        }
        folder.remove()?;
        Ok(outcome([("written_s", written), (EVERYWHERE, written)]))
    }

    fn by_gridftp(
        &self,
        files: &[(String, Material)],
        name: &str,
        options: GridFtpOptions,
    ) -> Result<Outcome> {
        let here = self.stand.local(0)?.join(name);
        let folder = LocalFolder::make(here.clone())?;
        let written = self.write(&folder, files)?;
        let began = Instant::now();
        at_other_sites(|site| {
            let there = self.stand.local(site)?.join(name);
            self.transfers[0].send_folder(&self.transfers[site], &here, &there, options)
        })?;
        let everywhere = written + began.elapsed();
        for site in 1..SITES {
            let there = self.stand.local(site)?.join(name);
            self.check(&there, files)?;
            fs::remove_dir_all(there)?;
        }
        folder.remove()?;
        Ok(outcome([("written_s", written), (EVERYWHERE, everywhere)]))
    }

    fn by_rsync(&self, files: &[(String, Material)], name: &str) -> Result<Outcome> {
        let here = self.stand.local(0)?.join(name);
        let folder = LocalFolder::make(here.clone())?;
        let written = self.write(&folder, files)?;
        let began = Instant::now();
        let place = self.stand.place(0)?;
        at_other_sites(|site| self.rsyncs[site].update_from(place, &here))?;
        let everywhere = written + began.elapsed();
        for site in 1..SITES {
            let there = self.stand.local(site)?.join("rsync");
            self.check(&there, files)?;
            // The next run begins without these files.
            fs::remove_dir_all(&there)?;
            fs::create_dir(&there)?;
        }
        folder.remove()?;
        Ok(outcome([("written_s", written), (EVERYWHERE, everywhere)]))
    }

    /// Writes all files, one after another, and returns the time.
    fn write(&self, folder: &LocalFolder, files: &[(String, Material)]) -> Result<Duration> {
        let began = Instant::now();
        self.runtime.block_on(async {
            for (name, material) in files {
                folder.write(name, *material).await?;
            }
            anyhow::Ok(())
        })?;
        Ok(began.elapsed())
    }

    /// Compares all files in a folder with what was written.
    fn check(&self, path: &Path, files: &[(String, Material)]) -> Result<()> {
        let folder = LocalFolder::at(path.to_owned());
        self.runtime.block_on(async {
            for (name, material) in files {
                let found = folder.read(name).await?;
                ensure!(found == material.checksum(), "{name} differs elsewhere");
            }
            Ok(())
        })
    }
}

/// Does the same for all sites but the first, at the same time.
fn at_other_sites(work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (1..SITES)
            .map(|site| scope.spawn(move || work(site)))
            .collect();
        let ended = threads.into_iter().map(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| bail!("a copy has died"))
        });
        // Waits for all, whatever the first result is.
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

//! The times of single operations at a set of replicas, for the first operation after quiet and for later ones. Each is compared with the same
//! operation at a single server, in turns.
//!
//! What must never enter: work of several clients at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench::chart;
use bench::client::Target;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::tally::Tally;
use bench::trial::{self, Job, Outcome, Point};
use bytes::Bytes;
use nfs4::{Attributes4, NfsFh4, Stateid4};
use nfs4_client::{Client, How, OpenFile, StableHow4};
use plot::{Axis, Chart, Plot};

use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::field::{Field, runtime};
use crate::replay::Pauses;
use crate::sites::Sites;
use crate::ssh_build::round_trip;
use crate::ssh_build::stands::{Beside, Setup, Stands};

/// Round trips between sites, in milliseconds.
const DISTANCES: [&str; 4] = ["0.2", "60", "120", "200"];

/// Sets, by their numbers of replicas.
const SETS: [(&str, usize); 2] = [("two replicas", 2), ("three replicas", 3)];

/// The number of beginnings after quiet in a trial.
const BEGINNINGS: usize = 2;

/// The size of a small file.
const SIZE: usize = 4096;

/// An operation, and whether it comes first after quiet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// OPEN that makes a file, when nothing is controlled.
    FirstCreate,
    /// CLOSE of that file, after a WRITE of 4 KiB.
    FirstClose,
    /// OPEN that makes a file.
    Create,
    /// WRITE of 4 KiB, FILE_SYNC.
    Write,
    /// CLOSE of the file written.
    Close,
    /// SETATTR of its mode.
    SetMode,
    /// RENAME within its directory.
    Rename,
    /// REMOVE.
    Remove,
    /// CREATE of a directory.
    MakeDirectory,
    /// LOOKUP of a name that is there.
    Lookup,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::FirstCreate,
        Self::FirstClose,
        Self::Create,
        Self::Write,
        Self::Close,
        Self::SetMode,
        Self::Rename,
        Self::Remove,
        Self::MakeDirectory,
        Self::Lookup,
    ];

    /// Its title in tables.
    fn title(self) -> &'static str {
        match self {
            Kind::FirstCreate => "first create",
            Kind::FirstClose => "first close",
            Kind::Create => "create",
            Kind::Write => "write 4 KiB",
            Kind::Close => "close",
            Kind::SetMode => "chmod",
            Kind::Rename => "rename",
            Kind::Remove => "remove",
            Kind::MakeDirectory => "mkdir",
            Kind::Lookup => "lookup",
        }
    }
}

/// The state at one of the two servers.
struct Side {
    client: Client,
    home: NfsFh4,
    samples: Vec<(Kind, Duration)>,
}

impl Side {
    async fn at(target: &Target, name: &str) -> Result<Self> {
        let (client, root) = target.client().await?;
        let home = client.create_directory(&root, name, 0o755).await?;
        Ok(Self {
            client,
            home,
            samples: Vec::new(),
        })
    }

    fn count(&mut self, kind: Kind, began: Instant) {
        self.samples.push((kind, began.elapsed()));
    }

    fn tally(&self, kind: Kind) -> Tally {
        let mut tally = Tally::default();
        let matching = self.samples.iter().filter(|(one, _)| *one == kind);
        matching.for_each(|(_, took)| tally.took(*took));
        tally
    }

    async fn create(&mut self, kind: Kind, place: &NfsFh4, name: &str) -> Result<OpenFile> {
        let how = How::create_new(0o644);
        let began = Instant::now();
        let file = self.client.open(place, name, &how).await?;
        self.count(kind, began);
        Ok(file)
    }

    async fn write_and_close(&mut self, kind: Kind, file: &OpenFile) -> Result<()> {
        let data = Bytes::from_static(&[0x61; SIZE]);
        let began = Instant::now();
        let write = self.client.write(file, 0, data, StableHow4::FileSync);
        write.await?;
        if kind == Kind::Close {
            self.count(Kind::Write, began);
        }
        let began = Instant::now();
        self.client.close(file).await?;
        self.count(kind, began);
        Ok(())
    }

    /// All operations on an existing name.
    async fn handle(&mut self, place: &NfsFh4, file: &NfsFh4, name: &str) -> Result<()> {
        let began = Instant::now();
        self.client.lookup(place, name).await?;
        self.count(Kind::Lookup, began);
        let mode = Attributes4 {
            mode: Some(0o600),
            ..Attributes4::default()
        };
        let began = Instant::now();
        let set = self.client.setattr(file, Stateid4::ANONYMOUS, &mode);
        set.await?;
        self.count(Kind::SetMode, began);
        let other = format!("{name}-renamed");
        let began = Instant::now();
        self.client.rename(place, name, place, &*other).await?;
        self.count(Kind::Rename, began);
        let directory = format!("{name}-directory");
        let began = Instant::now();
        let made = self.client.create_directory(place, &*directory, 0o755);
        made.await?;
        self.count(Kind::MakeDirectory, began);
        let began = Instant::now();
        self.client.remove(place, &*other).await?;
        self.count(Kind::Remove, began);
        Ok(())
    }
}

/// Measures all kinds in new directories of this name.
async fn all(sites: &Sites, name: &str, following: usize) -> Result<[Side; 2]> {
    let replicated = Side::at(&sites.replicas[0].target(), name).await?;
    let mut sides = [replicated, Side::at(&sites.alone.target(), name).await?];
    for beginning in 0..BEGINNINGS {
        let mut places = Vec::new();
        for side in &sides {
            let name = format!("beginning-{beginning}");
            let made = side.client.create_directory(&side.home, &*name, 0o755);
            places.push(made.await?);
        }
        sites.wait_for_quiet()?;
        begin(&mut sides, &places).await?;
        for number in 0..following {
            let name = format!("file-{number}");
            for (side, place) in sides.iter_mut().zip(&places) {
                let file = side.create(Kind::Create, place, &name).await?;
                side.write_and_close(Kind::Close, &file).await?;
                side.handle(place, &file.handle, &name).await?;
            }
        }
    }
    for side in &sides {
        side.client.clone().leave().await?;
    }
    Ok(sides)
}

/// The first file after quiet.
async fn begin(sides: &mut [Side; 2], places: &[NfsFh4]) -> Result<()> {
    for (side, place) in sides.iter_mut().zip(places) {
        let file = side.create(Kind::FirstCreate, place, "first").await?;
        side.write_and_close(Kind::FirstClose, &file).await?;
    }
    Ok(())
}

/// The times of one kind of operation at both servers, with the measured round trip between the sites.
fn outcome([set, alone]: &[Side; 2], kind: Kind, round_trip: Duration) -> Outcome {
    let [set, alone] = [set, alone].map(|side| {
        let tally = side.tally(kind);
        [0.5, 0.95].map(|share| tally.percentile(share) as f64)
    });
    let figures = [
        ("median_us", set[0]),
        ("most_us", set[1]),
        ("alone_median_us", alone[0]),
        ("alone_most_us", alone[1]),
        ("ratio", set[0] / alone[0].max(1.0)),
        ("round_trips", set[0] / round_trip.as_secs_f64() / 1e6),
    ];
    trial::named(figures)
}

/// Single operations.
#[derive(Debug)]
pub(crate) struct Latency;

/// The number of files after each beginning.
fn following(extent: Extent) -> usize {
    extent.choose(40, 25)
}

impl Experiment for Latency {
    fn name(&self) -> &'static str {
        "latency"
    }

    fn settings(&self, extent: Extent) -> String {
        format!("{BEGINNINGS} {} {SIZE}", following(extent))
    }

    fn points(&self, _: Extent) -> Vec<Point> {
        let points = Kind::ALL.into_iter().flat_map(|kind| {
            let places = DISTANCES.into_iter();
            places.flat_map(move |x| SETS.map(|(series, _)| Point::new(kind.title(), series, x)))
        });
        points.collect()
    }

    fn expected(&self, _: &Point, _: Extent) -> Duration {
        Duration::from_secs(1)
    }

    /// Servers are started once for all trials.
    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let mut together: BTreeMap<_, Vec<&Job>> = BTreeMap::new();
        for job in jobs {
            let at = (&job.point.series, &job.point.x, job.trial);
            together.entry(at).or_default().push(job);
        }
        let mut stands = Stands::of(field);
        for ((series, x, _), jobs) in together {
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
            let distance = sites.round_trip()?;
            let sides = runtime()?.block_on(all(sites, &home, following(field.extent)))?;
            sites.check_running()?;
            for job in jobs {
                let mut kinds = Kind::ALL.into_iter();
                let kind = kinds.find(|kind| kind.title() == job.point.panel);
                let kind = kind.context("there is no such operation")?;
                book.keep(job, outcome(&sides, kind, distance))?;
            }
        }
        Ok(())
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let heads = Heads {
            panel: "operation",
            series: "set",
            x: "round trip (ms)",
        };
        let milliseconds = |name, title| Figure {
            name,
            title,
            unit: 1e3,
        };
        let columns = [
            milliseconds("median_us", "median (ms)"),
            milliseconds("most_us", "95 % within (ms)"),
            milliseconds("alone_median_us", "alone, median (ms)"),
            milliseconds("alone_most_us", "alone, 95 % within (ms)"),
            Figure::plain("ratio", "ratio of medians"),
            Figure::plain("round_trips", "median / round trip"),
        ];
        let chart = |kind: Kind| {
            let marks = chart::lines(results, kind.title(), "median_us", 1e3, None);
            Chart::over_distance(kind.title(), Axis::linear("median (ms)"), marks)
        };
        Shown {
            title: "Single operations at a set",
            about: format!(
                "Nothing is controlled; then a file is made in a directory, 4 KiB are written to it (FILE_SYNC), and it is closed \
                 (*first create*, *first close*). {} files follow, of each every operation below. That is done {BEGINNINGS} times in a \
                 trial, with one request under way at a time, each at the set and then at a server that is *alone*, in the \
                 same site and on the same disk. All have `commit = \"sync\"` and `relaxed` durability. No copies are compared.",
                following(extent)
            ),
            claims: "",
            tables: vec![table::by_point(results, heads, &columns, None)],
            plots: vec![Plot::only(
                "The first operation after quiet, and one that follows",
                2,
                vec![chart(Kind::FirstCreate), chart(Kind::Create)],
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let (x, series) = (results.last_place(Kind::Create.title())?, SETS[0].0);
        let figure = |kind: Kind, name| {
            let point = Point::new(kind.title(), series, x);
            Some(table::cell(results.summary(&point, name)?, 1.0))
        };
        Some(format!(
            "{series} {x} ms apart: the first create takes {} round trips, those that follow {} times a single server's time",
            figure(Kind::FirstCreate, "round_trips")?,
            figure(Kind::Create, "ratio")?
        ))
    }
}

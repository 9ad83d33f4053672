//! The traffic on the WAN per written byte, with the measures against it switched off one at a time.
//!
//! What must never enter: times.

mod work;

use std::time::Duration;

use anyhow::{Context, Result};
use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::{self, Job, Outcome, Point};
use plot::{Axis, Chart, Plot};

use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::field::Field;
use crate::replay::Pauses;
use crate::ssh_build::stands::{Beside, Setup, Stands};
use crate::ssh_build::sweep::side_by_side;

/// The round trip between the sites.
const ROUND_TRIP: Duration = Duration::from_millis(120);

/// Names, and lines of a configuration. Without resting, data is sent before it can be overwritten or removed.
const VARIANTS: [(&str, &str); 4] = [
    ("as by default", ""),
    ("no merging", "[replication]\nmerging = false\n"),
    ("no elision", "[replication]\ndata_delay = \"0 ms\"\n"),
    ("no compression", "[replication]\ncompression = false\n"),
];

/// The package without and with the pauses of the recording.
const BUILD: &str = "SSH-Build";
const BUILD_THINKING: &str = "SSH-Build, thinking";

/// The number of parallel replays with pauses: three trials of each variant.
const SIDE_BY_SIDE: usize = 3 * VARIANTS.len();

/// The number of steps in a quick run.
const QUICK_STEPS: usize = 600;

/// The comparison.
#[derive(Debug)]
pub(crate) struct WanBytes;

impl Experiment for WanBytes {
    fn name(&self) -> &'static str {
        "wan-bytes"
    }

    fn settings(&self, _: Extent) -> String {
        format!(
            "{ROUND_TRIP:?} {VARIANTS:?} {QUICK_STEPS} {}",
            work::settings()
        )
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let package: &[&str] = extent.choose(&[BUILD, BUILD_THINKING], &[BUILD]);
        let works = extent.choose(&work::ALL[..], &work::ALL[2..]);
        let works = works.iter().map(|work| work.title());
        let works = package.iter().copied().chain(works);
        let all = works.flat_map(|x| VARIANTS.map(|(name, _)| Point::new("", name, x)));
        all.collect()
    }

    fn trials(&self, extent: Extent) -> u32 {
        extent.choose(extent.trials(), 1)
    }

    fn expected(&self, point: &Point, extent: Extent) -> Duration {
        let seconds = match (point.x.as_str(), extent) {
            (BUILD_THINKING, _) => 200 / SIDE_BY_SIDE as u64,
            (BUILD, Extent::Whole) => 14,
            _ => 5,
        };
        Duration::from_secs(seconds)
    }

    /// Servers are started once for all trials, in which the variants alternate.
    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let measure = |stands: &mut Stands<'_>, job: &Job| {
            let outcome = one(stands, field, &job.point).with_context(|| job.to_string())?;
            book.keep(job, outcome)
        };
        let thinks = |job: &&Job| job.point.x == BUILD_THINKING;
        let (patient, others): (Vec<&Job>, Vec<&Job>) = jobs.iter().partition(thinks);
        let mut stands = Stands::of(field);
        for job in others {
            measure(&mut stands, job)?;
        }
        drop(stands);
        side_by_side(SIDE_BY_SIDE, &patient, |job| {
            measure(&mut Stands::of(field), job)
        })
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let heads = Heads::of("server", "work");
        let megabytes = |name, title| Figure {
            name,
            title,
            unit: 1e6,
        };
        let columns = [
            megabytes("written_bytes", "written (MB)"),
            megabytes("content_bytes", "contents shipped (MB)"),
            megabytes("record_bytes", "records (MB)"),
            megabytes("wire_bytes", "on the wire (MB)"),
            Figure::plain("content_per_written", "contents / written"),
            Figure::plain("wire_per_written", "wire / written"),
        ];
        let chart = |title: &str, figure: &str| Chart {
            title: title.to_owned(),
            x: Axis::linear(""),
            y: Axis::linear("bytes for each byte written"),
            marks: chart::bars(results, "", figure, 1.0),
        };
        let kilobytes = |title| Chart {
            marks: chart::bars(results, "", "record_bytes", 1e3),
            y: Axis::linear("records (kB)"),
            ..chart(title, "")
        };
        Shown {
            title: "Bytes on the WAN",
            about: format!(
                "Two replicas {} ms apart, one client at the first. *Written* is what was in WRITE requests; *contents shipped* are \
                 counted before compression; *records* are changes of names and attributes; *on the wire* is \
                 everything, both ways, with all headers, until the other site had everything. *No merging*: each change of names and attributes \
                 travels as a record of its own (`merging = false`). *No elision*: contents are \
                 sent at once (`data_delay = \"0 ms\"`), not after 0.2 s in which they may be overwritten or removed. \
                 *No compression*: `compression = false`. Plays with think time run side by side, up to {SIDE_BY_SIDE}; other work alone.{}\n\n{}",
                ROUND_TRIP.as_millis(),
                super::ssh_build::shortened(extent, QUICK_STEPS),
                work::described()
            ),
            claims: include_str!("../claims/wan-bytes.md"),
            tables: vec![table::by_point(results, heads, &columns, None)],
            plots: vec![Plot::only(
                "Bytes sent to the other site for each byte written",
                2,
                vec![
                    chart(
                        "contents shipped, before compression",
                        "content_per_written",
                    ),
                    kilobytes("changes of names and attributes"),
                    chart("everything on the wire", "wire_per_written"),
                ],
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let shares = results.series("").into_iter().map(|series| {
            let point = Point::new("", series, BUILD);
            let share = results.summary(&point, "wire_per_written")?;
            Some(format!("{series} {}", table::cell(share, 1.0)))
        });
        let shares: Option<Vec<String>> = shares.collect();
        Some(format!(
            "on the wire for each byte of {BUILD}: {}",
            shares?.join(", ")
        ))
    }
}

fn one(stands: &mut Stands<'_>, field: &Field, point: &Point) -> Result<Outcome> {
    let known = VARIANTS.iter().find(|(name, _)| *name == point.series);
    let (_, settings) = known.context("there is no such series")?;
    let setup = Setup {
        replicas: 2,
        settings: (*settings).to_owned(),
        round_trip: ROUND_TRIP,
        is_apart: false,
        pauses: match point.x.as_str() {
            BUILD_THINKING => Pauses::Whole,
            _ => Pauses::None,
        },
        steps: field.extent.choose(usize::MAX, QUICK_STEPS),
        beside: match point.x.as_str() {
            // The traffic does not depend on the load of the machine.
            BUILD_THINKING => Beside::Everything { round_trips: 0 },
            _ => Beside::Nothing,
        },
    };
    let small = work::ALL.iter().find(|work| work.title() == point.x);
    let mut outcome = match small {
        Some(work) => {
            let home = stands.home();
            work.measure(stands.sites(&setup)?, &home)?
        }
        None => stands.play(&setup)?,
    };
    let figure = |name: &str| outcome.get(name).copied().context("a figure is missing");
    let written = figure("written_bytes")?;
    let shares = [
        ("content_per_written", figure("content_bytes")? / written),
        ("wire_per_written", figure("wire_bytes")? / written),
    ];
    outcome.extend(trial::named(shares));
    Ok(outcome)
}

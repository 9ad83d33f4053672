//! Experiments beyond the papers: two sites that change the same directory, with different frequencies.
//!
//! - [`Contention`]: an update of a directory that another site controls is carried out there (`forward`), or waits until
//!   that site gives up control (`wait`), as in the main paper (section 2.1).
//! - [`SharedStrategies`]: the value of the strategies of section 3.3 in this case.
//! - [`Elections`]: several sites change the same directory at the same instant.
//!
//! What must never enter: work of one site alone.

mod elections;
mod work;

pub(crate) use elections::Elections;

use std::time::Duration;

use anyhow::{Context, Result};
use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::{Job, Point};
use plot::{Axis, Chart, Plot};

use crate::experiment::{Book, Experiment, Shown};
use crate::extent::Extent;
use crate::field::Field;
use crate::replay::Pauses;
use crate::ssh_build::stands::{Beside, Setup, Stands};
use crate::ssh_build::sweep::side_by_side;
use crate::strategies::{ALL_ON, VARIANTS};
use work::Load;

/// The round trip between the sites.
const ROUND_TRIP: Duration = Duration::from_millis(120);

/// `forward` or `wait`, by sharing.
#[derive(Debug)]
pub(crate) struct Contention;

/// Each strategy switched off in turn, by sharing.
#[derive(Debug)]
pub(crate) struct SharedStrategies;

/// The handling of updates of a directory that another site controls.
const CONTENTIONS: [(&str, &str); 2] = [
    (
        "forward",
        "[replication]\ndirectory_contention = \"forward\"\n",
    ),
    ("wait", "[replication]\ndirectory_contention = \"wait\"\n"),
];

/// How long clients work.
fn length(extent: Extent) -> Duration {
    extent.choose(Duration::from_secs(20), Duration::from_secs(3))
}

/// Points for these series, by the share of updates in the common directory, in percent.
fn points(series: &[(&str, &str)], percents: &[u32]) -> Vec<Point> {
    let point = |percent| {
        let names = series.iter().map(|(name, _)| name);
        names.map(move |name| Point::new("", name, percent))
    };
    percents.iter().flat_map(point).collect()
}

fn settings(series: &[(&str, &str)], extent: Extent) -> String {
    let length = length(extent);
    format!("{ROUND_TRIP:?} {:?} {length:?} {series:?}", work::PACE)
}

/// All series side by side, each at its own servers: twenty updates a second leave the machine idle.
fn measure(series: &[(&str, &str)], field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
    side_by_side(series.len(), series, |(name, settings)| {
        let jobs = jobs.iter().filter(|job| job.point.series == *name);
        measure_one(settings, field, jobs, book)
    })
}

/// The jobs of one series.
fn measure_one<'a>(
    settings: &str,
    field: &Field,
    jobs: impl Iterator<Item = &'a Job>,
    book: &dyn Book,
) -> Result<()> {
    let mut stands = Stands::of(field);
    for job in jobs {
        let setup = Setup {
            replicas: 2,
            settings: settings.to_owned(),
            round_trip: ROUND_TRIP,
            is_apart: false,
            pauses: Pauses::None,
            steps: 0,
            beside: Beside::Nothing,
        };
        let load = Load {
            percent: job.point.x.parse().context("no share")?,
            length: length(field.extent),
            seed: job.trial.into(),
        };
        let home = stands.home();
        let outcome = work::measure(stands.sites(&setup)?, &home, load);
        book.keep(job, outcome.with_context(|| job.to_string())?)?;
    }
    Ok(())
}

/// The columns of both experiments.
fn columns() -> Vec<Figure> {
    let unit = 1e3;
    let time = |name, title| Figure { name, title, unit };
    vec![
        time("own_mean_us", "in its own directory, mean (ms)"),
        time("own_most_us", "95 % within (ms)"),
        time("common_mean_us", "in the common one, mean (ms)"),
        time("common_most_us", "95 % within (ms)"),
        Figure::plain("updates_per_s", "updates a second, both sites"),
        Figure::plain("delays", "asked to come later"),
        time("wire_bytes_per_update", "on the wire, for each update (kB)"),
    ]
}

fn charts(results: &Results) -> Vec<Chart> {
    let chart = |title: &str, figure: &str| Chart {
        title: title.to_owned(),
        x: Axis::linear("share of updates in the common directory (%)"),
        y: Axis::log("one update, mean (ms)"),
        marks: chart::lines(results, "", figure, 1e3, None),
    };
    vec![
        chart("in the common directory", "common_mean_us"),
        chart("in directories of their own", "own_mean_us"),
    ]
}

fn about(extent: Extent) -> String {
    let length = length(extent).as_secs();
    format!(
        "Two replicas {} ms apart, a client at each. Every {} ms a client makes a file, writes 4 KiB and closes it, which counts as \
         one update, for {length} s; a share of the updates is in a directory that both use, the others in one of its \
         own beside it. An update that takes longer puts the next one off. Where a server asks to come later, the client does \
         after 0.1 s, 0.2 s and so on, as Linux does. The series run side by side, each at servers of its own.",
        ROUND_TRIP.as_millis(),
        work::PACE.as_millis()
    )
}

/// The table of both, by share and series.
fn table(results: &Results, series: &'static str) -> String {
    let heads = Heads::of(series, "shared (%)");
    table::by_point(results, heads, &columns(), None)
}

fn expected(series: &[(&str, &str)], extent: Extent) -> Duration {
    (length(extent) + Duration::from_secs(4)) / series.len() as u32
}

impl Experiment for Contention {
    fn name(&self) -> &'static str {
        "contention"
    }

    fn settings(&self, extent: Extent) -> String {
        settings(&CONTENTIONS, extent)
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        points(
            &CONTENTIONS,
            extent.choose(&[0, 1, 5, 20, 50, 100], &[10, 100]),
        )
    }

    fn expected(&self, _: &Point, extent: Extent) -> Duration {
        expected(&CONTENTIONS, extent)
    }

    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        measure(&CONTENTIONS, field, jobs, book)
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        Shown {
            title: "Forwarding, or waiting for a directory",
            about: format!(
                "What happens to an update of a directory that the other site controls: it is carried out there \
                 (`directory_contention = \"forward\"`, the default), or it waits until control is given up (`\"wait\"`). {}",
                about(extent)
            ),
            claims: include_str!("../claims/contention.md"),
            tables: vec![table(results, "directory_contention")],
            plots: vec![Plot::only(
                "Two sites that share a directory: forward or wait",
                2,
                charts(results),
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let x = results.last_place("")?;
        let ratios = table::ratios(results, "", x, "common_mean_us", "forward")?;
        Some(format!(
            "an update in the common directory, {x} % there: {ratios}"
        ))
    }
}

impl Experiment for SharedStrategies {
    fn name(&self) -> &'static str {
        "shared-strategies"
    }

    fn settings(&self, extent: Extent) -> String {
        settings(&VARIANTS, extent)
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        points(&VARIANTS, extent.choose(&[0, 10, 100], &[10]))
    }

    fn expected(&self, _: &Point, extent: Extent) -> Duration {
        expected(&VARIANTS, extent)
    }

    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        measure(&VARIANTS, field, jobs, book)
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let panel = Plot::only(
            format!("Two sites that share a directory, without one strategy ({ALL_ON} first)"),
            2,
            charts(results),
        );
        Shown {
            title: "Ablation: two sites that share a directory",
            about: about(extent),
            claims: include_str!("../claims/shared-strategies.md"),
            tables: vec![table(results, "strategies")],
            plots: vec![panel],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let x = results.last_place("")?;
        let ratios = table::ratios(results, "", x, "common_mean_us", ALL_ON)?;
        Some(format!(
            "an update in the common directory, {x} % there: {ratios}"
        ))
    }
}

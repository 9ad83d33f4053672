//! Figure 8: more replicas, and the cost of their number for the primary.
//!
//! What must never enter: how the package is played.

use anyhow::{Context, Result};
use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Figure, Heads};
use bench::trial::Point;
use plot::{Axis, Chart, Plot};

use super::kinds::{self, KINDS, Kind};
use super::stands::{Beside, Setup};
use super::sweep::Sweep;
use super::waits;
use super::{LOCAL, TOTAL, round_trip, shortened};
use crate::experiment::Shown;
use crate::extent::Extent;

/// Series, with their round trips in milliseconds.
const NETWORKS: [(&str, &str); 2] = [("LAN, 0.2 ms", "0.2"), ("WAN, 120 ms", "120")];

/// The number of steps in a quick run.
const QUICK_STEPS: usize = 1_000;

/// Figure 8.
#[derive(Debug)]
pub(crate) struct Figure8;

impl Sweep for Figure8 {
    fn name(&self) -> &'static str {
        "figure-8"
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let counts: &[usize] = extent.choose(&[2, 4, 8], &[2, 4]);
        let mut points = Vec::new();
        for kind in &KINDS[..extent.choose(KINDS.len(), 1)] {
            for count in counts {
                let series = NETWORKS.map(|(name, _)| name).into_iter().chain([LOCAL]);
                points.extend(series.map(|name| Point::new(kind.panel, name, count)));
            }
        }
        points
    }

    fn setup(&self, point: &Point, extent: Extent) -> Result<Setup> {
        let kind = Kind::of(&point.panel).context("there is no such panel")?;
        let is_local = point.series == LOCAL;
        let network = NETWORKS.iter().find(|(name, _)| *name == point.series);
        let distance = match network {
            Some((_, distance)) => distance,
            None if is_local => "0.2",
            None => anyhow::bail!("there is no network {}", point.series),
        };
        let count = point.x.parse().context("no number of replicas")?;
        let of_replicas = if is_local { "" } else { kind.of_replicas };
        Ok(Setup {
            replicas: if is_local { 1 } else { count },
            settings: [kind.settings, of_replicas].concat(),
            round_trip: round_trip(distance)?,
            pauses: kind.pauses,
            is_apart: kind.is_apart,
            steps: extent.choose(usize::MAX, QUICK_STEPS),
            beside: Beside::Nothing,
        })
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let about = format!(
            "The package played at one of 2 to 8 replicas, each 0.2 ms (LAN) or 120 ms (WAN) from each other. {} {} What left the primary's site counts until all replicas had everything, with all headers.{}",
            kinds::about(),
            waits::ABOUT,
            shortened(extent, QUICK_STEPS)
        );
        let heads = Heads {
            panel: "pauses, answers",
            series: "network",
            x: "replicas",
        };
        let out = [
            ("first_out_bytes", "left the primary's site (MB)", 1e6),
            ("first_out_per_written", "for each byte written", 1.0),
            ("first_out_per_s", "a second (MB)", 1e6),
        ];
        let out = out.map(|(name, title, unit)| Figure { name, title, unit });
        let mut charts = Vec::new();
        for panel in results.panels() {
            let marks = |figure, unit| chart::lines(results, panel, figure, unit, Some(LOCAL));
            charts.push(chart(panel, "time (s)", marks(TOTAL, 1.0)));
            let title = "sent by the primary's site (MB)";
            charts.push(chart(panel, title, marks("first_out_bytes", 1e6)));
        }
        Shown {
            title: "Figure 8: more replicas",
            about,
            claims: include_str!("../claims/figure-8.md"),
            tables: vec![waits::table(results, heads, &out, LOCAL)],
            plots: vec![Plot::only(
                "SSH-Build with more replicas (Figure 8)",
                2,
                charts,
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let panel = KINDS[0].panel;
        let x = results.last_place(panel)?;
        let ratios = table::ratios(results, panel, x, TOTAL, LOCAL)?;
        Some(format!("time {panel}, {x} replicas: {ratios}"))
    }
}

fn chart(title: &str, y: &str, marks: plot::Marks) -> Chart {
    Chart {
        title: title.to_owned(),
        x: Axis::linear("replicas"),
        y: Axis::linear(y),
        marks,
    }
}

//! Figure 7, and Figure 4 of the report: how long control of a subtree is kept.
//!
//! What must never enter: how the package is played.

use anyhow::{Context, Result};
use bench::statistics::Results;
use bench::table::{self, Heads};
use bench::trial::Point;
use plot::Plot;

use super::stands::Setup;
use super::sweep::Sweep;
use super::waits;
use super::{LOCAL, TOTAL, beside, charts_by_phase, round_trip, shortened};
use crate::experiment::Shown;
use crate::extent::Extent;
use crate::replay::Pauses;

/// Timeouts in the form of the configuration.
const TIMEOUTS: [&str; 4] = ["100 ms", "500 ms", "1 s", "2 s"];

/// The number of steps in a quick run.
const QUICK_STEPS: usize = 4_000;

/// Figure 7.
#[derive(Debug)]
pub(crate) struct Figure7;

impl Sweep for Figure7 {
    fn name(&self) -> &'static str {
        "figure-7"
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let distances: &[&str] = extent.choose(&["0.2", "20", "60", "120"], &["120"]);
        let mut points = Vec::new();
        for x in distances {
            points.extend(TIMEOUTS.map(|timeout| Point::new("", timeout, x)));
            points.push(Point::new("", LOCAL, x));
        }
        points
    }

    fn setup(&self, point: &Point, extent: Extent) -> Result<Setup> {
        let timeout = TIMEOUTS.into_iter().find(|one| *one == point.series);
        let settings = match point.series.as_str() {
            LOCAL => String::new(),
            _ => {
                let timeout = timeout.context("there is no such timeout")?;
                format!("[replication]\ndeep_control_idle = \"{timeout}\"\n")
            }
        };
        Ok(Setup {
            replicas: if point.series == LOCAL { 1 } else { 2 },
            settings,
            round_trip: round_trip(&point.x)?,
            is_apart: false,
            pauses: Pauses::Whole,
            steps: extent.choose(usize::MAX, QUICK_STEPS),
            beside: beside(true),
        })
    }

    fn side_by_side(&self) -> usize {
        12
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let about = format!(
            "Two replicas; control of a subtree ends when nothing below it was changed for so long (`deep_control_idle`). With think \
             time, as without it no pause is that long; the series run side by side, up to 12 plays, since all of them mostly \
             wait. {}{}",
            waits::ABOUT,
            shortened(extent, QUICK_STEPS)
        );
        let heads = Heads::of("timeout", "round trip (ms)");
        Shown {
            title: "Figure 7: how long control of a subtree is kept",
            about,
            claims: include_str!("../claims/figure-7.md"),
            tables: vec![waits::table(results, heads, &[], LOCAL)],
            plots: vec![Plot::only(
                "SSH-Build by the timeout of deep control (Figure 7)",
                2,
                charts_by_phase(results, "", Some(LOCAL)),
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let x = results.last_place("")?;
        let ratios = table::ratios(results, "", x, TOTAL, LOCAL)?;
        Some(format!("time at {x} ms: {ratios}"))
    }
}

//! Durability: answers when this server has a change, compared with answers when a majority has it, as in the authors' earlier
//! design.
//!
//! What must never enter: how the package is played.

use std::time::Duration;

use anyhow::Result;
use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Heads};
use bench::trial::Point;
use plot::{Axis, Chart, Plot};

use super::stands::{Beside, Setup};
use super::sweep::Sweep;
use super::waits;
use super::{ELECTIONS, LOCAL, TOTAL, WITHOUT_SUBTREES, figures, round_trip, shortened};
use crate::experiment::Shown;
use crate::extent::Extent;
use crate::replay::Pauses;

/// Answers wait for a majority.
const MAJORITY: &str = "majority";

/// The same, and control covers only single files and directories: the authors' earlier design.
const EARLIER: &str = "majority, fine-grained";

/// Answers wait for one server.
const RELAXED: &str = "relaxed";

/// The number of replicas: of three, two are a majority.
const REPLICAS: usize = 3;

/// From this round trip on waiting for a majority leaves the machine idle.
const IDLE_FROM: Duration = Duration::from_millis(10);

/// The approximate number of round trips for which the package waits for a majority.
const ROUND_TRIPS: u32 = 11_400;

/// The number of steps in a quick run.
const QUICK_STEPS: usize = 100;

/// The comparison.
#[derive(Debug)]
pub(crate) struct Durability;

impl Sweep for Durability {
    fn name(&self) -> &'static str {
        "durability"
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        // The time of waiting for a majority is a straight line; at 120 ms it would take 23 minutes.
        let distances: &[&str] = extent.choose(&["0.2", "30", "60"], &["0.2", "60"]);
        let series = [RELAXED, MAJORITY, EARLIER, LOCAL];
        let series = |x: &&str| series.map(|series| Point::new("", series, x));
        distances.iter().flat_map(series).collect()
    }

    fn setup(&self, point: &Point, extent: Extent) -> Result<Setup> {
        let majority = "[replication]\ndurability = \"majority\"\n";
        let (settings, round_trips) = match point.series.as_str() {
            MAJORITY => (majority.to_owned(), ROUND_TRIPS),
            EARLIER => (
                format!("{majority}{WITHOUT_SUBTREES}"),
                ROUND_TRIPS + ELECTIONS,
            ),
            _ => (String::new(), 0),
        };
        let distance = round_trip(&point.x)?;
        Ok(Setup {
            replicas: if point.series == LOCAL { 1 } else { REPLICAS },
            settings,
            round_trip: distance,
            is_apart: false,
            pauses: Pauses::None,
            steps: extent.choose(usize::MAX, QUICK_STEPS),
            beside: match round_trips > 0 && distance >= IDLE_FROM {
                true => Beside::Everything { round_trips },
                false => Beside::Nothing,
            },
        })
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let about = format!(
            "Three replicas. With *relaxed* durability, the default and the main paper's choice, a change is answered once the \
             server near has it on its disk; with *majority* once two of three have. *Majority, fine-grained* is the authors' earlier \
             design: there control covers single files and directories besides (`deep_control = false`). Without think time. Where answers wait for distant servers, up to 12 plays go on side by side, each \
             with servers of its own. {}{}",
            waits::ABOUT,
            shortened(extent, QUICK_STEPS)
        );
        let heads = Heads::of("durability", "round trip (ms)");
        let charts = figures(results).into_iter().map(|figure| {
            Chart::over_distance(
                figure.title.replace(" (s)", ""),
                Axis::log("time (s)"),
                chart::lines(results, "", figure.name, 1.0, Some(LOCAL)),
            )
        });
        Shown {
            title: "Durability: one server, or a majority",
            about,
            claims: include_str!("../claims/durability.md"),
            tables: vec![waits::table(results, heads, &[], RELAXED)],
            plots: vec![Plot::only(
                "SSH-Build with relaxed and majority durability",
                2,
                charts.collect(),
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let x = results.last_place("")?;
        let ratios = table::ratios(results, "", x, TOTAL, RELAXED)?;
        Some(format!("time at {x} ms: {ratios}"))
    }
}

//! Figure 6: fine-grained against hierarchical replication control.
//!
//! What must never enter: how the package is played.

use std::time::Duration;

use anyhow::{Context, Result};
use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Heads};
use bench::trial::Point;
use plot::{Axis, Chart, Line, Marks, Plot, Value};

use super::kinds::{self, KINDS, Kind};
use super::stands::{Beside, Setup};
use super::sweep::Sweep;
use super::waits;
use super::{FINE_GRAINED, LOCAL, TOTAL, WITHOUT_SUBTREES, charts_by_phase, round_trip, shortened};
use crate::experiment::Shown;
use crate::extent::Extent;

/// Control of single files and directories only.
const FINE: &str = "fine-grained";

/// Control of whole subtrees, the default of every server.
const HIERARCHICAL: &str = "hierarchical";

/// The upper aim for the total time, as a share of a single local server's.
const AIM: f64 = 1.05;

/// From this round trip on fine-grained control leaves the machine idle.
const IDLE_FROM: Duration = Duration::from_millis(20);

/// The number of steps in a quick run.
const QUICK_STEPS: usize = 300;

/// Figure 6.
#[derive(Debug)]
pub(crate) struct Figure6;

impl Sweep for Figure6 {
    fn name(&self) -> &'static str {
        "figure-6"
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        let distances: &[&str] = extent.choose(&["0.2", "20", "60", "120", "200"], &["0.2", "120"]);
        let mut points = Vec::new();
        for kind in &KINDS[..extent.choose(KINDS.len(), 1)] {
            for x in distances {
                let series = [FINE, HIERARCHICAL, LOCAL];
                points.extend(series.map(|series| Point::new(kind.panel, series, x)));
            }
        }
        points
    }

    fn setup(&self, point: &Point, extent: Extent) -> Result<Setup> {
        let kind = Kind::of(&point.panel).context("there is no such panel")?;
        let (is_fine, is_local) = (point.series == FINE, point.series == LOCAL);
        let distance = round_trip(&point.x)?;
        let of_replicas = if is_local { "" } else { kind.of_replicas };
        let beside = match is_fine && distance >= IDLE_FROM {
            true => FINE_GRAINED,
            false => Beside::Nothing,
        };
        let of_fine = if is_fine { WITHOUT_SUBTREES } else { "" };
        Ok(Setup {
            replicas: if is_local { 1 } else { 2 },
            settings: [kind.settings, of_replicas, of_fine].concat(),
            round_trip: distance,
            pauses: kind.pauses,
            is_apart: kind.is_apart && beside == Beside::Nothing,
            steps: extent.choose(usize::MAX, QUICK_STEPS),
            beside,
        })
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let about = format!(
            "Two replicas; the package is played at one of them, the other is more and more distant. *Fine-grained* control covers \
             single files and directories (`deep_control = false`), *hierarchical* control covers subtrees, as is the \
             default. The *single local server* has no replica; it is the line to reach. {} Only fine-grained control at a distance, which \
             waits for the other replica nearly all the time, is played up to 12 times side by side, each with servers of its own. {}{}",
            kinds::about(),
            waits::ABOUT,
            shortened(extent, QUICK_STEPS)
        );
        let heads = Heads {
            panel: "pauses, answers",
            series: "control",
            x: "round trip (ms)",
        };
        let panels = results.panels();
        let shown = || KINDS.iter().filter(|kind| panels.contains(&kind.panel));
        let plot = |kind: &Kind| Plot {
            name: kind.plot,
            title: format!("SSH-Build with two replicas, {} (Figure 6)", kind.panel),
            columns: 2,
            charts: charts_by_phase(results, kind.panel, Some(LOCAL)),
        };
        let ratio = |kind: &Kind| {
            Chart::over_distance(
                kind.panel,
                Axis::linear("time / single local server's"),
                aim_and_ratio(results, kind.panel),
            )
        };
        let ratios = Plot {
            name: "ratio",
            title: "Hierarchical control beside a single local server".to_owned(),
            columns: 2,
            charts: shown().map(ratio).collect(),
        };
        Shown {
            title: "Figure 6: fine-grained and hierarchical control",
            about,
            claims: include_str!("../claims/figure-6.md"),
            tables: vec![waits::table(results, heads, &[], LOCAL)],
            plots: shown().map(plot).chain([ratios]).collect(),
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let panel = KINDS[0].panel;
        let x = results.last_place(panel)?;
        let ratios = table::ratios(results, panel, x, TOTAL, LOCAL)?;
        Some(format!("time {panel}, {x} ms: {ratios}"))
    }
}

/// The total time under hierarchical control divided by that at the single local server, trial by trial, and the aim.
fn aim_and_ratio(results: &Results, panel: &str) -> Marks {
    let places = results.places(panel).into_iter();
    let dots = places.filter_map(|x| {
        let [ours, local] = [HIERARCHICAL, LOCAL].map(|series| Point::new(panel, series, x));
        let ratio = results.ratio(&ours, &local, TOTAL)?;
        Some((x.parse().ok()?, chart::value(ratio, 1.0)))
    });
    let dots: Vec<(f64, Value)> = dots.collect();
    let aim = dots.iter().map(|(x, _)| (*x, Value::exactly(AIM)));
    let line = |name: &str, is_reference, dots| Line {
        name: name.to_owned(),
        is_reference,
        dots,
    };
    Marks::Lines(vec![
        line("aim: at most 1.05", true, aim.collect()),
        line("hierarchical / single local server", false, dots),
    ])
}

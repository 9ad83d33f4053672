//! Figure 6: fine-grained against hierarchical replication control.
//!
//! What must never enter: how the package is played.

use std::time::Duration;

use anyhow::Result;
use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Heads};
use bench::trial::Point;
use plot::{Axis, Chart, Line, Marks, Plot, Value};

use super::stands::Setup;
use super::sweep::Sweep;
use super::{
    FINE_GRAINED, LOCAL, THINKING, TOTAL, WITHOUT_SUBTREES, beside, charts_by_phase, figures,
    panel, round_trip, shortened,
};
use crate::experiment::{Extent, Shown};

/// Control of single files and directories only.
const FINE: &str = "fine-grained";

/// Control of whole subtrees, as every server has it by default.
const HIERARCHICAL: &str = "hierarchical";

/// What the whole time is to be at most, as a share of a single local server's.
const AIM: f64 = 1.05;

/// From this round trip on fine-grained control leaves the machine idle.
const IDLE_FROM: Duration = Duration::from_millis(20);

/// How many steps a quick run plays.
const QUICK_STEPS: usize = 300;

/// Figure 6.
#[derive(Debug)]
pub(crate) struct Figure6;

impl Sweep for Figure6 {
    fn name(&self) -> &'static str {
        "figure-6"
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        // What is in between is a straight line; and with think time, less of the same.
        let plain: &[&str] = extent.choose(&["0.2", "60", "120", "200"], &["0.2", "120"]);
        let thinking: &[&str] = extent.choose(&["0.2", "120"], &[]);
        let mut points = Vec::new();
        for (thinks, distances) in [(false, plain), (true, thinking)] {
            for x in distances {
                let series = [FINE, HIERARCHICAL, LOCAL];
                points.extend(series.map(|series| Point::new(panel(thinks), series, x)));
            }
        }
        points
    }

    fn setup(&self, point: &Point, extent: Extent) -> Result<Setup> {
        let thinks = point.panel == THINKING;
        let is_fine = point.series == FINE;
        let distance = round_trip(&point.x)?;
        Ok(Setup {
            replicas: if point.series == LOCAL { 1 } else { 2 },
            settings: if is_fine { WITHOUT_SUBTREES } else { "" }.to_owned(),
            round_trip: distance,
            thinks,
            steps: extent.choose(usize::MAX, QUICK_STEPS),
            beside: match is_fine && distance >= IDLE_FROM {
                true => FINE_GRAINED,
                false => beside(thinks),
            },
        })
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let about = format!(
            "Two replicas; the package is played at one of them, the other is more and more distant. *Fine-grained* control covers \
             single files and directories (`deep_control = false`), *hierarchical* control covers subtrees, as is the \
             default, with a timeout of 1 s. The *single local server* has no replica; it is the line to reach. Without think time one play goes on at a \
             time, but fine-grained control at a distance, which only waits, with up to 12 plays side by side, each with servers of its own; with \
             think time up to 8 go on in each other's pauses, and phases without pauses take turns.{}",
            shortened(extent, QUICK_STEPS)
        );
        let heads = Heads {
            panel: "",
            series: "control",
            x: "round trip (ms)",
        };
        let panels = results.panels();
        let plot = |thinks: bool| Plot {
            name: if thinks { "thinking" } else { "" },
            title: format!("SSH-Build with two replicas, {} (Figure 6)", panel(thinks)),
            columns: 2,
            charts: charts_by_phase(results, panel(thinks), Some(LOCAL)),
        };
        let thinkings = [false, true].into_iter();
        let thinkings = thinkings.filter(|&thinks| panels.contains(&panel(thinks)));
        let heads = Heads {
            panel: "pauses",
            ..heads
        };
        let ratio = |thinks: bool| {
            Chart::over_distance(
                panel(thinks),
                Axis::linear("time / single local server's"),
                aim_and_ratio(results, panel(thinks)),
            )
        };
        let ratios = Plot {
            name: "ratio",
            title: "Hierarchical control beside a single local server".to_owned(),
            columns: 2,
            charts: thinkings.clone().map(ratio).collect(),
        };
        Shown {
            title: "Figure 6: fine-grained and hierarchical control",
            about,
            claims: include_str!("../claims/figure-6.md"),
            tables: vec![table::by_point(
                results,
                heads,
                &figures(results),
                Some(LOCAL),
            )],
            plots: thinkings.clone().map(plot).chain([ratios]).collect(),
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let x = results.last_place(panel(false))?;
        let ratios = table::ratios(results, panel(false), x, TOTAL, LOCAL)?;
        Some(format!("time without think time, {x} ms: {ratios}"))
    }
}

/// The whole time under hierarchical control by that at the single local server, trial by trial, and what it should be at most.
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

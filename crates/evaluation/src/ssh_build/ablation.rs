//! The strategies of section 3.3 switched off one at a time, with only the package. Their value for several sites
//! in one place is another experiment (`sharing`).
//!
//! What must never enter: how the package is played.

use anyhow::{Context, Result};
use bench::chart;
use bench::statistics::Results;
use bench::table::{self, Heads};
use bench::trial::Point;
use plot::{Axis, Chart, Plot};

use super::stands::Setup;
use super::sweep::Sweep;
use super::waits;
use super::{FINE_GRAINED, LOCAL, THINKING, TOTAL, beside, figures, panel, round_trip, shortened};
use crate::experiment::Shown;
use crate::extent::Extent;
use crate::replay::Pauses;
use crate::strategies::{ALL_ON, NO_DEEP_CONTROL, VARIANTS};

/// The round trip between the replicas, in milliseconds: long enough that the machine is idle while each file's control is
/// awaited.
const DISTANCE: &str = "120";

/// The number of steps in a quick run.
const QUICK_STEPS: usize = 500;

/// The ablation.
#[derive(Debug)]
pub(crate) struct Ablation;

impl Sweep for Ablation {
    fn name(&self) -> &'static str {
        "ablation"
    }

    fn points(&self, _: Extent) -> Vec<Point> {
        let variants = VARIANTS.iter().map(|(name, _)| *name).chain([LOCAL]);
        let points = variants.map(|series| Point::new(panel(true), series, DISTANCE));
        points.collect()
    }

    fn setup(&self, point: &Point, extent: Extent) -> Result<Setup> {
        let variant = VARIANTS.iter().find(|(name, _)| *name == point.series);
        let settings = match point.series.as_str() {
            LOCAL => "",
            _ => variant.context("there is no such variant")?.1,
        };
        Ok(Setup {
            replicas: if point.series == LOCAL { 1 } else { 2 },
            settings: settings.to_owned(),
            round_trip: round_trip(&point.x)?,
            is_apart: false,
            pauses: Pauses::Whole,
            steps: extent.choose(usize::MAX, QUICK_STEPS),
            beside: match point.series == NO_DEEP_CONTROL {
                true => FINE_GRAINED,
                false => beside(true),
            },
        })
    }

    fn side_by_side(&self) -> usize {
        12
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let about = format!(
            "Two replicas {DISTANCE} ms apart, and each of the four strategies of section 3.3 off in turn: without the *idle timer* control of a \
             subtree ends at once instead of after 1 s without changes; without *revoke* nobody asks for a control; without \
             *file control* a written file has none of its own, so writes keep the subtree's; without *upgrade* many small controls \
             are not replaced by one of a subtree. Last, without deep control at all. With think time, up to 12 plays side by \
             side, one client at one site; with several sites see [another page](shared-strategies.md). {}{}",
            waits::ABOUT,
            shortened(extent, QUICK_STEPS)
        );
        let heads = Heads::of("strategies", "round trip (ms)");
        let charts = figures(results).into_iter().map(|figure| {
            Chart::over_distance(
                figure.title.replace(" (s)", ""),
                Axis::linear("time (s)"),
                chart::bars(results, THINKING, figure.name, 1.0),
            )
        });
        Shown {
            title: "Ablation: each strategy off in turn",
            about,
            claims: include_str!("../claims/ablation.md"),
            tables: vec![waits::table(results, heads, &[], ALL_ON)],
            plots: vec![Plot::only(
                "SSH-Build with each strategy of section 3.3 off in turn",
                2,
                charts.collect(),
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let x = results.last_place(THINKING)?;
        let ratios = table::ratios(results, THINKING, x, TOTAL, ALL_ON)?;
        Some(format!("time at {x} ms: {ratios}"))
    }
}

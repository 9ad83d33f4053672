//! SSH-Build: the recorded package replayed at one server, and the copy compared at another.
//!
//! Each of its experiments has a file here. The experiments that replay it at sets of replicas are sweeps (`sweep`), on
//! servers that `stands` starts and keeps.
//!
//! What must never enter: other work than the package.

mod ablation;
mod columns;
mod durability;
mod figure_5;
mod figure_6;
mod figure_7;
mod figure_8;
mod kinds;
mod play;
mod processors;
pub(super) mod stands;
pub(super) mod sweep;
mod waits;

pub(crate) use ablation::Ablation;
pub(crate) use columns::{SERVER, TOTAL, figures};
pub(crate) use durability::Durability;
pub(crate) use figure_5::Figure5;
pub(crate) use figure_6::Figure6;
pub(crate) use figure_7::Figure7;
pub(crate) use figure_8::Figure8;
pub(crate) use play::{Play, make_directory};
pub(crate) use processors::Processors;

use std::time::Duration;

use anyhow::{Context, Result};
use bench::chart;
use bench::statistics::Results;
use plot::{Axis, Chart};

use crate::extent::Extent;
use crate::strategies::WITHOUT_SUBTREES;
use stands::Beside;

/// The panel of work with the pauses of the recording.
const THINKING: &str = "with think time";

/// The series that others are compared with.
const LOCAL: &str = "single local server";

/// The work that may run beside a replay while control covers only single files and directories, and the other replica is far away. Most of the
/// round trips are for new files and directories.
const FINE_GRAINED: Beside = Beside::Everything {
    round_trips: ELECTIONS,
};

/// The approximate number of those round trips for the package.
const ELECTIONS: u32 = 2_150;

/// The text about a shortened package on the page.
pub(crate) fn shortened(extent: Extent, steps: usize) -> String {
    extent.choose(
        String::new(),
        format!(" This quick run played only the first {steps} steps of it."),
    )
}

/// A round trip in milliseconds in the form of points.
///
/// # Errors
/// Fails when it is not a round trip.
pub(crate) fn round_trip(x: &str) -> Result<Duration> {
    let milliseconds: f64 = x.parse().with_context(|| format!("'{x}' is no time"))?;
    Ok(Duration::from_secs_f64(milliseconds / 1000.0))
}

/// A chart for each phase and one for the total, over round trips.
pub(super) fn charts_by_phase(
    results: &Results,
    panel: &str,
    reference: Option<&str>,
) -> Vec<Chart> {
    let charts = figures(results).into_iter().map(|figure| {
        Chart::over_distance(
            figure.title.replace(" (s)", ""),
            Axis::linear("time (s)"),
            chart::lines(results, panel, figure.name, 1.0, reference),
        )
    });
    charts.collect()
}

/// The panel for work with and without pauses.
fn panel(thinks: bool) -> &'static str {
    match thinks {
        true => THINKING,
        false => "without think time",
    }
}

/// The work that may run beside a replay with and without pauses.
fn beside(thinks: bool) -> Beside {
    match thinks {
        true => Beside::Pauses,
        false => Beside::Nothing,
    }
}

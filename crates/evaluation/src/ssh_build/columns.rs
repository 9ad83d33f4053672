//! The figures of a replayed package, and the table columns for its phases.
//!
//! What must never enter: measuring.

use bench::statistics::Results;
use bench::table::Figure;

/// The name of the figure with the whole time.
pub(crate) const TOTAL: &str = "total_s";

/// The name of the figure with the time without thinking.
pub(crate) const SERVER: &str = "server_s";

/// The columns of its phases with results, and of the total if there are several.
pub(crate) fn figures(results: &Results) -> Vec<Figure> {
    let phases = [
        Figure::plain("unpack_s", "unpack (s)"),
        Figure::plain("configure_s", "configure (s)"),
        Figure::plain("build_s", "build (s)"),
        Figure::plain(TOTAL, "all (s)"),
    ];
    let points = results.points();
    let has = |figure: &Figure| {
        let mut points = points.iter();
        points.any(|point| results.summary(point, figure.name).is_some())
    };
    let found: Vec<Figure> = phases.into_iter().filter(has).collect();
    match found.len() {
        // A single phase is the total.
        ..=2 => found.into_iter().take(1).collect(),
        _ => found,
    }
}

//! The figures of a package that was played, and the columns of tables that show its phases.
//!
//! What must never enter: measuring.

use bench::statistics::Results;
use bench::table::Figure;

/// The name of the figure with the whole time.
pub(crate) const TOTAL: &str = "total_s";

/// The name of the figure with the time that was not spent thinking.
pub(crate) const SERVER: &str = "server_s";

/// The columns of its phases that have results, and of the whole where there are several.
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
        // One phase is the whole.
        ..=2 => found.into_iter().take(1).collect(),
        _ => found,
    }
}

//! Results as the content of a chart: lines over numbers, or bars in groups.
//!
//! What must never enter: how it is drawn; that is the crate `plot`.

use plot::{Bars, Line, Marks, Value};

use crate::statistics::{Results, Summary};
use crate::trial::Point;

/// The mean of a summary between its extremes, in another unit.
pub fn value(summary: Summary, unit: f64) -> Value {
    Value {
        mean: summary.mean / unit,
        low: summary.low / unit,
        high: summary.high / unit,
    }
}

/// The lines of one panel of results: a line for each series, over places that are numbers. The other series are compared with the
/// `reference`. A single place gives bars and no lines.
pub fn lines(
    results: &Results,
    panel: &str,
    figure: &str,
    unit: f64,
    reference: Option<&str>,
) -> Marks {
    if results.places(panel).len() < 2 {
        return bars(results, panel, figure, unit);
    }
    let line = |series: &&str| {
        let points = results.points().iter();
        let points = points.filter(|point| point.panel == panel && point.series == *series);
        let dots = points.filter_map(|point| {
            let summary = results.summary(point, figure)?;
            Some((point.x.parse().ok()?, value(summary, unit)))
        });
        Line {
            name: (*series).to_owned(),
            is_reference: reference == Some(*series),
            dots: dots.collect(),
        }
    };
    Marks::Lines(results.series(panel).iter().map(line).collect())
}

/// The bars of one panel of results: a group for each place, with a bar for each series.
pub fn bars(results: &Results, panel: &str, figure: &str, unit: f64) -> Marks {
    let groups = results.places(panel);
    let bar = |series: &&str| {
        let values = groups.iter().map(|group| {
            let point = Point::new(panel, series, group);
            let summary = results.summary(&point, figure)?;
            Some(value(summary, unit))
        });
        Bars {
            name: (*series).to_owned(),
            values: values.collect(),
        }
    };
    Marks::Bars {
        series: results.series(panel).iter().map(bar).collect(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
    }
}

//! Tables of results in Markdown.
//!
//! What must never enter: its own figures.

use std::fmt::Write;

use crate::statistics::{Results, Summary};
use crate::trial::Point;

/// A figure that is shown: its name in outcomes, its heading with the unit, and the factor between
/// the units.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// The name in outcomes, such as `wire_bytes`.
    pub name: &'static str,
    /// The heading, such as `on the wire (MB)`.
    pub title: &'static str,
    /// One unit of the heading in the unit of the outcome, such as 1e6.
    pub unit: f64,
}

impl Figure {
    /// A figure that is shown in the unit it was measured in.
    pub const fn plain(name: &'static str, title: &'static str) -> Self {
        let unit = 1.0;
        Self { name, title, unit }
    }
}

/// The headings of the first three columns.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    /// For the panels; empty: no such column.
    pub panel: &'static str,
    /// For the series; empty: no such column.
    pub series: &'static str,
    /// For the places; empty: no such column.
    pub x: &'static str,
}

impl Heads {
    /// The headings of a table with a single panel.
    pub const fn of(series: &'static str, x: &'static str) -> Self {
        let panel = "";
        Self { panel, series, x }
    }
}

/// One row per point, with the mean and the standard deviation of each figure, in the order of panels, places and series. With a
/// `base`, also the ratio of the last figure to that series at the same place, trial by trial.
pub fn by_point(results: &Results, heads: Heads, figures: &[Figure], base: Option<&str>) -> String {
    let last = figures.last().filter(|_| base.is_some());
    let ratios: Vec<Figure> = last.copied().into_iter().collect();
    with_ratios(results, heads, figures, &ratios, base.unwrap_or_default())
}

/// The same with the ratios of some figures to the series `base`.
pub fn with_ratios(
    results: &Results,
    heads: Heads,
    figures: &[Figure],
    ratios: &[Figure],
    base: &str,
) -> String {
    let names = [heads.panel, heads.x, heads.series];
    let mut heading: Vec<String> = named(names, names).map(str::to_owned).collect();
    let words = heading.len();
    heading.extend(figures.iter().map(|figure| figure.title.to_owned()));
    let over = ratios.iter().map(title_without_unit);
    heading.extend(over.map(|title| format!("{title}, ratio to {base}")));
    let mut table = row(heading.iter().map(String::as_str));
    let rules = (0..heading.len()).map(|column| if column < words { "---" } else { "--:" });
    table += &format!("|{}|\n", rules.collect::<Vec<_>>().join("|"));
    for point in in_order(results) {
        let words = named(names, [&point.panel, &point.x, &point.series]);
        let mut cells: Vec<String> = words.map(str::to_owned).collect();
        for figure in figures {
            let found = results.summary(point, figure.name);
            cells.push(found.map_or(String::new(), |found| cell(found, figure.unit)));
        }
        let other = Point::new(&point.panel, base, &point.x);
        for figure in ratios {
            let ratio = results.ratio(point, &other, figure.name);
            let ratio = ratio.filter(|_| point.series != base);
            cells.push(ratio.map_or(String::new(), |ratio| cell(ratio, 1.0)));
        }
        table += &row(cells.iter().map(String::as_str));
    }
    table
}

/// One line: a figure of all series at one place compared with that of `base`, trial by trial, as
/// `other 2.50 ± 0.10 (base: 1)`. None unless it is known for all.
pub fn ratios(results: &Results, panel: &str, x: &str, figure: &str, base: &str) -> Option<String> {
    let others = results.series(panel).into_iter();
    let others = others.filter(|series| *series != base);
    let ratios = others.map(|series| {
        let [one, base] = [series, base].map(|series| Point::new(panel, series, x));
        let ratio = results.ratio(&one, &base, figure)?;
        Some(format!("{series} {}", cell(ratio, 1.0)))
    });
    let ratios: Option<Vec<String>> = ratios.collect();
    Some(format!("{} ({base}: 1)", ratios?.join(", ")))
}

/// The words with a non-empty heading.
fn named<'a>(heads: [&'a str; 3], words: [&'a str; 3]) -> impl Iterator<Item = &'a str> {
    let pairs = heads.into_iter().zip(words);
    pairs
        .filter(|(head, _)| !head.is_empty())
        .map(|(_, word)| word)
}

fn title_without_unit(figure: &Figure) -> &'static str {
    figure.title.split(" (").next().unwrap_or(figure.title)
}

fn in_order(results: &Results) -> Vec<&Point> {
    let mut points: Vec<&Point> = Vec::new();
    for panel in results.panels() {
        for x in results.places(panel) {
            let here = |point: &&Point| point.panel == panel && point.x == x;
            points.extend(results.points().iter().filter(here));
        }
    }
    points
}

/// One row of a table.
pub fn row<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::from("|");
    for cell in cells {
        // Writing to a String cannot fail.
        let _ = write!(text, " {} |", cell.replace('|', "\\|"));
    }
    text + "\n"
}

/// `12.3 ± 0.4`, with the significant digits.
pub fn cell(summary: Summary, unit: f64) -> String {
    let (mean, deviation) = (summary.mean / unit, summary.deviation / unit);
    let digits = digits(mean);
    match summary.trials {
        1 => format!("{mean:.digits$}"),
        _ => format!("{mean:.digits$} ± {deviation:.digits$}"),
    }
}

/// The number of decimal places for three significant digits.
fn digits(value: f64) -> usize {
    match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.01.. => 3,
        0.0 => 0,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Outcome;

    #[test]
    fn a_row_has_means_spreads_and_ratios() {
        let points = ["base", "other"].map(|series| Point::new("", series, "0.2"));
        let mut results = Results::of(points.to_vec());
        for (trial, factor) in [(1, 1.0), (2, 1.2)] {
            for (point, value) in points.iter().zip([10.0, 25.0]) {
                let outcome = Outcome::from([("build_s".to_owned(), value * factor)]);
                results.add(point.clone(), trial, outcome);
            }
        }
        let heads = Heads {
            panel: "",
            series: "server",
            x: "round trip (ms)",
        };
        let figures = [Figure::plain("build_s", "build (s)")];
        let table = by_point(&results, heads, &figures, Some("base"));
        assert_eq!(
            table,
            "| round trip (ms) | server | build (s) | build, ratio to base |\n\
             |---|---|--:|--:|\n\
             | 0.2 | base | 11.0 ± 1.4 |  |\n\
             | 0.2 | other | 27.5 ± 3.5 | 2.50 ± 0.00 |\n"
        );
    }

    #[test]
    fn a_line_of_ratios_has_all_series_or_is_none() {
        let points = ["base", "other"].map(|series| Point::new("", series, "0.2"));
        let mut results = Results::of(points.to_vec());
        let line = |results: &Results| ratios(results, "", "0.2", "build_s", "base");
        for (point, value) in points.iter().zip([10.0, 25.0]) {
            assert_eq!(line(&results), None);
            let outcome = Outcome::from([("build_s".to_owned(), value)]);
            results.add(point.clone(), 1, outcome);
        }
        assert_eq!(line(&results).unwrap(), "other 2.50 (base: 1)");
    }

    #[test]
    fn a_bar_in_a_word_makes_no_column() {
        assert_eq!(row(["a|b"].into_iter()), "| a\\|b |\n");
    }
}

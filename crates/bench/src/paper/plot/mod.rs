//! Plots as SVG: small charts side by side, with axes, units, one legend, and spreads as bars through the marks.
//!
//! Colours are those of Okabe and Ito, which people with any colour vision tell apart; series differ by the shape of
//! their marks, too. A series has the same colour in all charts of a plot.
//!
//! What must never enter: which experiment it is, and figures of its own.

mod chart;
mod scale;
mod svg;

use super::experiment::Point;
use super::statistics::{Results, Summary};
use svg::Svg;

pub(crate) use scale::Scale;

/// Width and height of one chart with its axes, in pixels.
const CHART: (f64, f64) = (430.0, 290.0);

/// Room around everything, for the title, and for a line of the legend.
const MARGIN: f64 = 18.0;
const TITLE: f64 = 30.0;
const LEGEND: f64 = 22.0;

/// Colours of series, in their order.
const COLOURS: [&str; 7] = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
];

/// A picture.
#[derive(Debug, Clone)]
pub(crate) struct Plot {
    /// What follows the experiment's name in the file's name; empty for the only one.
    pub(crate) name: &'static str,
    /// What it shows.
    pub(crate) title: String,
    /// How many charts stand side by side.
    pub(crate) columns: usize,
    /// The charts, row by row.
    pub(crate) charts: Vec<Chart>,
}

/// One pair of axes.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    /// What sets it apart from its neighbours.
    pub(crate) title: String,
    /// The horizontal axis; for bars only its title counts.
    pub(crate) x: Axis,
    /// The vertical axis.
    pub(crate) y: Axis,
    /// What is drawn.
    pub(crate) marks: Marks,
}

/// An axis.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// What it measures, with the unit.
    pub(crate) title: String,
    /// How values are laid out.
    pub(crate) scale: Scale,
}

/// What is drawn between the axes.
#[derive(Debug, Clone)]
pub(crate) enum Marks {
    /// Lines over numbers.
    Lines(Vec<Line>),
    /// Bars side by side in groups.
    Bars {
        /// What stands below each group.
        groups: Vec<String>,
        /// The bars, by series.
        series: Vec<Bars>,
    },
}

/// A series of dots with a line through them.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Its name in the legend.
    pub(crate) name: String,
    /// Whether it is what the others are compared with, and dashed.
    pub(crate) is_reference: bool,
    /// Place and value.
    pub(crate) dots: Vec<(f64, Value)>,
}

/// What stands beside a name in the legend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sample {
    /// A line with its mark, dashed for the one that others are compared with.
    Line(bool),
    /// A piece of a bar.
    Bar,
}

/// A bar in each group.
#[derive(Debug, Clone)]
pub(crate) struct Bars {
    /// Its name in the legend.
    pub(crate) name: String,
    /// A value for each group, where there is one.
    pub(crate) values: Vec<Option<Value>>,
}

/// A mean, and the extremes of the trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Value {
    /// Where the mark stands.
    pub(crate) mean: f64,
    /// Where the bar through it begins and ends.
    pub(crate) low: f64,
    /// See above.
    pub(crate) high: f64,
}

impl Value {
    /// Without a spread.
    pub(crate) fn exactly(value: f64) -> Self {
        Self {
            mean: value,
            low: value,
            high: value,
        }
    }

    /// Of a summary, in another unit.
    pub(crate) fn of(summary: Summary, unit: f64) -> Self {
        Self {
            mean: summary.mean / unit,
            low: summary.low / unit,
            high: summary.high / unit,
        }
    }
}

impl Chart {
    /// Over the round trip between sites.
    pub(crate) fn over_distance(title: impl Into<String>, y: Axis, marks: Marks) -> Self {
        Self {
            title: title.into(),
            x: Axis::linear("round trip between sites (ms)"),
            y,
            marks,
        }
    }
}

impl Axis {
    /// An axis with even steps from zero.
    pub(crate) fn linear(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            scale: Scale::Linear,
        }
    }

    /// An axis on which equal ratios are equally long.
    pub(crate) fn log(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            scale: Scale::Log,
        }
    }
}

/// The lines of one panel of results: a line for each series, over places that are numbers. The `reference` is the series
/// that others are compared with. A single place has no lines but bars.
pub(crate) fn lines(
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
            Some((point.x.parse().ok()?, Value::of(summary, unit)))
        });
        Line {
            name: (*series).to_owned(),
            is_reference: reference == Some(*series),
            dots: dots.collect(),
        }
    };
    Marks::Lines(results.series(panel).iter().map(line).collect())
}

/// The bars of one panel of results: a group for each place, and in it a bar for each series.
pub(crate) fn bars(results: &Results, panel: &str, figure: &str, unit: f64) -> Marks {
    let groups = results.places(panel);
    let bar = |series: &&str| {
        let values = groups.iter().map(|group| {
            let point = Point::new(panel, series, group);
            let summary = results.summary(&point, figure)?;
            Some(Value::of(summary, unit))
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

impl Plot {
    /// The whole file.
    pub(crate) fn svg(&self) -> String {
        let names = self.names();
        let columns = self.columns.clamp(1, self.charts.len().max(1));
        let rows = self.charts.len().div_ceil(columns);
        let width = CHART.0 * columns as f64 + 2.0 * MARGIN;
        let legend = legend_places(&names, width - 2.0 * MARGIN);
        let legend_height = legend.last().map_or(0.0, |&(_, y)| y + LEGEND);
        let top = MARGIN + TITLE + legend_height + 6.0;
        let mut svg = Svg::new(width, top + CHART.1 * rows as f64 + MARGIN, &self.title);
        svg.bold(MARGIN, MARGIN + 15.0, 17.0, &self.title);
        for (number, (name, (x, y))) in names.iter().zip(&legend).enumerate() {
            let (x, y) = (MARGIN + x, MARGIN + TITLE + y + 8.0);
            chart::sample(&mut svg, (x, y), number, self.sample(name));
            svg.text(x + 32.0, y + 4.0, "start", name);
        }
        for (number, chart) in self.charts.iter().enumerate() {
            let (column, row) = (number % columns, number / columns);
            let corner = (MARGIN + CHART.0 * column as f64, top + CHART.1 * row as f64);
            chart.draw(&mut svg, corner, &names);
        }
        svg.finish()
    }

    /// The names of all series, each once.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.charts.iter().flat_map(|chart| chart.marks.names()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// How a series looks in the legend.
    fn sample(&self, name: &str) -> Sample {
        let mut charts = self.charts.iter();
        let found = charts.find_map(|chart| match &chart.marks {
            Marks::Lines(lines) => {
                let line = lines.iter().find(|line| line.name == name)?;
                Some(Sample::Line(line.is_reference))
            }
            Marks::Bars { .. } => None,
        });
        found.unwrap_or(Sample::Bar)
    }
}

impl Marks {
    fn names(&self) -> Vec<&str> {
        match self {
            Marks::Lines(lines) => lines.iter().map(|line| line.name.as_str()).collect(),
            Marks::Bars { series, .. } => series.iter().map(|bars| bars.name.as_str()).collect(),
        }
    }
}

/// Where the entries of the legend begin, in lines that are no longer than `width`.
fn legend_places(names: &[&str], width: f64) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (0.0, 0.0);
    let mut places = Vec::new();
    for name in names {
        let length = 58.0 + svg::text_width(name);
        if x > 0.0 && x + length > width {
            (x, y) = (0.0, y + LEGEND);
        }
        places.push((x, y));
        x += length;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(mean: f64) -> Value {
        let (low, high) = (mean * 0.9, mean * 1.1);
        Value { mean, low, high }
    }

    fn plot(marks: Marks, y: Axis) -> Plot {
        let chart = Chart {
            title: "a <panel> & more".to_owned(),
            x: Axis::linear("round trip (ms)"),
            y,
            marks,
        };
        Plot {
            name: "",
            title: "\"quoted\" title".to_owned(),
            columns: 2,
            charts: vec![chart.clone(), chart],
        }
    }

    fn lines() -> Marks {
        let line = |name: &str, factor: f64| Line {
            name: name.to_owned(),
            is_reference: factor == 1.0,
            dots: [0.2, 20.0, 120.0].map(|x| (x, value(x * factor))).to_vec(),
        };
        Marks::Lines(vec![line("one < two", 1.0), line("three", 30.0)])
    }

    fn bars() -> Marks {
        Marks::Bars {
            groups: vec!["unpack".to_owned(), "build".to_owned()],
            series: vec![Bars {
                name: "one".to_owned(),
                values: vec![Some(value(7.0)), None],
            }],
        }
    }

    #[test]
    fn pictures_are_well_formed() {
        let axes = [Axis::linear("time (s)"), Axis::log("time (s)")];
        for axis in axes {
            for marks in [lines(), bars(), Marks::Lines(Vec::new())] {
                svg::check(&plot(marks, axis.clone()).svg());
            }
        }
    }

    #[test]
    fn a_value_lies_where_its_axis_says() {
        let text = plot(bars(), Axis::linear("time (s)")).svg();
        // One value in two charts, and none of the group without one.
        assert_eq!(text.matches("class=\"bar\"").count(), 2);
        let text = plot(lines(), Axis::log("time (s)")).svg();
        assert_eq!(text.matches("class=\"mark\"").count(), 2 * 6 + 2);
        assert!(text.contains("one &lt; two") && !text.contains("NaN"));
    }

    #[test]
    fn legends_break_into_lines() {
        let places = legend_places(&["a name", "another name", "a third"], 200.0);
        assert_eq!(places[0], (0.0, 0.0));
        assert!(places[2].1 > 0.0);
    }
}

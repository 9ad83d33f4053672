//! Plots as SVG: small charts side by side, with axes, units, one legend, and spreads as bars through the marks.
//!
//! Colours are those of Okabe and Ito, which people with any colour vision can distinguish; series also differ by the shape of
//! their marks. A series has the same colour in all charts of a plot.
//!
//! What must never enter: knowledge of what is drawn, and its own figures.

#![forbid(unsafe_code)]

mod chart;
mod marks;
mod scale;
mod svg;
mod timeline;

use marks::{CHART, Sample};
use svg::Svg;

pub use marks::{Axis, Bars, Chart, Line, Marks, Value, colour};
pub use scale::Scale;
pub use svg::escaped;
pub use timeline::{Band, Curve, Timeline};

/// Space around everything, for the title, and for a line of the legend.
const MARGIN: f64 = 18.0;
const TITLE: f64 = 30.0;
const LEGEND: f64 = 22.0;

/// A picture.
#[derive(Debug, Clone)]
pub struct Plot {
    /// The part of the file's name after the experiment's name; empty for the only plot.
    pub name: &'static str,
    /// Its title.
    pub title: String,
    /// The number of charts side by side.
    pub columns: usize,
    /// The charts, row by row.
    pub charts: Vec<Chart>,
}

impl Plot {
    /// The only plot of an experiment.
    pub fn only(title: impl Into<String>, columns: usize, charts: Vec<Chart>) -> Self {
        Self {
            name: "",
            title: title.into(),
            columns,
            charts,
        }
    }

    /// The whole file.
    pub fn svg(&self) -> String {
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

    /// The look of a series in the legend.
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

/// The positions of the legend's entries, in lines that are at most `width` wide.
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

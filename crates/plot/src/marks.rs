//! The content of a chart: axes, and the values between them.
//!
//! What must never enter: how it is drawn.

use crate::scale::Scale;

/// Width and height of one chart with its axes, in pixels.
pub(crate) const CHART: (f64, f64) = (430.0, 290.0);

/// Colours of series, in their order.
const COLOURS: [&str; 7] = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
];

/// The colour of a series, by its number.
pub fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

/// One pair of axes.
#[derive(Debug, Clone)]
pub struct Chart {
    /// What distinguishes it from its neighbours.
    pub title: String,
    /// The horizontal axis; for bars only its title is used.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Its content.
    pub marks: Marks,
}

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Its title, with the unit.
    pub title: String,
    /// The layout of values.
    pub scale: Scale,
}

/// The content between the axes.
#[derive(Debug, Clone)]
pub enum Marks {
    /// Lines over numbers.
    Lines(Vec<Line>),
    /// Bars side by side in groups.
    Bars {
        /// The label below each group.
        groups: Vec<String>,
        /// The bars, by series.
        series: Vec<Bars>,
    },
}

/// A series of dots with a line through them.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Whether the others are compared with it. It is then dashed.
    pub is_reference: bool,
    /// Place and value.
    pub dots: Vec<(f64, Value)>,
}

/// The sample beside a name in the legend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sample {
    /// A line with its mark, dashed for the reference.
    Line(bool),
    /// A piece of a bar.
    Bar,
}

/// A bar in each group.
#[derive(Debug, Clone)]
pub struct Bars {
    /// Its name in the legend.
    pub name: String,
    /// A value for each group, if there is one.
    pub values: Vec<Option<Value>>,
}

/// A mean, and the extremes of the trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// The position of the mark.
    pub mean: f64,
    /// The lower end of the bar through it.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Value {
    /// Without a spread.
    pub fn exactly(value: f64) -> Self {
        Self {
            mean: value,
            low: value,
            high: value,
        }
    }
}

impl Chart {
    /// The only chart of its plot.
    pub fn untitled(x: Axis, y: Axis, marks: Marks) -> Self {
        let title = String::new();
        Self { title, x, y, marks }
    }

    /// Over the round trip between sites.
    pub fn over_distance(title: impl Into<String>, y: Axis, marks: Marks) -> Self {
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
    pub fn linear(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            scale: Scale::Linear,
        }
    }

    /// An axis on which equal ratios are equally long.
    pub fn log(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            scale: Scale::Log,
        }
    }
}

impl Marks {
    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Marks::Lines(lines) => lines.iter().map(|line| line.name.as_str()).collect(),
            Marks::Bars { series, .. } => series.iter().map(|bars| bars.name.as_str()).collect(),
        }
    }
}

//! A trial: its point, its number, and its results.
//!
//! What must never enter: how it is measured and shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One measured configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point {
    /// The chart it belongs to, such as a workload; empty if there is only one.
    pub panel: String,
    /// The compared thing, such as a server.
    pub series: String,
    /// Its place on the horizontal axis: a number, such as `0.2`, or a word.
    pub x: String,
}

impl Point {
    /// A point by its three names.
    pub fn new(panel: impl ToString, series: impl ToString, x: impl ToString) -> Self {
        Self {
            panel: panel.to_string(),
            series: series.to_string(),
            x: x.to_string(),
        }
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [&self.panel, &self.series, &self.x];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        f.write_str(&parts.cloned().collect::<Vec<_>>().join(", "))
    }
}

/// A point in one trial.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    /// What is measured.
    pub point: Point,
    /// The number of the trial, from 1.
    pub trial: u32,
}

impl std::fmt::Display for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, trial {}", self.point, self.trial)
    }
}

/// The result of one trial at one point: figures by their names, each name with its unit (`build_s`, `wire_bytes`).
pub type Outcome = BTreeMap<String, f64>;

/// An outcome of these figures.
pub fn named<const N: usize>(figures: [(&str, f64); N]) -> Outcome {
    figures.map(|(name, value)| (name.to_owned(), value)).into()
}

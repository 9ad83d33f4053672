//! Trials taken together: means and spreads, by point and figure.
//!
//! What must never enter: how they are shown.

use std::collections::BTreeMap;

use crate::trial::{Outcome, Point};

/// The name of the figure with the mean lateness of the WAN in microseconds.
pub const LATENESS: &str = "wan_late_us";

/// Several trials of one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The number of trials.
    pub trials: usize,
    /// Their mean.
    pub mean: f64,
    /// The standard deviation of the sample; zero for a single trial.
    pub deviation: f64,
    /// The middle value, or the mean of the two middle values.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

impl Summary {
    /// The summary of these values; none if there are no values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let first = *values.first()?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (below, above) = (sorted[(values.len() - 1) / 2], sorted[values.len() / 2]);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            trials: values.len(),
            mean,
            deviation: match values.len() {
                1 => 0.0,
                _ => (squares / (count - 1.0)).sqrt(),
            },
            median: f64::midpoint(below, above),
            low: values.iter().copied().fold(first, f64::min),
            high: values.iter().copied().fold(first, f64::max),
        })
    }
}

/// All trials of an experiment that count.
#[derive(Debug, Default)]
pub struct Results {
    points: Vec<Point>,
    outcomes: BTreeMap<Point, BTreeMap<u32, Outcome>>,
}

impl Results {
    /// No trials yet, for these points in this order.
    pub fn of(points: Vec<Point>) -> Self {
        Self {
            points,
            outcomes: BTreeMap::new(),
        }
    }

    /// Adds the outcome of a trial.
    pub fn add(&mut self, point: Point, trial: u32, outcome: Outcome) {
        self.outcomes
            .entry(point)
            .or_default()
            .insert(trial, outcome);
    }

    /// Whether this trial is there.
    pub fn has(&self, point: &Point, trial: u32) -> bool {
        let trials = self.outcomes.get(point);
        trials.is_some_and(|trials| trials.contains_key(&trial))
    }

    /// The smallest number of trials of any point.
    pub fn trials_min(&self) -> usize {
        let counts = self.points.iter().map(|point| self.trials(point));
        counts.min().unwrap_or(0)
    }

    /// Whether nothing was measured yet.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    fn trials(&self, point: &Point) -> usize {
        self.outcomes.get(point).map_or(0, BTreeMap::len)
    }

    /// All points, in the order of the experiment.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The points of one panel.
    #[must_use]
    pub fn of_panel(&self, panel: &str) -> Self {
        let is_here = |point: &&Point| point.panel == panel;
        let here = self.points.iter().filter(is_here).cloned().collect();
        let outcomes = self.outcomes.iter();
        let outcomes = outcomes.filter(|(point, _)| is_here(point));
        Self {
            points: here,
            outcomes: outcomes
                .map(|(point, trials)| (point.clone(), trials.clone()))
                .collect(),
        }
    }

    /// The panels, in the order of their first occurrence.
    pub fn panels(&self) -> Vec<&str> {
        distinct(self.points.iter().map(|point| point.panel.as_str()))
    }

    /// The series of a panel, in the order of their first occurrence.
    pub fn series(&self, panel: &str) -> Vec<&str> {
        let here = self.points.iter().filter(|point| point.panel == panel);
        distinct(here.map(|point| point.series.as_str()))
    }

    /// The places on the horizontal axis of a panel, in the order of their first occurrence.
    pub fn places(&self, panel: &str) -> Vec<&str> {
        let here = self.points.iter().filter(|point| point.panel == panel);
        distinct(here.map(|point| point.x.as_str()))
    }

    /// The last place on the horizontal axis of a panel.
    pub fn last_place(&self, panel: &str) -> Option<&str> {
        self.places(panel).pop()
    }

    /// A figure at a point over all trials.
    pub fn summary(&self, point: &Point, figure: &str) -> Option<Summary> {
        self.derived(point, |outcome| outcome.get(figure).copied())
    }

    /// The largest value of a figure in any trial.
    pub fn largest(&self, figure: &str) -> Option<f64> {
        let trials = self.outcomes.values().flat_map(BTreeMap::values);
        let values = trials.filter_map(|outcome| outcome.get(figure).copied());
        values.reduce(f64::max)
    }

    /// A value computed from the figures of each trial at a point, over all trials that have it.
    pub fn derived(
        &self,
        point: &Point,
        value: impl Fn(&Outcome) -> Option<f64>,
    ) -> Option<Summary> {
        let trials = self.outcomes.get(point)?;
        let values: Vec<f64> = trials.values().filter_map(value).collect();
        Summary::of(&values)
    }

    /// A figure at one point divided by the same figure at another, trial by trial.
    pub fn ratio(&self, point: &Point, to: &Point, figure: &str) -> Option<Summary> {
        let (trials, others) = (self.outcomes.get(point)?, self.outcomes.get(to)?);
        let pairs = trials.iter().filter_map(|(number, outcome)| {
            let other = others.get(number)?.get(figure)?;
            Some(outcome.get(figure)? / other)
        });
        Summary::of(&pairs.collect::<Vec<_>>())
    }
}

fn distinct<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_the_spread_of_a_sample() {
        let summary = Summary::of(&[2.0, 4.0, 9.0]).unwrap();
        assert_eq!((summary.mean, summary.low, summary.high), (5.0, 2.0, 9.0));
        // (9 + 1 + 16) / 2
        assert!((summary.deviation - 13.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(Summary::of(&[3.0]).unwrap().deviation, 0.0);
        let median = |values: &[f64]| Summary::of(values).unwrap().median;
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), 3.0);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn ratios_are_taken_trial_by_trial() {
        let [ours, theirs] = ["ours", "theirs"].map(|series| Point::new("", series, "1"));
        let mut results = Results::of(vec![ours.clone(), theirs.clone()]);
        let outcome = |value| Outcome::from([("a_s".to_owned(), value)]);
        for (trial, our, their) in [(1, 2.0, 1.0), (2, 30.0, 10.0)] {
            results.add(ours.clone(), trial, outcome(our));
            results.add(theirs.clone(), trial, outcome(their));
        }
        results.add(ours.clone(), 3, outcome(7.0));
        let ratio = results.ratio(&ours, &theirs, "a_s").unwrap();
        assert_eq!((ratio.trials, ratio.low, ratio.high), (2, 2.0, 3.0));
        assert_eq!(results.trials_min(), 2);
        assert_eq!(results.series(""), ["ours", "theirs"]);
    }
}

//! The result of a run as tables.
//!
//! What must never enter: figures that were not measured in this run.

use std::fmt::Write;

use serde::Serialize;

use super::absence::Absence;
use super::cost::Cost;
use super::takeover::Takeover;
use crate::machine::Machine;

/// The section with places in braces.
const TEMPLATE: &str = include_str!("../../failover.md");

/// Under which conditions the figures were measured.
#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    /// Where.
    pub(crate) machine: Machine,
    /// Meridian's version.
    pub(crate) meridian: String,
    /// How often a primary was killed.
    pub(crate) trials: usize,
    /// How many files a second were made in the hour for which a server was away.
    pub(crate) files_a_second: f64,
    /// The size of each, in bytes.
    pub(crate) file_bytes: usize,
    /// How often the sets had their turns.
    pub(crate) rounds: usize,
    /// Files in a turn.
    pub(crate) files: usize,
    /// The round trip between sites.
    pub(crate) round_trip_ms: u64,
}

/// A run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Its conditions.
    pub(crate) conditions: Conditions,
    /// Killed primaries, by settings.
    pub(crate) takeovers: Vec<Takeover>,
    /// A server that was away, by how it caught up.
    pub(crate) absences: Vec<Absence>,
    /// Leases while nothing fails.
    pub(crate) cost: Option<Cost>,
}

impl Report {
    /// Without figures.
    pub(crate) fn new(conditions: Conditions) -> Self {
        Self {
            conditions,
            takeovers: Vec::new(),
            absences: Vec::new(),
            cost: None,
        }
    }

    /// The section of the published page.
    pub(crate) fn section(&self, date: &str) -> String {
        let conditions = &self.conditions;
        let machine = &conditions.machine;
        let places = [
            ("{date}", date.to_owned()),
            ("{meridian}", conditions.meridian.clone()),
            ("{round_trip}", conditions.round_trip_ms.to_string()),
            ("{trials}", conditions.trials.to_string()),
            ("{rounds}", conditions.rounds.to_string()),
            ("{files}", conditions.files.to_string()),
            ("{takeover_table}", self.takeover()),
            ("{files_a_second}", conditions.files_a_second.to_string()),
            ("{file_bytes}", conditions.file_bytes.to_string()),
            ("{absence}", self.absence()),
            ("{cost}", self.cost()),
        ];
        let mut section = machine.fill(TEMPLATE);
        for (place, value) in places {
            section = section.replace(place, value.trim_end());
        }
        section
    }

    /// All tables.
    pub(crate) fn tables(&self) -> String {
        [self.takeover(), self.absence(), self.cost()].join("\n")
    }

    fn takeover(&self) -> String {
        let mut table = String::from(
            "| settings | what | median (s) | longest (s) | trials |\n|---|---|--:|--:|--:|\n",
        );
        for one in &self.takeovers {
            let rows = [
                (
                    "until a write to the same file was accepted at another site",
                    &one.accepted_us,
                ),
                (
                    "longest operation of a client at the third site",
                    &one.stall_us,
                ),
                (
                    "until the killed server had everything again",
                    &one.returned_us,
                ),
            ];
            for (what, times) in rows {
                let [median, longest] = median_and_longest(times);
                // Writing to a String cannot fail.
                let _ = writeln!(
                    table,
                    "| {} | {what} | {median:.2} | {longest:.2} | {} |",
                    one.settings,
                    times.len()
                );
            }
        }
        table
    }

    fn absence(&self) -> String {
        if self.absences.is_empty() {
            return "not measured\n".to_owned();
        }
        let seconds = |us: u64| us as f64 / 1e6;
        let mut table = String::from(
            "| caught up | files | made in (s) | back after (s) | files a second | longest operation elsewhere before (s) | during the return (s) |\n\
             |---|--:|--:|--:|--:|--:|--:|\n",
        );
        for one in &self.absences {
            let rate = one.files as f64 / seconds(one.returned_us).max(1e-6);
            // Writing to a String cannot fail.
            let _ = writeln!(
                table,
                "| {} | {} | {:.1} | {:.1} | {rate:.0} | {:.2} | {:.2} |",
                one.way,
                one.files,
                seconds(one.made_us),
                seconds(one.returned_us),
                seconds(one.stall_before_us),
                seconds(one.stall_us)
            );
        }
        table
    }

    fn cost(&self) -> String {
        let Some(cost) = &self.cost else {
            return "not measured\n".to_owned();
        };
        let mut table = String::from(
            "| leases | median (µs a file) | least | most | time beside the first: median | least | most |\n|---|--:|--:|--:|--:|--:|--:|\n",
        );
        for (name, times) in [
            ("as by default", &cost.usual_us),
            ("the same at another set", &cost.again_us),
            ("ten times as long", &cost.rare_us),
        ] {
            let [least, median, most] = spread(times);
            let turns = times.iter().zip(&cost.usual_us);
            let ratios: Vec<f64> = turns.map(|(time, usual)| time / usual.max(1e-6)).collect();
            let [low, ratio, high] = spread(&ratios);
            let _ = writeln!(
                table,
                "| {name} | {median:.0} | {least:.0} | {most:.0} | {ratio:.3} | {low:.3} | {high:.3} |"
            );
        }
        table
    }
}

/// In seconds.
fn median_and_longest(times_us: &[u64]) -> [f64; 2] {
    let times: Vec<f64> = times_us.iter().map(|&us| us as f64 / 1e6).collect();
    let [_, median, longest] = spread(&times);
    [median, longest]
}

/// The least, the median and the greatest.
fn spread(values: &[f64]) -> [f64; 3] {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    [
        at(0),
        at(values.len() / 2),
        at(values.len().saturating_sub(1)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_found_in_any_order() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), [1.0, 2.0, 3.0]);
        assert_eq!(
            median_and_longest(&[2_000_000, 1_000_000, 9_000_000]),
            [2.0, 9.0]
        );
        assert!(spread(&[])[1].is_nan());
    }
}

//! The result of a run as tables.
//!
//! What must never enter: figures that were not measured in this run.

use std::fmt::Write;

use serde::Serialize;

use super::bulk::BulkFigures;
use super::latency::{Kind, Latency};
use super::package::{FarFigures, PhaseFigures};
use crate::machine::Machine;

/// The section with places in braces.
const TEMPLATE: &str = include_str!("../../replication.md");

/// Under which conditions the figures were measured.
#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    /// Where.
    pub(crate) machine: Machine,
    /// Meridian's version.
    pub(crate) meridian: String,
    /// The package whose trace was played.
    pub(crate) package: String,
    /// How often work began after quiet.
    pub(crate) beginnings: usize,
    /// How many files followed each time.
    pub(crate) following: usize,
}

/// A run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Its conditions.
    pub(crate) conditions: Conditions,
    /// Single operations.
    pub(crate) latencies: Vec<Latency>,
    /// The package.
    pub(crate) phases: Vec<PhaseFigures>,
    /// The package at a server far away.
    pub(crate) far: Option<FarFigures>,
    /// One large file.
    pub(crate) bulk: Option<BulkFigures>,
}

impl Report {
    /// Without figures.
    pub(crate) fn new(conditions: Conditions) -> Self {
        Self {
            conditions,
            latencies: Vec::new(),
            phases: Vec::new(),
            far: None,
            bulk: None,
        }
    }

    /// The section of the published page.
    pub(crate) fn section(&self, date: &str) -> String {
        let conditions = &self.conditions;
        let machine = &conditions.machine;
        let places = [
            ("{date}", date.to_owned()),
            ("{meridian}", conditions.meridian.clone()),
            ("{package}", conditions.package.clone()),
            ("{beginnings}", conditions.beginnings.to_string()),
            ("{following}", conditions.following.to_string()),
            ("{first_table}", self.first()),
            ("{following_table}", self.following()),
            ("{package_table}", self.package()),
            ("{far}", self.far()),
            ("{bytes_table}", self.bytes()),
            ("{bulk}", self.bulk()),
        ];
        let mut section = machine.fill(TEMPLATE);
        for (place, value) in places {
            section = section.replace(place, value.trim_end());
        }
        section
    }

    /// All tables.
    pub(crate) fn tables(&self) -> String {
        [
            self.first(),
            self.following(),
            self.package(),
            self.far(),
            self.bytes(),
            self.bulk(),
        ]
        .join("\n")
    }

    /// The first operations after quiet, by round trips.
    fn first(&self) -> String {
        let mut table = String::from(
            "| operation | replicas | round trip (ms) | median (ms) | 95 % within (ms) | alone, median (ms) | median / round trip |\n\
             |---|--:|--:|--:|--:|--:|--:|\n",
        );
        let is_first = |one: &&Latency| matches!(one.kind, Kind::FirstCreate | Kind::FirstClose);
        for one in self.latencies.iter().filter(is_first) {
            let ratio = f64::from(one.replicated_us[0]) / one.round_trip_us.max(1) as f64;
            // Writing to a String cannot fail.
            let _ = writeln!(
                table,
                "| {} | {} | {} | {} | {} | {} | {ratio:.2} |",
                one.kind.title(),
                one.replicas,
                milliseconds(one.round_trip_us),
                milliseconds(one.replicated_us[0].into()),
                milliseconds(one.replicated_us[1].into()),
                milliseconds(one.alone_us[0].into()),
            );
        }
        table
    }

    /// Following operations, by what they take at a server that is alone.
    fn following(&self) -> String {
        let mut table = String::from(
            "| operation | replicas | round trip (ms) | median (µs) | 95 % within (µs) | alone, median (µs) | alone, 95 % within (µs) | ratio of medians |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|\n",
        );
        let is_following =
            |one: &&Latency| !matches!(one.kind, Kind::FirstCreate | Kind::FirstClose);
        let mut rows: Vec<&Latency> = self.latencies.iter().filter(is_following).collect();
        rows.sort_by_key(|one| (one.kind, one.replicas, one.distance_us));
        for one in rows {
            let ratio = f64::from(one.replicated_us[0]) / f64::from(one.alone_us[0].max(1));
            let _ = writeln!(
                table,
                "| {} | {} | {} | {} | {} | {} | {} | {ratio:.2} |",
                one.kind.title(),
                one.replicas,
                milliseconds(one.distance_us),
                one.replicated_us[0],
                one.replicated_us[1],
                one.alone_us[0],
                one.alone_us[1],
            );
        }
        table
    }

    /// The phases of the package.
    fn package(&self) -> String {
        let mut table = String::from(
            "| phase | replicas | round trip (ms) | pauses | set (s) | alone (s) | ratio | CPU of the first replica (s) | of the others (s) | CPU alone (s) |\n\
             |---|--:|--:|---|--:|--:|--:|--:|--:|--:|\n",
        );
        for one in &self.phases {
            let _ = writeln!(
                table,
                "| {} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
                one.phase,
                one.replicas,
                milliseconds(one.distance_us),
                if one.thinks { "yes" } else { "no" },
                one.replicated_s,
                one.alone_s,
                one.replicated_s / one.alone_s,
                one.first_cpu_s,
                one.others_cpu_s,
                one.alone_cpu_s,
            );
        }
        table
    }

    fn far(&self) -> String {
        let Some(far) = &self.far else {
            return String::new();
        };
        format!(
            "The first {} of {} steps of the first phase took {:.2} s at one server {} ms away, {:.2} s at the near \
             replica of two that far apart, and {:.2} s at one server near: the set is {:.0} times faster than the \
             far server, and takes {:.2} of the near one's time.\n",
            far.steps[0],
            far.steps[1],
            far.far_s,
            milliseconds(far.distance_us),
            far.replicated_s,
            far.alone_s,
            far.far_s / far.replicated_s,
            far.replicated_s / far.alone_s,
        )
    }

    /// What crossed the WAN for the phases of the package.
    fn bytes(&self) -> String {
        let mut table = String::from(
            "| phase | replicas | round trip (ms) | pauses | written (MB) | contents shipped (MB) | records (MB) | on the wire (MB) | contents / written, for each peer | all have it after (s) |\n\
             |---|--:|--:|---|--:|--:|--:|--:|--:|--:|\n",
        );
        for one in &self.phases {
            let peers = one.replicas.saturating_sub(1).max(1) as f64;
            let _ = writeln!(
                table,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {:.2} | {:.2} |",
                one.phase,
                one.replicas,
                milliseconds(one.distance_us),
                if one.thinks { "yes" } else { "no" },
                megabytes(one.written),
                megabytes(one.sent.content),
                megabytes(one.sent.records),
                megabytes(one.sent.wire),
                one.sent.content as f64 / peers / one.written.max(1) as f64,
                one.behind_s,
            );
        }
        table
    }

    fn bulk(&self) -> String {
        let Some(bulk) = &self.bulk else {
            return String::new();
        };
        let share = |seconds: f64| bulk.size as f64 * 8.0 / seconds / bulk.bandwidth as f64;
        let mut table = String::from(
            "| | seconds | share of the link | processor seconds |\n|---|--:|--:|---|\n",
        );
        let [first, second] = bulk.servers_cpu_s;
        let _ = writeln!(
            table,
            "| replicated, complete at the other site | {:.2} | {:.2} | {first:.1} and {second:.1} of the servers, {:.1} of clients and WAN |\n\
             | of it, until the client's close | {:.2} | | |\n\
             | plain TCP, 1 connection | {:.2} | {:.2} | {:.1} of both ends and WAN |\n\
             | plain TCP, 4 connections | {:.2} | {:.2} | {:.1} of both ends and WAN |\n",
            bulk.complete_s,
            share(bulk.complete_s),
            bulk.bench_cpu_s,
            bulk.written_s,
            bulk.tcp_s[0],
            share(bulk.tcp_s[0]),
            bulk.tcp_cpu_s[0],
            bulk.tcp_s[1],
            share(bulk.tcp_s[1]),
            bulk.tcp_cpu_s[1],
        );
        let _ = writeln!(
            table,
            "| mkdir by another client | before: median, 95 % within, longest (ms) | while the file is on its way (ms) |\n|---|---|---|"
        );
        for (site, name) in ["at the first site", "at the second site"]
            .iter()
            .enumerate()
        {
            let cell = |figures: [u32; 3]| figures.map(|us| milliseconds(us.into())).join(", ");
            let _ = writeln!(
                table,
                "| {name} | {} | {} |",
                cell(bulk.mkdir_before_us[site]),
                cell(bulk.mkdir_meanwhile_us[site])
            );
        }
        table
    }
}

/// Microseconds as milliseconds, with as many digits as mean something.
fn milliseconds(us: u64) -> String {
    let value = us as f64 / 1000.0;
    match us {
        0..10_000 => {
            let text = format!("{value:.2}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => format!("{value:.0}"),
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_few_digits() {
        assert_eq!(milliseconds(200), "0.2");
        assert_eq!(milliseconds(1_234), "1.23");
        assert_eq!(milliseconds(120_400), "120");
    }
}

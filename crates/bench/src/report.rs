//! The result of a run as tables.
//!
//! What must never enter: figures that were not measured in this run.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use askama::Template;
use bench::machine::Machine;
use bench::statistics::{Results, Summary};

use crate::bare::{self, Promise};
use crate::contender::Kind;
use crate::turn::{self, CLIENTS, Extent, figure};
use crate::workload::Workload;

/// The conditions of the measurements.
#[derive(Debug)]
pub(crate) struct Conditions {
    /// The machine.
    pub(crate) machine: Machine,
    /// Meridian's version.
    pub(crate) meridian: String,
    /// Ganesha's version.
    pub(crate) ganesha: String,
    /// The number of rounds.
    pub(crate) rounds: usize,
    /// The length of a workload without an end of its own.
    pub(crate) length: Duration,
    /// The number of bytes that all clients together wrote to large files in a turn.
    pub(crate) data_size: u64,
    /// The number of entries of the large directory.
    pub(crate) entries: usize,
}

impl Conditions {
    /// The amount of work in a turn.
    pub(crate) fn extent(&self) -> Extent {
        Extent {
            length: self.length,
            data_size: self.data_size,
        }
    }
}

/// A run.
#[derive(Debug)]
pub(crate) struct Report {
    /// Its conditions.
    pub(crate) conditions: Conditions,
    /// The results.
    pub(crate) results: Results,
}

/// The page of a run.
#[derive(Debug, Template)]
#[template(path = "server.md", escape = "none")]
struct Page<'a> {
    date: &'a str,
    conditions: &'a Conditions,
    machine: &'a Machine,
    others: String,
    without_durable_names: String,
    with_durable_names: String,
    costs: String,
}

impl Report {
    /// All tables, each under a heading.
    pub(crate) fn markdown(&self) -> String {
        format!(
            "## Throughput, names not yet durable when answered\n\n{}\n\
             ## Throughput, names durable when answered\n\n{}\n\
             ## Latency and processor time\n\n{}\n\
             Other programs used up to {} % of the processors during a turn.\n",
            self.throughput(Kind::MeridianAsync, Kind::Ganesha),
            self.throughput(Kind::MeridianSync, Kind::GaneshaDirsync),
            self.costs(),
            self.others_percent()
        )
    }

    /// The published page.
    pub(crate) fn page(&self, date: &str) -> Result<String> {
        let page = Page {
            date,
            conditions: &self.conditions,
            machine: &self.conditions.machine,
            others: self.others_percent(),
            without_durable_names: self.throughput(Kind::MeridianAsync, Kind::Ganesha),
            with_durable_names: self.throughput(Kind::MeridianSync, Kind::GaneshaDirsync),
            costs: self.costs(),
        };
        Ok(page.render()?)
    }

    /// The largest share of the processors that other programs used in any turn, in percent.
    fn others_percent(&self) -> String {
        let share = self.results.largest(figure::OTHERS).unwrap_or(0.0);
        format!("{:.0}", share * 100.0)
    }

    fn found(&self, workload: Workload, kind: Kind, clients: usize, name: &str) -> Option<Summary> {
        let point = turn::point(workload, kind, clients);
        self.results.summary(&point, name)
    }

    /// The upper limits for `kind`.
    fn limits(&self, workload: Workload, kind: Kind, clients: usize) -> Limits {
        let rate = |point| Some(self.results.summary(&point, figure::RATE)?.median);
        let requests = workload.requests().filter(|_| workload != Workload::Null);
        // The same for every promise of a server.
        let null = rate(turn::point(Workload::Null, Kind::MeridianAsync, clients));
        Limits {
            bare_loop: rate(bare::point(workload, Promise::of(kind), clients)),
            bare_rpc: null.zip(requests).map(|(null, requests)| null / requests),
        }
    }

    /// Medians with extremes in parentheses, side by side, and their ratio; then the limits, and how near the first median comes to them.
    fn throughput(&self, ours: Kind, theirs: Kind) -> String {
        let mut table = format!(
            "| workload | clients | {} | {} | ratio | bare loop | bare RPC | of both |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|\n",
            ours.title(),
            theirs.title()
        );
        for (workload, clients) in rows() {
            let rate = |kind| self.found(workload, kind, clients, figure::RATE);
            let (Some(our), Some(their)) = (rate(ours), rate(theirs)) else {
                continue;
            };
            let ratio = our.median / their.median;
            let (title, unit) = (workload.title(), workload.unit());
            let limits = self.limits(workload, ours, clients);
            let share = limits.share(our.median);
            // Writing to a String cannot fail.
            let _ = writeln!(
                table,
                "| {title} ({unit}) | {clients} | {} | {} | {ratio:.2} | {} | {} | {} |",
                cell(our),
                cell(their),
                known(limits.bare_loop, grouped),
                known(limits.bare_rpc, grouped),
                known(share, |share| format!("{share:.2}"))
            );
        }
        table
    }

    /// Latencies and costs of single operations.
    fn costs(&self) -> String {
        let mut table = String::from(
            "| workload | clients | server | median (µs) | 99 % within (µs) | server CPU (µs) | client CPU (µs) |\n\
             |---|--:|---|--:|--:|--:|--:|\n",
        );
        for (workload, clients) in rows() {
            let servers = Kind::ALL.map(|kind| turn::point(workload, kind, clients));
            let loops = Promise::ALL.map(|promise| bare::point(workload, promise, clients));
            for point in servers.into_iter().chain(loops) {
                let median = |name| Some(self.results.summary(&point, name)?.median);
                let values = [
                    figure::MEDIAN,
                    figure::MOST,
                    figure::SERVER_CPU,
                    figure::CLIENT_CPU,
                ];
                let values = values.map(median);
                let [Some(half), Some(most), Some(server), Some(client)] = values else {
                    continue;
                };
                let _ = writeln!(
                    table,
                    "| {} | {clients} | {} | {half:.0} | {most:.0} | {server:.1} | {client:.1} |",
                    point.panel, point.series
                );
            }
        }
        table
    }
}

/// The limits of the machine, in units of a workload per second.
struct Limits {
    /// Only the system calls.
    bare_loop: Option<f64>,
    /// Only the requests, which carry nothing.
    bare_rpc: Option<f64>,
}

impl Limits {
    /// The part that `rate` is of a rate with both costs in sequence.
    fn share(&self, rate: f64) -> Option<f64> {
        let rates = [self.bare_loop, self.bare_rpc].into_iter().flatten();
        let time: f64 = rates.map(|rate| 1.0 / rate).sum();
        (time > 0.0).then_some(rate * time)
    }
}

/// A figure, or a dash if there is none.
fn known(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

fn rows() -> impl Iterator<Item = (Workload, usize)> {
    Workload::ORDER
        .into_iter()
        .flat_map(|workload| CLIENTS.map(|clients| (workload, clients)))
}

/// `1,234 (1,200–1,300)`.
fn cell(spread: Summary) -> String {
    format!(
        "{} ({}–{})",
        grouped(spread.median),
        grouped(spread.low),
        grouped(spread.high)
    )
}

/// A number rounded to an integer, with commas between the thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_compared_with_both_limits_one_after_the_other() {
        let share = |bare_loop, bare_rpc| {
            let limits = Limits {
                bare_loop,
                bare_rpc,
            };
            known(limits.share(100.0), |share| format!("{share:.2}"))
        };
        assert_eq!(share(Some(200.0), Some(200.0)), "1.00");
        assert_eq!(share(Some(400.0), Some(1000.0)), "0.35");
        assert_eq!(share(None, Some(200.0)), "0.50");
        assert_eq!(share(None, None), "–");
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(0.4), "0");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(grouped(1000.0), "1,000");
        assert_eq!(grouped(1_234_567.0), "1,234,567");
    }
}

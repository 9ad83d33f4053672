//! Measurements, and what follows from many of them: medians, spreads, ratios.
//!
//! What must never enter: how they are shown.

use std::cmp::Ordering;

use serde::Serialize;

use crate::contender::Kind;
use crate::workload::Workload;

/// One workload, once.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Measurement {
    /// Which round, from zero.
    pub(crate) round: usize,
    /// Which server.
    pub(crate) server: Kind,
    /// Which workload.
    pub(crate) workload: Workload,
    /// How many clients.
    pub(crate) clients: usize,
    /// How much a second, in the workload's unit.
    pub(crate) rate: f64,
    /// The unit.
    pub(crate) unit: &'static str,
    /// How long it took, in seconds.
    pub(crate) seconds: f64,
    /// What half of the operations did not exceed, in microseconds.
    pub(crate) latency_median_us: u32,
    /// What 99 of 100 operations did not exceed, in microseconds.
    pub(crate) latency_p99_us: u32,
    /// Processor time of the server for each unit of work, in microseconds.
    pub(crate) server_cpu_us: f64,
    /// Processor time of the clients for each unit of work, in microseconds.
    pub(crate) client_cpu_us: f64,
}

/// All measurements of a run.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Figures(Vec<Measurement>);

/// A median between the extremes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// The smallest.
    pub(crate) low: f64,
    /// The one in the middle, or between the two in the middle.
    pub(crate) median: f64,
    /// The largest.
    pub(crate) high: f64,
}

impl Figures {
    /// Adds a measurement.
    pub(crate) fn add(&mut self, measurement: Measurement) {
        self.0.push(measurement);
    }

    /// Takes in all measurements of another.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// One value of all measurements of this kind.
    pub(crate) fn spread(
        &self,
        server: Kind,
        workload: Workload,
        clients: usize,
        value: impl Fn(&Measurement) -> f64,
    ) -> Option<Spread> {
        let matching = self.0.iter().filter(|one| {
            one.server == server && one.workload == workload && one.clients == clients
        });
        Spread::of(matching.map(value).collect())
    }
}

impl Spread {
    /// The spread of some values; none of no values.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        let (low, high) = (*values.first()?, *values.last()?);
        let half = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[half],
            _ => f64::midpoint(values[half - 1], values[half]),
        };
        Some(Self { low, median, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        let of = |values: &[f64]| Spread::of(values.to_vec()).map(|spread| spread.median);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(of(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(of(&[]), None);
        let spread = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!(
            spread.map(|spread| (spread.low, spread.high)),
            Some((1.0, 3.0))
        );
    }
}

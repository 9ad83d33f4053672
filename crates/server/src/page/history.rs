//! The recent activity and traffic of the server, for the charts of the page.
//!
//! What must never enter: older data; Prometheus keeps it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::metrics::TimeTaken;

/// The interval between samples of the counters.
pub(crate) const SAMPLED_EVERY: Duration = Duration::from_secs(2);

/// How far back the charts reach.
pub(super) const SPAN: Duration = Duration::from_secs(600);

/// The maximum number of samples: one more than the intervals, because rates are between two samples.
const SAMPLES_MAX: usize = (SPAN.as_secs() / SAMPLED_EVERY.as_secs()) as usize + 1;

/// Values of counters at one moment, all since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// NFS operations executed.
    pub(crate) operations: u64,
    /// Bytes sent to other replicas, as they went over the wire.
    pub(crate) sent_bytes: u64,
    /// Bytes received from them.
    pub(crate) received_bytes: u64,
    /// Operations that read data.
    pub(crate) reads: TimeTaken,
    /// Operations that change something.
    pub(crate) changes: TimeTaken,
}

/// The activity between two samples, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    /// The age of the later sample.
    pub(super) age: Duration,
    /// Operations.
    pub(super) operations: f64,
    /// Bytes to other replicas.
    pub(super) sent_bytes: f64,
    /// Bytes from them.
    pub(super) received_bytes: f64,
    /// The average time of an operation that reads data, in seconds; 0 if there was none.
    pub(super) read_seconds: f64,
    /// The same for operations that change something.
    pub(super) change_seconds: f64,
}

/// Samples of the last minutes, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History(VecDeque<(Instant, Sample)>);

impl History {
    /// Adds the current values of the counters.
    pub(crate) fn add(&mut self, now: Instant, sample: Sample) {
        while self.0.len() >= SAMPLES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((now, sample));
    }

    /// The rates between samples within the span of the charts, oldest first.
    pub(crate) fn rates(&self, now: Instant) -> Vec<Rate> {
        let later = self.0.iter().skip(1);
        let rates = self.0.iter().zip(later).filter_map(|(one, other)| {
            let rate = between(*one, *other, now)?;
            (rate.age <= SPAN).then_some(rate)
        });
        rates.collect()
    }
}

fn between(
    (began, before): (Instant, Sample),
    (ended, after): (Instant, Sample),
    now: Instant,
) -> Option<Rate> {
    let seconds = ended.saturating_duration_since(began).as_secs_f64();
    // When a peer leaves the set, its counters disappear. Otherwise no counter decreases.
    let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
    (seconds > 0.0).then(|| Rate {
        age: now.saturating_duration_since(ended),
        operations: rate(before.operations, after.operations),
        sent_bytes: rate(before.sent_bytes, after.sent_bytes),
        received_bytes: rate(before.received_bytes, after.received_bytes),
        read_seconds: average(before.reads, after.reads),
        change_seconds: average(before.changes, after.changes),
    })
}

fn average(before: TimeTaken, after: TimeTaken) -> f64 {
    let operations = after.operations.saturating_sub(before.operations);
    let took = after.took.saturating_sub(before.took).as_secs_f64();
    if operations > 0 {
        took / operations as f64
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(operations: u64, sent_bytes: u64) -> Sample {
        Sample {
            operations,
            sent_bytes,
            changes: TimeTaken {
                operations,
                took: Duration::from_millis(operations * 4),
            },
            ..Sample::default()
        }
    }

    #[test]
    fn rates_lie_between_samples_and_never_below_nothing() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut history = History::default();
        assert!(history.rates(at(9)).is_empty());
        history.add(at(0), sample(100, 1000));
        history.add(at(2), sample(300, 5000));
        history.add(at(2), sample(300, 5000));
        history.add(at(6), sample(300, 2000));
        let rates = history.rates(at(9));
        let told: Vec<_> = rates
            .iter()
            .map(|rate| (rate.age.as_secs(), rate.operations, rate.sent_bytes))
            .collect();
        assert_eq!(told, [(7, 100.0, 2000.0), (3, 0.0, 0.0)]);
        let times = rates
            .iter()
            .map(|rate| (rate.read_seconds, rate.change_seconds));
        assert_eq!(times.collect::<Vec<_>>(), [(0.0, 0.004), (0.0, 0.0)]);
        assert_eq!(
            history.rates(at(604)).len(),
            1,
            "what is too old is not drawn"
        );
    }

    #[test]
    fn it_stays_small_however_long_the_server_runs() {
        let start = Instant::now();
        let mut history = History::default();
        for second in 0..10_000 {
            history.add(start + Duration::from_secs(second), sample(second, 0));
        }
        assert_eq!(history.0.len(), SAMPLES_MAX);
    }
}

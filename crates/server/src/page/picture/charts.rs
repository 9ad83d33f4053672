//! The charts: operations of clients, and bytes between sites.
//!
//! What must never enter: how lines are drawn.

use std::time::Duration;

use crate::page::chart::{peak, points};
use crate::page::history::{Rate, SPAN};
use crate::status::{duration, size};

/// Charts are not stretched beyond this, so that the first moments do not look like more than they are.
const SPAN_MIN: Duration = Duration::from_secs(60);

/// Lines over the last minutes, with one scale.
pub(super) struct Chart {
    pub(super) title: &'static str,
    /// How far back it reaches.
    pub(super) span: String,
    /// The value at the top.
    pub(super) peak: String,
    pub(super) lines: Vec<Line>,
}

/// One line.
pub(super) struct Line {
    pub(super) label: &'static str,
    /// The last value.
    pub(super) now: String,
    /// The corners.
    pub(super) points: String,
}

type Value = fn(&Rate) -> f64;

/// The charts that apply; those of the set only where there is one.
pub(super) fn charts(rates: &[Rate], in_a_set: bool) -> Vec<Chart> {
    let operations: Value = |rate| rate.operations;
    let mut charts = vec![chart(
        "Operations of clients",
        &[("executed here", operations)],
        rates,
        per_second,
    )];
    if in_a_set {
        let (sent, received): (Value, Value) = (|rate| rate.sent_bytes, |rate| rate.received_bytes);
        let lines = [("sent", sent), ("received", received)];
        charts.push(chart("Between sites", &lines, rates, bytes_per_second));
    }
    charts
}

fn chart(
    title: &'static str,
    lines: &[(&'static str, Value)],
    rates: &[Rate],
    written: fn(f64) -> String,
) -> Chart {
    let all = lines.iter().flat_map(|(_, value)| rates.iter().map(value));
    let peak = peak(all);
    let oldest = rates.first().map_or(SPAN_MIN, |rate| rate.age);
    let span = oldest.clamp(SPAN_MIN, SPAN);
    let line = |(label, value): &(&'static str, Value)| {
        let corners = rates.iter().map(|rate| (rate.age, value(rate)));
        let corners: Vec<(Duration, f64)> = corners.collect();
        let now = corners.last().map_or(0.0, |(_, value)| *value);
        Line {
            label,
            now: written(now),
            points: points(corners.into_iter(), span, peak),
        }
    };
    Chart {
        title,
        span: duration(span.as_secs()),
        peak: written(peak),
        lines: lines.iter().map(line).collect(),
    }
}

fn per_second(rate: f64) -> String {
    match rate {
        rate if rate < 10.0 => format!("{rate:.1}/s"),
        rate => format!("{rate:.0}/s"),
    }
}

fn bytes_per_second(rate: f64) -> String {
    // Casts saturate.
    format!("{}/s", size(rate as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lines_share_one_scale() {
        let rate = |seconds, sent_bytes, received_bytes| Rate {
            age: Duration::from_secs(seconds),
            operations: 0.0,
            sent_bytes,
            received_bytes,
        };
        let rates = [rate(600, 2048.0, 0.0), rate(0, 0.0, 1024.0)];
        let charts = charts(&rates, true);
        assert_eq!(
            (charts[0].peak.as_str(), charts[0].span.as_str()),
            ("0.0/s", "10 min 0 s")
        );
        let between = &charts[1];
        assert_eq!(between.peak, "2.0 KiB/s");
        let told: Vec<_> = between
            .lines
            .iter()
            .map(|line| (line.label, line.now.as_str(), line.points.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                ("sent", "0 B/s", "0.0,4.0 600.0,100.0"),
                ("received", "1.0 KiB/s", "0.0,100.0 600.0,52.0")
            ]
        );
        let young = super::charts(&[rate(3, 0.0, 0.0)], false);
        assert_eq!((young.len(), young[0].span.as_str()), (1, "1 min 0 s"));
    }
}

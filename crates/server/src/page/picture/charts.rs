//! The charts: operations of clients, their times, and bytes between sites.
//!
//! What must never enter: the drawing of lines.

use std::time::Duration;

use crate::page::chart::{points, top};
use crate::page::history::{Rate, SPAN};
use crate::status::{duration, size};

/// The minimum span of a chart, so that the first moments are not exaggerated.
const SPAN_MIN: Duration = Duration::from_secs(60);

/// Lines over the last minutes, with one scale.
pub(super) struct Chart {
    pub(super) title: &'static str,
    /// The span of the chart.
    pub(super) span: String,
    /// Half of that.
    pub(super) halfway: String,
    /// The value at the top of the scale, and half of it. The bottom is 0.
    pub(super) top: String,
    pub(super) middle: String,
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

/// How values are formatted.
struct Unit {
    written: fn(f64) -> String,
    /// The base of its scale; see [`top`].
    base: f64,
}

const PER_SECOND: Unit = Unit {
    written: per_second,
    base: 10.0,
};
const BYTES_PER_SECOND: Unit = Unit {
    written: bytes_per_second,
    base: 1024.0,
};
const SECONDS: Unit = Unit {
    written: seconds,
    base: 10.0,
};

/// The applicable charts; those of the set only if there is one.
pub(super) fn charts(rates: &[Rate], in_a_set: bool) -> Vec<Chart> {
    let operations: Value = |rate| rate.operations;
    let (reads, changes): (Value, Value) = (|rate| rate.read_seconds, |rate| rate.change_seconds);
    let mut charts = vec![
        chart(
            "Operations of clients",
            &[("executed here", operations)],
            rates,
            &PER_SECOND,
        ),
        chart(
            "Time of an operation, on average",
            &[("reads", reads), ("changes", changes)],
            rates,
            &SECONDS,
        ),
    ];
    if in_a_set {
        let (sent, received): (Value, Value) = (|rate| rate.sent_bytes, |rate| rate.received_bytes);
        let lines = [("sent", sent), ("received", received)];
        charts.push(chart("Between sites", &lines, rates, &BYTES_PER_SECOND));
    }
    charts
}

fn chart(
    title: &'static str,
    lines: &[(&'static str, Value)],
    rates: &[Rate],
    unit: &Unit,
) -> Chart {
    let all = lines.iter().flat_map(|(_, value)| rates.iter().map(value));
    let top = top(all, unit.base);
    let oldest = rates.first().map_or(SPAN_MIN, |rate| rate.age);
    let span = oldest.clamp(SPAN_MIN, SPAN);
    let line = |(label, value): &(&'static str, Value)| {
        let corners = rates.iter().map(|rate| (rate.age, value(rate)));
        let corners: Vec<(Duration, f64)> = corners.collect();
        let now = corners.last().map_or(0.0, |(_, value)| *value);
        Line {
            label,
            now: (unit.written)(now),
            points: points(corners.into_iter(), span, top),
        }
    };
    Chart {
        title,
        span: duration(span.as_secs()),
        halfway: duration(span.as_secs() / 2),
        top: (unit.written)(top),
        middle: (unit.written)(top / 2.0),
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

fn seconds(seconds: f64) -> String {
    match seconds {
        none if none <= 0.0 => "0".to_owned(),
        short if short < 1e-3 => format!("{:.0} µs", short * 1e6),
        short if short < 1e-2 => format!("{:.1} ms", short * 1e3),
        middle if middle < 1.0 => format!("{:.0} ms", middle * 1e3),
        long => format!("{long:.1} s"),
    }
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
            read_seconds: 0.000_25,
            change_seconds: 0.12,
        };
        let rates = [rate(600, 2048.0, 0.0), rate(0, 0.0, 1024.0)];
        let charts = charts(&rates, true);
        assert_eq!(
            (charts[0].top.as_str(), charts[0].span.as_str()),
            ("1.0/s", "10 min 0 s")
        );
        let times = &charts[1];
        let now: Vec<_> = times.lines.iter().map(|line| line.now.as_str()).collect();
        assert_eq!(now, ["250 µs", "120 ms"]);
        assert_eq!(
            (times.top.as_str(), times.middle.as_str()),
            ("200 ms", "100 ms")
        );
        let between = &charts[2];
        assert_eq!(
            (between.top.as_str(), between.middle.as_str()),
            ("2.0 KiB/s", "1.0 KiB/s")
        );
        let told: Vec<_> = between
            .lines
            .iter()
            .map(|line| (line.label, line.now.as_str(), line.points.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                ("sent", "0 B/s", "0.0,0.0 600.0,100.0"),
                ("received", "1.0 KiB/s", "0.0,100.0 600.0,50.0")
            ]
        );
        let young = super::charts(&[rate(3, 0.0, 0.0)], false);
        assert_eq!((young.len(), young[0].span.as_str()), (2, "1 min 0 s"));
    }
}

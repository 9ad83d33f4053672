//! Lines over the last minutes, in the coordinates of an SVG picture.
//!
//! What must never enter: the meaning of the lines, and HTML.

use std::time::Duration;

/// The width of a picture; the current moment is at the right.
const WIDTH: f64 = 600.0;
/// The height, up to the value at the top of the scale.
const HEIGHT: f64 = 100.0;

/// The points of a line, in the format of the attribute `points` of a `polyline` (SVG 2, section 10.7). The picture
/// covers the time `span`, and `top` is the value at its top.
pub(super) fn points(
    values: impl Iterator<Item = (Duration, f64)>,
    span: Duration,
    top: f64,
) -> String {
    let corners = values.map(|(age, value)| {
        let x = WIDTH * (1.0 - part(age.as_secs_f64(), span.as_secs_f64()));
        let y = HEIGHT * (1.0 - part(value, top));
        format!("{x:.1},{y:.1}")
    });
    corners.collect::<Vec<_>>().join(" ")
}

/// The fraction of a whole; 0 if the whole is 0.
fn part(some: f64, whole: f64) -> f64 {
    if whole > 0.0 { some / whole } else { 0.0 }
}

/// The value at the top of a scale that begins at 0 and includes all values: 1, 2 or 5 times a power of the base, so
/// that it and its half are easy to read.
pub(super) fn top(values: impl Iterator<Item = f64>, base: f64) -> f64 {
    let peak = values.fold(0.0, f64::max);
    if peak <= 0.0 || !peak.is_finite() {
        return 1.0;
    }
    // A base of 1024 is divided in steps of 10, as people count KiB.
    let unit = base.powf(peak.log(base).floor());
    let mut step = unit;
    while step * 10.0 < peak {
        step *= 10.0;
    }
    let steps = [1.0, 2.0, 5.0, 10.0].map(|times| times * step);
    let fitting = steps.into_iter().find(|step| *step >= peak);
    fitting.unwrap_or(peak)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_from_left_to_right_and_up_to_its_peak() {
        let ages = [600, 300, 0].map(Duration::from_secs);
        let values = [0.0, 5.0, 10.0];
        let line = ages.into_iter().zip(values);
        assert_eq!(
            points(line, ages[0], top(values.into_iter(), 10.0)),
            "0.0,100.0 300.0,50.0 600.0,0.0"
        );
        let still = ages.into_iter().map(|age| (age, 0.0));
        assert_eq!(
            points(still, ages[0], 1.0),
            "0.0,100.0 300.0,100.0 600.0,100.0"
        );
    }

    #[test]
    fn scales_end_at_round_numbers_and_hold_everything() {
        let of = |peak: f64, base| top([0.0, peak].into_iter(), base);
        let decimal = [0.0, 0.000_3, 0.9, 1.0, 7.0, 11.0, 450.0].map(|peak| of(peak, 10.0));
        let expected = [1.0, 0.000_5, 1.0, 1.0, 10.0, 20.0, 500.0];
        for (got, wanted) in decimal.into_iter().zip(expected) {
            assert!((got - wanted).abs() < wanted * 1e-9, "{got} {wanted}");
        }
        let binary = [1500.0, 300.0 * 1024.0, 3.0 * 1024.0 * 1024.0].map(|peak| of(peak, 1024.0));
        assert_eq!(binary, [2048.0, 500.0 * 1024.0, 5.0 * 1024.0 * 1024.0]);
        for peak in 1..3000 {
            assert!(of(f64::from(peak), 1024.0) >= f64::from(peak), "{peak}");
        }
    }
}

//! Lines over the last minutes, in the coordinates of an SVG picture.
//!
//! What must never enter: what the lines mean, and HTML.

use std::time::Duration;

/// The width of a picture, with this moment at the right.
const WIDTH: f64 = 600.0;
/// The height, with a little room above the highest value.
const HEIGHT: f64 = 100.0;
const ABOVE: f64 = 4.0;

/// The corners of a line, as the attribute `points` of a `polyline` has them (SVG 2, section 10.7). The picture is `span` of
/// time wide, and has `peak` at the top.
pub(super) fn points(
    values: impl Iterator<Item = (Duration, f64)>,
    span: Duration,
    peak: f64,
) -> String {
    let corners = values.map(|(age, value)| {
        let x = WIDTH * (1.0 - part(age.as_secs_f64(), span.as_secs_f64()));
        let y = HEIGHT - part(value, peak) * (HEIGHT - ABOVE);
        format!("{x:.1},{y:.1}")
    });
    corners.collect::<Vec<_>>().join(" ")
}

/// What part of a whole something is; none where there is nothing.
fn part(some: f64, whole: f64) -> f64 {
    if whole > 0.0 { some / whole } else { 0.0 }
}

/// The largest of values that are none of them below nothing.
pub(super) fn peak(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
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
            points(line, ages[0], peak(values.into_iter())),
            "0.0,100.0 300.0,52.0 600.0,4.0"
        );
        let still = ages.into_iter().map(|age| (age, 0.0));
        assert_eq!(
            points(still, ages[0], 0.0),
            "0.0,100.0 300.0,100.0 600.0,100.0"
        );
    }
}

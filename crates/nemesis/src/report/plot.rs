//! Curves over time as SVG, with the faults behind them.
//!
//! What must never enter: what the curves mean.

use std::fmt::Write;

/// The size of a plot, in pixels.
const WIDTH: f64 = 1080.0;
const HEIGHT: f64 = 200.0;
/// What is left of it for words.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 15.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 26.0;

/// Colours that people with every kind of sight can tell apart (Okabe and Ito, 2008).
const COLOURS: [&str; 5] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"];

/// The colour of a site.
pub fn colour(site: usize) -> &'static str {
    COLOURS[site % COLOURS.len()]
}

/// A curve: its points, as seconds and values; none where nothing is known.
#[derive(Debug, Clone)]
pub struct Curve {
    /// What it shows.
    pub name: String,
    /// Its colour.
    pub colour: &'static str,
    /// Seconds and values.
    pub points: Vec<(f64, Option<f64>)>,
}

/// A time in which something was broken.
#[derive(Debug, Clone)]
pub struct Band {
    /// What, in a word.
    pub name: String,
    /// Whose colour.
    pub colour: &'static str,
    /// Seconds.
    pub begin: f64,
    /// Seconds.
    pub end: f64,
}

/// A plot of curves over a time from zero to `length` seconds.
pub fn plot(title: &str, unit: &str, length: f64, curves: &[Curve], bands: &[Band]) -> String {
    let values = curves.iter().flat_map(|curve| &curve.points);
    let greatest = values.filter_map(|(_, value)| *value).fold(0.0, f64::max);
    let top = nice(greatest);
    let x = |time: f64| LEFT + (WIDTH - LEFT - RIGHT) * (time / length.max(1e-9)).clamp(0.0, 1.0);
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value / top).clamp(0.0, 1.0);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n\
         <text x=\"{LEFT}\" y=\"12\" class=\"title\">{}</text>\n",
        escaped(title),
        escaped(title)
    );
    for (number, band) in bands.iter().enumerate() {
        let (left, right) = (x(band.begin), x(band.end));
        let row = 22.0 + 9.0 * (number % 2) as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\" \
             fill-opacity=\"0.13\"><title>{}</title></rect>\
             <text x=\"{left:.1}\" y=\"{row:.1}\" class=\"band\" fill=\"{}\">{}</text>",
            (right - left).max(1.0),
            HEIGHT - TOP - BOTTOM,
            band.colour,
            escaped(&band.name),
            band.colour,
            escaped(band.name.split(' ').next().unwrap_or_default())
        );
    }
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{:.1}\" y2=\"{:.1}\" class=\"grid\"/>\
             <text x=\"{}\" y=\"{:.1}\" class=\"value\">{}</text>",
            WIDTH - RIGHT,
            y(value),
            y(value),
            LEFT - 6.0,
            y(value) + 3.5,
            number(value)
        );
    }
    let every = nice(length / 10.0);
    let mut time = 0.0;
    while time <= length {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" class=\"time\">{} s</text>",
            x(time),
            HEIGHT - 10.0,
            number(time)
        );
        time += every;
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" class=\"value\">{}</text>",
        LEFT - 6.0,
        TOP - 8.0,
        escaped(unit)
    );
    for curve in curves {
        for part in curve.points.split(|(_, value)| value.is_none()) {
            let points: Vec<String> = part
                .iter()
                .filter_map(|(time, value)| Some(format!("{:.1},{:.1}", x(*time), y((*value)?))))
                .collect();
            if points.len() > 1 {
                let _ = writeln!(
                    svg,
                    "<polyline points=\"{}\" stroke=\"{}\"><title>{}</title></polyline>",
                    points.join(" "),
                    curve.colour,
                    escaped(&curve.name)
                );
            }
        }
    }
    svg + "</svg>\n"
}

/// The next of 1, 2 and 5 times a power of ten.
fn nice(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let step = steps
        .into_iter()
        .find(|step| step * power >= value * 0.999_999);
    step.unwrap_or(10.0) * power
}

fn number(value: f64) -> String {
    match value {
        value if value.fract().abs() < 1e-9 => format!("{value:.0}"),
        value if value < 1.0 => format!("{value:.2}"),
        value => format!("{value:.1}"),
    }
}

/// Text that cannot be taken for markup.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_curves_in_parts_and_its_bands() {
        let curve = Curve {
            name: "paris".to_owned(),
            colour: colour(0),
            points: [Some(1.0), Some(2.0), None, Some(3.0), Some(9.0)]
                .into_iter()
                .enumerate()
                .map(|(time, value)| (time as f64, value))
                .collect(),
        };
        let band = Band {
            name: "kill <paris>".to_owned(),
            colour: colour(1),
            begin: 1.0,
            end: 2.0,
        };
        let svg = plot("throughput", "1/s", 5.0, &[curve], &[band]);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<rect").count(), 1);
        assert!(svg.contains("&lt;paris&gt;"));
    }

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, round) in [
            (0.0, 1.0),
            (0.7, 1.0),
            (3.0, 5.0),
            (11.0, 20.0),
            (50.0, 50.0),
        ] {
            assert!((nice(value) - round).abs() < 1e-9, "{value}");
        }
    }
}

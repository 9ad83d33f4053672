//! Curves over seconds, with bands behind them for events.
//!
//! What must never enter: what the curves and the bands mean.

use super::scale::{Scale, Span};
use super::svg::Svg;

/// The size of a picture, in pixels.
const WIDTH: f64 = 1080.0;
const HEIGHT: f64 = 200.0;
/// The margins for text.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 15.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 26.0;

/// Names of bands alternate over this number of rows, because neighbours often begin close together.
const ROWS: usize = 2;

/// A picture of curves from zero to `length` seconds.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// Its title.
    pub title: String,
    /// The unit of values.
    pub unit: &'static str,
    /// The number of seconds that it shows.
    pub length: f64,
    /// The curves.
    pub curves: Vec<Curve>,
    /// The bands for events.
    pub bands: Vec<Band>,
}

/// A curve: its points, as seconds and values; no value if it is unknown.
#[derive(Debug, Clone)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Its colour, see [`crate::colour`].
    pub colour: &'static str,
    /// Seconds and values.
    pub points: Vec<(f64, Option<f64>)>,
}

/// The time of an event.
#[derive(Debug, Clone)]
pub struct Band {
    /// Its name; the first word is written above it.
    pub name: String,
    /// Its colour.
    pub colour: &'static str,
    /// Seconds.
    pub begin: f64,
    /// Seconds.
    pub end: f64,
}

/// The positions of seconds and values in the picture.
struct Axes {
    time: Span,
    values: Span,
}

impl Axes {
    fn x(&self, time: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * self.time.place(time)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * self.values.place(value)
    }
}

impl Timeline {
    /// The whole picture.
    pub fn svg(&self) -> String {
        let values = self.curves.iter().flat_map(|curve| &curve.points);
        let values = values.filter_map(|(_, value)| *value);
        let axes = Axes {
            time: Span::to(self.length),
            values: Span::over(Scale::Linear, values),
        };
        let mut svg = Svg::new(WIDTH, HEIGHT, &self.title);
        svg.bold(LEFT, 15.0, 13.0, &self.title);
        for (number, band) in self.bands.iter().enumerate() {
            band.draw(&mut svg, &axes, number % ROWS);
        }
        for (value, label) in axes.values.ticks() {
            let y = axes.y(value);
            svg.line((LEFT, y), (WIDTH - RIGHT, y), "stroke=\"#dddddd\"");
            svg.text(LEFT - 6.0, y + 4.0, "end", &label);
        }
        for (time, label) in axes.time.ticks() {
            svg.text(axes.x(time), HEIGHT - 10.0, "middle", &format!("{label} s"));
        }
        svg.text(LEFT - 6.0, TOP - 12.0, "end", self.unit);
        for curve in &self.curves {
            curve.draw(&mut svg, &axes);
        }
        svg.finish()
    }
}

impl Curve {
    fn draw(&self, svg: &mut Svg, axes: &Axes) {
        let style = format!("stroke=\"{}\" stroke-width=\"1.4\"", self.colour);
        for part in self.points.split(|(_, value)| value.is_none()) {
            let place =
                |(time, value): &(f64, Option<f64>)| Some((axes.x(*time), axes.y((*value)?)));
            let places: Vec<(f64, f64)> = part.iter().filter_map(place).collect();
            if places.len() > 1 {
                svg.named(&self.name, |svg| svg.path(&places, &style));
            }
        }
    }
}

impl Band {
    fn draw(&self, svg: &mut Svg, axes: &Axes, row: usize) {
        let (left, right) = (axes.x(self.begin), axes.x(self.end));
        let size = ((right - left).max(1.0), HEIGHT - TOP - BOTTOM);
        let style = format!("fill=\"{}\" fill-opacity=\"0.13\"", self.colour);
        let word = self.name.split(' ').next().unwrap_or_default();
        svg.named(&self.name, |svg| {
            svg.rectangle((left, TOP), size, &style);
            svg.small(left, 26.0 + 10.0 * row as f64, self.colour, word);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour;

    #[test]
    fn a_curve_has_gaps_and_bands_stand_behind_it() {
        let values = [Some(1.0), Some(2.0), None, Some(3.0), Some(9.0)];
        let points = values.into_iter().enumerate();
        let curve = Curve {
            name: "paris".to_owned(),
            colour: colour(0),
            points: points.map(|(time, value)| (time as f64, value)).collect(),
        };
        let band = Band {
            name: "kill <paris>".to_owned(),
            colour: colour(1),
            begin: 1.0,
            end: 2.0,
        };
        let timeline = Timeline {
            title: "throughput".to_owned(),
            unit: "1/s",
            length: 5.0,
            curves: vec![curve],
            bands: vec![band],
        };
        let svg = timeline.svg();
        crate::svg::check(&svg);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("fill-opacity").count(), 1);
        assert!(svg.contains("kill &lt;paris&gt;"), "{svg}");
    }

    #[test]
    fn nothing_measured_is_drawn_too() {
        let timeline = Timeline {
            title: String::new(),
            unit: "",
            length: 0.0,
            curves: Vec::new(),
            bands: Vec::new(),
        };
        crate::svg::check(&timeline.svg());
    }
}

//! One pair of axes, and the marks between them.
//!
//! What must never enter: the legend, and where other charts are.

use super::marks::{Bars, CHART, Chart, Line, Marks, Sample, Value, colour};
use super::scale::{Scale, Span};
use super::svg::{Svg, text_width};

/// Space beside the area of a chart: left, right, above, below.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 22.0;
const ABOVE: f64 = 28.0;
const BELOW: f64 = 48.0;

/// Half the size of a mark.
const MARK: f64 = 4.0;

/// The area of a chart in the picture.
#[derive(Debug, Clone, Copy)]
struct Area {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Area {
    fn at(corner: (f64, f64)) -> Self {
        Self {
            left: corner.0 + LEFT,
            top: corner.1 + ABOVE,
            width: CHART.0 - LEFT - RIGHT,
            height: CHART.1 - ABOVE - BELOW,
        }
    }

    fn bottom(self) -> f64 {
        self.top + self.height
    }

    fn x(self, place: f64) -> f64 {
        self.left + place * self.width
    }

    fn y(self, place: f64) -> f64 {
        self.bottom() - place * self.height
    }
}

impl Chart {
    /// Draws it with its upper left corner here; colours depend on the place of a series among `names`.
    pub(super) fn draw(&self, svg: &mut Svg, corner: (f64, f64), names: &[&str]) {
        let area = Area::at(corner);
        svg.bold(area.left, corner.1 + 16.0, 13.0, &self.title);
        let y = Span::over(self.y.scale, self.values());
        for (value, label) in y.ticks() {
            let height = area.y(y.place(value));
            let end = (area.left + area.width, height);
            svg.line((area.left, height), end, "stroke=\"#e4e4e4\"");
            svg.text(area.left - 7.0, height + 4.0, "end", &label);
        }
        let middle = area.top + area.height / 2.0;
        svg.upright(corner.0 + 16.0, middle, &self.y.title);
        let below = area.bottom() + 38.0;
        svg.text(area.x(0.5), below, "middle", &self.x.title);
        match &self.marks {
            Marks::Lines(lines) => self.draw_lines(svg, area, &y, lines, names),
            Marks::Bars { groups, series } => draw_bars(svg, area, &y, groups, series, names),
        }
        let ends = [(0.0, 1.0), (0.0, 0.0), (1.0, 0.0)].map(|(x, y)| (area.x(x), area.y(y)));
        svg.path(&ends, "stroke=\"#333333\"");
    }

    /// All values that the vertical axis must show.
    fn values(&self) -> impl Iterator<Item = f64> {
        let values: Vec<Value> = match &self.marks {
            Marks::Lines(lines) => {
                let dots = lines.iter().flat_map(|line| &line.dots);
                dots.map(|(_, value)| *value).collect()
            }
            Marks::Bars { series, .. } => {
                let values = series.iter().flat_map(|bars| &bars.values);
                values.copied().flatten().collect()
            }
        };
        // The foot of a bar on a logarithmic axis must lie well below its head.
        let space = match (&self.marks, self.y.scale) {
            (Marks::Bars { .. }, Scale::Log) => 4.0,
            _ => 1.0,
        };
        let ends = values.into_iter();
        ends.flat_map(move |value| [value.low / space, value.mean, value.high])
    }

    fn draw_lines(&self, svg: &mut Svg, area: Area, y: &Span, lines: &[Line], names: &[&str]) {
        let places = lines.iter().flat_map(|line| &line.dots);
        let x = Span::over(self.x.scale, places.map(|(x, _)| *x));
        for (value, label) in x.ticks() {
            let at = area.x(x.place(value));
            let (top, end) = ((at, area.bottom()), (at, area.bottom() + 5.0));
            svg.line(top, end, "stroke=\"#333333\"");
            svg.text(at, area.bottom() + 18.0, "middle", &label);
        }
        for line in lines {
            let number = number_of(names, &line.name);
            let place = |(at, value): &(f64, Value)| {
                let spread = [value.low, value.high].map(|value| area.y(y.place(value)));
                ((area.x(x.place(*at)), area.y(y.place(value.mean))), spread)
            };
            let dots: Vec<_> = line.dots.iter().map(place).collect();
            let through: Vec<(f64, f64)> = dots.iter().map(|(dot, _)| *dot).collect();
            svg.path(&through, &stroke(number, line.is_reference));
            for (dot, [low, high]) in dots {
                whisker(svg, dot.0, low, high, colour(number));
                mark(svg, dot, number);
            }
        }
    }
}

fn draw_bars(
    svg: &mut Svg,
    area: Area,
    y: &Span,
    groups: &[String],
    series: &[Bars],
    names: &[&str],
) {
    let group_width = area.width / groups.len().max(1) as f64;
    let width = (group_width * 0.8 / series.len().max(1) as f64).min(60.0);
    for (index, group) in groups.iter().enumerate() {
        let middle = area.left + group_width * (index as f64 + 0.5);
        label(svg, (middle, area.bottom() + 16.0), group, group_width);
        let first = middle - width * series.len() as f64 / 2.0;
        for (number, bars) in series.iter().enumerate() {
            let Some(Some(value)) = bars.values.get(index) else {
                continue;
            };
            let colour = colour(number_of(names, &bars.name));
            let [mean, low, high] =
                [value.mean, value.low, value.high].map(|value| area.y(y.place(value)));
            let left = first + width * number as f64;
            let style = format!("class=\"bar\" fill=\"{colour}\"");
            let size = (width * 0.88, area.bottom() - mean);
            svg.rectangle((left, mean), size, &style);
            whisker(svg, left + width * 0.44, low, high, "#333333");
        }
    }
}

/// The label below a group, in several lines if it is too long.
fn label(svg: &mut Svg, (x, y): (f64, f64), text: &str, width: f64) {
    for (number, line) in wrapped(text, width).iter().enumerate() {
        svg.text(x, y + 12.0 * number as f64, "middle", line);
    }
}

/// A text in lines of whole words that are at most this wide, unless a word is wider.
fn wrapped(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(" ") + text_width(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The sample of a series in the legend.
pub(super) fn sample(svg: &mut Svg, (x, y): (f64, f64), number: usize, sample: Sample) {
    match sample {
        Sample::Line(is_reference) => {
            svg.path(&[(x, y), (x + 26.0, y)], &stroke(number, is_reference));
            mark(svg, (x + 13.0, y), number);
        }
        Sample::Bar => {
            let style = format!("fill=\"{}\"", colour(number));
            svg.rectangle((x + 9.0, y - 6.0), (17.0, 12.0), &style);
        }
    }
}

fn number_of(names: &[&str], name: &str) -> usize {
    names.iter().position(|known| *known == name).unwrap_or(0)
}

fn stroke(number: usize, is_reference: bool) -> String {
    let dashes = match is_reference {
        true => " stroke-dasharray=\"6 4\"",
        false => "",
    };
    let colour = colour(number);
    format!("stroke=\"{colour}\" stroke-width=\"2\"{dashes}")
}

/// The spread of the trials.
fn whisker(svg: &mut Svg, x: f64, low: f64, high: f64, colour: &str) {
    if (low - high).abs() < 1.0 {
        return;
    }
    let style = format!("stroke=\"{colour}\"");
    svg.line((x, low), (x, high), &style);
    for y in [low, high] {
        svg.line((x - 3.0, y), (x + 3.0, y), &style);
    }
}

/// A mark; its shape depends on the series.
fn mark(svg: &mut Svg, (x, y): (f64, f64), number: usize) {
    let style = format!("class=\"mark\" fill=\"{}\"", colour(number));
    let around = |places: &[(f64, f64)]| -> Vec<(f64, f64)> {
        let places = places.iter();
        places
            .map(|(dx, dy)| (x + dx * MARK, y + dy * MARK))
            .collect()
    };
    match number % 4 {
        0 => svg.circle((x, y), MARK, &style),
        1 => {
            let corners = around(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]);
            svg.shape(&corners, &style);
        }
        2 => svg.shape(&around(&[(0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)]), &style),
        _ => svg.shape(
            &around(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
            &style,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_labels_have_several_lines() {
        let width = text_width("SSH-Build with");
        let lines = wrapped("SSH-Build with think time", width);
        assert_eq!(lines, ["SSH-Build with", "think time"]);
        assert_eq!(wrapped("growing", 1.0), ["growing"]);
    }
}

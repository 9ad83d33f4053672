//! Scales: the position of a value between the ends of an axis, and the positions of ticks.
//!
//! What must never enter: pixels.

/// The layout of values on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Even steps, from zero.
    Linear,
    /// Equal ratios are equally long.
    Log,
}

/// A scale with its ends.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Span {
    /// Wide enough for all values; values without a logarithm are ignored.
    pub(super) fn over(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let fits = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let values: Vec<f64> = values.filter(fits).collect();
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let (low, high) = match (values.is_empty(), scale) {
            (true, _) => (1.0, 10.0),
            (false, Scale::Linear) if high <= 0.0 => (0.0, 1.0),
            (false, Scale::Linear) => (0.0, high * 1.08),
            (false, Scale::Log) => (low / 1.25, high * 1.25),
        };
        Self { scale, low, high }
    }

    /// From zero to `high` evenly.
    pub(super) fn to(high: f64) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        Self {
            scale: Scale::Linear,
            low: 0.0,
            high,
        }
    }

    /// From 0 at the lower end to 1 at the upper one.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => {
                let value = value.max(self.low);
                (value / self.low).ln() / (self.high / self.low).ln()
            }
        };
        place.clamp(0.0, 1.0)
    }

    /// The positions of ticks, with their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let values = match self.scale {
            Scale::Linear => self.even_ticks(),
            Scale::Log => self.log_ticks(),
        };
        values
            .into_iter()
            .map(|value| (value, label(value)))
            .collect()
    }

    /// Four to eight round numbers.
    fn even_ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 5.0;
        let magnitude = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * magnitude);
        let step = steps.into_iter().find(|&step| step >= rough * 0.8);
        let step = step.unwrap_or(magnitude * 10.0);
        let count = (self.high / step).floor() as usize;
        (0..=count).map(|number| number as f64 * step).collect()
    }

    /// Powers of ten; if these are few, also twice and five times as much.
    fn log_ticks(&self) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor(), self.high.log10().ceil());
        let many = self.high / self.low > 300.0;
        let factors: &[f64] = if many { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let decades = (first as i32)..=(last as i32);
        let all = decades.flat_map(|decade| factors.iter().map(move |f| f * 10_f64.powi(decade)));
        all.filter(|value| (self.low..=self.high).contains(value))
            .collect()
    }
}

/// A round number in few characters.
fn label(value: f64) -> String {
    let digits = match value.abs() {
        0.0 | 10.0.. => 0,
        1.0.. => 1,
        0.1.. => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    grouped(text)
}

/// With thin spaces between the thousands.
fn grouped(text: &str) -> String {
    let (whole, rest) = text
        .split_once('.')
        .map_or((text, None), |(a, b)| (a, Some(b)));
    let mut out = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push('\u{2009}');
        }
        out.push(digit);
    }
    rest.map_or(out.clone(), |rest| format!("{out}.{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(span: &Span) -> Vec<String> {
        span.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn even_scales_begin_at_zero() {
        let span = Span::over(Scale::Linear, [3.0, 185.0].into_iter());
        assert_eq!(span.place(0.0), 0.0);
        assert_eq!(labels(&span), ["0", "50", "100", "150"]);
        let small = Span::over(Scale::Linear, [0.4, 1.0].into_iter());
        assert_eq!(labels(&small), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
    }

    #[test]
    fn logarithmic_scales_have_round_numbers() {
        let span = Span::over(Scale::Log, [0.2, 120.0].into_iter());
        assert_eq!(labels(&span), ["1", "10", "100"]);
        let middle = span.place((0.16 * 150.0_f64).sqrt());
        assert!((middle - 0.5).abs() < 1e-9, "{middle}");
        let short = Span::over(Scale::Log, [2.0, 30.0].into_iter());
        assert_eq!(labels(&short), ["2", "5", "10", "20"]);
        assert_eq!(label(12_000.0), "12\u{2009}000");
    }

    #[test]
    fn nothing_has_a_scale_too() {
        let span = Span::over(Scale::Log, [0.0, f64::NAN].into_iter());
        assert!(span.place(0.0).is_finite() && !span.ticks().is_empty());
        let span = Span::over(Scale::Linear, [0.0].into_iter());
        assert!(span.place(0.0).is_finite());
    }
}

//! Times as people write them, a whole number and a unit: `200 ms`, `90 s`, `1 h`.
//!
//! What must never enter: which times are allowed where.

use std::time::Duration;

/// Units in milliseconds. `min` comes before shorter units that it could be mistaken for.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("min", 60_000),
    ("s", 1000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// The units, as they are written.
pub(super) fn units() -> [&'static str; 5] {
    UNITS.map(|(unit, _)| unit)
}

/// A time from a whole number and a unit. `None` for anything else.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (number, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let number: u64 = number.trim_end().parse().ok()?;
    number.checked_mul(factor).map(Duration::from_millis)
}

/// A time in the largest unit that fits without a remainder, to the millisecond.
#[must_use]
pub fn format_duration(time: Duration) -> String {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let fitting = UNITS
        .iter()
        .filter(|(_, factor)| ms >= *factor && ms.is_multiple_of(*factor));
    let (unit, factor) = fitting
        .max_by_key(|(_, factor)| factor)
        .unwrap_or(&UNITS[0]);
    format!("{} {unit}", ms / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        for (text, ms) in [
            ("0 s", Some(0)),
            ("200 ms", Some(200)),
            ("90s", Some(90_000)),
            (" 5 min ", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("2 d", Some(172_800_000)),
            ("5", None),
            ("", None),
            ("h", None),
            ("1.5 s", None),
            ("-1 s", None),
            ("1 week", None),
            ("99999999999999999 d", None),
        ] {
            assert_eq!(
                parse_duration(text),
                ms.map(Duration::from_millis),
                "{text}"
            );
        }
        for (ms, text) in [
            (0, "0 ms"),
            (200, "200 ms"),
            (90_000, "90 s"),
            (3_600_000, "1 h"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(ms)), text);
        }
    }
}

//! Reads a table of a TOML file key by key, so that every problem has its position in the text.
//!
//! What must never enter: which keys exist.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::duration::{self, format_duration, parse_duration};
use super::nearest::nearest;
use super::problem::Problem;

/// All problems found so far.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    /// Records a problem.
    pub(super) fn add(
        &self,
        place: Range<usize>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let problem = Problem {
            place,
            what: what.into(),
            remedy: remedy.into(),
        };
        self.0.borrow_mut().push(problem);
    }

    pub(super) fn into_list(self) -> Vec<Problem> {
        self.0.into_inner()
    }
}

/// A table of the file, with the keys that were read so far.
pub(super) struct Section<'t> {
    /// The name of the table for people: `[limits]`, or empty for the top of the file.
    name: String,
    place: Range<usize>,
    table: &'t DeTable<'t>,
    known: RefCell<Vec<&'static str>>,
    problems: &'t Problems,
}

impl<'t> Section<'t> {
    /// The top of the file.
    pub(super) fn top(table: &'t DeTable<'t>, problems: &'t Problems) -> Section<'t> {
        Section::new(String::new(), 0..0, table, problems)
    }

    fn new(
        name: String,
        place: Range<usize>,
        table: &'t DeTable<'t>,
        problems: &'t Problems,
    ) -> Section<'t> {
        Section {
            name,
            place,
            table,
            known: RefCell::default(),
            problems,
        }
    }

    /// The position of the table.
    pub(super) fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Whether the key exists, with any value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.get(key).is_some()
    }

    /// The position of the value of a key, or of the table if the key is missing.
    pub(super) fn place_of(&self, key: &str) -> Range<usize> {
        let value = self.table.get(key);
        value.map_or_else(|| self.place(), Spanned::span)
    }

    fn value(&self, key: &'static str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.known.borrow_mut().push(key);
        self.table.get(key)
    }

    fn wrong(&self, value: &Spanned<DeValue<'_>>, key: &str, wanted: &str) {
        let found = describe(value.get_ref());
        let what = format!("`{key}` is {found}");
        self.problems
            .add(value.span(), what, format!("write {wanted}"));
    }

    /// A text, with its position.
    pub(super) fn text(&self, key: &'static str, wanted: &str) -> Option<(&'t str, Range<usize>)> {
        let value = self.value(key)?;
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.wrong(value, key, wanted);
        }
        text.map(|text| (text, value.span()))
    }

    /// A text, parsed into a value.
    pub(super) fn parsed<T: FromStr>(&self, key: &'static str, wanted: &str) -> Option<T> {
        let (text, place) = self.text(key, wanted)?;
        let parsed = text.parse().ok();
        if parsed.is_none() {
            let what = format!("`{key}` is \"{text}\"");
            self.problems.add(place, what, format!("write {wanted}"));
        }
        parsed
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let wanted = words
            .iter()
            .map(|word| format!("\"{word}\""))
            .collect::<Vec<_>>()
            .join(" or ");
        let (text, place) = self.text(key, &wanted)?;
        let chosen = choices.iter().find(|(word, _)| *word == text);
        if chosen.is_none() {
            let remedy = match nearest(text, &words) {
                Some(word) => format!("did you mean \"{word}\"? Write {wanted}"),
                None => format!("write {wanted}"),
            };
            self.problems
                .add(place, format!("`{key}` is \"{text}\""), remedy);
        }
        chosen.map(|(_, meaning)| *meaning)
    }

    /// One text or several, each parsed into a value.
    pub(super) fn list<T: FromStr>(&self, key: &'static str, wanted: &str) -> Option<Vec<T>> {
        let value = self.value(key)?;
        let items: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        if items.is_empty() {
            self.wrong(value, key, wanted);
        }
        let parsed = items.iter().filter_map(|item| {
            let text = item.get_ref().as_str();
            let parsed = text.and_then(|text| text.parse().ok());
            match (text, &parsed) {
                (None, _) => self.wrong(item, key, wanted),
                (Some(text), None) => {
                    let what = format!("`{key}` is \"{text}\"");
                    self.problems
                        .add(item.span(), what, format!("write {wanted}"));
                }
                (Some(_), Some(_)) => {}
            }
            parsed
        });
        Some(parsed.collect())
    }

    /// A whole number.
    pub(super) fn integer(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.value(key)?;
        let number = integer_of(value.get_ref());
        self.bounded(value, key, number, range, u64::to_string)
    }

    /// A number of bytes: a whole number, or a text such as `"64 MiB"`.
    pub(super) fn size(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.value(key)?;
        let bytes = match value.get_ref() {
            DeValue::String(text) => {
                if self.complains_of_unit(value, key, text, &UNITS.map(|(unit, _)| unit)) {
                    return None;
                }
                parse_size(text)
            }
            other => integer_of(other),
        };
        self.bounded(value, key, bytes, range, |bytes| {
            format!("\"{}\"", format_size(*bytes))
        })
    }

    /// A time such as `"200 ms"`.
    pub(super) fn duration(
        &self,
        key: &'static str,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let value = self.value(key)?;
        let text = value.get_ref().as_str();
        if text.is_some_and(|text| self.complains_of_unit(value, key, text, &duration::units())) {
            return None;
        }
        if let Some(number) = text.filter(|text| text.trim().parse::<u64>().is_ok()) {
            let what = format!("`{key}` is \"{number}\", without a unit");
            let remedy = format!(
                "write one behind it; known are `{}`",
                duration::units().join("`, `")
            );
            self.problems.add(value.span(), what, remedy);
            return None;
        }
        let inside = text
            .and_then(parse_duration)
            .filter(|time| range.contains(time));
        if inside.is_none() {
            let (low, high) = (
                format_duration(*range.start()),
                format_duration(*range.end()),
            );
            self.wrong(value, key, &format!("a time from \"{low}\" to \"{high}\""));
        }
        inside
    }

    /// `true` or `false`.
    pub(super) fn switch(&self, key: &'static str) -> Option<bool> {
        let value = self.value(key)?;
        let switch = value.get_ref().as_bool();
        if switch.is_none() {
            self.wrong(value, key, "true or false");
        }
        switch
    }

    /// Reports a number with an unknown unit, because its value would be ambiguous.
    fn complains_of_unit(
        &self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
        text: &str,
        units: &[&str],
    ) -> bool {
        let number_end = text
            .trim_start()
            .find(|letter: char| letter.is_alphabetic());
        let Some(unit) = number_end.map(|at| text.trim_start()[at..].trim_end()) else {
            return false;
        };
        if units.contains(&unit) {
            return false;
        }
        let meant = units.iter().find(|known| meant_by(unit, known));
        let remedy = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("known are `{}`", units.join("`, `")),
        };
        let what = format!("`{key}` is \"{text}\", and there is no unit `{unit}` for it");
        self.problems.add(value.span(), what, remedy);
        true
    }

    fn bounded(
        &self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
        number: Option<u64>,
        range: RangeInclusive<u64>,
        show: impl Fn(&u64) -> String,
    ) -> Option<u64> {
        let inside = number.filter(|number| range.contains(number));
        if inside.is_none() {
            let (low, high) = (show(range.start()), show(range.end()));
            self.wrong(value, key, &format!("a value from {low} to {high}"));
        }
        inside
    }

    /// A nested table, such as `[limits]`.
    pub(super) fn table(&self, key: &'static str) -> Option<Section<'t>> {
        let value = self.value(key)?;
        let name = match self.name.trim_matches(['[', ']']) {
            "" => format!("[{key}]"),
            around => format!("[{around}.{key}]"),
        };
        match value.get_ref() {
            DeValue::Table(table) => Some(Section::new(name, value.span(), table, self.problems)),
            _ => {
                self.wrong(
                    value,
                    key,
                    &format!("a table that starts with the line `{name}`"),
                );
                None
            }
        }
    }

    /// Repeated tables, such as `[[export]]`. `path` is the full name, including the enclosing tables.
    pub(super) fn tables(&self, key: &'static str, path: &str) -> Vec<Section<'t>> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let name = format!("[[{path}]]");
        let wanted = format!("tables that each start with the line `{name}`");
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong(value, key, &wanted);
            return Vec::new();
        };
        let tables = items.iter().filter_map(|item| match item.get_ref() {
            DeValue::Table(table) => Some(Section::new(
                name.clone(),
                item.span(),
                table,
                self.problems,
            )),
            _ => {
                self.wrong(item, key, &wanted);
                None
            }
        });
        tables.collect()
    }

    /// Records a problem with a key or with the whole table.
    pub(super) fn complain(
        &self,
        place: Range<usize>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.problems.add(place, what, remedy);
    }

    /// Reports every key that was not read.
    pub(super) fn finish(self) {
        let known = self.known.into_inner();
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if known.contains(&name) {
                continue;
            }
            let what = match self.name.as_str() {
                "" => format!("there is no key `{name}` here"),
                table => format!("there is no key `{name}` in {table}"),
            };
            let remedy = match nearest(name, &known) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("remove it; known are `{}`", known.join("`, `")),
            };
            self.problems.add(key.span(), what, remedy);
        }
    }
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Array(items) if items.is_empty() => "an empty list".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
        other => format!("a {}", other.type_str()),
    }
}

fn integer_of(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// Whether a person who wrote `unit` may have meant the `known` one: `MB`, `M` and `mib` mean `MiB`, `sec` means `s`.
fn meant_by(unit: &str, known: &str) -> bool {
    let (unit, plain) = (unit.to_lowercase(), known.to_lowercase());
    let decimal = plain.replace("ib", "b");
    let words: &[&str] = match known {
        "ms" => &["msec", "milliseconds"],
        "s" => &["sec", "secs", "second", "seconds"],
        "min" => &["m", "minute", "minutes"],
        "h" => &["hour", "hours", "hr"],
        "d" => &["day", "days"],
        "B" => &["byte", "bytes"],
        _ => &[],
    };
    unit == plain
        || unit == decimal
        || words.contains(&unit.as_str())
        || (plain.ends_with("ib") && unit == plain[..1])
}

const UNITS: [(&str, u32); 4] = [("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

/// A number of bytes, such as `4096`, `64 KiB` or `1 MiB`; `None` if it is invalid.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let (number, shift) = UNITS
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
        .unwrap_or((text, 0));
    number.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A number of bytes in the largest unit that fits without a remainder.
pub(super) fn format_size(bytes: u64) -> String {
    let fits = |shift: u32| bytes >> shift > 0 && bytes.trailing_zeros() >= shift;
    let unit = UNITS.iter().find(|(_, shift)| fits(*shift));
    unit.map_or_else(
        || bytes.to_string(),
        |(unit, shift)| format!("{} {unit}", bytes >> shift),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_or_not() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("4 KiB", Some(4096)),
            ("64MiB", Some(64 << 20)),
            ("3 GiB", Some(3 << 30)),
            ("7 B", Some(7)),
            ("", None),
            ("MiB", None),
            ("1.5 MiB", None),
            ("-1", None),
            ("99999999999 GiB", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
        for (bytes, text) in [(0, "0"), (5, "5 B"), (4096, "4 KiB"), (3 << 30, "3 GiB")] {
            assert_eq!(format_size(bytes), text);
        }
    }

    #[test]
    fn a_time_without_a_unit_is_told_as_that() {
        let text = "[replication]\ndata_delay = \"5\"";
        let told = super::super::Configuration::parse("f.toml".as_ref(), text);
        let told = told.unwrap_err().to_string();
        assert!(told.contains("is \"5\", without a unit"), "{told}");
    }
}

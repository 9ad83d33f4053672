//! Text forms of times, rates, shares and sizes: `60ms`, `1gbit`, `0.1%`, `256k`.
//!
//! What must never enter: the use of the values.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Units of time, in nanoseconds.
const TIMES: [(&str, f64); 4] = [("us", 1e3), ("ms", 1e6), ("ns", 1.0), ("s", 1e9)];

/// Units of rates, in bits a second, decimal as network rates are.
const RATES: [(&str, f64); 4] = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("bit", 1.0)];

/// Units of sizes, in bytes, binary as buffer sizes are.
const SIZES: [(&str, f64); 3] = [("k", 1024.0), ("m", 1_048_576.0), ("g", 1_073_741_824.0)];

/// Reads a time such as `200us`, `0.2ms`, `60ms` or `1.5s`.
pub(crate) fn time(text: &str) -> Result<Duration> {
    let nanoseconds = measured(text, &TIMES)
        .with_context(|| format!("'{text}' is no time; write it like 60ms, 0.2ms or 1.5s"))?;
    Ok(Duration::from_nanos(nanoseconds.round() as u64))
}

/// Reads a rate such as `100mbit`, in bits a second. `unlimited` is none.
pub(crate) fn rate(text: &str) -> Result<Option<u64>> {
    if text == "unlimited" {
        return Ok(None);
    }
    let bits = measured(text, &RATES)
        .with_context(|| format!("'{text}' is no rate; write it like 100mbit or unlimited"))?;
    Ok(Some(bits.round() as u64))
}

/// Reads a size such as `262144` or `256k`, in bytes.
pub(crate) fn size(text: &str) -> Result<u64> {
    let bytes = match text.parse::<u32>() {
        Ok(bytes) => f64::from(bytes),
        Err(_) => measured(text, &SIZES)
            .with_context(|| format!("'{text}' is no size; write it like 262144 or 256k"))?,
    };
    Ok(bytes.round() as u64)
}

/// Reads a share such as `0.1%` or `0.001`, as a number from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let share = number.parse::<f64>().ok().map(|number| number / scale);
    match share {
        Some(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => bail!("'{text}' is no share; write it like 0.1% or 0.001"),
    }
}

/// A number with one of these units. The first unit that ends the text counts.
fn measured(text: &str, units: &[(&str, f64)]) -> Result<f64> {
    let found = units
        .iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
    let (number, scale) = found.context("the unit is missing")?;
    let number: f64 = number.parse()?;
    // Far above every bound of a setting, and far below where the conversions overflow.
    ensure!((0.0..=1e9).contains(&number), "the number is out of range");
    Ok(number * scale)
}

/// A time in milliseconds, as [`time`] reads it.
pub(crate) fn show_time(time: Duration) -> String {
    format!("{}ms", time.as_nanos() as f64 / 1e6)
}

/// A rate, as [`rate`] reads it.
pub(crate) fn show_rate(bits_per_second: Option<u64>) -> String {
    match bits_per_second {
        None => "unlimited".into(),
        Some(bits) if bits >= 1_000_000_000 => format!("{}gbit", bits as f64 / 1e9),
        Some(bits) => format!("{}mbit", bits as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read() {
        assert_eq!(time("60ms").unwrap(), Duration::from_millis(60));
        assert_eq!(time("0.2ms").unwrap(), Duration::from_micros(200));
        assert_eq!(time("1.5s").unwrap(), Duration::from_millis(1500));
        assert_eq!(rate("1gbit").unwrap(), Some(1_000_000_000));
        assert_eq!(rate("2.5mbit").unwrap(), Some(2_500_000));
        assert_eq!(rate("unlimited").unwrap(), None);
        assert_eq!(size("1000").unwrap(), 1000);
        assert_eq!(size("256k").unwrap(), 262_144);
        assert_eq!(share("0.1%").unwrap(), 0.001);
        assert_eq!(share("1").unwrap(), 1.0);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "ms", "60", "-1ms", "NaNms", "infs", "1e300s"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert!(rate("1").is_err() && rate("fast").is_err());
        assert!(size("12q").is_err());
        assert!(share("101%").is_err() && share("NaN").is_err());
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        let delay = Duration::from_micros(100);
        assert_eq!(time(&show_time(delay)).unwrap(), delay);
        for bandwidth in [None, Some(2_500_000_000), Some(100_000)] {
            assert_eq!(rate(&show_rate(bandwidth)).unwrap(), bandwidth);
        }
    }
}

//! What every server of a pool is told when it joins, as lines of text.
//!
//! What must never enter: how it travels, and where it is kept.

use pool::StripeUnit;

/// The first line: what this is, and in which format.
const HEADING: &str = "meridian pool 1";

pub(super) fn encode(stripe_unit: StripeUnit) -> Vec<u8> {
    format!("{HEADING}\nstripe_unit {}\n", stripe_unit.bytes()).into_bytes()
}

/// `None` for anything that [`encode`] does not write.
pub(super) fn decode(words: &[u8]) -> Option<StripeUnit> {
    let text = std::str::from_utf8(words).ok()?;
    let unit = text.strip_prefix(HEADING)?.strip_prefix("\nstripe_unit ")?;
    let unit = StripeUnit::new(unit.trim_end().parse().ok()?).ok()?;
    (encode(unit) == words).then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_described_and_anything_else_is_not_understood() {
        let words = encode(StripeUnit::MAX);
        assert_eq!(decode(&words), Some(StripeUnit::MAX));
        for end in 0..words.len() {
            assert_eq!(decode(&words[..end]), None);
        }
        for other in [
            "meridian pool 2\nstripe_unit 65536\n",
            "meridian pool 1\nstripe_unit 65537\n",
        ] {
            assert_eq!(decode(other.as_bytes()), None);
        }
    }
}

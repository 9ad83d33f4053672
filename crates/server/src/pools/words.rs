//! The text that every server of a pool gets when it joins, as lines.
//!
//! What must never enter: how it is sent, and where it is stored.

use pool::StripeUnit;

use crate::configuration::is_tree_name;

/// The first line: the kind of text and its format.
const HEADING: &str = "meridian pool 1";

pub(super) fn encode(tree: &str, stripe_unit: StripeUnit) -> Vec<u8> {
    let unit = stripe_unit.bytes();
    format!("{HEADING}\nstripe_unit {unit}\ntree {tree}\n").into_bytes()
}

/// `None` for anything that [`encode`] does not write.
pub(super) fn decode(words: &[u8]) -> Option<(String, StripeUnit)> {
    let text = std::str::from_utf8(words).ok()?;
    let rest = text.strip_prefix(HEADING)?.strip_prefix("\nstripe_unit ")?;
    let (unit, tree) = rest.split_once("\ntree ")?;
    let unit = StripeUnit::new(unit.parse().ok()?).ok()?;
    let tree = tree.strip_suffix('\n')?;
    let is_meant = is_tree_name(tree) && encode(tree, unit) == words;
    is_meant.then(|| (tree.to_owned(), unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_described_and_anything_else_is_not_understood() {
        let words = encode("default", StripeUnit::MAX);
        let read = decode(&words);
        assert_eq!(read, Some(("default".to_owned(), StripeUnit::MAX)));
        for end in 0..words.len() {
            assert_eq!(decode(&words[..end]), None);
        }
        for other in [
            "meridian pool 2\nstripe_unit 65536\ntree default\n",
            "meridian pool 1\nstripe_unit 65537\ntree default\n",
            "meridian pool 1\nstripe_unit 65536\ntree ../x\n",
        ] {
            assert_eq!(decode(other.as_bytes()), None);
        }
    }
}

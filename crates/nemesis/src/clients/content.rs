//! The contents that clients write. A reader can tell which write it was, and whether the content is complete.
//!
//! What must never enter: requests.

use bytes::Bytes;

use crate::history::Seen;

/// The length of a register's content, in bytes.
pub const VALUE_SIZE: u32 = 17 * 32;

/// The length of a log's record, in bytes.
pub const RECORD_SIZE: u64 = 8192;

/// A value as it stands in a file: once in every line.
pub fn of_value(value: u64) -> Bytes {
    format!("{value:>16}\n").repeat(32).into()
}

/// The value in a file.
pub fn value_in(content: &[u8]) -> Seen {
    let text = String::from_utf8_lossy(content);
    let first = text.lines().next().unwrap_or_default();
    match first.trim().parse() {
        Ok(value) if *content == of_value(value) => Seen::Value(value),
        _ => {
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let mut kinds = lines.clone();
            kinds.dedup();
            let start: String = kinds.join(" / ").chars().take(80).collect();
            Seen::Garbage(format!("{} bytes: {start}", content.len()))
        }
    }
}

/// A record of a log.
pub fn of_record(log: usize, number: u64) -> Bytes {
    let line = format!("log {log:>6} record {number:>12}\n");
    let mut record = line.repeat(RECORD_SIZE as usize / line.len() + 1);
    record.truncate(RECORD_SIZE as usize);
    record.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_again_and_a_mixture_is_not_taken_for_one() {
        let content = of_value(4711);
        assert_eq!(content.len(), VALUE_SIZE as usize);
        assert_eq!(value_in(&content), Seen::Value(4711));
        let mixed = [&content[..272], &of_value(12)[272..]].concat();
        let Seen::Garbage(what) = value_in(&mixed) else {
            panic!("a mixture was taken for a value");
        };
        assert!(what.contains("4711 / 12"), "{what}");
        for wrong in [&b""[..], &content[..500], &[0; VALUE_SIZE as usize]] {
            assert!(matches!(value_in(wrong), Seen::Garbage(_)), "{wrong:?}");
        }
    }

    #[test]
    fn records_differ_and_are_of_one_length() {
        assert_eq!(of_record(1, 2).len() as u64, RECORD_SIZE);
        assert_ne!(of_record(1, 2), of_record(1, 3));
        assert_ne!(of_record(1, 2), of_record(2, 2));
    }
}

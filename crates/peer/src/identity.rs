//! Identifiers of sets and of incarnations. They are numbers with a meaning and no behaviour.

use std::fmt;

/// Names a replication set; drawn at random when the set is made, never changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId(pub [u8; SetId::BYTES]);

impl SetId {
    /// Bytes of an identifier in its stored and transmitted form.
    pub const BYTES: usize = 16;

    /// Reads the hexadecimal form that [`fmt::Display`] writes. `None` when it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<SetId> {
        let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?;
        Some(SetId(bytes.try_into().ok()?))
    }
}

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The number of starts of a replica, from a durable counter of its handler. It only grows. A session is between two
/// incarnations: a replica that restarted has forgotten what it had received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_identifier_reads_back_as_written() {
        let set = SetId([0xab; 16]);
        assert_eq!(SetId::parse(&set.to_string()), Some(set));
        assert_eq!(SetId::parse("abab"), None);
        assert_eq!(SetId::parse("zz"), None);
    }
}

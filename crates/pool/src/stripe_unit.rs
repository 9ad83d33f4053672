//! How many consecutive bytes of a file lie on one data server.

/// The number of bytes of a file that lie together before the next data server follows: a power of two between [`StripeUnit::MIN`] and
/// [`StripeUnit::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StripeUnit {
    log2: u8,
}

/// A number of bytes that cannot be a stripe unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a stripe unit of {0} bytes is not possible: choose a power of two between 64 KiB (65536) and 16 MiB (16777216)"
)]
pub struct InvalidStripeUnit(pub u64);

impl StripeUnit {
    /// 64 KiB.
    pub const MIN: StripeUnit = StripeUnit { log2: 16 };
    /// 16 MiB.
    pub const MAX: StripeUnit = StripeUnit { log2: 24 };

    /// A unit of this many bytes.
    ///
    /// # Errors
    /// When it is not a power of two, too small or too large.
    pub fn new(bytes: u64) -> Result<StripeUnit, InvalidStripeUnit> {
        let refused = InvalidStripeUnit(bytes);
        if !bytes.is_power_of_two() {
            return Err(refused);
        }
        let log2 = u8::try_from(bytes.trailing_zeros()).map_err(|_| refused)?;
        StripeUnit::from_log2(log2).ok_or(refused)
    }

    /// In bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        1 << self.log2
    }

    /// The stored form.
    pub(crate) fn log2(self) -> u8 {
        self.log2
    }

    pub(crate) fn from_log2(log2: u8) -> Option<StripeUnit> {
        let unit = StripeUnit { log2 };
        (StripeUnit::MIN..=StripeUnit::MAX)
            .contains(&unit)
            .then_some(unit)
    }
}

/// 1 MiB.
impl Default for StripeUnit {
    fn default() -> StripeUnit {
        StripeUnit { log2: 20 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_within_bounds_are_units() {
        for log2 in 16..=24 {
            let bytes = 1_u64 << log2;
            assert_eq!(StripeUnit::new(bytes).map(StripeUnit::bytes), Ok(bytes));
            assert!(StripeUnit::new(bytes + 1).is_err());
            assert!(StripeUnit::new(bytes - 1).is_err());
        }
        for bytes in [0, 1, 1 << 15, 1 << 25, 1 << 63, u64::MAX] {
            assert_eq!(StripeUnit::new(bytes), Err(InvalidStripeUnit(bytes)));
        }
        assert_eq!(StripeUnit::default().bytes(), 1 << 20);
    }
}

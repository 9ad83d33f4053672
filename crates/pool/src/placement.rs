//! Where the contents of one file lie, as its row says.

use fields::{Fields, Malformed, Tag};

use crate::device_group::DeviceGroup;
use crate::numbers::{DeviceGroupNumber, Generation, PlacementNumber, PoolId};
use crate::stripe_unit::StripeUnit;
use crate::stripes::{StripeMismatch, Stripes};

const VERSION: u8 = 1;

/// How a placement is shown to clients that know layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LayoutKind {
    /// As a files layout (RFC 8881, chapter 13), sparsely packed.
    Files = 1,
}

impl Tag for LayoutKind {
    const ALL: &'static [Self] = &[LayoutKind::Files];
    const UNKNOWN: Malformed = Malformed("the kind of a placement is unknown");

    fn number(self) -> u8 {
        self as u8
    }
}

/// Where the contents of one file lie (rule 2). The first WRITE or layout fixes it. It changes only as a whole, when the file is moved:
/// that makes another placement with another number. Its generation grows with each fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// The pool.
    pub pool: PoolId,
    /// How it is shown to clients.
    pub kind: LayoutKind,
    /// Never used twice for this object; data servers keep contents under object and number.
    pub number: PlacementNumber,
    /// The number of bytes that lie together.
    pub unit: StripeUnit,
    /// The data servers, by the number of their group.
    pub group: DeviceGroupNumber,
    /// The place in the group of the data server that has the first unit of the file.
    pub first_index: u16,
    /// How often it was fenced.
    pub generation: Generation,
}

impl Placement {
    /// The length of the stored form in bytes.
    pub const ENCODED_BYTES: usize = 29;

    /// The arithmetic of this placement over its group.
    ///
    /// # Errors
    /// When the group has no data server at the first index, and so is not the group of the placement.
    pub fn stripes(&self, group: &DeviceGroup) -> Result<Stripes, StripeMismatch> {
        Stripes::new(self.unit, group.members().len(), self.first_index)
    }

    /// The stored form, which never changes: version 1 (1), kind (1), pool (8), number (4), binary logarithm of the stripe unit
    /// (1), device group (4), first index (2), generation (8).
    #[must_use]
    pub fn encode(&self) -> [u8; Placement::ENCODED_BYTES] {
        let mut row = [0; Placement::ENCODED_BYTES];
        row[0] = VERSION;
        row[1] = self.kind.number();
        row[2..10].copy_from_slice(&self.pool.0.to_be_bytes());
        row[10..14].copy_from_slice(&self.number.0.to_be_bytes());
        row[14] = self.unit.log2();
        row[15..19].copy_from_slice(&self.group.0.to_be_bytes());
        row[19..21].copy_from_slice(&self.first_index.to_be_bytes());
        row[21..29].copy_from_slice(&self.generation.0.to_be_bytes());
        row
    }

    /// The reverse of [`Placement::encode`].
    ///
    /// # Errors
    /// When the bytes are of an unknown version or kind, or no placement.
    pub fn decode(row: &[u8]) -> Result<Placement, Malformed> {
        let mut fields = Fields::new(row);
        if fields.u8()? != VERSION {
            return Err(Malformed("the version of a placement is unknown"));
        }
        let placement = Placement {
            kind: LayoutKind::read(&mut fields)?,
            pool: PoolId(fields.u64()?),
            number: PlacementNumber(fields.u32()?),
            unit: StripeUnit::from_log2(fields.u8()?)
                .ok_or(Malformed("a stripe unit is out of bounds"))?,
            group: DeviceGroupNumber(fields.u32()?),
            first_index: fields.u16()?,
            generation: Generation(fields.u64()?),
        };
        fields.end()?;
        Ok(placement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::DataServerNumber;

    fn placement() -> Placement {
        Placement {
            pool: PoolId(0x0102_0304_0506_0708),
            kind: LayoutKind::Files,
            number: PlacementNumber(0x1112_1314),
            unit: StripeUnit::default(),
            group: DeviceGroupNumber(0x2122_2324),
            first_index: 0x3132,
            generation: Generation(0x4142_4344_4546_4748),
        }
    }

    #[test]
    fn a_placement_comes_back_as_it_was_stored_and_keeps_its_form() {
        let stored = placement().encode();
        let expected = [
            1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 20, 0x21, 0x22, 0x23, 0x24, 0x31,
            0x32, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,
        ];
        assert_eq!(stored, expected);
        assert_eq!(Placement::decode(&stored), Ok(placement()));
    }

    #[test]
    fn no_shortened_lengthened_or_foreign_row_passes() {
        let stored = placement().encode();
        for length in 0..stored.len() {
            assert!(
                Placement::decode(&stored[..length]).is_err(),
                "{length} bytes"
            );
        }
        assert!(Placement::decode(&[&stored[..], &[0]].concat()).is_err());
        for (at, byte) in [(0, 2), (1, 0), (1, 2), (14, 15), (14, 25), (14, 255)] {
            let mut other = stored;
            other[at] = byte;
            assert!(Placement::decode(&other).is_err(), "byte {at} is {byte}");
        }
    }

    #[test]
    fn a_group_that_is_too_narrow_is_not_the_one_of_the_placement() {
        let group = DeviceGroup::new((1..=3).map(DataServerNumber).collect()).unwrap();
        let at = |first_index| Placement {
            first_index,
            ..placement()
        };
        assert!(at(2).stripes(&group).is_ok());
        assert!(at(3).stripes(&group).is_err());
    }
}

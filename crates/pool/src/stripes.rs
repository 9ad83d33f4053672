//! Which bytes of a file lie on which data server.
//!
//! Packing is sparse (RFC 8881, section 13.4.4): a byte lies on its data server at the same offset as in the file, and the bytes of other
//! data servers are holes there. So a size is the same number on all data servers, and a file is cut by cutting each data server's
//! part at the same offset.
//!
//! A size is at most 2⁶⁴ - 1, so the last possible byte of a file is at offset 2⁶⁴ - 2.

use crate::stripe_unit::StripeUnit;

/// The arithmetic of one placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripes {
    unit: StripeUnit,
    /// Data servers in the group; not zero.
    width: u16,
    /// Below the width.
    first_index: u16,
}

/// A placement and a device group that do not belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a placement begins at place {first_index} of a device group of {width} data servers")]
pub struct StripeMismatch {
    first_index: u16,
    width: usize,
}

/// Consecutive bytes of a file that lie on one data server, at the same offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The data server, by its place in the device group.
    pub index: usize,
    /// The offset of the first byte, in the file and on the data server.
    pub offset: u64,
    /// The number of bytes; not zero.
    pub length: u64,
}

impl Stripes {
    pub(crate) fn new(
        unit: StripeUnit,
        members: usize,
        first_index: u16,
    ) -> Result<Stripes, StripeMismatch> {
        let width = u16::try_from(members)
            .ok()
            .filter(|width| first_index < *width);
        let mismatch = StripeMismatch {
            first_index,
            width: members,
        };
        Ok(Stripes {
            unit,
            width: width.ok_or(mismatch)?,
            first_index,
        })
    }

    /// The arithmetic of a layout that names this many data servers. `None` if it makes no sense.
    #[must_use]
    pub fn of_layout(unit_bytes: u32, members: usize, first_index: u32) -> Option<Stripes> {
        let unit = StripeUnit::new(unit_bytes.into()).ok()?;
        Stripes::new(unit, members, u16::try_from(first_index).ok()?).ok()
    }

    /// The place in the group of the data server that has the byte at `offset`.
    #[must_use]
    pub fn index_of(&self, offset: u64) -> usize {
        let turn = (offset / self.unit.bytes()) % u64::from(self.width);
        let index = (turn + u64::from(self.first_index)) % u64::from(self.width);
        // Below the width, which has 16 bits.
        index as usize
    }

    /// Cuts `length` bytes from `offset` on into segments of one data server each, in the order of the file. Bytes beyond the largest size
    /// are left out.
    #[must_use]
    pub fn segments(&self, offset: u64, length: u64) -> Segments {
        Segments {
            stripes: *self,
            next: offset,
            end: offset.saturating_add(length),
        }
    }

    /// The end of one data server's part of a file of `size` bytes: 0 when no byte lies there. If the contents of a data server end earlier,
    /// the rest is a hole, which reads as zeros.
    #[must_use]
    pub fn end_at(&self, index: usize, size: u64) -> u64 {
        let Some(last) = size.checked_sub(1) else {
            return 0;
        };
        let width = u64::from(self.width);
        let units_back = (self.index_of(last) as u64 + width - index as u64 % width) % width;
        match (last / self.unit.bytes()).checked_sub(units_back) {
            // The last byte lies here, or a whole unit before it does.
            Some(_) if units_back == 0 => size,
            Some(unit) => (unit + 1) * self.unit.bytes(),
            None => 0,
        }
    }

    /// The number of bytes of a file of `size` bytes on one data server, holes included.
    #[must_use]
    pub fn bytes_at(&self, index: usize, size: u64) -> u64 {
        let (unit, width) = (self.unit.bytes(), u64::from(self.width));
        let whole = size / unit;
        // The position of this data server in a round.
        let turn = (index as u64 + width - u64::from(self.first_index)) % width;
        let units = (whole + width - 1 - turn) / width;
        match whole % width == turn {
            true => units * unit + size % unit,
            false => units * unit,
        }
    }
}

/// See [`Stripes::segments`].
#[derive(Clone, Debug)]
pub struct Segments {
    stripes: Stripes,
    next: u64,
    end: u64,
}

impl Iterator for Segments {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        if self.next >= self.end {
            return None;
        }
        let unit = self.stripes.unit.bytes();
        // The distance to the next border; with one data server there is no border.
        let in_unit = match self.stripes.width {
            1 => u64::MAX,
            _ => unit - self.next % unit,
        };
        let segment = Segment {
            index: self.stripes.index_of(self.next),
            offset: self.next,
            length: in_unit.min(self.end - self.next),
        };
        self.next += segment.length;
        Some(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIT: u64 = 1 << 16;

    fn stripes(width: usize, first_index: u16) -> Stripes {
        Stripes::new(StripeUnit::MIN, width, first_index).unwrap()
    }

    /// Offsets near critical places: 0, borders of units, the largest size.
    fn offsets() -> impl Strategy<Value = u64> {
        let near = |place: u64| {
            (0..3_u64, any::<bool>()).prop_map(move |(by, before)| match before {
                true => place.saturating_sub(by),
                false => place.saturating_add(by),
            })
        };
        prop_oneof![
            near(0),
            near(u64::MAX),
            (0..u64::MAX / UNIT).prop_flat_map(move |unit| near(unit * UNIT)),
            (0..40_u64).prop_flat_map(move |unit| near(unit * UNIT)),
            any::<u64>(),
        ]
    }

    fn any_stripes() -> impl Strategy<Value = Stripes> {
        (1..=64_usize, any::<u16>(), 16..=24_u8).prop_map(|(width, first, log2)| {
            let unit = StripeUnit::from_log2(log2).unwrap();
            Stripes::new(unit, width, first % width as u16).unwrap()
        })
    }

    #[test]
    fn units_go_round_from_the_first_index_on() {
        let stripes = stripes(3, 1);
        let indices: Vec<usize> = (0..5).map(|unit| stripes.index_of(unit * UNIT)).collect();
        assert_eq!(indices, [1, 2, 0, 1, 2]);
        assert_eq!(stripes.index_of(UNIT - 1), 1);
        let of = |offset, length| {
            let segments = stripes.segments(offset, length);
            segments
                .map(|s| (s.index, s.offset, s.length))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(7, 0), []);
        assert_eq!(of(UNIT - 1, 2), [(1, UNIT - 1, 1), (2, UNIT, 1)]);
        assert_eq!(of(u64::MAX, 5), []);
        assert_eq!(of(u64::MAX - 1, 5).len(), 1);
    }

    #[test]
    fn one_data_server_has_everything_in_one_segment() {
        let whole = Segment {
            index: 0,
            offset: 5,
            length: u64::MAX - 5,
        };
        assert_eq!(
            stripes(1, 0).segments(5, u64::MAX).collect::<Vec<_>>(),
            [whole]
        );
    }

    #[test]
    fn ends_are_those_of_the_last_unit_on_each() {
        let stripes = stripes(3, 0);
        let ends = |size| [0, 1, 2].map(|index| stripes.end_at(index, size));
        assert_eq!(ends(0), [0, 0, 0]);
        assert_eq!(ends(1), [1, 0, 0]);
        assert_eq!(ends(UNIT), [UNIT, 0, 0]);
        assert_eq!(ends(UNIT + 1), [UNIT, UNIT + 1, 0]);
        assert_eq!(ends(4 * UNIT), [4 * UNIT, 2 * UNIT, 3 * UNIT]);
    }

    proptest! {
        #[test]
        fn segments_cover_the_range_once_and_lie_where_their_bytes_do(
            stripes in any_stripes(), offset in offsets(), length in 0..1_u64 << 27,
        ) {
            let mut next = offset;
            for segment in stripes.segments(offset, length) {
                prop_assert_eq!(segment.offset, next);
                prop_assert!(segment.length > 0);
                next += segment.length;
                prop_assert_eq!(segment.index, stripes.index_of(segment.offset));
                prop_assert_eq!(segment.index, stripes.index_of(next - 1));
            }
            prop_assert_eq!(next, offset.saturating_add(length));
        }

        #[test]
        fn the_bytes_of_each_data_server_are_those_of_its_segments(
            stripes in any_stripes(), size in 0..1_u64 << 27,
        ) {
            let mut bytes = vec![0; usize::from(stripes.width)];
            for segment in stripes.segments(0, size) {
                bytes[segment.index] += segment.length;
            }
            for (index, bytes) in bytes.into_iter().enumerate() {
                prop_assert_eq!(stripes.bytes_at(index, size), bytes);
            }
        }

        #[test]
        fn the_end_on_each_data_server_is_behind_its_last_byte(
            stripes in any_stripes(), size in offsets(),
        ) {
            let ends = (0..usize::from(stripes.width)).map(|index| (index, stripes.end_at(index, size)));
            let ends: Vec<(usize, u64)> = ends.collect();
            prop_assert_eq!(ends.iter().map(|(_, end)| *end).max(), Some(size));
            for (index, end) in ends {
                if end > 0 {
                    prop_assert_eq!(stripes.index_of(end - 1), index);
                }
                // One round visits every data server.
                let mut round = stripes.segments(end, size - end).take(stripes.width.into());
                prop_assert!(round.all(|segment| segment.index != index));
            }
        }
    }
}

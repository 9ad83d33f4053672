//! The data servers over which files are striped together.

use fields::{Fields, Malformed};

use crate::numbers::DataServerNumber;
use std::collections::BTreeSet;

/// The maximum number of data servers in a group: a layout has a handle for each, and has to fit into a reply of 4096 bytes
/// (rule 2).
pub const MAX_DATA_SERVERS: usize = 64;

const VERSION: u8 = 1;

/// Data servers in the order of the stripes. It never changes: other servers form another group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceGroup {
    members: Vec<DataServerNumber>,
}

/// Data servers that cannot be a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDeviceGroup {
    /// It has no members.
    #[error("a device group needs at least one data server")]
    Empty,
    /// More than [`MAX_DATA_SERVERS`].
    #[error(
        "{0} data servers are too many for one device group: choose at most {MAX_DATA_SERVERS}, and put the others into another group"
    )]
    TooWide(usize),
    /// Its stripes would share contents.
    #[error("data server {} is in the device group twice: name each once", .0.0)]
    Twice(DataServerNumber),
}

impl DeviceGroup {
    /// A group of these, in this order.
    ///
    /// # Errors
    /// When there is no data server, there are too many, or one occurs twice.
    pub fn new(members: Vec<DataServerNumber>) -> Result<DeviceGroup, InvalidDeviceGroup> {
        if members.is_empty() {
            return Err(InvalidDeviceGroup::Empty);
        }
        if members.len() > MAX_DATA_SERVERS {
            return Err(InvalidDeviceGroup::TooWide(members.len()));
        }
        let mut seen = BTreeSet::new();
        match members.iter().find(|member| !seen.insert(**member)) {
            Some(twice) => Err(InvalidDeviceGroup::Twice(*twice)),
            None => Ok(DeviceGroup { members }),
        }
    }

    /// The data servers, in order; between 1 and [`MAX_DATA_SERVERS`].
    #[must_use]
    pub fn members(&self) -> &[DataServerNumber] {
        &self.members
    }

    /// The stored form, which never changes: version 1 (1), then the number (2) of each data server.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let numbers = self
            .members
            .iter()
            .flat_map(|member| member.0.to_be_bytes());
        std::iter::once(VERSION).chain(numbers).collect()
    }

    /// The reverse of [`DeviceGroup::encode`].
    ///
    /// # Errors
    /// When the bytes are of an unknown version, or no group.
    pub fn decode(row: &[u8]) -> Result<DeviceGroup, Malformed> {
        let (version, numbers) = row.split_first().ok_or(Malformed("it is too short"))?;
        if *version != VERSION {
            return Err(Malformed("the version of a device group is unknown"));
        }
        let (numbers, rest) = numbers.as_chunks::<2>();
        Fields::new(rest).end()?;
        if numbers.len() > MAX_DATA_SERVERS {
            return Err(Malformed("a device group is too wide"));
        }
        let number = |bytes: &[u8; 2]| DataServerNumber(u16::from_be_bytes(*bytes));
        DeviceGroup::new(numbers.iter().map(number).collect())
            .map_err(|_| Malformed("a device group is empty or names a data server twice"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(numbers: impl IntoIterator<Item = u16>) -> Result<DeviceGroup, InvalidDeviceGroup> {
        DeviceGroup::new(numbers.into_iter().map(DataServerNumber).collect())
    }

    #[test]
    fn a_group_has_each_data_server_once_and_not_too_many() {
        assert_eq!(group([]), Err(InvalidDeviceGroup::Empty));
        assert_eq!(
            group([3, 1, 3]),
            Err(InvalidDeviceGroup::Twice(DataServerNumber(3)))
        );
        assert!(group(0..64).is_ok());
        assert_eq!(group(0..65), Err(InvalidDeviceGroup::TooWide(65)));
    }

    #[test]
    fn a_group_comes_back_as_it_was_stored_and_keeps_its_form() {
        let stored = group([3, 1, 0x0102]).unwrap().encode();
        assert_eq!(stored, [1, 0, 3, 0, 1, 1, 2]);
        assert_eq!(
            DeviceGroup::decode(&stored),
            Ok(group([3, 1, 0x0102]).unwrap())
        );
    }

    #[test]
    fn bytes_that_are_no_group_are_refused() {
        let wide: Vec<u8> = [1].into_iter().chain((0..130).map(|n| n + 1)).collect();
        for bytes in [&[][..], &[1], &[2, 0, 3], &[1, 0], &[1, 0, 3, 0, 3], &wide] {
            assert!(DeviceGroup::decode(bytes).is_err(), "{bytes:?}");
        }
    }
}

//! Ranges of client addresses in access rules.
//!
//! What must never enter: the rights of the clients in a range.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A range of client addresses: all, one address, or a prefix such as `192.0.2.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// `None` means all addresses.
    prefix: Option<(IpAddr, u8)>,
}

fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The length of the prefix before an IPv4 address that is written as an IPv6 address.
const MAPPED_BITS: u8 = 96;

/// Why a text is not an address range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an address range; write `*`, an address such as `192.0.2.7`, or a prefix such as `192.0.2.0/24` or `2001:db8::/32`"
)]
pub struct AddressRangeError(String);

impl AddressRange {
    /// All addresses.
    pub const ANY: AddressRange = AddressRange { prefix: None };

    /// Whether an address is in the range. IPv4 clients of an IPv6 socket count as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let Some((network, length)) = self.prefix else {
            return true;
        };
        match (network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(length);
                u32::from(network).checked_shr(shift) == u32::from(address).checked_shr(shift)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(length);
                u128::from(network).checked_shr(shift) == u128::from(address).checked_shr(shift)
            }
            _ => false,
        }
    }
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<AddressRange, AddressRangeError> {
        let wrong = || AddressRangeError(text.to_owned());
        if text == "*" {
            return Ok(AddressRange::ANY);
        }
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = bits_of(address);
        let length: u8 = match length {
            Some(length) => length.parse().map_err(|_| wrong())?,
            None => most,
        };
        // Clients with an IPv4 address are known by it, so rules use it too (RFC 4291, section 2.5.5.2).
        let (address, length) = match address.to_canonical() {
            address if address.is_ipv4() && most == 128 => {
                (address, length.checked_sub(MAPPED_BITS).ok_or_else(wrong)?)
            }
            address => (address, length),
        };
        if length > bits_of(address) {
            return Err(wrong());
        }
        Ok(AddressRange {
            prefix: Some((address, length)),
        })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix {
            None => f.write_str("*"),
            Some((address, length)) => write!(f, "{address}/{length}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_hold_their_addresses() {
        let inside = |text: &str, address: &str| range(text).contains(address.parse().unwrap());
        assert!(inside("*", "2001:db8::1"));
        assert!(inside("192.0.2.0/24", "192.0.2.255"));
        assert!(!inside("192.0.2.0/24", "192.0.3.0"));
        assert!(inside("192.0.2.7", "192.0.2.7"));
        assert!(!inside("192.0.2.7", "192.0.2.8"));
        assert!(inside("0.0.0.0/0", "203.0.113.9"));
        assert!(inside("192.0.2.0/24", "::ffff:192.0.2.9"));
        assert!(inside("2001:db8::/32", "2001:db8:1::1"));
        assert!(!inside("2001:db8::/32", "192.0.2.1"));
    }

    #[test]
    fn wrong_ranges_are_refused_with_examples() {
        for text in [
            "",
            "host",
            "192.0.2.0/33",
            "192.0.2.0/",
            "192.0.2/24",
            "::/129",
        ] {
            let error = text.parse::<AddressRange>().unwrap_err();
            assert!(error.to_string().contains("192.0.2.0/24"), "{error}");
        }
    }

    /// Before a fix, such a rule never matched, because clients are known by their IPv4 addresses.
    #[test]
    fn ranges_of_mapped_addresses_are_for_ipv4_clients() {
        for (text, shown) in [
            ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
            ("::ffff:192.0.2.7", "192.0.2.7/32"),
            ("::ffff:0.0.0.0/96", "0.0.0.0/0"),
        ] {
            let range: AddressRange = text.parse().unwrap();
            assert_eq!(range.to_string(), shown);
            for client in ["192.0.2.7", "::ffff:192.0.2.7"] {
                assert!(range.contains(client.parse().unwrap()), "{text} {client}");
            }
            assert!(!range.contains("2001:db8::1".parse().unwrap()));
        }
        assert!("::ffff:192.0.2.0/95".parse::<AddressRange>().is_err());
    }
}

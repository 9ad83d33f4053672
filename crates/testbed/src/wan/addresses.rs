//! The addresses on a WAN.
//!
//! A site's index, from 1 on, is part of its addresses: site 2 is 10.200.2.1, and guests that boot in
//! it are in 10.130.0.0/16. Service addresses, 10.200.0.1 and on, belong to the site that has them now.
//! All of these can be reached from every site and every guest. Private addresses of a site, mainly
//! 10.99.0.1, are the same in every site.
//!
//! What must never enter: devices and routes; see `device`.

use std::net::Ipv4Addr;

/// The maximum number of sites of a WAN: guests of the last are in 10.176.0.0/16, among [`ALL_GUESTS`].
pub(super) const SITES_MAX: usize = 48;

/// The second byte of the sites' own addresses.
const SITES: u8 = 200;

/// The second byte of the guests' addresses, minus the site's number.
const GUESTS: u8 = 128;

/// All guests of all sites.
pub(super) const ALL_GUESTS: &str = "10.128.0.0/10";

/// The address of the site with this index.
pub(super) fn site(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, SITES, number(index), 1)
}

/// The service address with this number, from 1 on.
pub(super) fn service(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, SITES, 0, number)
}

/// The second byte of the addresses of all guests in the site with this index.
pub(super) fn guests(index: usize) -> u8 {
    GUESTS + number(index)
}

/// The index of the site that an address belongs to. The result may be an index without a site.
pub(super) fn index(address: Ipv4Addr) -> Option<usize> {
    let number = match address.octets() {
        [10, SITES, number, 1] => number,
        [10, network, _, _] => network.checked_sub(GUESTS)?,
        _ => return None,
    };
    usize::from(number).checked_sub(1)
}

fn number(index: usize) -> u8 {
    assert!(index < SITES_MAX, "a WAN with more sites is refused");
    index as u8 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_tell_their_site() {
        for index in [0, 1, SITES_MAX - 1] {
            assert_eq!(super::index(site(index)), Some(index));
            let guest = Ipv4Addr::new(10, guests(index), 3, 2);
            assert_eq!(super::index(guest), Some(index));
        }
    }

    #[test]
    fn strangers_belong_to_no_site() {
        for stranger in [
            [10, 200, 0, 1],
            [10, 200, 1, 2],
            service(1).octets(),
            [10, 128, 1, 1],
            [10, 99, 0, 1],
        ] {
            let index = index(Ipv4Addr::from(stranger));
            assert!(index.is_none_or(|index| index >= SITES_MAX), "{stranger:?}");
        }
        assert_eq!(index(Ipv4Addr::new(224, 0, 0, 1)), None);
    }
}

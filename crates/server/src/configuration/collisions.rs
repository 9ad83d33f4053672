//! Addresses that a server cannot use together, because both take the same port of the same address.
//!
//! What must never enter: sockets, and the ports of other programs.

use std::net::{IpAddr, SocketAddr};

use super::section::Section;
use super::{Configuration, ConfigurationError, ListenAddress, Offer};

const REMEDY: &str = "leave one of them out, or choose another port";

/// Reports addresses in the file that cannot both be used.
pub(super) fn look_for(top: &Section<'_>, all: &Configuration) {
    if let Some((one, other)) = within(&all.listen) {
        let what = format!("`listen` has both {one} and {other}, which are the same port");
        top.complain(top.place_of("listen"), what, REMEDY);
    }
    let mut taken: Vec<(String, SocketAddr)> = (all.listen.iter())
        .map(|address| ("clients".to_owned(), address.0))
        .collect();
    for (section, offer) in [("metrics", all.metrics), ("page", all.page.listen)] {
        // A default that is taken is not an error.
        let Offer::At(address) = offer else {
            continue;
        };
        if let Some((by, at)) = taken.iter().find(|(_, at)| collide(*at, address)) {
            let what = format!(
                "`listen` in [{section}] is {address}, and {at} is for {by}, which is the same port"
            );
            top.complain(top.place_of(section), what, "choose another port");
        }
        taken.push((format!("[{section}]"), address));
    }
}

/// Refuses addresses on the command line that cannot both be used.
pub(super) fn refuse(listen: &[ListenAddress]) -> Result<(), ConfigurationError> {
    match within(listen) {
        None => Ok(()),
        Some((one, other)) => Err(ConfigurationError::CommandLine(format!(
            "--listen: {one} and {other} are the same port; {REMEDY}"
        ))),
    }
}

fn within(listen: &[ListenAddress]) -> Option<(ListenAddress, ListenAddress)> {
    let mut pairs = (listen.iter().enumerate())
        .flat_map(|(index, one)| listen[index + 1..].iter().map(move |other| (*one, *other)));
    pairs.find(|(one, other)| collide(one.0, other.0))
}

/// Whether listening at one address also takes the other. Port 0 means any free port, and `[::]` includes IPv4.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let (ip, with) = (one.ip().to_canonical(), other.ip().to_canonical());
    let takes = |taker: IpAddr, taken: IpAddr| match taker {
        _ if taker == taken => true,
        IpAddr::V6(all) => all.is_unspecified(),
        IpAddr::V4(all) => all.is_unspecified() && taken.is_ipv4(),
    };
    one.port() != 0 && one.port() == other.port() && (takes(ip, with) || takes(with, ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_at_all_addresses_has_them_all() {
        let collide = |one: &str, other: &str| {
            let both = collide(one.parse().unwrap(), other.parse().unwrap());
            let turned = super::collide(other.parse().unwrap(), one.parse().unwrap());
            assert_eq!(both, turned, "{one} {other}");
            both
        };
        assert!(collide("192.0.2.1:2049", "192.0.2.1:2049"));
        assert!(collide("[::]:2049", "192.0.2.1:2049"));
        assert!(collide("[::]:2049", "[2001:db8::1]:2049"));
        assert!(collide("0.0.0.0:2049", "[::ffff:192.0.2.1]:2049"));
        assert!(!collide("0.0.0.0:2049", "[2001:db8::1]:2049"));
        assert!(!collide("192.0.2.1:2049", "192.0.2.2:2049"));
        assert!(!collide("[::]:2049", "[::]:2050"));
        assert!(!collide("127.0.0.1:0", "127.0.0.1:0"));
    }
}

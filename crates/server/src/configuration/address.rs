//! Where to listen.
//!
//! What must never enter: sockets, and names that would have to be looked up.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The port of NFS (RFC 8881, section 2.9.3).
pub const NFS_PORT: u16 = 2049;

/// An address and port to accept connections at.
///
/// `[::]` stands for all addresses of the machine, IPv4 included; where the machine has no IPv6, it
/// means `0.0.0.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress(pub SocketAddr);

/// Why a text is no such address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address to listen at; write {wanted}", wanted = ListenAddress::WANTED)]
pub struct ListenAddressError(String);

impl ListenAddress {
    /// All addresses of the machine, at the port of NFS.
    pub const EVERYWHERE: ListenAddress =
        ListenAddress(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), NFS_PORT));

    /// What people should write.
    pub(super) const WANTED: &'static str = "ADDRESS:PORT, such as \"192.0.2.1:2049\", \"[2001:db8::1]:2049\" or \"[::]:2049\" for all addresses";
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<ListenAddress, ListenAddressError> {
        let whole = text.parse::<SocketAddr>();
        let bare = || {
            text.parse::<IpAddr>()
                .map(|address| SocketAddr::new(address, NFS_PORT))
        };
        let address = whole.or_else(|_| bare());
        address
            .map(ListenAddress)
            .map_err(|_| ListenAddressError(text.to_owned()))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_or_get_that_of_nfs() {
        for (text, shown) in [
            ("192.0.2.1:20490", "192.0.2.1:20490"),
            ("192.0.2.1", "192.0.2.1:2049"),
            ("[::1]:1", "[::1]:1"),
            ("2001:db8::1", "[2001:db8::1]:2049"),
            ("127.0.0.1:0", "127.0.0.1:0"),
        ] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn anything_else_is_refused_with_examples() {
        for text in [
            "",
            "2049",
            ":2049",
            "localhost:2049",
            "192.0.2.1:99999",
            "192.0.2:1",
        ] {
            let error = text.parse::<ListenAddress>().unwrap_err().to_string();
            assert!(error.contains("192.0.2.1:2049"), "{error}");
        }
    }
}

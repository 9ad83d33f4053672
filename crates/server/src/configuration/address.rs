//! Addresses to listen at, and addresses at which others reach this server.
//!
//! What must never enter: sockets, and name lookup.

use std::fmt;
use std::net::{AddrParseError, IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The port of NFS (RFC 8881, section 2.9.3).
pub const NFS_PORT: u16 = 2049;

/// The default port at which replicas listen for each other.
pub const PEER_PORT: u16 = 7643;

/// An address and port to accept connections at.
///
/// `[::]` stands for all addresses of the machine, IPv4 included; where the machine has no IPv6, it
/// means `0.0.0.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress(pub SocketAddr);

/// Why a text is not such an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address to listen at; write {wanted}", wanted = ListenAddress::WANTED)]
pub struct ListenAddressError(String);

impl ListenAddress {
    /// All addresses of the machine, at the port of NFS.
    pub const EVERYWHERE: ListenAddress =
        ListenAddress(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), NFS_PORT));

    /// The expected format, for messages.
    pub(super) const WANTED: &'static str = "ADDRESS:PORT, such as \"192.0.2.1:2049\", \"[2001:db8::1]:2049\" or \"[::]:2049\" for all addresses";
}

impl ListenAddress {
    /// Parses an address with a port, or adds this port.
    fn with_port(text: &str, port: u16) -> Option<ListenAddress> {
        let whole = text.parse::<SocketAddr>();
        let bare = || Ok(SocketAddr::new(text.parse::<IpAddr>()?, port));
        let address: Result<SocketAddr, AddrParseError> = whole.or_else(|_| bare());
        address.ok().map(ListenAddress)
    }
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<ListenAddress, ListenAddressError> {
        ListenAddress::with_port(text, NFS_PORT).ok_or_else(|| ListenAddressError(text.to_owned()))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where to accept connections of other replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerListenAddress(pub ListenAddress);

impl PeerListenAddress {
    /// All addresses of the machine, at the port for replicas.
    pub const EVERYWHERE: PeerListenAddress = PeerListenAddress(ListenAddress(SocketAddr::new(
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        PEER_PORT,
    )));

    /// The expected format, for messages.
    pub(super) const WANTED: &'static str = "ADDRESS:PORT, such as \"192.0.2.1:7643\", \"[2001:db8::1]:7643\" or \"[::]:7643\" for all addresses";
}

impl FromStr for PeerListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<PeerListenAddress, ListenAddressError> {
        let address = ListenAddress::with_port(text, PEER_PORT);
        let address = address.ok_or_else(|| ListenAddressError(text.to_owned()))?;
        Ok(PeerListenAddress(address))
    }
}

/// Where the other replicas of a set reach this server: a name or an address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress(String);

/// Where clients reach a server: a name or an address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAddress(String);

/// Why a text is not such an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` does not say where clients reach a server; write HOST or HOST:PORT, such as `alpha.example` or `192.0.2.1:2049`"
)]
pub struct ClientAddressError(String);

impl ClientAddress {
    /// The form for connecting, `host:port`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClientAddress {
    type Err = ClientAddressError;

    fn from_str(text: &str) -> Result<ClientAddress, ClientAddressError> {
        let called = called(text, NFS_PORT).ok_or_else(|| ClientAddressError(text.to_owned()))?;
        Ok(ClientAddress(called))
    }
}

/// Why a text is not such an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` does not say where others reach this server; write HOST:PORT, such as `alpha.example:7643` or `192.0.2.1:7643`"
)]
pub struct PeerAddressError(String);

impl PeerAddress {
    /// The form for connecting, `host:port`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PeerAddress {
    type Err = PeerAddressError;

    fn from_str(text: &str) -> Result<PeerAddress, PeerAddressError> {
        let called = called(text, PEER_PORT).ok_or_else(|| PeerAddressError(text.to_owned()))?;
        Ok(PeerAddress(called))
    }
}

/// An address to connect to, `host:port`; a text without a port gets this one.
fn called(text: &str, port: u16) -> Option<String> {
    if let Some(ListenAddress(address)) = ListenAddress::with_port(text, port) {
        // It is impossible to connect to "all addresses", or to a port that is not known yet.
        let can_be_called = !address.ip().is_unspecified() && address.port() != 0;
        return can_be_called.then(|| address.to_string());
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (text, port),
    };
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    // An invalid IPv4 address would otherwise be looked up as a name in vain.
    let is_name = host.chars().all(fits) && host.chars().any(|letter| letter.is_alphabetic());
    (is_name && host.len() <= 253 && port != 0).then(|| format!("{host}:{port}"))
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

    #[test]
    fn replicas_are_called_by_name_or_address_and_at_a_port() {
        for (text, called) in [
            ("alpha.example:7000", "alpha.example:7000"),
            ("alpha", "alpha:7643"),
            ("192.0.2.1", "192.0.2.1:7643"),
            ("[2001:db8::1]:7", "[2001:db8::1]:7"),
            ("2001:db8::1", "[2001:db8::1]:7643"),
        ] {
            let address: PeerAddress = text.parse().unwrap();
            assert_eq!(address.as_str(), called);
        }
        for text in [
            "",
            ":7643",
            "alpha:",
            "alpha:0",
            "alpha:http",
            "al pha:7643",
            "192.0.2:7643",
            "0.0.0.0:7643",
            "[::]:7643",
            "192.0.2.1:0",
        ] {
            let error = text.parse::<PeerAddress>().unwrap_err().to_string();
            assert!(error.contains("alpha.example:7643"), "{error}");
        }
        let listen: PeerListenAddress = "192.0.2.1".parse().unwrap();
        assert_eq!(listen.0.to_string(), "192.0.2.1:7643");
    }
}

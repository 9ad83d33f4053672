//! The address of a service for people or programs that watch the server, if it is offered.
//!
//! What must never enter: the service itself.

use std::net::{AddrParseError, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// Whether and where a service is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Nowhere.
    Off,
    /// At this address, unless the port is taken. Because this is only a default, a second server on the same machine
    /// must not fail because of it.
    IfFree(SocketAddr),
    /// At this address.
    At(SocketAddr),
}

impl Offer {
    /// The default: on this machine only, at this port.
    pub(super) fn here(port: u16) -> Offer {
        Offer::IfFree(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }
}

impl FromStr for Offer {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Offer, AddrParseError> {
        match text {
            "off" => Ok(Offer::Off),
            address => address.parse().map(Offer::At),
        }
    }
}

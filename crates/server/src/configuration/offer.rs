//! Where something is offered to people or programs that watch the server, if it is offered at all.
//!
//! What must never enter: what is offered.

use std::net::{AddrParseError, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// An address of the server at which somebody is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Nowhere.
    Off,
    /// There, unless the port is taken: nobody asked for it, so a second server on one machine
    /// must not fail for it.
    IfFree(SocketAddr),
    /// There.
    At(SocketAddr),
}

impl Offer {
    /// On this machine only, at a port that nobody asked for.
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

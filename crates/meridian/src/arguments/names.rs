//! Arguments of `meridian domain`, `meridian junction` and `meridian automount-map`: one name for every tree.
//!
//! What must never enter: what the commands do.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use names::Domain;
use server::Referral;

/// The port of DNS (RFC 1035, section 4.2).
const DNS_PORT: u16 = 53;

#[derive(Debug, Subcommand)]
pub(crate) enum DomainCommand {
    /// Print what the zone of a domain needs, so that clients find the members of this server's set
    Records {
        /// The domain, such as example.org
        domain: Domain,
        /// Data directory of a member [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Look a domain up as a client would, and ask each of its servers whether it answers and has the root
    Check(DomainCheckArguments),
}

#[derive(Debug, Args)]
pub(crate) struct DomainCheckArguments {
    /// The domain, such as example.org
    pub(crate) domain: Domain,
    /// Ask this DNS server instead of those of this machine
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = dns_server)]
    pub(crate) dns: Option<SocketAddr>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AutomountMapArguments {
    /// What was looked for below /nfs
    #[arg(allow_hyphen_values = true)]
    pub(crate) key: std::ffi::OsString,
    /// Ask this DNS server instead of those of this machine
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = dns_server)]
    pub(crate) dns: Option<SocketAddr>,
    /// Count in this file what is refused, and tell at most 20 refusals a minute
    #[arg(long, value_name = "FILE")]
    pub(crate) refusals: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JunctionCommand {
    /// Have a name in the root of the domain lead to trees of other servers, or to others than before
    Add {
        /// The name
        name: String,
        /// A server and the path of the tree there, such as files.example.net:/export; may be repeated, the best one first
        #[arg(long, value_name = "HOST:/PATH", required = true, value_parser = junction_place)]
        to: Vec<Referral>,
        /// Data directory of a member whose server runs [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// List the junctions that the set has agreed on
    List {
        /// Data directory of a member whose server runs [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Have a name lead nowhere any more
    Remove {
        /// The name
        name: String,
        /// Data directory of a member whose server runs [default: /var/lib/meridian]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
}

fn dns_server(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<SocketAddr>();
    let bare = || Ok(SocketAddr::new(text.parse::<IpAddr>()?, DNS_PORT));
    address
        .or_else(|_| bare())
        .map_err(|_: std::net::AddrParseError| "write an address such as 192.0.2.53".to_owned())
}

fn junction_place(text: &str) -> Result<Referral, String> {
    let wanted = || "write HOST:/PATH, such as files.example.net:/export".to_owned();
    let (server, path) = text.split_once(":/").ok_or_else(wanted)?;
    let bare = server
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match bare.unwrap_or(server) {
        "" => Err(wanted()),
        server => Ok(Referral {
            server: server.to_owned(),
            path: format!("/{path}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_as_for_mount() {
        for (text, server, path) in [
            ("files.example.net:/export", "files.example.net", "/export"),
            ("192.0.2.1:/", "192.0.2.1", "/"),
            ("[2001:db8::1]:/a/b", "2001:db8::1", "/a/b"),
        ] {
            let place = junction_place(text).unwrap();
            assert_eq!((place.server.as_str(), place.path.as_str()), (server, path));
            assert_eq!(place.to_string(), text);
        }
        for text in [
            "",
            ":/export",
            "files.example.net",
            "files.example.net:export",
            "[]:/x",
        ] {
            assert!(junction_place(text).unwrap_err().contains("HOST:/PATH"));
        }
    }

    #[test]
    fn dns_servers_have_a_port_or_get_that_of_dns() {
        assert_eq!(
            dns_server("192.0.2.53"),
            Ok("192.0.2.53:53".parse().unwrap())
        );
        assert_eq!(dns_server("[::1]:5353"), Ok("[::1]:5353".parse().unwrap()));
        assert!(dns_server("ns.example.org").is_err());
    }
}

//! The records of a domain's servers in its zone.
//!
//! What must never enter: how they get into DNS.

use std::net::IpAddr;

use crate::domain::Domain;

/// How many seconds resolvers may cache the records: clients may use a removed server for this time.
const TTL_SECONDS: u32 = 300;

/// A server to be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its number among the servers of the domain, for a generated name if it has none.
    pub number: u16,
    /// Its name or its address.
    pub host: String,
    /// The port on which it listens.
    pub port: u16,
}

/// The lines of a zone file (RFC 1035, section 5.1; RFC 2782) that name these servers for a domain. A server with an
/// address only gets a name in the domain, because records need names. All have one priority: clients measure which one is near.
#[must_use]
pub fn zone_lines(domain: &Domain, servers: &[Published]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut addresses = Vec::new();
    for server in servers {
        let bare = server.host.trim_start_matches('[').trim_end_matches(']');
        let name = match bare.parse::<IpAddr>() {
            Ok(address) => {
                let name = format!("nfs{}.{domain}.", server.number);
                let kind = if address.is_ipv4() { "A" } else { "AAAA" };
                addresses.push(format!("{name} {TTL_SECONDS} IN {kind} {address}"));
                name
            }
            Err(_) => format!("{}.", server.host.trim_end_matches('.')),
        };
        let line = format!(
            "{} {TTL_SECONDS} IN SRV 0 0 {} {name}",
            domain.service_name(),
            server.port
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.extend(addresses);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_named_and_addresses_get_names() {
        let server = |number, host: &str, port| Published {
            number,
            host: host.to_owned(),
            port,
        };
        let servers = [
            server(1, "alpha.example.net", 2049),
            server(2, "192.0.2.2", 2049),
            server(3, "[2001:db8::3]", 20490),
            server(3, "192.0.2.3", 20490),
        ];
        let domain = "example.org".parse().unwrap();
        let expected = [
            "_nfs-domainroot._tcp.example.org. 300 IN SRV 0 0 2049 alpha.example.net.",
            "_nfs-domainroot._tcp.example.org. 300 IN SRV 0 0 2049 nfs2.example.org.",
            "_nfs-domainroot._tcp.example.org. 300 IN SRV 0 0 20490 nfs3.example.org.",
            "nfs2.example.org. 300 IN A 192.0.2.2",
            "nfs3.example.org. 300 IN AAAA 2001:db8::3",
            "nfs3.example.org. 300 IN A 192.0.2.3",
        ];
        assert_eq!(zone_lines(&domain, &servers), expected);
    }
}

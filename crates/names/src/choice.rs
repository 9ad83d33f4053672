//! The servers from which a client mounts a domain, and the line for autofs.
//!
//! What must never enter: the network, and the clock.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::domain::Domain;

/// At most this number of servers is named: autofs tries them in turn, and each may take 40 seconds.
pub const SERVERS_MAX: usize = 3;

/// A server that has just answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answering {
    /// From DNS; servers with smaller priorities come first.
    pub priority: u16,
    /// Its name. Addresses with the same name belong to the same server.
    pub host: String,
    /// The address that answered.
    pub address: SocketAddr,
    /// The time until the answer.
    pub round_trip: Duration,
    /// It is on this machine.
    pub is_own: bool,
}

/// The value of a key of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// The servers, the best one first: IPv4 addresses, or a single IPv6 address. Not empty.
    pub servers: Vec<IpAddr>,
    /// The port of all of them.
    pub port: u16,
    /// The path of the domain's root at each of them.
    pub path: String,
}

/// The servers to mount a domain from: by priority, then by speed of answer, each with its fastest
/// address. Only servers with the port of the first one, because autofs has one port for all. Nothing if no server answered.
///
/// If any has answered at an IPv4 address, only IPv4 addresses: autofs 5.1 reads no weight after an IPv6 address, and ignores
/// the rest of such a line. It does read a single IPv6 address without a weight, but does not recognise one of its
/// own machine: such a server is named only if no other has answered.
#[must_use]
pub fn choose(domain: &Domain, mut answering: Vec<Answering>) -> Option<MapEntry> {
    answering.sort_by_key(|one| {
        let is_ipv6 = one.address.is_ipv6();
        (is_ipv6, is_ipv6 && one.is_own, one.priority, one.round_trip)
    });
    let best = answering.first()?.address;
    let servers_max = if best.is_ipv4() { SERVERS_MAX } else { 1 };
    let mut chosen: Vec<&Answering> = Vec::new();
    for one in &answering {
        let fits = one.address.is_ipv4() == best.is_ipv4() && one.address.port() == best.port();
        let is_known = chosen
            .iter()
            .any(|other| other.host == one.host || other.address == one.address);
        if fits && !is_known && chosen.len() < servers_max {
            chosen.push(one);
        }
    }
    Some(MapEntry {
        servers: chosen.iter().map(|one| one.address.ip()).collect(),
        port: best.port(),
        path: domain.root_path(),
    })
}

impl fmt::Display for MapEntry {
    /// One line as a program map answers it (autofs(5)). Without `use-weight-only` autofs would sort by the distance of addresses.
    /// Without `nobind` it would bind a local directory in place of a server on this machine. Without a port it would ask for the port at
    /// port 111 of this machine, where nothing may listen, and skip that server.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "-fstype=nfs4,nobind,use-weight-only,port={}", self.port)?;
        for (place, server) in self.servers.iter().enumerate() {
            f.write_str(if place == 0 { " " } else { "," })?;
            match server {
                IpAddr::V4(address) => write!(f, "{address}({})", place + 1)?,
                IpAddr::V6(address) => write!(f, "[{address}]")?,
            }
        }
        write!(f, ":{}", self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answering(priority: u16, host: &str, address: &str, millis: u64) -> Answering {
        Answering {
            priority,
            host: host.to_owned(),
            address: address.parse().unwrap(),
            round_trip: Duration::from_millis(millis),
            is_own: false,
        }
    }

    fn line(answering: Vec<Answering>) -> String {
        let domain = "example.org".parse().unwrap();
        choose(&domain, answering).unwrap().to_string()
    }

    #[test]
    fn priority_goes_before_distance_and_distance_before_anything_else() {
        let far = answering(0, "far", "192.0.2.1:2049", 120);
        let near = answering(0, "near", "192.0.2.2:2049", 2);
        let reserve = answering(10, "reserve", "192.0.2.3:2049", 1);
        assert_eq!(
            line(vec![reserve, far, near]),
            "-fstype=nfs4,nobind,use-weight-only,port=2049 192.0.2.2(1),192.0.2.1(2),192.0.2.3(3):/.domainroot/example.org"
        );
    }

    #[test]
    fn one_line_has_one_port_and_names_a_server_once() {
        let near = answering(0, "both", "192.0.2.3:20490", 1);
        let far = answering(0, "both", "192.0.2.1:20490", 2);
        let elsewhere = answering(0, "elsewhere", "192.0.2.2:2049", 3);
        assert_eq!(
            line(vec![far, elsewhere, near]),
            "-fstype=nfs4,nobind,use-weight-only,port=20490 192.0.2.3(1):/.domainroot/example.org"
        );
    }

    #[test]
    fn an_ipv6_address_stands_alone_and_only_where_no_other_answers() {
        let six = answering(0, "six", "[2001:db8::1]:2049", 1);
        let other = answering(0, "other", "[2001:db8::2]:2049", 2);
        let four = answering(10, "four", "192.0.2.1:2049", 3);
        assert_eq!(
            line(vec![six.clone(), other.clone(), four]),
            "-fstype=nfs4,nobind,use-weight-only,port=2049 192.0.2.1(1):/.domainroot/example.org"
        );
        assert_eq!(
            line(vec![other, six]),
            "-fstype=nfs4,nobind,use-weight-only,port=2049 [2001:db8::1]:/.domainroot/example.org"
        );
    }

    #[test]
    fn a_server_of_this_machine_is_not_named_at_an_ipv6_address_while_others_answer() {
        let own = Answering {
            is_own: true,
            ..answering(0, "own", "[2001:db8::1]:2049", 1)
        };
        let other = answering(5, "other", "[2001:db8::2]:2049", 90);
        assert!(line(vec![own.clone(), other]).contains(" [2001:db8::2]:/"));
        assert!(line(vec![own.clone()]).contains(" [2001:db8::1]:/"));
        let over_ipv4 = Answering {
            address: "127.0.0.1:2049".parse().unwrap(),
            ..own
        };
        let other = answering(0, "four", "192.0.2.1:2049", 90);
        let told = line(vec![other, over_ipv4]);
        assert!(told.contains(" 127.0.0.1(1),192.0.2.1(2):/"), "{told}");
    }

    #[test]
    fn three_are_named_of_any_number_and_none_of_none() {
        let many = (1..=9).map(|at| {
            let (host, address) = (format!("host{at}"), format!("192.0.2.{at}:2049"));
            answering(0, &host, &address, at)
        });
        let told = line(many.collect());
        assert_eq!(told.matches('(').count(), SERVERS_MAX, "{told}");
        let domain = "example.org".parse().unwrap();
        assert_eq!(choose(&domain, Vec::new()), None);
    }
}

//! Which servers a client mounts a domain from, and the line that says so to autofs.
//!
//! What must never enter: the network, and the clock.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::NFS_PORT;
use crate::domain::Domain;

/// At most this many servers are named: autofs tries them in turn, and each may take 40 seconds.
pub const SERVERS_MAX: usize = 3;

/// A server that has just answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answering {
    /// As DNS says; smaller ones go first.
    pub priority: u16,
    /// Its name, which says which addresses are the same server's.
    pub host: String,
    /// Where it answered.
    pub address: SocketAddr,
    /// How long that took.
    pub round_trip: Duration,
}

/// What a key of the map stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// The servers, the best one first. Not empty.
    pub servers: Vec<IpAddr>,
    /// Where all of them listen.
    pub port: u16,
    /// Where the root of the domain is at each of them.
    pub path: String,
}

/// The servers to mount a domain from: by priority, then by how fast they answered, each at the address at which it was
/// fastest; only those at the port of the first one, because autofs knows one port for all. Nothing when nobody answered.
#[must_use]
pub fn choose(domain: &Domain, mut answering: Vec<Answering>) -> Option<MapEntry> {
    answering.sort_by_key(|one| (one.priority, one.round_trip));
    let port = answering.first()?.address.port();
    let mut chosen: Vec<&Answering> = Vec::new();
    for one in &answering {
        let is_known = chosen
            .iter()
            .any(|other| other.host == one.host || other.address == one.address);
        if one.address.port() == port && !is_known && chosen.len() < SERVERS_MAX {
            chosen.push(one);
        }
    }
    Some(MapEntry {
        servers: chosen.iter().map(|one| one.address.ip()).collect(),
        port,
        path: domain.root_path(),
    })
}

impl fmt::Display for MapEntry {
    /// One line as a program map answers it (autofs(5)). Without `use-weight-only` autofs would sort by how near addresses look,
    /// and without `nobind` it would take a server on this machine for a directory of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("-fstype=nfs4,nobind,use-weight-only")?;
        if self.port != NFS_PORT {
            write!(f, ",port={}", self.port)?;
        }
        for (place, server) in self.servers.iter().enumerate() {
            f.write_str(if place == 0 { " " } else { "," })?;
            match server {
                IpAddr::V4(address) => write!(f, "{address}")?,
                IpAddr::V6(address) => write!(f, "[{address}]")?,
            }
            write!(f, "({})", place + 1)?;
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
            "-fstype=nfs4,nobind,use-weight-only 192.0.2.2(1),192.0.2.1(2),192.0.2.3(3):/.domainroot/example.org"
        );
    }

    #[test]
    fn one_line_has_one_port_and_names_a_server_once() {
        let six = answering(0, "both", "[2001:db8::1]:20490", 1);
        let four = answering(0, "both", "192.0.2.1:20490", 2);
        let elsewhere = answering(0, "elsewhere", "192.0.2.2:2049", 3);
        assert_eq!(
            line(vec![four, elsewhere, six]),
            "-fstype=nfs4,nobind,use-weight-only,port=20490 [2001:db8::1](1):/.domainroot/example.org"
        );
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

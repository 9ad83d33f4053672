//! The domain of `[names]`: whether DNS has its records, and whether they lead to its servers.
//!
//! What must never enter: the right records; `meridian domain records` prints them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use names::{Domain, Lookup, NamedServer};
use server::{Configuration, set};
use tokio::task::spawn_blocking;

use super::finding::Finding;
use crate::domain;

const DNS: &str = "dns";

/// The findings for the records; none if no domain is configured.
pub(super) async fn findings(configuration: &Configuration) -> Vec<Finding> {
    let Some(domain) = &configuration.domain else {
        return Vec::new();
    };
    let remedy = format!(
        "`meridian domain records {domain}` prints what the zone needs; `meridian domain check {domain}` looks again"
    );
    let servers = async { Lookup::of_this_machine()?.servers(domain).await };
    let servers = match servers.await {
        Ok(servers) => servers,
        Err(error) if error.is_of_the_zone() => {
            return vec![Finding::mend(DNS, error.to_string(), remedy)];
        }
        Err(error) => return vec![Finding::mend(DNS, error.to_string(), "as the message says")],
    };
    let published = Published::of(&servers);
    let mut found = Vec::new();
    for one in domain::look_at(domain, servers).await {
        let at = match one.address {
            Some(address) => format!("{} ({address})", one.host),
            None => format!("{}:{}", one.host, one.port),
        };
        found.push(match (one.problem, one.remark) {
            (None, None) => Finding::well(DNS, format!("{at} serves {domain}")),
            (None, Some(remark)) => Finding::well(DNS, format!("{at} serves {domain}; {remark}")),
            (Some(problem), _) => Finding::mend(DNS, format!("{at}: {problem}"), remedy.clone()),
        });
    }
    let (domain, data) = (domain.clone(), configuration.data.clone());
    // A name lookup waits for other servers.
    let missing = spawn_blocking(move || unpublished(&domain, &data, &published, &remedy));
    found.extend(missing.await.unwrap_or_default());
    found
}

/// The servers of a domain by DNS.
struct Published {
    names: BTreeSet<(String, u16)>,
    addresses: BTreeSet<SocketAddr>,
}

impl Published {
    fn of(servers: &[NamedServer]) -> Published {
        let names = servers.iter();
        let names = names.map(|server| (plain(&server.host), server.port));
        let addresses = servers.iter().flat_map(|server| {
            let addresses = server.addresses.iter();
            addresses.map(|address| SocketAddr::new(*address, server.port))
        });
        Published {
            names: names.collect(),
            addresses: addresses.collect(),
        }
    }

    /// Whether the address of a member for clients is among them, by its name or by one of its IP addresses.
    fn has(&self, place: &str) -> bool {
        let Some((host, port)) = place.rsplit_once(':') else {
            return false;
        };
        let port = port.parse().unwrap_or_default();
        if self.names.contains(&(plain(host), port)) {
            return true;
        }
        let found = set::resolve(place).unwrap_or_default();
        let mut found = found.iter().map(|at| (at.ip().to_canonical(), at.port()));
        found.any(|at| self.addresses.contains(&at.into()))
    }
}

/// Members that clients could reach but that DNS does not name.
fn unpublished(domain: &Domain, data: &Path, published: &Published, remedy: &str) -> Vec<Finding> {
    let Ok(joined) = set::members(data) else {
        return Vec::new();
    };
    let serving = joined
        .members
        .iter()
        .filter(|member| !member.revoked && !member.witness);
    let missing = serving.filter(|member| {
        let addresses = set::client_addresses(member);
        !addresses.iter().any(|address| published.has(address))
    });
    missing
        .map(|member| {
            let at = set::client_addresses(member).join(", ");
            let what = format!(
                "replica {} at {at} is not among the servers of {domain}",
                member.slot
            );
            Finding::mind(DNS, what, remedy)
        })
        .collect()
}

/// A host name in the form for comparison: without the dot at its end, in lower case.
fn plain(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(host: &str, addresses: &[&str]) -> NamedServer {
        NamedServer {
            priority: 0,
            weight: 0,
            port: 2049,
            host: host.to_owned(),
            addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
            trouble: None,
        }
    }

    #[test]
    fn names_are_compared_as_dns_does() {
        let published = Published::of(&[named("Files.Paris.example.org.", &[])]);
        assert!(published.has("files.paris.EXAMPLE.org:2049"));
        assert!(!published.has("files.paris.example.org:2050"));
        assert!(!published.has("files.paris.example.org"));
    }

    #[test]
    fn a_member_that_is_known_by_its_address_is_found_under_the_name_it_got() {
        let published = Published::of(&[
            named("nfs1.example.org", &["192.0.2.1"]),
            named("nfs2.example.org", &["2001:db8::2"]),
        ]);
        assert!(published.has("192.0.2.1:2049"));
        assert!(published.has("[2001:db8::2]:2049"));
        assert!(!published.has("192.0.2.1:2050"));
        assert!(!published.has("[2001:db8::1]:2049"));
    }
}

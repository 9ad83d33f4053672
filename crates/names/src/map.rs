//! The map entry for a client that wants a domain's root.
//!
//! What must never enter: whether anything is mounted.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::choice::{Answering, MapEntry, choose};
use crate::domain::{Domain, DomainError};
use crate::lookup::{Lookup, LookupError, NamedServer};
use crate::probe;

/// The total time limit: autofs has none of its own, and a user waits.
const WHOLE: Duration = Duration::from_secs(5);

/// The time limit for an answer of a server.
const PROBE: Duration = Duration::from_millis(1500);

/// After the first answer, other servers have this time to be named beside it.
const LAGGARDS: Duration = Duration::from_millis(250);

/// At most this number of servers is named in a message.
const NAMED_MAX: usize = 3;

/// Why there is no entry for a key. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The key is not a name.
    #[error(transparent)]
    Domain(#[from] DomainError),
    /// DNS names no servers.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// No server has answered.
    #[error(
        "none of the servers of {0} answers ({1}); `meridian domain check {0}` looks at each of them"
    )]
    Silent(Domain, String),
    /// DNS or the servers take too long.
    #[error("it is not known within {seconds} s which server of {0} to use; `meridian domain check {0}` looks at each of them", seconds = WHOLE.as_secs())]
    Late(Domain),
}

/// The entry for a key.
///
/// # Errors
/// [`MapError`], after at most five seconds.
pub async fn map(lookup: &Lookup, key: &str) -> Result<MapEntry, MapError> {
    let domain: Domain = key.parse()?;
    let found = tokio::time::timeout(WHOLE, find(lookup, &domain)).await;
    found.unwrap_or(Err(MapError::Late(domain)))
}

async fn find(lookup: &Lookup, domain: &Domain) -> Result<MapEntry, MapError> {
    let servers = lookup.servers(domain).await?;
    let answering = ask_all(&servers).await;
    choose(domain, answering).ok_or_else(|| MapError::Silent(domain.clone(), named(&servers)))
}

/// The first few of the servers, as a text.
fn named(servers: &[NamedServer]) -> String {
    let hosts = servers.iter().take(NAMED_MAX);
    let hosts: Vec<&str> = hosts.map(|server| server.host.as_str()).collect();
    let told = hosts.join(", ");
    match servers.len().saturating_sub(NAMED_MAX) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}

/// The servers that answer, out of all, after those of the best priority had their chance. [`Lookup`] bounds the number of
/// connections.
async fn ask_all(servers: &[NamedServer]) -> Vec<Answering> {
    let mut asking = JoinSet::new();
    for server in servers {
        for address in &server.addresses {
            let address = SocketAddr::new(*address, server.port);
            let (priority, host) = (server.priority, server.host.clone());
            asking.spawn(async move {
                let reply = probe::reply(address, PROBE).await.ok()?;
                let answering = Answering {
                    priority,
                    host,
                    address,
                    round_trip: reply.round_trip,
                    is_own: reply.is_own,
                };
                if !reply.is_own || address.is_ipv4() {
                    return Some(answering);
                }
                let over_ipv4 = probe::own_over_ipv4(address.port(), PROBE).await;
                let (address, round_trip) = over_ipv4.unwrap_or((address, reply.round_trip));
                Some(Answering {
                    address,
                    round_trip,
                    ..answering
                })
            });
        }
    }
    let best = servers.iter().map(|server| server.priority).min();
    let mut answering: Vec<Answering> = Vec::new();
    let mut until = Instant::now() + PROBE;
    while let Ok(Some(asked)) = tokio::time::timeout_at(until.into(), asking.join_next()).await {
        let Ok(Some(one)) = asked else { continue };
        if Some(one.priority) == best {
            until = until.min(Instant::now() + LAGGARDS);
        }
        answering.push(one);
    }
    answering
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_a_few_of_the_servers() {
        let servers = |count: usize| -> Vec<NamedServer> {
            let hosts = (1..=count).map(|at| format!("s{at}"));
            let servers = hosts.map(|host| NamedServer {
                priority: 0,
                weight: 0,
                port: 2049,
                host,
                addresses: Vec::new(),
                trouble: None,
            });
            servers.collect()
        };
        assert_eq!(named(&servers(1)), "s1");
        assert_eq!(named(&servers(3)), "s1, s2, s3");
        assert_eq!(named(&servers(32)), "s1, s2, s3 and 29 more");
    }
}

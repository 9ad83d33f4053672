//! The servers that DNS names for a domain.
//!
//! What must never enter: which of them is to be used.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::config::{NameServerConfigGroup, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::name_server::TokioConnectionProvider;
use hickory_resolver::{ResolveError, TokioResolver};

use crate::domain::Domain;

/// How long one question may take, and how often it is asked: the user who waits has typed a path.
const PATIENCE: Duration = Duration::from_millis(1500);
const ATTEMPTS: usize = 2;

/// At most this many servers of a domain are looked at, those of the best priority first.
const SERVERS_MAX: usize = 32;

/// Looks names up in DNS.
#[derive(Debug)]
pub struct Lookup {
    resolver: TokioResolver,
    asked: Asked,
}

/// A server that DNS names (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedServer {
    /// Smaller ones are to be tried first.
    pub priority: u16,
    /// How much of the load among those of one priority it should get.
    pub weight: u16,
    /// Where it listens.
    pub port: u16,
    /// Its name, without the dot at its end.
    pub host: String,
    /// Its addresses; none if it cannot be looked up.
    pub addresses: Vec<IpAddr>,
}

/// Why there are no servers. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// Which DNS servers there are cannot be read.
    #[error("cannot read which DNS servers there are: {0}; look at /etc/resolv.conf")]
    Configuration(ResolveError),
    /// The domain names no server.
    #[error(
        "the domain {0} names no NFS servers in DNS (there is no record {1}); `meridian domain records {0}` at one of its servers prints what its zone needs"
    )]
    None(Domain, String),
    /// The domain says that it has none.
    #[error("the domain {0} says in DNS that it has no NFS servers")]
    Declined(Domain),
    /// Nobody knows now.
    #[error(
        "DNS does not say which servers {0} has ({1}); look at the network and at {2}, and try again"
    )]
    Failed(Domain, String, Asked),
}

/// The DNS servers that were asked.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// Those of this machine.
    OfThisMachine,
    /// One that was named.
    Named(SocketAddr),
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::OfThisMachine => f.write_str("/etc/resolv.conf"),
            Asked::Named(server) => write!(f, "the DNS server at {server}"),
        }
    }
}

/// What went wrong, without the layers of the resolver through which it came.
fn reason(error: &ResolveError) -> String {
    let within = error.proto().map(ToString::to_string);
    within.unwrap_or_else(|| error.to_string())
}

impl Lookup {
    /// Asks the DNS servers of this machine.
    ///
    /// # Errors
    /// [`LookupError::Configuration`].
    pub fn of_this_machine() -> Result<Lookup, LookupError> {
        let mut builder = TokioResolver::builder_tokio().map_err(LookupError::Configuration)?;
        set(builder.options_mut());
        Ok(Lookup {
            resolver: builder.build(),
            asked: Asked::OfThisMachine,
        })
    }

    /// Asks this DNS server alone.
    #[must_use]
    pub fn at(server: SocketAddr) -> Lookup {
        let servers = NameServerConfigGroup::from_ips_clear(&[server.ip()], server.port(), true);
        let configuration = ResolverConfig::from_parts(None, Vec::new(), servers);
        let provider = TokioConnectionProvider::default();
        let mut builder = TokioResolver::builder_with_config(configuration, provider);
        set(builder.options_mut());
        Lookup {
            resolver: builder.build(),
            asked: Asked::Named(server),
        }
    }

    /// The servers of a domain, in the order of their priorities.
    ///
    /// # Errors
    /// [`LookupError`] when DNS names none.
    pub async fn servers(&self, domain: &Domain) -> Result<Vec<NamedServer>, LookupError> {
        let name = domain.service_name();
        let found = self.resolver.srv_lookup(name.clone()).await;
        let found = found.map_err(|error| match error.is_no_records_found() {
            true => LookupError::None(domain.clone(), name),
            false => LookupError::Failed(domain.clone(), reason(&error), self.asked),
        })?;
        let mut records: Vec<_> = found.iter().cloned().collect();
        if records.iter().all(|record| record.target().is_root()) {
            return Err(LookupError::Declined(domain.clone()));
        }
        records.retain(|record| !record.target().is_root());
        records.sort_by_key(|record| record.priority());
        records.truncate(SERVERS_MAX);
        let lookups = records.into_iter().map(|record| {
            let resolver = self.resolver.clone();
            tokio::spawn(async move {
                let addresses = resolver.lookup_ip(record.target().clone()).await;
                let mut addresses: Vec<IpAddr> =
                    addresses.map_or_else(|_| Vec::new(), |found| found.iter().collect());
                addresses.sort_unstable();
                addresses.dedup();
                let host = record.target().to_ascii();
                NamedServer {
                    priority: record.priority(),
                    weight: record.weight(),
                    port: record.port(),
                    host: host.trim_end_matches('.').to_ascii_lowercase(),
                    addresses,
                }
            })
        });
        let mut servers = Vec::new();
        for lookup in lookups.collect::<Vec<_>>() {
            servers.extend(lookup.await.ok());
        }
        Ok(servers)
    }
}

fn set(options: &mut ResolverOpts) {
    options.timeout = PATIENCE;
    options.attempts = ATTEMPTS;
    options.ip_strategy = hickory_resolver::config::LookupIpStrategy::Ipv4AndIpv6;
    options.use_hosts_file = ResolveHosts::Auto;
}

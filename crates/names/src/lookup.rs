//! The servers that DNS names for a domain.
//!
//! What must never enter: the choice between them.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::name_server::TokioConnectionProvider;
use hickory_resolver::proto::ProtoErrorKind;
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::xfer::Protocol;
use hickory_resolver::{Name, ResolveError, TokioResolver};

use crate::aliases::{self, Astray};
use crate::domain::Domain;
use crate::resolv_conf;

/// The time limit of one query, and the number of attempts: a user waits who has typed a path.
const PATIENCE: Duration = Duration::from_millis(1500);
const ATTEMPTS: usize = 2;

/// At most this number of servers of a domain is used, the best priority first.
const SERVERS_MAX: usize = 32;

/// At most this number of addresses of one server. With [`SERVERS_MAX`] this bounds the connections to all of them.
const ADDRESSES_MAX: usize = 4;

/// Looks names up in DNS.
#[derive(Debug)]
pub struct Lookup {
    resolver: TokioResolver,
    asked: Asked,
}

/// A server named in DNS (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedServer {
    /// Servers with smaller priorities are tried first.
    pub priority: u16,
    /// Its share of the load among servers of the same priority.
    pub weight: u16,
    /// The port on which it listens.
    pub port: u16,
    /// Its name, without the dot at its end.
    pub host: String,
    /// Some of its addresses, IPv4 ones first; none if it has none, or they cannot be looked up.
    pub addresses: Vec<IpAddr>,
    /// Why there are no addresses; absent if DNS just says that there are none.
    pub trouble: Option<Trouble>,
}

/// Why a server has no addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// DNS does not know them now, for this reason.
    Unknown(String),
    /// Its aliases lead to no addresses, but here.
    Aliases(Astray),
}

/// Why there are no servers. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The list of DNS servers cannot be read.
    #[error("cannot read which DNS servers there are: {0}; look at /etc/resolv.conf")]
    Configuration(io::Error),
    /// The domain names no server.
    #[error(
        "the domain {0} names no NFS servers in DNS (there is no record {1}); `meridian domain records {0}` at one of its servers prints what its zone needs"
    )]
    None(Domain, String),
    /// The domain says that it has no servers.
    #[error("the domain {0} says in DNS that it has no NFS servers")]
    Declined(Domain),
    /// The name has aliases that lead to no records.
    #[error(
        "the domain {0} names no NFS servers in DNS: {1}; correct these records, or put those in their place that `meridian domain records {0}` prints at one of its servers"
    )]
    Astray(Domain, Astray),
    /// It is not known now.
    #[error(
        "DNS does not say which servers {0} has ({1}); look at the network and at {2}, and try again"
    )]
    Failed(Domain, String, Asked),
}

impl LookupError {
    /// Whether the zone of the domain says so, and has to be corrected.
    #[must_use]
    pub fn is_of_the_zone(&self) -> bool {
        matches!(
            self,
            LookupError::None(..) | LookupError::Declined(_) | LookupError::Astray(..)
        )
    }
}

/// The DNS servers that were asked.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// The DNS servers of this machine.
    OfThisMachine,
    /// This DNS server.
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

/// The cause of the error, without the layers of the resolver.
fn reason(error: &ResolveError) -> String {
    match error.proto().map(|within| (within, within.kind())) {
        Some((_, ProtoErrorKind::NoRecordsFound { response_code, .. })) => {
            format!("the answer is: {response_code}")
        }
        Some((_, ProtoErrorKind::Io(error))) => error.to_string(),
        Some((within, _)) => within.to_string(),
        None => error.to_string(),
    }
}

/// The code of an answer without records; nothing if no DNS server has answered.
fn answer_without_records(error: &ResolveError) -> Option<ResponseCode> {
    match error.proto()?.kind() {
        ProtoErrorKind::NoRecordsFound { response_code, .. } => Some(*response_code),
        _ => None,
    }
}

/// Whether DNS says that there is no such record. A failure or refusal of a DNS server says nothing about it.
fn says_none(error: &ResolveError) -> bool {
    let answer = answer_without_records(error);
    matches!(answer, Some(ResponseCode::NoError | ResponseCode::NXDomain))
}

/// Where the aliases of a name without records lead, if they lead to no records. A DNS server that follows them itself may answer with a
/// failure, or with no records.
async fn astray(resolver: &TokioResolver, name: &Name, error: &ResolveError) -> Option<Astray> {
    answer_without_records(error)?;
    aliases::astray(resolver, name).await
}

/// The addresses of a server to ask: each once, in the form in which it is reached.
fn few(addresses: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = addresses.map(|address| address.to_canonical()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.truncate(ADDRESSES_MAX);
    addresses
}

impl Lookup {
    /// Asks the DNS servers of this machine.
    ///
    /// # Errors
    /// [`LookupError::Configuration`].
    pub fn of_this_machine() -> Result<Lookup, LookupError> {
        let servers = resolv_conf::servers_of_this_machine().map_err(LookupError::Configuration)?;
        Ok(asking(&servers, Asked::OfThisMachine))
    }

    /// Asks only this DNS server.
    #[must_use]
    pub fn at(server: SocketAddr) -> Lookup {
        asking(&[server], Asked::Named(server))
    }

    /// The servers of a domain, in the order of their priorities.
    ///
    /// # Errors
    /// [`LookupError`] when DNS names none.
    pub async fn servers(&self, domain: &Domain) -> Result<Vec<NamedServer>, LookupError> {
        let name = domain.service_name();
        let found = match self.resolver.srv_lookup(name.clone()).await {
            Ok(found) => found,
            Err(error) => return Err(self.failure(domain, name, &error).await),
        };
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
                let found = resolver.lookup_ip(record.target().clone()).await;
                let (addresses, trouble) = match found {
                    Ok(found) => (few(found.iter()), None),
                    Err(error) => (
                        Vec::new(),
                        trouble(&resolver, record.target(), &error).await,
                    ),
                };
                let host = record.target().to_ascii();
                NamedServer {
                    priority: record.priority(),
                    weight: record.weight(),
                    port: record.port(),
                    host: host.trim_end_matches('.').to_ascii_lowercase(),
                    addresses,
                    trouble,
                }
            })
        });
        let mut servers = Vec::new();
        for lookup in lookups.collect::<Vec<_>>() {
            servers.extend(lookup.await.ok());
        }
        Ok(servers)
    }

    /// Why there are no records of a domain's servers.
    async fn failure(&self, domain: &Domain, name: String, error: &ResolveError) -> LookupError {
        if let Ok(asked) = Name::from_ascii(&name)
            && let Some(astray) = astray(&self.resolver, &asked, error).await
        {
            return LookupError::Astray(domain.clone(), astray);
        }
        match says_none(error) {
            true => LookupError::None(domain.clone(), name),
            false => LookupError::Failed(domain.clone(), reason(error), self.asked),
        }
    }
}

/// Why there are no addresses of a server.
async fn trouble(resolver: &TokioResolver, host: &Name, error: &ResolveError) -> Option<Trouble> {
    if let Some(astray) = astray(resolver, host, error).await {
        return Some(Trouble::Aliases(astray));
    }
    (!says_none(error)).then(|| Trouble::Unknown(reason(error)))
}

/// Asks these DNS servers, all at once: silent ones do not delay an answer.
fn asking(servers: &[SocketAddr], asked: Asked) -> Lookup {
    let mut configuration = ResolverConfig::new();
    for server in servers {
        for protocol in [Protocol::Udp, Protocol::Tcp] {
            configuration.add_name_server(NameServerConfig::new(*server, protocol));
        }
    }
    let provider = TokioConnectionProvider::default();
    let mut builder = TokioResolver::builder_with_config(configuration, provider);
    let options = builder.options_mut();
    options.timeout = PATIENCE;
    options.attempts = ATTEMPTS;
    options.num_concurrent_reqs = servers.len();
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.use_hosts_file = ResolveHosts::Auto;
    Lookup {
        resolver: builder.build(),
        asked,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    /// A DNS server that answers every question with this code and no record.
    fn answering(code: u8) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let socket = UdpSocket::bind(at).unwrap();
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut question) {
                let _ = socket.send_to(&answer(&question[..length], code), from);
            }
        });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer_over(stream, code);
            }
        });
        at
    }

    fn answer_over(mut stream: TcpStream, code: u8) -> std::io::Result<()> {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut question = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut question)?;
        let answer = answer(&question, code);
        stream.write_all(&[length.to_vec(), answer].concat())
    }

    /// The query, marked as an answer.
    fn answer(question: &[u8], code: u8) -> Vec<u8> {
        let mut answer = question.to_vec();
        answer[2] |= 0x80;
        answer[3] = 0x80 | code;
        answer
    }

    fn refusal(code: u8) -> LookupError {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let domain = "example.org".parse().unwrap();
        let lookup = Lookup::at(answering(code));
        runtime.block_on(lookup.servers(&domain)).unwrap_err()
    }

    #[test]
    fn a_dns_server_that_fails_or_refuses_has_not_said_that_there_is_none() {
        for none in [0, 3] {
            let error = refusal(none);
            assert!(matches!(error, LookupError::None(..)), "{error}");
        }
        for (code, why) in [(2, "Server Failure"), (5, "Refused")] {
            let error = refusal(code);
            assert!(matches!(error, LookupError::Failed(..)), "{error}");
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn a_few_addresses_of_a_server_are_asked() {
        let many =
            (0..2500_u16).map(|at| IpAddr::from([10, 0, at.to_be_bytes()[0], at.to_be_bytes()[1]]));
        assert_eq!(few(many).len(), ADDRESSES_MAX);
        let twice = ["2001:db8::1", "::ffff:192.0.2.1", "192.0.2.1"];
        let once: Vec<IpAddr> = ["192.0.2.1", "2001:db8::1"]
            .map(|text| text.parse().unwrap())
            .into();
        assert_eq!(few(twice.iter().map(|text| text.parse().unwrap())), once);
    }
}

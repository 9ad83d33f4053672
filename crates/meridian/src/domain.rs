//! `meridian domain`: the DNS records that a domain needs, and whether clients find its servers.
//!
//! What must never enter: DNS and NFS themselves; the crate `names` implements them.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use names::probe::{self, Root};
use names::{Domain, Lookup, LookupError, NamedServer, Published, Trouble};
use serde::Serialize;
use server::configuration::NFS_PORT;
use server::{Configuration, plain, set};
use tokio::task::JoinSet;

use crate::arguments::{DomainCheckArguments, DomainCommand};
use crate::asking::runtime;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;

/// The timeout for the answer of a server.
const PATIENCE: Duration = Duration::from_secs(3);

pub(crate) fn run(command: &DomainCommand) -> Result<Exit, Failure> {
    match command {
        DomainCommand::Records { domain, data, json } => records(domain, data, *json),
        DomainCommand::Check(arguments) => check(arguments),
    }
}

/// Only the lines go to standard output, so that they can be added to a zone file.
fn records(domain: &Domain, data: &Option<PathBuf>, json: bool) -> Result<Exit, Failure> {
    let data = data.clone();
    let data = data.unwrap_or_else(|| Configuration::default().data);
    let mut published = Vec::new();
    for member in set::members(&data)?.members {
        if member.revoked || member.witness {
            continue;
        }
        for address in set::client_addresses(&member) {
            let Some((host, port)) = address.rsplit_once(':') else {
                continue;
            };
            published.push(Published {
                number: member.slot,
                host: host.to_owned(),
                port: port.parse().unwrap_or(NFS_PORT),
            });
        }
    }
    let told = Records {
        lines: names::zone_lines(domain, &published),
        remarks: published.iter().filter_map(remark).collect(),
    };
    if json {
        output::say_json(&told)?;
        return Ok(Exit::Success);
    }
    told.remarks.iter().for_each(output::remark);
    output::say(told.lines.join("\n"))?;
    output::remark(format_args!(
        "Add these lines to the zone of {domain}, write `domain = \"{domain}\"` into [names] of each server's configuration, and look with \
         `meridian domain check {domain}` whether clients find them."
    ));
    Ok(Exit::Success)
}

/// The records of a domain, for programs.
#[derive(Serialize)]
struct Records {
    /// The lines of its zone.
    lines: Vec<String>,
    /// Remarks for the administrator before they are published.
    remarks: Vec<String>,
}

/// A remark for the administrator about an address before it is published.
fn remark(server: &Published) -> Option<String> {
    let (number, host) = (server.number, &server.host);
    if server.port != NFS_PORT {
        return Some(format!(
            "replica {number} is reached at port {}: `/nfs` mounts it there, but referrals lead to port {NFS_PORT} only",
            server.port
        ));
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let wrong = match bare.parse::<IpAddr>() {
        Ok(address) if address.is_loopback() => "which every machine takes for its own",
        Ok(IpAddr::V6(address)) if address.is_unicast_link_local() => {
            "which is good on one network only, and not in DNS"
        }
        Ok(IpAddr::V4(address)) if address.is_link_local() => "which is good on one network only",
        Err(_) if !host.contains('.') => {
            "which is no full name that clients elsewhere could look up"
        }
        _ => return None,
    };
    Some(format!(
        "replica {number} is reached at {host}, {wrong}; give another place with `meridian set client-address {number} HOST`"
    ))
}

/// The result for one address of a server of the domain.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    priority: u16,
    weight: u16,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The address that was asked; `None` if its name cannot be resolved.
    pub(crate) address: Option<SocketAddr>,
    /// The time until it answered, in seconds; `None` if it did not.
    round_trip_seconds: Option<f64>,
    /// It exports the root of the domain to this machine.
    serves: bool,
    /// The problem to repair.
    pub(crate) problem: Option<String>,
    /// A remark.
    pub(crate) remark: Option<String>,
}

impl Finding {
    /// Adds a remark.
    fn note(&mut self, words: &str) {
        self.remark = Some(match self.remark.take() {
            Some(before) => format!("{before}; {words}"),
            None => words.to_owned(),
        });
    }
}

fn check(arguments: &DomainCheckArguments) -> Result<Exit, Failure> {
    let domain = &arguments.domain;
    let runtime = runtime()?;
    let progress = Progress::of("asking DNS and the servers");
    let findings: Result<Vec<Finding>, LookupError> = runtime.block_on(async {
        let lookup = match arguments.dns {
            Some(server) => Lookup::at(server),
            None => Lookup::of_this_machine()?,
        };
        let servers = lookup.servers(domain).await?;
        Ok(look_at(domain, servers).await)
    });
    runtime.shutdown_background();
    drop(progress);
    let findings = match findings {
        Ok(findings) => findings,
        // The zone must be repaired, as when its records lead nowhere.
        Err(error) if error.is_of_the_zone() => {
            if arguments.json {
                output::say_json(&Vec::<Finding>::new())?;
            }
            return Err(Failure::new(Exit::Defects, error));
        }
        Err(error) => return Err(error.into()),
    };
    if arguments.json {
        output::say_json(&findings)?;
    } else {
        output::say(told(domain, &findings).trim_end())?;
    }
    let in_order = findings.iter().all(|finding| finding.problem.is_none());
    Ok(match in_order {
        true => Exit::Success,
        false => Exit::Defects,
    })
}

/// Asks each server that DNS names for the domain whether it answers and exports the root of the domain.
pub(crate) async fn look_at(domain: &Domain, servers: Vec<NamedServer>) -> Vec<Finding> {
    let mut asking = JoinSet::new();
    let mut findings = Vec::new();
    for server in servers {
        let finding = Finding {
            priority: server.priority,
            weight: server.weight,
            host: server.host.clone(),
            port: server.port,
            address: None,
            round_trip_seconds: None,
            serves: false,
            problem: None,
            remark: (server.port != NFS_PORT).then(|| {
                format!("referrals do not lead there, because it is not at port {NFS_PORT}")
            }),
        };
        if server.addresses.is_empty() {
            findings.push(Finding {
                problem: Some(nowhere(&server)),
                ..finding.clone()
            });
        }
        for address in server.addresses {
            let (domain, finding) = (domain.clone(), finding.clone());
            asking.spawn(ask(domain, SocketAddr::new(address, server.port), finding));
        }
    }
    while let Some(asked) = asking.join_next().await {
        findings.extend(asked.ok());
    }
    let order = |finding: &Finding| {
        let round_trip = finding.round_trip_seconds.unwrap_or(f64::MAX);
        // Whole microseconds, which can be ordered.
        (
            finding.priority,
            Duration::try_from_secs_f64(round_trip).unwrap_or(Duration::MAX),
        )
    };
    findings.sort_by_key(|finding| (order(finding), finding.host.clone(), finding.address));
    findings
}

/// Why a server that DNS names has no address.
fn nowhere(server: &NamedServer) -> String {
    let host = &server.host;
    match &server.trouble {
        Some(Trouble::Unknown(why)) => plain(format_args!(
            "DNS does not say which addresses {host} has ({why}); look at the network and at the DNS servers, and try again"
        )),
        Some(Trouble::Aliases(astray)) => format!(
            "the name {host} has no address in DNS: {astray}; correct these records, or remove the server"
        ),
        None => format!(
            "the name {host} has no address in DNS; add an A or AAAA record, or remove the server"
        ),
    }
}

async fn ask(domain: Domain, address: SocketAddr, mut finding: Finding) -> Finding {
    finding.address = Some(address);
    if address.ip().is_loopback() || address.ip().is_unspecified() {
        finding.note("every machine takes this address for its own, so clients elsewhere do not reach the server there; correct the record, unless /etc/hosts of this machine says so");
    }
    let reply = match probe::reply(address, PATIENCE).await {
        Ok(reply) => reply,
        Err(error) => {
            finding.problem = Some(plain(format_args!(
                "it does not answer ({error}); start it, let clients through to that port, or correct the record"
            )));
            return finding;
        }
    };
    if reply.is_own && address.is_ipv6() {
        let over_ipv4 = probe::own_over_ipv4(address.port(), PATIENCE).await;
        finding.note(match over_ipv4 {
            Some(_) => "it is on this machine, where autofs finds no IPv6 address of its own: `/nfs` mounts it at 127.0.0.1 here",
            None => "it is on this machine, where autofs finds no IPv6 address of its own, and does not answer at 127.0.0.1: `/nfs` does not mount it here; let it listen there too (`listen`)",
        });
    }
    let root = probe::root(address, &domain, PATIENCE).await;
    Finding {
        round_trip_seconds: Some(reply.round_trip.as_secs_f64()),
        serves: root == Root::Served,
        problem: match root {
            Root::Served => None,
            Root::Missing => Some(format!(
                "it does not have the root of this domain; write `domain = \"{domain}\"` into [names] of its configuration and start it again, or remove it from DNS"
            )),
            Root::Refused => Some(
                "it lets this machine see nothing; if it should, add a rule to [[export.allow]]"
                    .to_owned(),
            ),
            Root::Unknown(why) => Some(plain(format_args!(
                "whether it has the root is not known: {why}"
            ))),
        },
        ..finding
    }
}

fn told(domain: &Domain, findings: &[Finding]) -> String {
    let mut text = format!("{}\n", domain.service_name());
    for finding in findings {
        let at = finding.address.map_or_else(
            || format!("port {}", finding.port),
            |address| address.to_string(),
        );
        let state = match (finding.round_trip_seconds, finding.serves) {
            (Some(seconds), true) => format!("serves {domain}, answers in {:.1} ms", seconds * 1e3),
            (Some(seconds), false) => format!("answers in {:.1} ms", seconds * 1e3),
            (None, _) => "silent".to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  {}  {at}  priority {}  {state}",
            finding.host, finding.priority
        );
        for words in [&finding.problem, &finding.remark].into_iter().flatten() {
            let _ = writeln!(text, "    {words}");
        }
    }
    text
}

//! `meridian domain`: what the zone of a domain needs, and whether clients find its servers.
//!
//! What must never enter: DNS and NFS themselves; the crate `names` speaks them.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use names::probe::{self, Root};
use names::{Domain, Lookup, LookupError, NamedServer, Published};
use serde::Serialize;
use server::configuration::NFS_PORT;
use server::{Configuration, set};
use tokio::task::JoinSet;

use crate::arguments::{DomainCheckArguments, DomainCommand};
use crate::asking::runtime;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::progress::Progress;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

pub(crate) fn run(command: &DomainCommand) -> Result<Exit, Failure> {
    match command {
        DomainCommand::Records { domain, data, json } => records(domain, data, *json),
        DomainCommand::Check(arguments) => check(arguments),
    }
}

/// The lines go to standard output and nothing else does, so that they can be added to a zone file.
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

/// What is told of the records of a domain.
#[derive(Serialize)]
struct Records {
    /// Those of its zone.
    lines: Vec<String>,
    /// What an administrator had better know before they are published.
    remarks: Vec<String>,
}

/// What an administrator had better know of an address before it is published.
fn remark(server: &Published) -> Option<String> {
    let (number, host) = (server.number, &server.host);
    if server.port != NFS_PORT {
        return Some(format!(
            "replica {number} is reached at port {}: `/nfs` mounts it there, but referrals lead to port {NFS_PORT} only",
            server.port
        ));
    }
    let is_address = host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok();
    (!is_address && !host.contains('.')).then(|| {
        format!(
            "replica {number} is reached at {host}, which is no full name that clients elsewhere could look up; give one with `meridian set client-address {number} HOST`"
        )
    })
}

/// What is found out about one address of a server of the domain.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    priority: u16,
    weight: u16,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Where it was asked; none if its name leads nowhere.
    address: Option<SocketAddr>,
    /// How long it took to answer, in seconds; none if it did not.
    round_trip_seconds: Option<f64>,
    /// It has the root of the domain, for this machine.
    serves: bool,
    /// What to mend.
    pub(crate) problem: Option<String>,
    /// What to know.
    remark: Option<String>,
}

fn check(arguments: &DomainCheckArguments) -> Result<Exit, Failure> {
    let domain = &arguments.domain;
    let runtime = runtime()?;
    let progress = Progress::of("asking DNS and the servers");
    let findings = runtime.block_on(async {
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
        // The zone is to be mended, as when its records lead nowhere.
        Err(error @ (LookupError::None(..) | LookupError::Declined(_))) => {
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

/// Asks each server that DNS names for the domain whether it answers, and has the root of the domain.
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
            let host = &server.host;
            let problem = match &server.trouble {
                Some(why) => format!(
                    "DNS does not say which addresses {host} has ({why}); look at the network and at the DNS servers, and try again"
                ),
                None => format!(
                    "the name {host} has no address in DNS; add an A or AAAA record, or remove the server"
                ),
            };
            findings.push(Finding {
                problem: Some(problem),
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
        // Whole microseconds, which have an order.
        (
            finding.priority,
            Duration::try_from_secs_f64(round_trip).unwrap_or(Duration::MAX),
        )
    };
    findings.sort_by_key(|finding| (order(finding), finding.host.clone(), finding.address));
    findings
}

async fn ask(domain: Domain, address: SocketAddr, finding: Finding) -> Finding {
    let answered = probe::round_trip(address, PATIENCE).await;
    let round_trip = match answered {
        Ok(round_trip) => round_trip,
        Err(error) => {
            return Finding {
                address: Some(address),
                problem: Some(format!(
                    "it does not answer ({error}); start it, let clients through to that port, or correct the record"
                )),
                ..finding
            };
        }
    };
    let root = probe::root(address, &domain, PATIENCE).await;
    Finding {
        address: Some(address),
        round_trip_seconds: Some(round_trip.as_secs_f64()),
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
            Root::Unknown(why) => Some(format!("whether it has the root is not known: {why}")),
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

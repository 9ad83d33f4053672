//! The domain of `[names]`: whether DNS has its records, and whether they lead to servers of it.
//!
//! What must never enter: what the records are to be; `meridian domain records` prints that.

use std::collections::BTreeSet;
use std::path::Path;

use names::{Domain, Lookup, LookupError};
use server::{Configuration, set};

use super::Finding;
use crate::domain;

const DNS: &str = "dns";

/// What is to be said of the records; nothing where no domain is configured.
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
        Err(error @ (LookupError::None(..) | LookupError::Declined(_))) => {
            return vec![Finding::mend(DNS, error.to_string(), remedy)];
        }
        Err(error) => return vec![Finding::mend(DNS, error.to_string(), "as the message says")],
    };
    let published: BTreeSet<(String, u16)> = servers
        .iter()
        .map(|server| (plain(&server.host), server.port))
        .collect();
    let mut found = Vec::new();
    for one in domain::look_at(domain, servers).await {
        let at = format!("{}:{}", one.host, one.port);
        found.push(match one.problem {
            None => Finding::well(DNS, format!("{at} serves {domain}")),
            Some(problem) => Finding::mend(DNS, format!("{at}: {problem}"), remedy.clone()),
        });
    }
    found.extend(unpublished(
        domain,
        &configuration.data,
        &published,
        &remedy,
    ));
    found
}

/// Members that clients could reach and that DNS does not name. Records of a name that leads to the same machine are not
/// recognised, so this is for people to judge.
fn unpublished(
    domain: &Domain,
    data: &Path,
    published: &BTreeSet<(String, u16)>,
    remedy: &str,
) -> Vec<Finding> {
    let Ok(joined) = set::members(data) else {
        return Vec::new();
    };
    let serving = joined
        .members
        .iter()
        .filter(|member| !member.revoked && !member.witness);
    let missing = serving.filter(|member| {
        let addresses = set::client_addresses(member);
        !addresses.iter().any(|address| is_among(published, address))
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

fn is_among(published: &BTreeSet<(String, u16)>, address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else {
        return false;
    };
    let port = port.parse().unwrap_or_default();
    published.contains(&(plain(host), port))
}

/// A host's name as it is compared: without the dot at its end, in small letters.
fn plain(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_dns_does() {
        let published = BTreeSet::from([(plain("Files.Paris.example.org."), 2049)]);
        assert!(is_among(&published, "files.paris.EXAMPLE.org:2049"));
        assert!(!is_among(&published, "files.paris.example.org:2050"));
        assert!(!is_among(&published, "files.oslo.example.org:2049"));
        assert!(!is_among(&published, "files.paris.example.org"));
    }
}

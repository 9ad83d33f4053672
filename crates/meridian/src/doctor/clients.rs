//! Whether clients that follow referrals can reach the members of the set, as far as this machine can tell.
//!
//! What must never enter: DNS records of a domain, which `domain` checks.

use std::path::Path;
use std::time::Duration;

use names::probe;
use server::set;
use tokio::task::{JoinSet, spawn_blocking};

use super::finding::Finding;

const CLIENTS: &str = "clients";

/// The timeout for the answer of a server.
const PATIENCE: Duration = Duration::from_secs(3);

/// The findings for each target of clients; none if the server does not belong to a set.
pub(super) async fn findings(data: &Path) -> Vec<Finding> {
    let Ok(joined) = set::members(data) else {
        return Vec::new();
    };
    let serving = joined.members.iter();
    let serving = serving.filter(|member| !member.revoked && !member.witness);
    let mut asking = JoinSet::new();
    for member in serving {
        for address in set::client_addresses(member) {
            let slot = member.slot;
            asking.spawn(async move { (slot, look_at(slot, &address).await) });
        }
    }
    let mut found = asking.join_all().await;
    found.sort_by_key(|(slot, _)| *slot);
    found.into_iter().map(|(_, finding)| finding).collect()
}

async fn look_at(slot: u16, address: &str) -> Finding {
    match asked(address).await {
        Ok(took) => Finding::well(
            CLIENTS,
            format!(
                "they reach replica {slot} at {address}, in {:.1} ms",
                took.as_secs_f64() * 1e3
            ),
        ),
        Err(why) => Finding::mend(
            CLIENTS,
            format!(
                "they are sent to replica {slot} at {address}, where nobody answers from here: {why}"
            ),
            format!(
                "look whether it runs, listens there (`listen`) and is let through; `meridian set client-address {slot} HOST[:PORT]`, on the server that keeps the authority, says where it is"
            ),
        ),
    }
}

/// The time until the first server at an address answered, or why none did.
async fn asked(address: &str) -> Result<Duration, String> {
    let wanted = address.to_owned();
    // A name lookup waits for other servers.
    let found = spawn_blocking(move || set::resolve(&wanted)).await;
    let found = found.map_err(|error| error.to_string())?;
    let mut last = String::new();
    for at in found.map_err(|error| error.to_string())? {
        match probe::round_trip(at, PATIENCE).await {
            Ok(took) => return Ok(took),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[tokio::test]
    async fn who_does_not_answer_is_told_with_what_to_do() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = taken.local_addr().unwrap().to_string();
        drop(taken);
        for address in [silent.as_str(), "no-such-host.invalid:2049"] {
            let told = look_at(3, address).await;
            assert_eq!(told.verdict, Verdict::Mend, "{told}");
            let remedy = told.remedy.unwrap();
            assert!(remedy.contains("set client-address 3"), "{remedy}");
        }
    }
}

//! The set: whether names can be resolved, whether its members answer, and how long certificates are valid.
//!
//! What must never enter: changes of the set.

use std::path::Path;
use std::time::{Duration, SystemTime};

use server::{Counted, PeerView, Status, StatusError, set};

use super::finding::Finding;

const SET: &str = "set";
const NAMES: &str = "names";
const PEERS: &str = "peers";
const VERSION: &str = "version";
const RIGHTS: &str = "rights";
const AUTHORITY: &str = "authority";
const CERTIFICATE: &str = "certificate";

/// A certificate with less remaining validity than this needs attention.
const SOON: Duration = Duration::from_secs(90 * 86_400);

/// Whether only the server's user can access the data directory and its keys.
pub(super) fn rights(data: &Path) -> Vec<Finding> {
    let found = set::exposures(data).into_iter();
    found
        .map(|exposure| Finding::mend(RIGHTS, exposure.what, exposure.remedy))
        .collect()
}

pub(super) fn findings(data: &Path) -> Vec<Finding> {
    if !data.exists() {
        return vec![Finding::unknown(SET, "no data directory says which")];
    }
    match set::belongs_to_one(data) {
        Ok(true) => {}
        Ok(false) => return vec![Finding::well(SET, "the server belongs to none")],
        Err(error) => return vec![Finding::mend(SET, error.to_string(), "as the message says")],
    }
    let joined = match set::members(data) {
        Ok(joined) => joined,
        Err(error) => return vec![Finding::mend(SET, error.to_string(), "as the message says")],
    };
    let mut found = Vec::new();
    let present: Vec<_> = joined
        .members
        .iter()
        .filter(|member| !member.revoked)
        .collect();
    match set::warning(&joined.members) {
        Some(warning) => found.push(Finding::mind(SET, warning, "as the message says")),
        None => found.push(Finding::well(
            SET,
            Counted(present.len() as u64, "member").to_string(),
        )),
    }
    for member in present {
        let own = member.slot == joined.slot;
        found.extend(member.addresses.iter().map(|address| match own {
            true => own_address(address),
            false => peer(member.slot, address),
        }));
    }
    if let Err(error) = set::check_authority(data) {
        found.push(Finding::mend(
            AUTHORITY,
            error.to_string(),
            "as the message says",
        ));
    }
    found.push(certificate(
        set::certificate_expires(data),
        SystemTime::now(),
    ));
    found
}

/// The address at which the others call this server.
fn own_address(address: &str) -> Finding {
    match set::foreignness(address) {
        Ok(None) => Finding::well(NAMES, format!("{address} is this machine")),
        Ok(Some(warning)) => Finding::mind(
            NAMES,
            warning,
            "correct the name where names are kept, or the address with `meridian set address`",
        ),
        Err(error) => Finding::mend(NAMES, error.to_string(), "as the message says"),
    }
}

fn peer(slot: u16, address: &str) -> Finding {
    match set::silence_at(address) {
        None => Finding::well(PEERS, format!("replica {slot} answers at {address}")),
        Some(silence) => Finding::mend(
            PEERS,
            format!("replica {slot}: {silence}"),
            "look whether it runs, and whether firewalls let this port through; `meridian set address` corrects its address",
        ),
    }
}

/// The programs of the other members, as of the last contact.
pub(super) fn programs(status: &Result<Status, StatusError>) -> Vec<Finding> {
    let Ok(status) = status else {
        return Vec::new();
    };
    let own = format!("{} ({})", status.version, status.build);
    let trees = status.exports.iter();
    let trees = trees.filter_map(|export| export.replication.as_ref());
    let peers = trees.flat_map(|replication| &replication.peers);
    peers.map(|peer| program(&own, peer)).collect()
}

fn program(own: &str, peer: &PeerView) -> Finding {
    let slot = peer.slot;
    if let (Some(theirs), false) = (&peer.program, peer.connected) {
        return Finding::unknown(
            VERSION,
            format!("replica {slot} ran {theirs} when it was last in contact"),
        );
    }
    match &peer.program {
        None => Finding::unknown(VERSION, format!("replica {slot} has not said what it runs")),
        Some(theirs) if theirs == own => {
            Finding::well(VERSION, format!("replica {slot} runs {theirs}"))
        }
        Some(theirs) => Finding::mind(
            VERSION,
            format!("replica {slot} runs {theirs}, this server {own}"),
            "during an upgrade, go on with it; otherwise upgrade the older one (`Rolling restart and upgrade` in operating.md)",
        ),
    }
}

fn certificate(expires: Result<SystemTime, set::SetCommandError>, now: SystemTime) -> Finding {
    match expires {
        Err(error) => Finding::mend(CERTIFICATE, error.to_string(), "as the message says"),
        Ok(expires) => match expires.duration_since(now) {
            Ok(left) if left > SOON => Finding::well(
                CERTIFICATE,
                format!("good for {} days", left.as_secs() / 86_400),
            ),
            Ok(left) => Finding::mind(
                CERTIFICATE,
                format!("good for {} days only", left.as_secs() / 86_400),
                "take this server's copy anew before, with `meridian set rejoin`: it gets a new certificate",
            ),
            Err(_) => Finding::mend(
                CERTIFICATE,
                "it has expired, or the clock is wrong",
                "set the clock; if it is right, `meridian set rejoin` gets a new certificate",
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn certificates_and_peers_are_judged() {
        let now = SystemTime::now();
        let in_days = |days: u64| Ok(now + Duration::from_secs(days * 86_400));
        assert_eq!(certificate(in_days(400), now).verdict, Verdict::Well);
        assert_eq!(certificate(in_days(10), now).verdict, Verdict::Mind);
        let past = Ok(now - Duration::from_secs(1));
        assert_eq!(certificate(past, now).verdict, Verdict::Mend);
        assert_eq!(own_address("127.0.0.1:7643").verdict, Verdict::Well);
        assert_eq!(peer(2, "no-such-host.invalid:7643").verdict, Verdict::Mend);
    }
}

//! Moves the clients of the replicated tree to other servers, and stops when they have gone.
//!
//! What must never enter: how a question arrives, and how clients are told to move.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nfs4_server::Location;
use replica::Replica;

use super::overview::Overview;
use crate::configuration::NFS_PORT;
use crate::set::{resolve, silence_at};
use crate::status::{DrainAnswer, DrainQuestion};

/// The interval for checking whether all clients have gone. The last request of any client may be the last one, so notifying a task for each would be
/// wasteful.
const LOOK: Duration = Duration::from_millis(200);

/// The target for clients: a host, and the replica that serves them there if it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    replica: Option<u16>,
    host: String,
}

impl Target {
    /// Parses `HOST` or `REPLICA=HOST`. Does not check whether the host exists.
    fn parse(text: &str) -> Target {
        let named = text
            .split_once('=')
            .and_then(|(replica, host)| Some((replica.parse().ok()?, host)));
        match named {
            Some((replica, host)) => Target {
                replica: Some(replica),
                host: host.to_owned(),
            },
            None => Target {
                replica: None,
                host: text.to_owned(),
            },
        }
    }

    /// The host with the port that clients use.
    fn address(&self) -> String {
        let host = &self.host;
        match (host.parse::<IpAddr>(), host.rsplit_once(':')) {
            (Ok(address), _) => SocketAddr::new(address, NFS_PORT).to_string(),
            (Err(_), Some(_)) => host.clone(),
            (Err(_), None) => format!("{host}:{NFS_PORT}"),
        }
    }
}

/// Another member of the set, as a possible target for clients.
#[derive(Clone, Debug)]
struct Candidate {
    slot: u16,
    addresses: Vec<String>,
    /// Why clients would not be served there; `None` if they would be.
    objection: Option<&'static str>,
}

fn candidates(replica: &Replica) -> Vec<Candidate> {
    let view = replica.view_status();
    let takes_part = |slot: u16| {
        let mut members = view.members.iter();
        members.any(|member| member.slot == slot && member.active)
    };
    let peers = replica.peers().into_iter();
    let candidates = peers.map(|peer| Candidate {
        slot: peer.slot,
        objection: match (peer.witness, peer.connected, takes_part(peer.slot)) {
            (true, _, _) => Some("is a witness, which keeps no contents"),
            (_, false, _) => Some("is not in contact with this server"),
            (_, _, false) => Some("takes no part in the view"),
            (false, true, true) => None,
        },
        addresses: peer.addresses,
    });
    candidates.collect()
}

/// Checks that clients find the tree at each of these places.
///
/// # Errors
/// Which place is invalid, and why, for people.
async fn check(replica: &Replica, targets: Vec<Target>) -> Result<(), String> {
    let candidates = candidates(replica);
    let looking = move || {
        let mut targets = targets.iter();
        targets.try_for_each(|target| check_target(target, &candidates))
    };
    // A name lookup waits for other servers.
    let looked = tokio::task::spawn_blocking(looking).await;
    looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

fn check_target(target: &Target, candidates: &[Candidate]) -> Result<(), String> {
    let (host, address) = (&target.host, target.address());
    let found = resolve(&address).map_err(|error| error.to_string())?;
    let found: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
    let is_there = |candidate: &&Candidate| match target.replica {
        Some(replica) => candidate.slot == replica,
        None => candidate.addresses.iter().any(|address| {
            let at = resolve(address).unwrap_or_default();
            at.iter().any(|at| found.contains(&at.ip()))
        }),
    };
    let there: Vec<&Candidate> = candidates.iter().filter(is_there).collect();
    let Some(first) = there.first() else {
        return Err(format!(
            "{host} is no address of another member; {}. Where clients reach a member at another address than the \
             replicas do, write --to REPLICA=HOST",
            listed(candidates)
        ));
    };
    if there.iter().all(|candidate| candidate.objection.is_some()) {
        let (slot, objection) = (first.slot, first.objection.unwrap_or_default());
        return Err(format!(
            "replica {slot}, which is at {host}, {objection}; name one that clients can go on with (`meridian view` shows who takes part)"
        ));
    }
    match silence_at(&address) {
        None => Ok(()),
        Some(silence) => Err(format!(
            "clients would find no server there: {silence}; name the host as they reach it"
        )),
    }
}

fn listed(candidates: &[Candidate]) -> String {
    if candidates.is_empty() {
        return "there is no other one".to_owned();
    }
    let members = candidates.iter().map(|candidate| {
        let (slot, addresses) = (candidate.slot, candidate.addresses.join(", "));
        format!("replica {slot} is at {addresses}")
    });
    members.collect::<Vec<_>>().join(", ")
}

impl Overview {
    /// Begins to move clients to other servers, or reports the progress.
    pub(super) async fn drain(&self, question: &DrainQuestion) -> Result<DrainAnswer, String> {
        let mut trees = self.trees.iter();
        let replicated = trees.find_map(|tree| Some((tree, tree.replica.as_ref()?)));
        let Some((tree, replica)) = replicated else {
            return Err("this server belongs to no set, so there is no other server that has its trees; stop it, and clients wait until it is back".to_owned());
        };
        if tree.is_withheld() {
            return Err("this server is a witness and has no clients; just stop it".to_owned());
        }
        if let Some(clients) = self.service.to_be_drained() {
            let clients = clients as u64;
            return Ok(DrainAnswer { clients });
        }
        let fs_id = tree.file_system.properties().fs_id;
        if let Some(client) = self.service.cannot_follow(fs_id) {
            return Err(format!(
                "the client at {client} could not follow: Linux moves a mount over a connection from a port above 1023, from which [[export.allow]] does not believe it; write `secure = false` into its rule at all servers of the set and start them again, or just stop this one: its clients wait until it is back"
            ));
        }
        let locations = match question.to.is_empty() {
            true => self.elsewhere(replica).await?,
            false => {
                let targets: Vec<Target> = question.to.iter().map(|to| Target::parse(to)).collect();
                check(replica, targets.clone()).await?;
                let locations = targets.into_iter().map(|target| Location {
                    addresses: vec![target.host],
                });
                locations.collect()
            }
        };
        let hosts = locations.iter().flat_map(|location| &location.addresses);
        let hosts: Vec<&str> = hosts.map(String::as_str).collect();
        let what = format!("sent its clients to {}", hosts.join(", "));
        replica.put_on_record(what).await;
        let patience = Duration::from_secs(question.patience_seconds);
        self.service.begin_drain(fs_id, locations, patience);
        self.draining.notify_one();
        let clients = self.service.to_be_drained().unwrap_or_default();
        Ok(DrainAnswer {
            clients: clients as u64,
        })
    }

    /// The other members that can serve the clients, nearest first.
    ///
    /// # Errors
    /// There are none, with the reason.
    async fn elsewhere(&self, replica: &Replica) -> Result<Vec<Location>, String> {
        let places = self.places(replica).await.into_iter();
        let own = self.names.place;
        let (mut fit, mut objections) = (Vec::new(), Vec::new());
        for place in places.filter(|place| Some(place.slot) != own) {
            let target = Target {
                replica: Some(place.slot),
                host: place.addresses[0].clone(),
            };
            match check(replica, vec![target]).await {
                Ok(()) => fit.push(Location {
                    addresses: place.addresses,
                }),
                Err(objection) => objections.push(objection),
            }
        }
        if !fit.is_empty() {
            return Ok(fit);
        }
        let why = match objections.is_empty() {
            true => "no other member that takes part is reached by clients at port 2049".to_owned(),
            false => objections.join("; "),
        };
        Err(format!(
            "there is no server to which clients could go: {why}. `meridian set members` shows where clients reach each, `meridian set client-address` changes it, and --to names one"
        ))
    }

    /// Returns when all clients have been moved, or when the patience has run out. Never returns if no drain was
    /// requested. One task waits for it.
    pub(super) async fn drained(&self) {
        self.draining.notified().await;
        while !self.service.drained() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn candidate(slot: u16, address: &str, objection: Option<&'static str>) -> Candidate {
        Candidate {
            slot,
            addresses: vec![address.to_owned()],
            objection,
        }
    }

    fn refusal(to: &str, candidates: &[Candidate]) -> String {
        check_target(&Target::parse(to), candidates).unwrap_err()
    }

    #[test]
    fn a_target_has_the_port_of_nfs_unless_it_says_another_one() {
        for (text, replica, address) in [
            ("beta", None, "beta:2049"),
            ("192.0.2.7", None, "192.0.2.7:2049"),
            ("2001:db8::7", None, "[2001:db8::7]:2049"),
            ("beta:20490", None, "beta:20490"),
            ("2=nfs.beta", Some(2), "nfs.beta:2049"),
        ] {
            let target = Target::parse(text);
            assert_eq!(target.replica, replica);
            assert_eq!(target.address(), address);
        }
    }

    /// `drain --to` accepted any target, and clients got EIO from then on.
    #[test]
    fn clients_are_sent_nowhere_but_to_a_member_that_has_the_tree() {
        let served = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = served.local_addr().unwrap().to_string();
        let fit = [candidate(2, "127.0.0.1:7643", None)];
        assert_eq!(check_target(&Target::parse(&there), &fit), Ok(()));

        let nowhere = refusal("no-such-host.invalid", &fit);
        assert!(nowhere.contains("cannot be looked up"), "{nowhere}");
        let elsewhere = [candidate(2, "192.0.2.2:7643", None)];
        let stranger = refusal(&there, &elsewhere);
        assert!(
            stranger.contains("no address of another member")
                && stranger.contains("replica 2 is at 192.0.2.2:7643"),
            "{stranger}"
        );
        assert_eq!(
            check_target(&Target::parse(&format!("2={there}")), &elsewhere),
            Ok(())
        );
        let unknown = refusal(&format!("9={there}"), &elsewhere);
        assert!(
            unknown.contains("no address of another member"),
            "{unknown}"
        );

        let unfit = [candidate(3, "127.0.0.1:7643", Some("is a witness"))];
        let witness = refusal(&there, &unfit);
        assert!(
            witness.contains("replica 3") && witness.contains("is a witness"),
            "{witness}"
        );
        let both = [unfit[0].clone(), fit[0].clone()];
        assert_eq!(check_target(&Target::parse(&there), &both), Ok(()));

        drop(served);
        let silent = refusal(&there, &fit);
        assert!(silent.contains("nobody answers"), "{silent}");
    }
}

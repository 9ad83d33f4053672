//! Where clients find the replicated tree: first this server, then the others, the nearest first.
//!
//! What must never enter: how clients are told, and the meaning of a view.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nfs4_server::Location;
use peer::set::{Member, SetDirectory};
use replica::Replica;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::overview::Overview;
use crate::configuration::NFS_PORT;
use crate::data_directory::set_path;
use crate::set::{client_addresses, resolve};

/// The interval at which junctions are updated.
const LOOK: Duration = Duration::from_secs(1);

/// After this number of intervals the addresses of members are looked up again.
const LOOKS: u32 = 5;

/// A member that serves the tree to clients at the standard port of NFS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) slot: u16,
    /// Numeric addresses first. Not empty.
    pub(super) addresses: Vec<String>,
}

/// A member, as seen from here.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    slot: u16,
    /// It is in the view and stores contents.
    serves: bool,
    connected: bool,
    round_trip_us: Option<u64>,
}

/// The serving members, in the order in which clients of `own` should try them.
fn in_order(own: u16, mut seen: Vec<Seen>) -> Vec<u16> {
    seen.retain(|member| member.serves);
    seen.sort_by(|one, other| {
        let rank = |member: &Seen| (member.slot != own, !member.connected);
        let distance = |member: &Seen| member.round_trip_us.unwrap_or(u64::MAX);
        let by_distance = distance(one).cmp(&distance(other));
        let by_rank = rank(one).cmp(&rank(other)).then(by_distance);
        by_rank.then(one.slot.cmp(&other.slot))
    });
    seen.into_iter().map(|member| member.slot).collect()
}

fn seen(replica: &Replica) -> Vec<Seen> {
    let peers = replica.peers();
    let members = replica.view_status().members.into_iter();
    let seen = members.map(|member| {
        let peer = peers.iter().find(|peer| peer.slot == member.slot);
        Seen {
            slot: member.slot,
            serves: member.active && member.kind == "data",
            connected: peer.is_some_and(|peer| peer.connected),
            round_trip_us: peer.and_then(|peer| peer.round_trip_us),
        }
    });
    seen.collect()
}

/// The hosts of addresses at the standard port, which referrals always use; others are left out. Clients need no name
/// lookup for numeric hosts, so these come first.
fn at_standard_port(addresses: &[String]) -> Vec<String> {
    let (mut numeric, mut names) = (Vec::new(), Vec::new());
    for address in addresses {
        if let Ok(address) = address.parse::<SocketAddr>() {
            if address.port() == NFS_PORT {
                numeric.push(address.ip().to_string());
            }
            continue;
        }
        let Some((host, port)) = address.rsplit_once(':') else {
            continue;
        };
        if port.parse() == Ok(NFS_PORT) {
            let found = resolve(address).unwrap_or_default();
            numeric.extend(found.iter().map(|at| at.ip().to_string()));
            names.push(host.to_owned());
        }
    }
    numeric.extend(names);
    let mut told: Vec<String> = Vec::new();
    for host in numeric {
        if !told.contains(&host) {
            told.push(host);
        }
    }
    told
}

fn places(order: &[u16], members: &[Member]) -> Vec<Place> {
    let places = order.iter().filter_map(|slot| {
        let member = members.iter().find(|member| member.slot == *slot)?;
        let addresses = at_standard_port(&client_addresses(member));
        (!member.revoked && !addresses.is_empty()).then_some(Place {
            slot: *slot,
            addresses,
        })
    });
    places.collect()
}

impl Overview {
    /// The members in the set's files.
    pub(super) async fn listed_members(&self) -> Vec<Member> {
        let directory = SetDirectory::new(set_path(&self.data));
        let read = tokio::task::spawn_blocking(move || directory.members());
        match read.await {
            Ok(Ok(members)) => members,
            Ok(Err(error)) => {
                tracing::debug!(%error, "the list of members cannot be read");
                Vec::new()
            }
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    /// Where clients find the replicated tree, in the order in which they should try.
    pub(super) async fn places(&self, replica: &Replica) -> Vec<Place> {
        let own = self.names.place.unwrap_or_default();
        let mut order = in_order(own, seen(replica));
        let members = self.listed_members().await;
        let misled = members.iter().find(|member| self.misleads(member));
        order.retain(|slot| misled.is_none_or(|member| member.slot != *slot));
        // A name lookup waits for other servers.
        let looked = tokio::task::spawn_blocking(move || places(&order, &members)).await;
        looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    /// Whether a member is this server, and its default address for clients has a port at which it does not listen.
    fn misleads(&self, member: &Member) -> bool {
        Some(member.slot) == self.names.place
            && member.client_addresses.is_empty()
            && self.listen.iter().all(|at| at.port() != NFS_PORT)
    }

    /// Logs a warning about that, if it matters.
    async fn warn_of_other_ports(&self) {
        let members = self.listed_members().await;
        let misled = members.iter().find(|member| self.misleads(member));
        if let (Some(member), Some(domain)) = (misled, &self.domain) {
            tracing::warn!(
                "clients are not told of this server, because it does not listen at port {NFS_PORT}, where `meridian domain records {domain}` says it is; say where it is on the server that keeps the set's authority: `meridian set client-address {} HOST:PORT`",
                member.slot
            );
        }
    }

    async fn tell_places(&self) {
        let mut replicated = self.trees.iter().filter(|tree| !tree.is_withheld());
        let replicated = replicated.find_map(|tree| Some((tree, tree.replica.as_ref()?)));
        let Some((tree, replica)) = replicated else {
            return;
        };
        let places = self.places(replica).await.into_iter();
        let locations = places.map(|place| Location {
            addresses: place.addresses,
        });
        let fs_id = tree.file_system.properties().fs_id;
        self.service.set_locations(fs_id, locations.collect());
    }
}

/// Keeps the other servers' addresses for clients up to date, until the server stops.
pub(super) async fn keep(overview: Arc<Overview>, mut stopping: watch::Receiver<bool>) {
    if overview.trees.iter().all(|tree| tree.replica.is_none()) {
        return;
    }
    let keeping = async {
        overview.warn_of_other_ports().await;
        // Junctions are in the root of a domain. Without a domain, frequent checks are unnecessary.
        let (pause, looks) = match &overview.domain {
            Some(_) => (LOOK, LOOKS),
            None => (LOOK * LOOKS, 1),
        };
        let mut ticks = tokio::time::interval(pause);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for look in (0..looks).cycle() {
            ticks.tick().await;
            overview.show_junctions();
            if look == 0 {
                overview.tell_places().await;
            }
        }
    };
    tokio::select! {
        () = keeping => {}
        _ = stopping.wait_for(|stop| *stop) => {}
    }
}

/// The addresses of a host, if it has any, each in the form in which it is reached.
pub(super) fn addresses_of(host: &str) -> Vec<IpAddr> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = host.parse::<IpAddr>() {
        return vec![address.to_canonical()];
    }
    let found = resolve(&format!("{host}:{NFS_PORT}")).unwrap_or_default();
    found.iter().map(|at| at.ip().to_canonical()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(slot: u16, serves: bool, round_trip_ms: Option<u32>) -> Seen {
        Seen {
            slot,
            serves,
            connected: round_trip_ms.is_some(),
            round_trip_us: round_trip_ms.map(|ms| u64::from(ms) * 1000),
        }
    }

    #[test]
    fn the_own_server_comes_first_and_who_does_not_serve_not_at_all() {
        let members = vec![
            seen(1, true, Some(120)),
            seen(2, true, None),
            seen(3, true, Some(5)),
            seen(4, false, Some(1)),
            seen(5, true, None),
        ];
        assert_eq!(in_order(5, members.clone()), [5, 3, 1, 2]);
        assert_eq!(in_order(1, members), [1, 3, 2, 5]);
    }

    #[test]
    fn members_are_found_at_the_standard_port_or_not_at_all() {
        let member = |slot, addresses: &[&str], client_addresses: &[&str]| Member {
            slot,
            addresses: addresses.iter().map(ToString::to_string).collect(),
            client_addresses: client_addresses.iter().map(ToString::to_string).collect(),
            revoked: slot == 9,
            witness: false,
            metadata_server: false,
            name: String::new(),
        };
        let members = [
            member(1, &["192.0.2.1:7643"], &[]),
            member(
                2,
                &["192.0.2.2:7643"],
                &["no-such-host.invalid:2049", "[2001:db8::2]:2049"],
            ),
            member(3, &["192.0.2.3:7643"], &["192.0.2.3:20490"]),
            member(9, &["192.0.2.9:7643"], &[]),
        ];
        let found = places(&[2, 3, 1, 9, 7], &members);
        let told: Vec<(u16, Vec<&str>)> = found
            .iter()
            .map(|place| {
                let addresses = place.addresses.iter().map(String::as_str);
                (place.slot, addresses.collect())
            })
            .collect();
        let expected = [
            (2, vec!["2001:db8::2", "no-such-host.invalid"]),
            (1, vec!["192.0.2.1"]),
        ];
        assert_eq!(told, expected);
    }
}

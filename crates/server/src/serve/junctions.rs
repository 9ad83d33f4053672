//! Names in the root of the domain that lead to other servers: which junctions may be agreed on, and what clients get.
//!
//! What must never enter: how the set agrees.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use ::names::probe;
use nfs4_server::{Junction, JunctionTarget, PseudoPath};
use peer::set::Member;
use replica::{JunctionView, Referral, Replica};
use vfs::{Name, is_visible};

use super::overview::Overview;
use super::places::addresses_of;
use crate::configuration::{ClientAddress, NFS_PORT};
use crate::set::{client_addresses, is_local};
use crate::status::{JunctionAnswer, JunctionsStatus};

/// The maximum number of servers of one junction: clients read no more.
const SERVERS_MAX: usize = 10;

/// The time in which a server must answer to avoid a warning.
const PATIENCE: Duration = Duration::from_secs(3);

impl Overview {
    /// The junctions that the set agreed on, as known here.
    pub(super) fn junctions(&self) -> Result<JunctionsStatus, String> {
        Ok(JunctionsStatus {
            domain: self.domain.as_ref().map(ToString::to_string),
            junctions: self.agreeing()?.junctions(),
        })
    }

    /// Asks the set to agree on a junction, or on its removal.
    pub(super) async fn junction(&self, wish: JunctionView) -> Result<JunctionAnswer, String> {
        let replica = self.agreeing()?;
        let mut warnings = Vec::new();
        if !wish.to.is_empty() {
            let Some(domain) = &self.domain else {
                return Err(
                    "this server shows no domain in whose root the name could be; name it with `domain` in [names] at all servers of the set, and start them again"
                        .to_owned(),
                );
            };
            self.check_name(&wish.name)?;
            if let Some(twice) = repeated(&wish.to) {
                return Err(format!("{twice} is named twice; name each place once"));
            }
            if wish.to.len() > SERVERS_MAX {
                return Err(format!(
                    "clients read {SERVERS_MAX} servers of a junction at most; name the nearest ones"
                ));
            }
            let members = self.listed_members().await;
            let (root, agreed, wished) = (domain.root_path(), replica.junctions(), wish.clone());
            // A name lookup waits for other servers.
            let looked = tokio::task::spawn_blocking(move || {
                look_at(&wished, &Home::of(root, &members), &agreed)
            });
            let looked = looked.await;
            let found =
                looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
            for (place, addresses) in wish.to.iter().zip(found?) {
                warnings.extend(elsewhere(place, &addresses));
                warnings.extend(silence(place, &addresses).await);
            }
        }
        replica.decide_junction(wish).await?;
        self.show_junctions();
        Ok(JunctionAnswer { warnings })
    }

    /// Exports the currently agreed junctions to clients.
    pub(super) fn show_junctions(&self) {
        let Ok(replica) = self.agreeing() else { return };
        let junctions = replica.junctions().into_iter();
        self.service
            .set_junctions(junctions.filter_map(shown).collect());
    }

    fn agreeing(&self) -> Result<&Replica, String> {
        let mut replicas = self.trees.iter().filter_map(|tree| tree.replica.as_ref());
        let replica: &Replica = replicas.next().ok_or_else(|| {
            "this server belongs to no set that could agree on junctions; `meridian set create` begins one"
                .to_owned()
        })?;
        Ok(replica)
    }

    fn check_name(&self, name: &str) -> Result<(), String> {
        Name::new(name.as_bytes().to_vec())
            .map_err(|error| format!("`{name}` cannot be a name: {error}; choose another one"))?;
        if !name.chars().all(is_visible) {
            return Err(
                "the name has characters that cannot be seen; choose another one".to_owned(),
            );
        }
        let exports = self.service.namespace().exports().iter();
        let taken = |path: &PseudoPath| {
            (path.components().first()).is_some_and(|first| first.as_bytes() == name.as_bytes())
        };
        match exports.map(|export| &export.path).find(|path| taken(path)) {
            Some(path) => Err(format!(
                "{name} is what this server's export {path} is called in the root of the domain; choose another name"
            )),
            None => Ok(()),
        }
    }
}

/// A place that occurs more than once.
fn repeated(places: &[Referral]) -> Option<&Referral> {
    let alike = |one: &Referral, other: &Referral| {
        plain(&one.server) == plain(&other.server)
            && one.path.trim_end_matches('/') == other.path.trim_end_matches('/')
    };
    let mut each = places.iter().enumerate();
    each.find(|(at, place)| places[..*at].iter().any(|before| alike(before, place)))
        .map(|(_, place)| place)
}

/// A junction in the form for clients. An agreed junction was already checked when it was made.
fn shown(junction: JunctionView) -> Option<Junction> {
    let to = junction.to.into_iter().map(|to| {
        Some(JunctionTarget {
            server: to.server,
            path: PseudoPath::from_str(&to.path).ok()?,
        })
    });
    Some(Junction {
        name: Name::new(junction.name.into_bytes()).ok()?,
        to: to.collect::<Option<_>>()?,
    })
}

/// The servers of the set, by the addresses for clients or for servers, and the root of the domain that they export.
struct Home {
    root: String,
    hosts: Vec<String>,
    addresses: Vec<IpAddr>,
}

impl Home {
    fn of(root: String, members: &[Member]) -> Home {
        let members = members.iter().filter(|member| !member.revoked);
        let places = members.flat_map(|member| {
            let mut places = client_addresses(member);
            places.extend_from_slice(&member.addresses);
            places
        });
        let hosts = places.filter_map(|place| Some(plain(place.rsplit_once(':')?.0)));
        let mut hosts: Vec<String> = hosts.collect();
        hosts.sort_unstable();
        hosts.dedup();
        Home {
            root,
            addresses: hosts.iter().flat_map(|host| addresses_of(host)).collect(),
            hosts,
        }
    }

    /// Whether a server belongs to the set, or is on this machine.
    fn has(&self, server: &str, addresses: &[IpAddr]) -> bool {
        let is_own = |address: &IpAddr| self.addresses.contains(address) || is_local(*address);
        let name = plain(server);
        name == "localhost" || self.hosts.contains(&name) || addresses.iter().any(is_own)
    }

    /// The entry of the domain's root that contains a place, if the place is at a server of the set.
    fn entry<'p>(&self, server: &str, path: &'p str) -> Option<&'p str> {
        let within = path.strip_prefix(&self.root)?.strip_prefix('/')?;
        let entry = within.split('/').next().filter(|name| !name.is_empty())?;
        self.has(server, &addresses_of(server)).then_some(entry)
    }

    /// Whether a client that enters this junction comes back to it through other agreed junctions.
    fn goes_in_a_circle(&self, wish: &JunctionView, agreed: &[JunctionView]) -> bool {
        let wished = wish.to.iter();
        let mut next: Vec<&str> = wished
            .filter_map(|place| self.entry(&place.server, &place.path))
            .collect();
        let mut reached = Vec::new();
        while let Some(name) = next.pop() {
            if name == wish.name {
                return true;
            }
            let junction = agreed.iter().find(|junction| junction.name == name);
            let Some(junction) = junction.filter(|_| !reached.contains(&name)) else {
                continue;
            };
            reached.push(name);
            let to = junction.to.iter();
            next.extend(to.filter_map(|place| self.entry(&place.server, &place.path)));
        }
        false
    }
}

/// A host name in the form for comparison: without the dot at its end, in lower case.
fn plain(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// The addresses of each server of a junction.
///
/// # Errors
/// Which place is refused, and why: it is invalid, or it leads clients back to where they are.
fn look_at(
    wish: &JunctionView,
    home: &Home,
    agreed: &[JunctionView],
) -> Result<Vec<Vec<IpAddr>>, String> {
    let own = format!("{}/{}/", home.root, wish.name);
    let looked = wish.to.iter().map(|place| {
        check_place(place)?;
        let addresses = addresses_of(&place.server);
        check_addresses(place, &addresses)?;
        let path = format!("{}/", place.path.trim_end_matches('/'));
        if home.has(&place.server, &addresses) && (own.starts_with(&path) || path.starts_with(&own)) {
            return Err(format!(
                "{place} is this set's, and leads back to the junction itself; name a tree of another server"
            ));
        }
        Ok(addresses)
    });
    let looked = looked.collect::<Result<Vec<_>, String>>()?;
    if home.goes_in_a_circle(wish, agreed) {
        return Err(format!(
            "{} would lead back to itself through other junctions of this set, which `meridian junction list` shows; name a tree of another server",
            wish.name
        ));
    }
    Ok(looked)
}

fn check_place(place: &Referral) -> Result<(), String> {
    let host = &place.server;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_host = bare.parse::<IpAddr>().is_ok()
        || (!host.contains(':') && host.parse::<ClientAddress>().is_ok());
    if !is_host {
        return Err(format!(
            "`{host}` is no name or address of a server; write HOST:/PATH, such as files.example.net:/export (referrals lead to port {NFS_PORT})"
        ));
    }
    let path = &place.path;
    if !path.starts_with('/') || !path.chars().all(is_visible) {
        return Err(format!(
            "the path at {host} is none; write it with a slash in front, such as {host}:/export"
        ));
    }
    PseudoPath::from_str(path).map_err(|error| {
        format!("{error}; write the path of a tree there, such as {host}:/export")
    })?;
    Ok(())
}

/// Refuses addresses that do not belong to a single server: clients would ask themselves, or no server.
fn check_addresses(place: &Referral, addresses: &[IpAddr]) -> Result<(), String> {
    let is_none = |address: &IpAddr| {
        let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
        address.is_unspecified() || address.is_multicast() || is_broadcast
    };
    match addresses.iter().find(|address| is_none(address)) {
        Some(address) => Err(format!(
            "{place} leads to {address}, which is the address of no server; name one that clients can reach"
        )),
        None => Ok(()),
    }
}

/// Why clients on other machines would reach another place, for people.
fn elsewhere(place: &Referral, addresses: &[IpAddr]) -> Option<String> {
    let (address, is) = addresses.iter().find_map(|address| {
        let is_of_a_link = match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        let is = match (address.is_loopback(), is_of_a_link) {
            (true, _) => "every machine's own",
            (_, true) => "good within one network only",
            _ => return None,
        };
        Some((address, is))
    })?;
    let server = match place.server.parse::<IpAddr>() {
        Ok(_) => format!("{address} is {is}"),
        Err(_) => format!("{} leads to {address}, which is {is}", place.server),
    };
    Some(format!(
        "{server}; name a server that clients elsewhere reach"
    ))
}

/// Why the place is unreachable now, for people.
async fn silence(place: &Referral, addresses: &[IpAddr]) -> Option<String> {
    if addresses.is_empty() {
        return Some(format!(
            "{} cannot be looked up from here; clients have to know it when they come by",
            place.server
        ));
    }
    let mut last = String::new();
    for address in addresses {
        match probe::round_trip(SocketAddr::new(*address, NFS_PORT), PATIENCE).await {
            Ok(_) => return None,
            Err(error) => last = error.to_string(),
        }
    }
    Some(format!(
        "no NFS server answers at {} now ({last}); clients wait there until one does",
        place.server
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "/.domainroot/example.org";
    const OWN: &str = "/.domainroot/example.org/software";

    fn place(server: &str, path: &str) -> Referral {
        Referral {
            server: server.to_owned(),
            path: path.to_owned(),
        }
    }

    fn looked(place: Referral) -> Result<Vec<Vec<IpAddr>>, String> {
        looked_beside(place, &[])
    }

    /// The same after the set has agreed on junctions, each to one place at its own server.
    fn looked_beside(there: Referral, agreed: &[(&str, &str)]) -> Result<Vec<Vec<IpAddr>>, String> {
        let member = Member {
            slot: 1,
            addresses: vec!["alpha.invalid:7643".to_owned()],
            client_addresses: vec!["192.0.2.1:2049".to_owned()],
            revoked: false,
            witness: false,
            metadata_server: false,
            name: String::new(),
        };
        let agreed = agreed.iter().map(|(name, path)| JunctionView {
            name: (*name).to_owned(),
            to: vec![place("192.0.2.1", path)],
        });
        let wish = JunctionView {
            name: "software".to_owned(),
            to: vec![there],
        };
        let home = Home::of(ROOT.to_owned(), &[member]);
        look_at(&wish, &home, &agreed.collect::<Vec<_>>())
    }

    #[test]
    fn junctions_of_one_set_lead_nobody_in_a_circle() {
        let there = place("192.0.2.1", "/.domainroot/example.org/b");
        let circle = [
            ("b", "/.domainroot/example.org/c/inside"),
            ("c", "/.domainroot/example.org/software"),
        ];
        let refused = looked_beside(there.clone(), &circle).unwrap_err();
        assert!(
            refused.contains("back to itself through other"),
            "{refused}"
        );
        // Loops among other junctions are not caused by this one, and each junction is followed only once.
        let elsewhere = [
            ("b", "/.domainroot/example.org/c"),
            ("c", "/.domainroot/example.org/b"),
            ("d", "/.domainroot/example.org/software"),
        ];
        looked_beside(there, &elsewhere).unwrap();
        // The same names have another meaning at other servers.
        let far = place("192.0.2.9", "/.domainroot/example.org/b");
        looked_beside(far, &circle).unwrap();
    }

    #[test]
    fn a_junction_leads_to_other_servers_and_to_other_trees_of_the_own_ones() {
        for there in [
            place("192.0.2.9", "/"),
            place("192.0.2.9", OWN),
            place("192.0.2.1", "/.domainroot/example.org/physics"),
            place("192.0.2.1", "/.domainroot/example.org/software2"),
            place("[2001:db8::1]", "/export"),
        ] {
            let found = looked(there.clone()).unwrap();
            assert_eq!(found.len(), 1, "{there}");
        }
    }

    #[test]
    fn a_junction_does_not_lead_back_to_itself() {
        for path in ["/", "/.domainroot", "/.domainroot/example.org/", OWN] {
            let refused = looked(place("192.0.2.1", path)).unwrap_err();
            assert!(refused.contains("back to the junction itself"), "{refused}");
        }
    }

    #[test]
    fn a_server_of_the_set_is_known_by_any_of_its_names() {
        for server in [
            "::ffff:192.0.2.1",
            "[::ffff:192.0.2.1]",
            "127.0.0.1",
            "::1",
            "LOCALHOST.",
            "Alpha.Invalid",
            "alpha.invalid.",
        ] {
            let refused = looked(place(server, OWN)).unwrap_err();
            assert!(refused.contains("back to the junction itself"), "{refused}");
        }
        for server in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"] {
            let refused = looked(place(server, "/export")).unwrap_err();
            assert!(refused.contains("address of no server"), "{refused}");
        }
    }

    #[test]
    fn a_place_that_is_named_twice_is_found() {
        let places = ["a:/x", "b:/x", "A.:/x/"].map(|text| {
            let (server, path) = text.split_once(':').unwrap();
            place(server, path)
        });
        assert_eq!(repeated(&places), Some(&places[2]));
        assert_eq!(repeated(&places[..2]), None);
    }

    #[test]
    fn what_is_no_server_or_no_path_is_refused_with_an_example() {
        for there in [
            place("", "/export"),
            place("files:2049", "/export"),
            place("192.0.2", "/export"),
            place("a b", "/export"),
            place("files.example.net", "export"),
            place("files.example.net", "/a\n/b"),
            place("files.example.net", "/a/../b"),
        ] {
            assert!(looked(there.clone()).is_err(), "{there}");
        }
    }

    #[test]
    fn addresses_that_lead_each_client_elsewhere_are_told() {
        let told =
            |address: &str| elsewhere(&place("alpha", "/export"), &[address.parse().unwrap()]);
        for (address, part) in [
            ("127.0.0.1", "every machine's own"),
            ("::1", "every machine's own"),
            ("169.254.0.1", "one network"),
            ("fe80::1", "one network"),
        ] {
            assert!(told(address).unwrap().contains(part), "{address}");
        }
        assert_eq!(told("192.0.2.1").or(told("2001:db8::1")), None);
    }
}

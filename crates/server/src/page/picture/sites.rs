//! The servers of the set, as this server knows them, and the links to them.
//!
//! What must never enter: clients and files.

use vfs::Counted;

use super::names::visible;
use crate::plain::plain;
use crate::status::{
    ClockText, LinkView, MemberNames, MemberView, PeerView, RejoinText, ReplicaStatus, ViewStatus,
    called, moment, short_time, size,
};

/// A server of the set.
pub(super) struct Site {
    pub(super) name: String,
    pub(super) address: String,
    /// Its state, in a word or two.
    pub(super) state: String,
    /// Whether that state is good.
    pub(super) well: bool,
    /// Names and values.
    pub(super) values: Vec<(&'static str, String)>,
    /// Its links to third servers: the server, and the state of the link.
    pub(super) links: Vec<(String, String)>,
    /// Additional remarks.
    pub(super) notes: Vec<String>,
}

/// The view in one line.
pub(super) fn view(replication: &ReplicaStatus) -> String {
    let Some(view) = &replication.view else {
        return "no view is known here".to_owned();
    };
    let active = view.members.iter().filter(|member| member.active).count();
    let mut told = format!(
        "view {}: {active} of {} servers take part",
        view.epoch,
        view.members.len()
    );
    if let Some(leader) = view.leader {
        told += &format!(", led by {}", called(&replication.names, leader));
    }
    told + &match view.lease_ms {
        Some(0) => "; NO LEASE, so clients wait".to_owned(),
        Some(ms) => format!(
            "; this server may answer for {} more without word from the others",
            short_time(ms)
        ),
        None => String::new(),
    }
}

/// All servers, this one first.
pub(super) fn sites(replication: &ReplicaStatus, own_addresses: &[String]) -> Vec<Site> {
    let view = replication.view.as_ref();
    let mut sites = vec![own(replication, own_addresses)];
    let others = replication.peers.iter();
    let names = &replication.names;
    sites.extend(others.map(|one| peer(one, member(view, one.slot), names)));
    sites
}

fn member(view: Option<&ViewStatus>, slot: u16) -> Option<&MemberView> {
    let mut members = view.iter().flat_map(|view| &view.members);
    members.find(|member| member.slot == slot)
}

/// The name, if there is one: people know a member by it.
fn name(names: &MemberNames, slot: u16, witness: bool) -> String {
    let kind = if witness { ", a witness" } else { "" };
    match names.get(&slot) {
        Some(name) => format!("{name}, replica {slot}{kind}"),
        None => format!("replica {slot}{kind}"),
    }
}

fn own(replication: &ReplicaStatus, addresses: &[String]) -> Site {
    let takes_part = replication
        .view
        .as_ref()
        .is_some_and(|view| view.takes_part);
    let up_to_date = replication
        .view
        .as_ref()
        .is_some_and(|view| view.up_to_date);
    let (state, well) = match (takes_part, up_to_date) {
        (true, true) => ("this server, takes part", true),
        (true, false) => ("this server, catching up", false),
        (false, _) => ("this server, DOES NOT TAKE PART", false),
    };
    let values = vec![
        ("durability", replication.durability.name().to_owned()),
        ("written by clients", size(replication.written_bytes)),
        ("forwarded to others", operations(replication.forwarded)),
        ("carried out for others", operations(replication.served)),
    ];
    let obstacle = replication
        .view
        .iter()
        .filter_map(|view| view.obstacle.clone());
    let mut notes: Vec<String> = obstacle.collect();
    let rejoining = replication.rejoining.as_ref();
    notes.extend(rejoining.map(|rejoining| format!("on its way back, {}", RejoinText(rejoining))));
    Site {
        name: name(&replication.names, replication.slot, replication.witness),
        address: addresses.join(", "),
        state: state.to_owned(),
        well,
        values,
        links: Vec::new(),
        notes,
    }
}

fn operations(count: u64) -> String {
    format!("{count} operations")
}

fn peer(peer: &PeerView, member: Option<&MemberView>, names: &MemberNames) -> Site {
    let away = member.is_some_and(|member| !member.active);
    let (state, well) = match (peer.connected, away) {
        (true, false) => ("connected", true),
        (true, true) => ("connected, NOT IN THE VIEW", false),
        (false, false) => ("NOT CONNECTED", false),
        (false, true) => ("AWAY", false),
    };
    let round_trip = peer.round_trip_us.filter(|_| peer.connected);
    let round_trip = round_trip.map_or("unknown".to_owned(), milliseconds);
    let mut values = vec![
        ("round trip", round_trip),
        ("lacks", lag(peer)),
        ("sent", size(peer.sent_bytes)),
        ("received", size(peer.received_bytes)),
    ];
    values.extend(
        peer.clock
            .map(|clock| ("clock", ClockText(clock).to_string())),
    );
    let space = peer.available_bytes.filter(|_| !peer.witness);
    values.extend(space.map(|bytes| ("space for clients", size(bytes))));
    Site {
        name: name(names, peer.slot, peer.witness),
        address: visible(&peer.addresses.join(", ")),
        state: state.to_owned(),
        well,
        values,
        links: peer.links.iter().map(|one| link(one, names)).collect(),
        notes: notes(peer, member),
    }
}

fn notes(peer: &PeerView, member: Option<&MemberView>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(MemberView {
        excluded_at_unix_s: Some(at),
        reason: Some(reason),
        active: false,
        ..
    }) = member
    {
        notes.push(format!("away since {}: {reason}", moment(*at)));
    }
    if let Some(error) = peer.last_error.as_ref().filter(|_| !peer.connected) {
        notes.push(plain(error));
    }
    let rejoining = peer.rejoining.as_ref();
    notes.extend(rejoining.map(|rejoining| format!("on its way back, {}", RejoinText(rejoining))));
    notes.iter().map(|note| visible(note)).collect()
}

fn link(link: &LinkView, names: &MemberNames) -> (String, String) {
    let to = called(names, link.to);
    let Some(round_trip) = link.round_trip_us else {
        return (to, "NOT CONNECTED".to_owned());
    };
    let lacks = match (link.lag_updates, link.lag_files) {
        (0, 0) => "nothing".to_owned(),
        (updates, files) => {
            let (updates, files) = (Counted(updates, "update"), Counted(files, "file"));
            format!("{updates}, contents of {files}")
        }
    };
    let told = format!("{}, lacks {lacks}", milliseconds(round_trip));
    (to, told)
}

fn milliseconds(us: u64) -> String {
    format!("{}.{} ms", us / 1000, us % 1000 / 100)
}

/// What a peer lacks, and for how long.
fn lag(peer: &PeerView) -> String {
    if (peer.lag_updates, peer.lag_files) == (0, 0) {
        return "nothing".to_owned();
    }
    let bytes = peer.lag_bytes.map_or("contents".to_owned(), size);
    let time = short_time(peer.lag_ms);
    format!(
        "{}, {bytes} of {}, for {time}",
        Counted(peer.lag_updates, "update"),
        Counted(peer.lag_files, "file")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::examples;

    #[test]
    fn each_server_is_said_to_be_as_it_is() {
        let mut replication = examples::replica();
        let told = |replication: &ReplicaStatus| -> Vec<(String, bool)> {
            let sites = sites(replication, &[]);
            sites
                .into_iter()
                .map(|site| (site.state, site.well))
                .collect()
        };
        let expect =
            |states: [(&str, bool); 3]| states.map(|(state, well)| (state.to_owned(), well));
        assert_eq!(
            told(&replication),
            expect([
                ("this server, takes part", true),
                ("connected", true),
                ("AWAY", false)
            ])
        );
        if let Some(view) = &mut replication.view {
            view.takes_part = false;
            view.members[0].active = false;
            view.members[2].active = true;
        }
        assert_eq!(
            told(&replication),
            expect([
                ("this server, DOES NOT TAKE PART", false),
                ("connected, NOT IN THE VIEW", false),
                ("NOT CONNECTED", false)
            ])
        );
    }

    #[test]
    fn the_view_is_one_line() {
        let mut replication = examples::replica();
        let line = "view 6: 2 of 3 servers take part, led by replica 1 (alpha); this server may answer for 4.2 s more without word from the others";
        assert_eq!(view(&replication), line);
        if let Some(view) = &mut replication.view {
            (view.lease_ms, view.leader) = (Some(0), None);
        }
        assert_eq!(
            view(&replication),
            "view 6: 2 of 3 servers take part; NO LEASE, so clients wait"
        );
    }
}

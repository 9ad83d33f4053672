//! The content of the page, as texts: the templates only arrange them.
//!
//! What must never enter: HTML; the templates escape the texts.

mod charts;
mod frozen;
mod names;
mod pool;
mod remedies;
mod sites;

use askama::Template;
use vfs::Counted;

use self::charts::Chart;
use self::frozen::FrozenPart;
use self::names::visible;
use self::sites::{Site, sites};
use super::history::Rate;
use crate::status::{
    Alarm, ClientStatus, ControlView, ExportStatus, FrozenView, ReplicaStatus, Rows, Status,
    called, duration, short_time, size,
};

/// The maximum number of listed controls; `meridian status` has the others.
const CONTROLS_LISTED: usize = 50;

/// The maximum number of listed clients; `meridian clients` has the others.
const CLIENTS_LISTED: usize = 100;

/// All input for the page at one moment.
pub(crate) struct Facts {
    /// The name of the machine.
    pub(crate) host: String,
    /// The server.
    pub(crate) status: Status,
    /// The addresses at which the other replicas call this one, if it belongs to a set.
    pub(crate) own_addresses: Vec<String>,
    /// The objects that are frozen because a replica is lost.
    pub(crate) frozen: Rows<FrozenView>,
    /// The connected clients.
    pub(crate) clients: Rows<ClientStatus>,
    /// The last minutes, oldest first.
    pub(crate) rates: Vec<Rate>,
}

/// The changing part of the page.
#[derive(Template)]
#[template(path = "now.html")]
pub(super) struct Picture {
    /// The server in one line.
    title: String,
    /// The host in the title of the window.
    host: String,
    alarms: Vec<AlarmPart>,
    /// Names and values about the server itself.
    server: Vec<(&'static str, String)>,
    charts: Vec<Chart>,
    clients: Vec<ClientPart>,
    /// The number of clients that are not listed.
    clients_more: usize,
    exports: Vec<ExportPart>,
    /// Servers that this one works with.
    groups: Vec<GroupPart>,
    /// The tree that the set keeps, if there is a set.
    set: Option<SetPart>,
}

/// The servers of a set, or of a pool.
struct GroupPart {
    title: &'static str,
    /// Their common state, in one line.
    view: String,
    servers: Vec<Site>,
}

/// An alarm, and what to do.
struct AlarmPart {
    name: String,
    tree: String,
    what: String,
    remedy: &'static str,
}

/// A connected client.
struct ClientPart {
    address: String,
    name: String,
    version: String,
    known: String,
    silent: String,
    opens: u64,
    locks: u64,
}

/// An exported tree.
struct ExportPart {
    path: String,
    space: String,
    /// The used part of the space, including the reserve.
    used_percent: u64,
    objects: u64,
    note: &'static str,
}

/// The joint work of the servers of the set.
struct SetPart {
    controls: Vec<ControlPart>,
    /// The number of controls that are not listed.
    controls_more: u64,
    frozen: Option<FrozenPart>,
}

/// A replica that currently controls some objects.
struct ControlPart {
    paths: String,
    reach: &'static str,
    holder: String,
    here: bool,
    since: String,
    why: String,
}

impl Picture {
    pub(super) fn new(facts: &Facts) -> Picture {
        let status = &facts.status;
        let replicated = status.exports.iter().find_map(|export| {
            let replication = export.replication.as_ref()?;
            Some(replication)
        });
        Picture {
            title: title(facts, replicated),
            host: facts.host.clone(),
            alarms: status.alarms.iter().map(alarm).collect(),
            server: server(status),
            clients: facts
                .clients
                .rows
                .iter()
                .take(CLIENTS_LISTED)
                .map(client)
                .collect(),
            clients_more: facts.clients.total().saturating_sub(CLIENTS_LISTED),
            charts: charts::charts(&facts.rates, replicated.is_some()),
            exports: status.exports.iter().map(export).collect(),
            groups: groups(facts, replicated),
            set: replicated.map(|replication| set(facts, replication)),
        }
    }
}

fn title(facts: &Facts, replicated: Option<&ReplicaStatus>) -> String {
    let (host, version) = (&facts.host, &facts.status.version);
    let up = duration(facts.status.uptime_seconds);
    match (replicated, &facts.status.pool) {
        (Some(replication), _) => format!(
            "{} on {host}, Meridian {version}, up {up}",
            called(&replication.names, replication.slot)
        ),
        (None, Some(pool)) => format!(
            "{} {} on {host}, Meridian {version}, up {up}",
            pool.role, pool.number
        ),
        (None, None) => format!("{host}, Meridian {version}, up {up}, on its own"),
    }
}

fn client(client: &ClientStatus) -> ClientPart {
    ClientPart {
        address: client.address.to_string(),
        // Invisible characters were replaced when the status was created.
        name: client.name.clone(),
        version: client.version.clone(),
        known: duration(client.known_seconds),
        silent: duration(client.silent_seconds),
        opens: client.opens,
        locks: client.locks,
    }
}

fn alarm(alarm: &Alarm) -> AlarmPart {
    AlarmPart {
        name: alarm.name.clone(),
        tree: alarm.tree.clone(),
        what: visible(&alarm.what),
        remedy: remedies::remedy(&alarm.name),
    }
}

fn server(status: &Status) -> Vec<(&'static str, String)> {
    let listen: Vec<String> = status.listen.iter().map(ToString::to_string).collect();
    let mut told = vec![
        (
            "clients",
            format!(
                "{} ({})",
                status.clients,
                Counted(status.connections, "connection")
            ),
        ),
        ("open files", status.opens.to_string()),
        ("locks", status.locks.to_string()),
        ("operations", status.operations.to_string()),
        ("commit", status.commit.clone()),
        ("NFS clients call", listen.join(", ")),
        ("data directory", visible(&status.data.to_string_lossy())),
    ];
    if status.in_grace {
        let grace =
            "clients reclaim what they held; nobody opens or locks anything new until they have";
        told.insert(0, ("grace period", grace.to_owned()));
    }
    told
}

fn export(export: &ExportStatus) -> ExportPart {
    let (available, total) = (export.space.available_bytes, export.space.total_bytes);
    let note = match &export.replication {
        Some(replication) if replication.removed => {
            "not shown to clients: this server was removed from the set"
        }
        Some(replication) if replication.witness => {
            "not shown to clients: this server is a witness"
        }
        Some(replication) if !replication.ready => {
            "being filled; clients are told to come again until it is"
        }
        Some(_) => "kept by the set",
        None => "kept by this server alone",
    };
    ExportPart {
        path: visible(&export.path),
        space: format!("{} of {} available", size(available), size(total)),
        used_percent: match total {
            0 => 0,
            total => total.saturating_sub(available).saturating_mul(100) / total,
        },
        objects: export.store.objects,
        note,
    }
}

fn groups(facts: &Facts, replicated: Option<&ReplicaStatus>) -> Vec<GroupPart> {
    let set = replicated.map(|replication| GroupPart {
        title: "Sites and links",
        view: sites::view(replication),
        servers: sites(replication, &facts.own_addresses),
    });
    let pool = facts.status.pool.as_ref().map(|pool| GroupPart {
        title: "Servers of the pool",
        view: pool::view(pool),
        servers: pool::servers(pool),
    });
    set.into_iter().chain(pool).collect()
}

fn set(facts: &Facts, replication: &ReplicaStatus) -> SetPart {
    let listed = replication.controls.iter().take(CONTROLS_LISTED);
    let controls: Vec<_> = listed.map(|one| control(one, replication)).collect();
    SetPart {
        controls_more: replication
            .controls_total
            .saturating_sub(controls.len() as u64),
        controls,
        frozen: frozen::part(&facts.frozen, replication, &facts.status.data),
    }
}

fn control(control: &ControlView, replication: &ReplicaStatus) -> ControlPart {
    let (names, here) = (&replication.names, control.holder == replication.slot);
    ControlPart {
        paths: visible(&control.paths.join(", ")),
        reach: reach(control.deep),
        holder: match here {
            true => "this server".to_owned(),
            false => called(names, control.holder),
        },
        here,
        since: short_time(control.age_ms),
        why: control.held_because.clone().unwrap_or_default(),
    }
}

/// Which objects at a path a control covers.
fn reach(deep: bool) -> &'static str {
    match deep {
        true => "deep: with everything below",
        false => "shallow: without what is below",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::alarms;
    use crate::status::examples;

    fn alone() -> Facts {
        Facts {
            host: "alpha".to_owned(),
            status: Status::example(),
            own_addresses: Vec::new(),
            frozen: Rows::default(),
            clients: Rows::default(),
            rates: Vec::new(),
        }
    }

    fn in_a_set() -> Facts {
        let mut facts = alone();
        let export = &mut facts.status.exports[0];
        export.replication = Some(examples::replica());
        facts.status.alarms = alarms(export);
        facts.own_addresses = vec!["beta:7643".to_owned()];
        facts.frozen.rows = vec![FrozenView {
            slot: 3,
            since_unix_s: 1_790_000_000,
            name: "3.7.2".to_owned(),
            paths: vec!["/lost".to_owned()],
            deep: true,
            open_questions: "what replica 3 changed last is not known".to_owned(),
        }];
        facts
    }

    fn drawn(facts: &Facts) -> String {
        Picture::new(facts).render().unwrap()
    }

    fn assert_shown(html: &str, parts: &[&str]) {
        for part in parts {
            assert!(html.contains(part), "`{part}` is not in\n{html}");
        }
    }

    #[test]
    fn a_server_on_its_own_shows_what_applies_to_it() {
        let html = drawn(&alone());
        assert_shown(
            &html,
            &[
                "on its own",
                "All is well",
                "/export",
                "kept by this server alone",
                "grace period",
            ],
        );
        for absent in ["Sites", "controls", "Frozen", "Between sites"] {
            assert!(!html.contains(absent), "`{absent}` is in\n{html}");
        }
    }

    #[test]
    fn a_replica_shows_sites_links_controls_and_what_is_frozen() {
        let html = drawn(&in_a_set());
        assert_shown(
            &html,
            &[
                "replica 2 on alpha",
                "2 alarms",
                "member-away",
                "beta:7643",
                "120.3 ms",
                "12 ms behind, to within 61 ms",
                "12 updates",
                "connection refused",
                "its link to replica 3",
                "61.2 ms, lacks 7 updates, contents of 1 file",
                "/src",
                "deep: with everything below",
                "12.3 s",
                "updates are not everywhere",
                "/notes/today",
                "/lost",
                "meridian thaw --discard 3",
            ],
        );
    }

    #[test]
    fn members_are_called_by_their_names_and_clients_are_shown() {
        let mut facts = in_a_set();
        if let Some(replication) = &mut facts.status.exports[0].replication {
            replication.names = [(1, "alpha".to_owned()), (2, "beta".to_owned())].into();
        }
        let client = ClientStatus {
            id: "1".to_owned(),
            address: [192, 0, 2, 7].into(),
            name: "Linux NFSv4.2 <desk>".to_owned(),
            implementation: String::new(),
            version: "4.2".to_owned(),
            known_seconds: 61,
            silent_seconds: 1,
            sessions: 1,
            opens: 3,
            locks: 4,
        };
        facts.clients.rows = vec![client; 150];
        let html = drawn(&facts);
        assert_shown(
            &html,
            &[
                "replica 2 (beta) on alpha",
                "alpha, replica 1",
                "192.0.2.7",
                "NFSv4.2 &#60;desk&#62;",
                "1 min 1 s",
                "50 more",
            ],
        );
    }

    #[test]
    fn names_of_files_cannot_become_anything_else() {
        let mut facts = in_a_set();
        let evil = "/<img src=x onerror=alert(1)>\"'&{{x}}\u{202e}\n";
        if let Some(replication) = &mut facts.status.exports[0].replication {
            replication.controls[0].paths = vec![evil.to_owned()];
            replication.peers[1].last_error = Some(evil.to_owned());
        }
        facts.frozen.rows[0].paths = vec![evil.to_owned()];
        facts.status.alarms[0].what = evil.to_owned();
        facts.status.data = evil.into();
        let html = drawn(&facts);
        assert!(!html.contains("<img"), "{html}");
        assert!(!html.contains('\u{202e}'), "{html}");
        assert!(html.matches("img src=x").count() >= 5, "{html}");
        assert_shown(&html, &["\\u{202e}\\u{a}"]);
    }

    #[test]
    fn long_lists_end_with_how_many_there_are_besides() {
        let mut facts = in_a_set();
        if let Some(replication) = &mut facts.status.exports[0].replication {
            let one = replication.controls[0].clone();
            replication.controls = vec![one; 1000];
            replication.controls_total = 4000;
        }
        let one = facts.frozen.rows[0].clone();
        facts.frozen.rows = vec![one; 1000];
        let html = drawn(&facts);
        assert_shown(&html, &["3950 more", "950 more"]);
        assert!(html.len() < 200_000, "{} bytes", html.len());
    }
}

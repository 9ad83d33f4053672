//! The keys of the configuration file. `docs/operating.md` describes each of them.
//!
//! What must never enter: how TOML is read, and the effect of the settings.

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use nfs4_server::{AccessMode, AccessRule, AddressRange, PseudoPath, Squash};
use store::CommitMode;
use toml::de::DeTable;

use super::address::ListenAddress;
use super::problem::Problem;
use super::section::{Problems, Section};
use super::{
    Configuration, DEFAULT_TREE, ExportConfiguration, LogFilter, LogFormat, NOBODY, collisions,
    default_rules, names, page, pool, replication,
};

/// The size of RPC and COMPOUND headers in addition to the data of a READ or WRITE, in bytes.
const HEADERS_BYTES: u32 = 8 << 10;

/// The expected format of the name of a tree, for messages.
pub const TREE_WANTED: &str = "a name of letters, digits, `-`, `_` and `.`, such as \"projects\"";

/// The expected format of the path of an export, for messages.
const PATH_WANTED: &str =
    "an absolute path of names of 1 to 255 bytes, without `.`, `..` and NUL, such as \"/export\"";

const RANGES: &str =
    "an address range such as \"192.0.2.0/24\", \"192.0.2.7\" or \"*\", or a list of them";

/// The configuration in a file, or all problems in it.
pub(super) fn parse(text: &str) -> Result<Configuration, Vec<Problem>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let problems = Problems::default();
    for error in &errors {
        let place = error.span().unwrap_or(0..0);
        let remedy = "write `key = value` or `[table]` as TOML wants it";
        problems.add(place, error.message(), remedy);
    }
    if !errors.is_empty() {
        return Err(problems.into_list());
    }
    let configuration = configuration(Section::top(table.get_ref(), &problems));
    let problems = problems.into_list();
    if problems.is_empty() {
        Ok(configuration)
    } else {
        Err(problems)
    }
}

fn configuration(top: Section<'_>) -> Configuration {
    let mut all = Configuration::default();
    let wanted = "an absolute path, such as \"/var/lib/meridian\"";
    if let Some((data, place)) = top.text("data", wanted) {
        all.data = PathBuf::from(data);
        if !all.data.is_absolute() || data.contains('\0') {
            top.complain(
                place,
                format!("`data` is \"{data}\""),
                format!("write {wanted}"),
            );
        }
    }
    let listen = top.list("listen", ListenAddress::WANTED);
    all.listen = listen.unwrap_or(all.listen);
    let commit = top.choice(
        "commit",
        &[("sync", CommitMode::Sync), ("async", CommitMode::Async)],
    );
    all.commit = commit.unwrap_or(all.commit);
    if let Some(exports) = exports(&top) {
        all.exports = exports;
    }
    for (name, read) in [
        ("time", time as fn(&Section<'_>, &mut Configuration)),
        ("limits", limits),
        ("store", store),
        // After the exports, because it names one of them.
        ("replication", replication::read),
        ("pool", pool::read),
        ("names", names::read),
        ("metrics", metrics),
        ("page", page::read),
        ("log", log),
    ] {
        if let Some(section) = top.table(name) {
            read(&section, &mut all);
            section.finish();
        }
    }
    collisions::look_for(&top, &all);
    top.finish();
    all
}

fn exports(top: &Section<'_>) -> Option<Vec<ExportConfiguration>> {
    let sections = top.tables("export", "export");
    let places: Vec<Range<usize>> = sections.iter().map(Section::place).collect();
    let exports: Vec<_> = sections.into_iter().map(export).collect();
    for (index, export) in exports.iter().enumerate() {
        let earlier = &exports[..index];
        if earlier.iter().any(|other| other.tree == export.tree) {
            let what = format!("the tree \"{}\" is exported twice", export.tree);
            let remedy = "give each [[export]] a `tree` of its own, such as `tree = \"projects\"`";
            top.complain(places[index].clone(), what, remedy);
        }
        if let Some(other) = earlier
            .iter()
            .find(|other| overlap(&other.path, &export.path))
        {
            let what = format!("the exports {} and {} overlap", other.path, export.path);
            top.complain(
                places[index].clone(),
                what,
                "choose paths of which none lies in another",
            );
        }
    }
    (!exports.is_empty()).then_some(exports)
}

fn overlap(one: &PseudoPath, other: &PseudoPath) -> bool {
    let (one, other) = (one.components(), other.components());
    one.starts_with(other) || other.starts_with(one)
}

fn export(section: Section<'_>) -> ExportConfiguration {
    let mut export = ExportConfiguration::default();
    match section.parsed::<PseudoPath>("path", PATH_WANTED) {
        Some(path) => export.path = path,
        None if !section.has("path") => {
            let remedy = "add a line such as `path = \"/export\"`";
            section.complain(section.place(), "an [[export]] has no `path`", remedy);
        }
        None => {}
    }
    if let Some((tree, place)) = section.text("tree", TREE_WANTED) {
        if !is_tree_name(tree) {
            let what = format!("`tree` is \"{tree}\"");
            section.complain(place, what, format!("write {TREE_WANTED}"));
        }
        export.tree = tree.to_owned();
    } else {
        export.tree = DEFAULT_TREE.to_owned();
    }
    let allowed = section.tables("allow", "export.allow");
    export.rules = match allowed.is_empty() {
        true => default_rules(),
        false => allowed.into_iter().flat_map(rules).collect(),
    };
    section.finish();
    export
}

/// Whether a tree can have this name. The name is also that of a directory, so it must not lead out of the directory for trees.
#[must_use]
pub fn is_tree_name(name: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    (1..=64).contains(&name.len()) && name.chars().all(fits) && !name.starts_with('.')
}

/// One rule for each of the address ranges.
fn rules(section: Section<'_>) -> Vec<AccessRule> {
    let mode = section.choice(
        "mode",
        &[("ro", AccessMode::ReadOnly), ("rw", AccessMode::ReadWrite)],
    );
    let squashes = [
        ("none", Squash::None),
        ("root", Squash::Root),
        ("all", Squash::All),
    ];
    let squash = section.choice("squash", &squashes);
    // The largest number is reserved: it means no user in system calls, and no file can belong to it.
    let id = 0..=u64::from(u32::MAX) - 1;
    let anonymous_user = section.integer("anonymous_user", id.clone());
    let anonymous_group = section.integer("anonymous_group", id);
    let secure = section.switch("secure").unwrap_or(true);
    let narrow = |id: Option<u64>| id.and_then(|id| u32::try_from(id).ok()).unwrap_or(NOBODY);
    let clients = section.list::<AddressRange>("clients", RANGES);
    if clients.is_none() {
        let remedy = format!("add a line `clients = ` with {RANGES}");
        section.complain(
            section.place(),
            "an [[export.allow]] has no `clients`",
            remedy,
        );
    }
    section.finish();
    let rule = |clients| AccessRule {
        clients,
        mode: mode.unwrap_or(AccessMode::ReadWrite),
        squash: squash.unwrap_or(Squash::Root),
        anonymous_user: narrow(anonymous_user),
        anonymous_group: narrow(anonymous_group),
        secure,
    };
    clients.unwrap_or_default().into_iter().map(rule).collect()
}

fn time(section: &Section<'_>, all: &mut Configuration) {
    let seconds =
        |key, range: RangeInclusive<u64>| section.integer(key, range).map(Duration::from_secs);
    let lease = seconds("lease_seconds", 1..=3600);
    all.limits.lease = lease.unwrap_or(all.limits.lease);
    // Clients notice a restart when they renew their leases. So a shorter grace period would exclude some correct
    // clients (RFC 8881, section 8.4.2.1).
    let grace = seconds("grace_seconds", 0..=3600);
    all.limits.grace = grace.unwrap_or(all.limits.lease);
    let place = section.place();
    if all.limits.grace < all.limits.lease && !all.limits.grace.is_zero() {
        let what = "`grace_seconds` is less than `lease_seconds`";
        let remedy = "make it at least as long, or 0 for none at all if no client holds locks";
        section.complain(place, what, remedy);
    }
}

fn limits(section: &Section<'_>, all: &mut Configuration) {
    let count = |key, range, field: &mut usize| {
        let number = section
            .integer(key, range)
            .and_then(|number| usize::try_from(number).ok());
        *field = number.unwrap_or(*field);
    };
    count("connections", 1..=1_000_000, &mut all.transport.connections);
    let in_flight = &mut all.transport.requests_per_connection;
    count("requests_per_connection", 1..=65_536, in_flight);
    count("clients", 1..=10_000_000, &mut all.limits.clients);
    count(
        "sessions_per_client",
        1..=65_536,
        &mut all.limits.sessions_per_client,
    );
    count(
        "states_per_client",
        1..=100_000_000,
        &mut all.limits.states_per_client,
    );
    let memory = section.size("memory", 64 << 20..=1 << 40);
    all.limits.memory_bytes = memory.unwrap_or(all.limits.memory_bytes);
    all.transport.buffer_bytes = all.limits.buffer_bytes();
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let slots = section.integer("slots_per_session", 1..=1024).map(narrow);
    all.limits.slots = slots.unwrap_or(all.limits.slots);
    let operations = section
        .integer("operations_per_compound", 8..=1024)
        .map(narrow);
    all.limits.operations = operations.unwrap_or(all.limits.operations);
    let transfer = section
        .size("transfer_size", 64 << 10..=16 << 20)
        .map(narrow);
    if let Some(transfer) = transfer {
        all.limits.request_bytes = transfer + HEADERS_BYTES;
        all.limits.response_bytes = transfer + HEADERS_BYTES;
    }
}

fn store(section: &Section<'_>, all: &mut Configuration) {
    let cache = section.size("cache_size", 1 << 20..=1 << 40);
    all.store.cache_bytes = cache.unwrap_or(all.store.cache_bytes);
    let files = section.integer("open_files", 16..=1_000_000);
    let files = files.and_then(|files| usize::try_from(files).ok());
    all.store.open_files = files.unwrap_or(all.store.open_files);
    all.store.reserve_bytes = section.size("reserve", 64 << 20..=1 << 50);
    all.store.checksums = section.switch("checksums").unwrap_or(all.store.checksums);
}

fn metrics(section: &Section<'_>, all: &mut Configuration) {
    let wanted = "ADDRESS:PORT, such as \"127.0.0.1:9649\", or \"off\"";
    all.metrics = section.parsed("listen", wanted).unwrap_or(all.metrics);
}

fn log(section: &Section<'_>, all: &mut Configuration) {
    let filter = section.parsed::<LogFilter>("level", LogFilter::WANTED);
    all.log.filter = filter.unwrap_or_default();
    let format = section.choice(
        "format",
        &[("text", LogFormat::Text), ("json", LogFormat::Json)],
    );
    all.log.format = format.unwrap_or(all.log.format);
}

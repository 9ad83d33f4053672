//! `docs/operating.md` and the packaged configuration are true: they name every key there is, and no other.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use server::Configuration;
use server::configuration::{ConfigurationError, ExportConfiguration, PeerListenAddress};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn parse(text: &str) -> Result<Configuration, ConfigurationError> {
    Configuration::parse(Path::new("meridian.toml"), text)
}

/// The texts in back quotes that stand between two words.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The keys of a table, as the complaint about an unknown one lists them.
fn known_keys(table: &str) -> BTreeSet<String> {
    let message = parse(&format!("{table}\nxxxxxxxxxxxxxxxx = 1\n"))
        .unwrap_err()
        .to_string();
    let complaint = message
        .lines()
        .find(|line| line.contains("xxxxxxxxxxxxxxxx"))
        .unwrap();
    quoted(
        complaint
            .split("known are")
            .nth(1)
            .expect("all known keys are listed"),
    )
}

/// The keys in the first column of the table that follows a line of the page.
fn documented_keys(page: &str, heading: &str) -> BTreeSet<String> {
    let after = page
        .split(heading)
        .nth(1)
        .unwrap_or_else(|| panic!("{heading} is not there"));
    let rows = after.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.flat_map(|row| quoted(row.split('|').nth(1).unwrap()))
        .collect()
}

/// The tables at the top of the file.
const TABLES: [&str; 10] = [
    "export",
    "time",
    "limits",
    "store",
    "pool",
    "replication",
    "names",
    "metrics",
    "page",
    "log",
];

#[test]
fn every_key_is_documented_and_every_documented_key_exists() {
    let page = fs::read_to_string(repository().join("docs/operating.md")).unwrap();
    let export = "[[export]]\npath = \"/x\"";
    for (table, heading) in [
        (export, "\n`[[export]]`"),
        (
            "[[export]]\npath = \"/x\"\n[[export.allow]]\nclients = \"*\"",
            "\n`[[export.allow]]`",
        ),
        ("[time]", "\n`[time]`"),
        ("[limits]", "\n`[limits]`"),
        ("[store]", "\n`[store]`"),
        ("[pool]", "\n`[pool]`"),
        ("[replication]", "\n`[replication]`"),
        ("[replication.strategies]", "\n`[replication.strategies]`"),
        ("[names]", "\n`[names]`"),
        ("[metrics]", "\n`[metrics]`"),
        ("[page]", "\n`[page]`"),
        ("[log]", "\n`[log]`"),
    ] {
        let mut known = known_keys(table);
        known.remove("allow");
        known.remove("strategies");
        assert_eq!(documented_keys(&page, heading), known, "{heading}");
    }
    let tables = TABLES.map(str::to_owned);
    let known: BTreeSet<_> = known_keys("").difference(&tables.into()).cloned().collect();
    assert_eq!(documented_keys(&page, "At the top of the file:"), known);
}

/// The packaged file with its comment signs taken off, where they hide a setting.
fn packaged() -> String {
    let file = fs::read_to_string(repository().join("packaging/meridian.toml")).unwrap();
    let setting = |line: &str| {
        let bare = line.strip_prefix("# ")?;
        (bare.starts_with('[') || bare.contains(" = ")).then(|| bare.to_owned())
    };
    file.lines()
        .filter_map(setting)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_packaged_file_shows_all_defaults() {
    let all = parse(&packaged()).unwrap();
    let defaults = Configuration::default();
    assert_eq!(all.data, defaults.data);
    assert_eq!(all.listen, defaults.listen);
    assert_eq!(all.commit, defaults.commit);
    assert_eq!(all.exports, [ExportConfiguration::default()]);
    assert_eq!(
        format!("{:?}", all.limits),
        format!("{:?}", defaults.limits)
    );
    assert_eq!(all.transport, defaults.transport);
    assert_eq!(all.store.cache_bytes, defaults.store.cache_bytes);
    assert_eq!(all.store.open_files, defaults.store.open_files);
    assert_eq!(all.store.checksums, defaults.store.checksums);
    assert_eq!(all.pool, defaults.pool);
    let mut replication = all.replication;
    // The default depends on what the set was told, which is this unless it was told otherwise.
    assert_eq!(
        replication.listen.take(),
        Some(PeerListenAddress::EVERYWHERE)
    );
    // There is no limit unless one is written down; the file shows how.
    assert_eq!(
        replication.replica.return_bytes_per_second.take(),
        Some(10 << 20)
    );
    // The default is less where disks are small.
    assert_eq!(replication.replica.space_reserve.take(), Some(64 << 20));
    assert_eq!(replication, defaults.replication);
    // There is none unless one is written down; the file shows how.
    assert_eq!(all.domain.unwrap().as_str(), "example.org");
    assert_eq!(all.page.allow_remote, defaults.page.allow_remote);
    // There are no names unless some are written down; the file shows how.
    assert_eq!(all.page.names, ["alpha.example"]);
    assert_eq!(all.log, defaults.log);
    let file = fs::read_to_string(repository().join("packaging/meridian.toml")).unwrap();
    let settings: BTreeSet<&str> = file
        .lines()
        .filter_map(|line| line.strip_prefix("# ")?.split_once(" = "))
        .map(|(key, _)| key)
        .collect();
    for table in [
        "",
        "[time]",
        "[limits]",
        "[store]",
        "[pool]",
        "[replication]",
        "[replication.strategies]",
        "[names]",
        "[metrics]",
        "[page]",
        "[log]",
        "[[export]]\npath = \"/x\"",
    ] {
        for key in known_keys(table) {
            let inner = ["allow", "strategies"];
            let is_table = TABLES.contains(&&*key) || inner.contains(&&*key);
            assert!(
                is_table || settings.contains(&*key),
                "`{key}` of {table} is not shown"
            );
        }
    }
}

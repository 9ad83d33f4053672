//! What configuration files mean, and what is said about wrong ones.

mod replication;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use nfs4_server::{AccessMode, Squash};
use server::Configuration;
use server::configuration::{
    ConfigurationError, ExportConfiguration, LogFormat, Offer, Overrides, PageConfiguration,
};
use store::CommitMode;

fn parse(text: &str) -> Result<Configuration, ConfigurationError> {
    Configuration::parse(Path::new("meridian.toml"), text)
}

#[test]
fn an_empty_file_is_a_complete_configuration() {
    let all = parse("").unwrap();
    assert_eq!(all.data, Path::new("/var/lib/meridian"));
    assert_eq!(all.listen[0].to_string(), "[::]:2049");
    assert_eq!(all.commit, CommitMode::Sync);
    let [export] = &all.exports[..] else {
        panic!("{:?}", all.exports)
    };
    assert_eq!(
        (export.path.to_string().as_str(), export.tree.as_str()),
        ("/export", "default")
    );
    assert!(matches!(all.metrics, Offer::IfFree(_)));
    let page = Offer::IfFree(SocketAddr::from(([127, 0, 0, 1], 9650)));
    assert_eq!((all.page.listen, all.page.allow_remote), (page, false));
}

#[test]
fn the_superuser_is_believed_on_this_machine_only() {
    let export = ExportConfiguration::default();
    let squash_of = |address: &str| {
        let address = address.parse().unwrap();
        let rule = export
            .rules
            .iter()
            .find(|rule| rule.clients.contains(address))
            .unwrap();
        assert_eq!(rule.mode, AccessMode::ReadWrite);
        rule.squash
    };
    for (address, squash) in [
        ("127.0.0.1", Squash::None),
        ("127.9.9.9", Squash::None),
        ("::1", Squash::None),
        ("::ffff:127.0.0.1", Squash::None),
        ("192.0.2.1", Squash::Root),
        ("2001:db8::1", Squash::Root),
    ] {
        assert_eq!(squash_of(address), squash, "{address}");
    }
}

/// A file with every key outside of `[replication]`.
const EVERY_KEY: &str = r#"
data = "/srv/meridian"
listen = ["192.0.2.1:2049", "[2001:db8::1]:2050"]
commit = "async"

[[export]]
path = "/projects/src"
tree = "source"

[[export.allow]]
clients = ["192.0.2.0/24", "2001:db8::/32"]
mode = "ro"
squash = "all"
anonymous_user = 1000
anonymous_group = 0x64
secure = false

[[export.allow]]
clients = "*"

[[export]]
path = "/home"

[time]
lease_seconds = 30
grace_seconds = 45

[limits]
connections = 10
requests_per_connection = 20
clients = 30
sessions_per_client = 40
states_per_client = 50
memory = "128 MiB"
slots_per_session = 60
operations_per_compound = 70
transfer_size = "256 KiB"

[store]
cache_size = "1 GiB"
open_files = 99
checksums = false
reserve = 100000000

[metrics]
listen = "127.0.0.1:1"

[page]
listen = "192.0.2.1:2"
allow_remote = true
names = ["Alpha.example", "beta.example"]

[log]
level = "warn,store=debug"
format = "json"
"#;

#[test]
fn every_key_is_understood() {
    let all = parse(EVERY_KEY).unwrap();
    assert_eq!(all.data, Path::new("/srv/meridian"));
    let listen: Vec<_> = all.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["192.0.2.1:2049", "[2001:db8::1]:2050"]);
    assert_eq!(all.commit, CommitMode::Async);
    let limits = &all.limits;
    assert_eq!(limits.memory_bytes, 128 << 20);
    assert_eq!(
        (limits.lease, limits.grace),
        (Duration::from_secs(30), Duration::from_secs(45))
    );
    assert_eq!(
        (
            all.transport.connections,
            all.transport.requests_per_connection
        ),
        (10, 20)
    );
    assert_eq!((limits.clients, limits.sessions_per_client), (30, 40));
    assert_eq!(
        (limits.states_per_client, limits.slots, limits.operations),
        (50, 60, 70)
    );
    assert_eq!(
        (limits.request_bytes, limits.response_bytes),
        (264 << 10, 264 << 10)
    );
    assert_eq!((all.store.cache_bytes, all.store.open_files), (1 << 30, 99));
    assert!(!all.store.checksums);
    assert_eq!(all.store.reserve_bytes, Some(100_000_000));
    assert_eq!(
        all.metrics,
        Offer::At(SocketAddr::from(([127, 0, 0, 1], 1)))
    );
    let page = PageConfiguration {
        listen: Offer::At(SocketAddr::from(([192, 0, 2, 1], 2))),
        allow_remote: true,
        names: vec!["alpha.example".to_owned(), "beta.example".to_owned()],
    };
    assert_eq!(all.page, page);
    assert_eq!(all.log.filter.as_str(), "warn,store=debug");
    assert_eq!(all.log.format, LogFormat::Json);
}

#[test]
fn every_key_of_an_export_is_understood() {
    let all = parse(EVERY_KEY).unwrap();
    let [source, home] = &all.exports[..] else {
        panic!("{:?}", all.exports)
    };
    assert_eq!(
        (source.path.to_string().as_str(), source.tree.as_str()),
        ("/projects/src", "source")
    );
    assert_eq!(
        (home.path.to_string().as_str(), home.tree.as_str()),
        ("/home", "default")
    );
    let [first, second, third] = &source.rules[..] else {
        panic!("{:?}", source.rules)
    };
    assert_eq!(first.clients.to_string(), "192.0.2.0/24");
    assert_eq!(second.clients.to_string(), "2001:db8::/32");
    assert_eq!(
        (second.mode, second.squash),
        (AccessMode::ReadOnly, Squash::All)
    );
    assert_eq!((second.anonymous_user, second.anonymous_group), (1000, 100));
    assert!(!second.secure && third.secure);
    assert_eq!(
        (third.mode, third.squash),
        (AccessMode::ReadWrite, Squash::Root)
    );
    assert_eq!(
        (third.anonymous_user, third.anonymous_group),
        (65534, 65534)
    );
}

#[test]
fn short_forms_are_understood() {
    let all =
        parse("listen = \"127.0.0.1\"\n[metrics]\nlisten = \"off\"\n[time]\nlease_seconds = 9\n");
    let all = all.unwrap();
    assert_eq!(all.listen[0].to_string(), "127.0.0.1:2049");
    assert_eq!(all.metrics, Offer::Off);
    assert_eq!(
        all.limits.grace,
        Duration::from_secs(9),
        "the grace period follows the lease"
    );
}

#[test]
fn the_command_line_goes_first() {
    let file = parse("data = \"/a\"\nlisten = \"192.0.2.1\"\n[[export]]\npath = \"/b\"\n").unwrap();
    let overrides = Overrides {
        data: Some("/c".into()),
        listen: vec!["127.0.0.1:5".parse().unwrap()],
        export: Some("/d/e".to_owned()),
        log: Some("debug".parse().unwrap()),
    };
    let all = file.with(overrides).unwrap();
    assert_eq!(all.data, Path::new("/c"));
    assert_eq!(
        all.listen
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["127.0.0.1:5"]
    );
    assert_eq!(all.exports[0].path.to_string(), "/d/e");
    assert_eq!(all.log.filter.as_str(), "debug");
}

#[test]
fn the_command_line_is_checked_too() {
    let exporting = |export: &str| Overrides {
        export: Some(export.to_owned()),
        ..Overrides::default()
    };
    let error = parse("")
        .unwrap()
        .with(exporting("relative"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("--export") && error.contains("slash"),
        "{error}"
    );
    let two = "[[export]]\npath = \"/a\"\n[[export]]\npath = \"/b\"\ntree = \"b\"\n";
    let error = parse(two)
        .unwrap()
        .with(exporting("/c"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("several exports") && error.contains("`path`"),
        "{error}"
    );
}

/// A wrong file, where the message has to point, what it has to say, and what to do about it.
struct Wrong {
    text: &'static str,
    place: &'static str,
    what: &'static str,
    remedy: &'static str,
}

const fn wrong(
    text: &'static str,
    place: &'static str,
    what: &'static str,
    remedy: &'static str,
) -> Wrong {
    Wrong {
        text,
        place,
        what,
        remedy,
    }
}

const WRONG: &[Wrong] = &[
    wrong(
        "lisen = \"[::]:2049\"",
        "1:1",
        "no key `lisen`",
        "did you mean `listen`?",
    ),
    wrong(
        "colour = 1",
        "1:1",
        "no key `colour`",
        "known are `data`, `listen`",
    ),
    wrong(
        "\n\n[limit]\nclients = 1",
        "3:2",
        "no key `limit`",
        "did you mean `limits`?",
    ),
    wrong(
        "[limits]\nclient = 1",
        "2:1",
        "no key `client` in [limits]",
        "`clients`",
    ),
    wrong("data = 7", "1:8", "`data` is 7", "absolute path"),
    wrong(
        "data = \"here\"",
        "1:8",
        "`data` is \"here\"",
        "absolute path",
    ),
    wrong(
        "listen = \"nowhere\"",
        "1:10",
        "`listen` is \"nowhere\"",
        "192.0.2.1:2049",
    ),
    wrong(
        "listen = [\"[::]:1\",\n \"x\"]",
        "2:2",
        "`listen` is \"x\"",
        "192.0.2.1:2049",
    ),
    wrong(
        "data = \"/a\\u0000b\"",
        "1:8",
        "`data` is \"/a",
        "absolute path",
    ),
    wrong(
        "listen = [\"[::]:1\", \"192.0.2.1:1\"]",
        "1:10",
        "both [::]:1 and 192.0.2.1:1",
        "choose another port",
    ),
    wrong(
        "[metrics]\nlisten = \"127.0.0.1:2049\"",
        "1:1",
        "`listen` in [metrics] is 127.0.0.1:2049, and [::]:2049 is for clients",
        "choose another port",
    ),
    wrong(
        "[metrics]\nlisten = \"0.0.0.0:1\"\n[page]\nlisten = \"127.0.0.1:1\"",
        "3:1",
        "`listen` in [page] is 127.0.0.1:1, and 0.0.0.0:1 is for [metrics]",
        "choose another port",
    ),
    wrong(
        "[[export]]\npath = \"/a/../b\"",
        "2:8",
        "`path` is \"/a/../b\"",
        "without `.`, `..`",
    ),
    wrong(
        "listen = []",
        "1:10",
        "`listen` is an empty list",
        "192.0.2.1:2049",
    ),
    wrong("listen = [5]", "1:11", "`listen` is 5", "192.0.2.1:2049"),
    wrong(
        "commit = \"asink\"",
        "1:10",
        "`commit` is \"asink\"",
        "did you mean \"async\"?",
    ),
    wrong(
        "commit = true",
        "1:10",
        "`commit` is a boolean",
        "\"sync\" or \"async\"",
    ),
    wrong(
        "export = \"/x\"",
        "1:10",
        "`export` is \"/x\"",
        "the line `[[export]]`",
    ),
    wrong("[[export]]\n", "1:1", "has no `path`", "path = \"/export\""),
    wrong(
        "[[export]]\npath = \"x\"",
        "2:8",
        "`path` is \"x\"",
        "an absolute path",
    ),
    wrong(
        "[[export]]\npath = 1",
        "2:8",
        "`path` is 1",
        "an absolute path",
    ),
    wrong(
        "[[export]]\npath = \"/x\"\ntree = \"../up\"",
        "3:8",
        "`tree` is \"../up\"",
        "letters",
    ),
    wrong(
        "[[export]]\npath = \"/x\"\n[[export]]\npath = \"/y\"",
        "3:1",
        "the tree \"default\" is exported twice",
        "a `tree` of its own",
    ),
    wrong(
        "[[export]]\npath = \"/x\"\n[[export]]\ntree = \"y\"\npath = \"/x/y\"",
        "3:1",
        "/x and /x/y overlap",
        "none lies in another",
    ),
    wrong(
        "[[export]]\npath = \"/x\"\n[[export.allow]]\n",
        "3:1",
        "no `clients`",
        "192.0.2.0/24",
    ),
    wrong(
        "[[export]]\npath = \"/x\"\n[[export.allow]]\nclients = \"192.0.2.0/33\"",
        "4:11",
        "`clients` is \"192.0.2.0/33\"",
        "192.0.2.0/24",
    ),
    wrong(
        "[[export]]\npath = \"/x\"\n[[export.allow]]\nclients = \"*\"\nmode = \"rx\"",
        "5:8",
        "`mode` is \"rx\"",
        "\"ro\" or \"rw\"",
    ),
    wrong(
        "[[export]]\npath = \"/x\"\n[[export.allow]]\nclients = \"*\"\nroot_squash = true",
        "5:1",
        "no key `root_squash`",
        "`squash`",
    ),
    wrong(
        "[[export]]\npath = \"/x\"\n[[export.allow]]\nclients = \"*\"\nanonymous_user = -2",
        "5:18",
        "`anonymous_user` is -2",
        "from 0 to 4294967294",
    ),
    wrong(
        "[time]\nlease_seconds = 0",
        "2:17",
        "`lease_seconds` is 0",
        "from 1 to 3600",
    ),
    wrong(
        "[time]\nlease_seconds = \"9\"",
        "2:17",
        "`lease_seconds` is \"9\"",
        "from 1 to 3600",
    ),
    wrong(
        "[time]\nlease_seconds = 60\ngrace_seconds = 30",
        "1:1",
        "less than",
        "at least as long",
    ),
    wrong("time = 5", "1:8", "`time` is 5", "`[time]`"),
    wrong(
        "[limits]\ntransfer_size = \"1 KiB\"",
        "2:17",
        "`transfer_size` is \"1 KiB\"",
        "from \"64 KiB\" to \"16 MiB\"",
    ),
    wrong(
        "[store]\ncache_size = \"1 GB\"",
        "2:14",
        "`cache_size` is \"1 GB\"",
        "did you mean `GiB`",
    ),
    wrong(
        "[metrics]\nlisten = \"no\"",
        "2:10",
        "`listen` is \"no\"",
        "\"off\"",
    ),
    wrong(
        "[page]\nlisten = \"9650\"",
        "2:10",
        "`listen` is \"9650\"",
        "[::1]:9650",
    ),
    wrong(
        "[page]\nlisten = \"0.0.0.0:9651\"",
        "2:10",
        "other machines reach",
        "ssh -L 9651:127.0.0.1:9651",
    ),
    wrong(
        "[page]\nlisten = \"[2001:db8::1]:80\"\nallow_remote = false",
        "2:10",
        "other machines reach",
        "`allow_remote = true`",
    ),
    wrong(
        "[page]\nnames = [\"alpha.example\", \"alpha:9650\"]",
        "2:27",
        "`names` is \"alpha:9650\"",
        "a host name such as",
    ),
    wrong(
        "[log]\nlevel = \"loud\"",
        "2:9",
        "`level` is \"loud\"",
        "\"debug\"",
    ),
    wrong(
        "[log]\nformat = \"jason\"",
        "2:10",
        "`format` is \"jason\"",
        "did you mean \"json\"?",
    ),
    wrong("a = = b", "1:5", "", "as TOML wants it"),
    wrong(
        "data = \"/a\"\ndata = \"/b\"",
        "2:1",
        "duplicate key",
        "as TOML wants it",
    ),
    wrong("[log\n", "1:5", "", "as TOML wants it"),
];

#[test]
fn wrong_files_are_told_place_cause_and_remedy() {
    for Wrong {
        text,
        place,
        what,
        remedy,
    } in WRONG
    {
        let message = parse(text).expect_err(text).to_string();
        let start = format!("meridian.toml:{place}: ");
        let found = message.lines().find(|line| line.starts_with(&start));
        let found =
            found.unwrap_or_else(|| panic!("nothing at {place} in:\n{message}\nof:\n{text}"));
        assert!(found.contains(what), "`{what}` is not in: {found}");
        assert!(found.contains(remedy), "`{remedy}` is not in: {found}");
    }
}

#[test]
fn the_command_line_says_no_address_twice() {
    let with = |listen: &[&str]| {
        let listen = listen.iter().map(|address| address.parse().unwrap());
        let overrides = Overrides {
            listen: listen.collect(),
            ..Overrides::default()
        };
        Configuration::default().with(overrides)
    };
    assert!(with(&["192.0.2.1:2049", "192.0.2.2:2049"]).is_ok());
    let refused = with(&["[::]:2049", "192.0.2.1"]).unwrap_err().to_string();
    assert!(refused.contains("are the same port"), "{refused}");
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_the_file() {
    let message = parse("comit = 1\n[log]\nlevel = 3\n[store]\nopen_files = 1\n")
        .unwrap_err()
        .to_string();
    let lines: Vec<_> = message
        .lines()
        .map(|line| line.split(": ").next().unwrap())
        .collect();
    assert_eq!(
        lines,
        [
            "meridian.toml:1:1",
            "meridian.toml:3:9",
            "meridian.toml:5:14"
        ]
    );
}

#[test]
fn a_missing_file_is_named() {
    let error = Configuration::read(Path::new("/nowhere/meridian.toml"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("/nowhere/meridian.toml") && error.contains("check the path"),
        "{error}"
    );
}

//! What every command shows of names and words that others chose, and what it does when nobody listens.

use std::fs;
use std::io::pipe;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::fixture::site::{Site, block_on, succeed};
use crate::fixture::{Running, complaint, http_get, meridian, run};
use nfs4::Component4;
use nfs4_client::{Client, How, Options, StableHow4};

/// How often something is looked for that has to appear.
const PAUSE: Duration = Duration::from_millis(50);

/// Forges a line, clears a screen, turns around what follows, and is no UTF-8 in the end.
const HOSTILE: &[u8] = b"x\n  ALARM        storage-failed: \x1b[2J\xe2\x80\xae\xff";
/// The same as it is shown: any other bytes are shown otherwise.
const SHOWN: &str = "x\\u{a}  ALARM        storage-failed: \\u{1b}[2J\\u{202e}\\xff";

/// A set of two servers. A client of the first keeps a file of that name open, and beside it a version is kept aside that
/// was discarded for a hostile reason.
fn hostile_site() -> [(Site, Running); 2] {
    let (site, server) = Site::founding();
    let second = Site::new();
    second.join(&site);
    let second_server = second.place.start();
    // A server on its own controls everything, and nothing by name.
    while site
        .view()
        .members
        .iter()
        .filter(|member| member.active)
        .count()
        < 2
    {
        sleep(PAUSE);
    }
    block_on(async {
        let client = Client::connect(Options::at(server.address)).await.unwrap();
        let root = client.mount("/export").await.unwrap();
        let file = client
            .open(&root, Component4(HOSTILE.into()), &How::create(0o644))
            .await;
        let file = file.unwrap();
        let written = client.write(&file, 0, b"here".to_vec().into(), StableHow4::FileSync);
        written.await.unwrap();
        // Neither closes the file nor says goodbye.
        std::mem::forget(client);
    });
    let aside = site.place.data().join("trees/default/recovered/thaw-1");
    fs::create_dir_all(&aside).unwrap();
    let reason = "gone\n  ALARM \u{1b}[2J\u{202e}";
    let about = serde_json::json!({
        "format": 1, "label": "thaw-1", "reason": reason, "saved_at": { "seconds": 1, "nanoseconds": 0 },
        "replica": 1, "objects": 1, "bytes": 0,
    });
    fs::write(aside.join("set.json"), about.to_string()).unwrap();
    let moment = serde_json::json!({ "seconds": 1, "nanoseconds": 0 });
    let text = String::from_utf8_lossy(&HOSTILE[..HOSTILE.len() - 1]).into_owned();
    let entry = serde_json::json!({
        "object": "0000000000000007", "kind": "directory", "path": format!("/{text}%ff"), "mode": 0o755, "links": 2, "owner": 0,
        "group": 0, "size": 0, "change": 1, "accessed": moment, "modified": moment, "changed": moment, "created": moment,
        "target": null, "device": null, "xattrs": [], "has_data": false, "incomplete": false,
    });
    fs::write(aside.join("manifest.jsonl"), format!("{entry}\n")).unwrap();
    [(site, server), (second, second_server)]
}

/// All commands that list something, with what they have to say here.
const LISTINGS: &[(&[&str], &str)] = &[
    (&["status"], SHOWN),
    (&["status", "--json"], "storage-failed"),
    (&["view"], "led by replica"),
    (&["view", "--json"], "epoch"),
    (&["frozen"], "nothing is frozen"),
    (&["frozen", "--json"], "[]"),
    (&["set", "members"], "replica 1"),
    (&["set", "token", "list"], ""),
    (&["set", "authority", "show"], "kept by"),
    (&["scrub"], "last finished"),
    (&["scrub", "--show"], "last finished"),
    (&["scrub", "--show", "--json"], "findings"),
    (&["durability", "/"], "relaxed"),
    (&["durability", "/", "--json"], "relaxed"),
    (
        &["recovered", "list"],
        "gone\\u{a}  ALARM \\u{1b}[2J\\u{202e}",
    ),
    (&["recovered", "list", "thaw-1"], SHOWN),
    (&["set", "invite"], ""),
];

fn is_harmless(text: &str) -> bool {
    let forbidden = |letter: char| (letter.is_control() && letter != '\n') || letter == '\u{202e}';
    // The one that is due: a set of two has it.
    let honest = |line: &str| line.contains("two-voters");
    let mut alarms = text
        .lines()
        .filter(|line| line.trim_start().starts_with("ALARM"));
    !text.contains(forbidden) && alarms.all(honest)
}

#[test]
fn arguments_that_are_none_are_shown_and_not_obeyed() {
    let refused = run(&["set", "remove", "\u{1b}[2J\u{202e}x"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let told = complaint(&refused);
    assert!(!told.contains('\u{1b}'), "{told:?}");
    assert!(told.contains("\\u{202e}x"), "{told:?}");
    assert!(told.contains("write its number"), "{told:?}");
}

#[test]
fn no_name_forges_a_line_or_commands_a_terminal() {
    let [(site, server), _second] = hostile_site();
    for (command, part) in LISTINGS {
        let told = succeed(&site.meridian(command));
        assert!(
            told.contains(part),
            "{command:?}: `{part}` is not in\n{told}"
        );
        assert!(is_harmless(&told), "{command:?}: {told:?}");
    }
    // Programs can tell the name from any other.
    let status = site.place.status();
    let replication = status.exports[0].replication.as_ref().unwrap();
    let mut paths = replication.controls.iter().flat_map(|one| &one.paths);
    assert!(
        paths.any(|path| path == &format!("/{SHOWN}")),
        "{replication:?}"
    );
    for (address, path) in [(status.metrics, "/metrics"), (status.page, "/now")] {
        let page = http_get(address.unwrap(), path);
        assert!(is_harmless(&page), "{path}: {page:?}");
    }
    // A question is answered, and an error told, in the same way.
    let hostile = String::from_utf8_lossy(&HOSTILE[..HOSTILE.len() - 1]).into_owned();
    for command in [
        &["durability", &format!("/{hostile}")][..],
        &["recovered", "list", &hostile],
        &[
            "recovered",
            "restore",
            "thaw-1",
            &hostile,
            "--to",
            "/nowhere",
        ],
        &["thaw", "--discard", "7", "--reason", &hostile, "--yes"],
        &["check"],
    ] {
        let output = site.meridian(command);
        let told = complaint(&output) + &String::from_utf8(output.stdout).unwrap();
        assert!(is_harmless(&told), "{command:?}: {told:?}");
    }
    let output = run(&["config", "check", &hostile]);
    assert!(is_harmless(&complaint(&output)), "{output:?}");
    // What is listed can be named as it is listed.
    let to = site.place.directory.path().join("out");
    let restore = [
        "recovered",
        "restore",
        "thaw-1",
        &format!("/{SHOWN}"),
        "--to",
        to.to_str().unwrap(),
    ];
    let told = succeed(&site.meridian(&restore));
    assert!(told.contains("1 directory"), "{told}");
    drop(server);
    let log = site.place.read_log();
    assert!(is_harmless(&log), "{log:?}");
    let told = succeed(&site.meridian(&["check"]));
    assert!(is_harmless(&told), "{told:?}");
}

#[test]
fn nobody_who_stops_listening_makes_a_command_panic() {
    let [(site, _server), _second] = hostile_site();
    let more: &[&[&str]] = &[
        &["--help"],
        &["--version"],
        &["set", "--help"],
        &["recovered", "forget", "thaw-1", "--yes"],
        &["thaw", "--discard", "7", "--reason", "gone", "--yes"],
    ];
    let listings = LISTINGS.iter().map(|(command, _)| *command);
    for command in listings.chain(more.iter().copied()) {
        let (listener, output) = pipe().unwrap();
        let (error_listener, errors) = pipe().unwrap();
        drop((listener, error_listener));
        let mut program = meridian();
        program.args(command).stdout(Stdio::from(output));
        if !command[0].starts_with('-') && command.get(1) != Some(&"--help") {
            program.arg("--data").arg(site.place.data());
        }
        let ended = program.stderr(Stdio::from(errors)).status().unwrap();
        // 101 is the code of a panic, which could not be told either.
        assert_ne!(ended.code(), Some(101), "{command:?}");
    }
    let told = succeed(&site.meridian(&["recovered", "list"]));
    assert!(
        told.contains("no discarded versions"),
        "what was to be done is done: {told}"
    );
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let (site, _server) = Site::founding();
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut program = meridian();
    program
        .args(["set", "members", "--data"])
        .arg(site.place.data());
    let output = program.stdout(Stdio::from(full)).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        complaint(&output).contains("No space left"),
        "{}",
        complaint(&output)
    );
}

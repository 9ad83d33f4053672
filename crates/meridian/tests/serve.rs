//! `meridian serve` from its start to its end, and what it says when it cannot start.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::time::Duration;

use crate::fixture::site::block_on;
use crate::fixture::{Place, complaint, http_get, is_filled, null_call, run};
use nfs4_client::{Client, Options};
use rustix::process::Signal;

#[test]
fn it_serves_announces_itself_and_stops_when_asked() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new("");
        let server = place.start();
        assert!(server.answers_null());
        let port = server.address.port();
        let mount = format!("mount -t nfs4 -o port={port} 127.0.0.1:/export /mnt");
        assert!(
            server.announcement.contains(&mount),
            "{}",
            server.announcement
        );
        assert!(place.data().join("control.sock").exists());
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0), "{}", place.read_log());
        assert!(!place.data().join("control.sock").exists());
        assert!(place.read_log().contains("stopped"), "{}", place.read_log());
    }
}

/// Any user of a machine can speak NFS from a port above 1023 and call itself the superuser.
#[test]
fn users_are_not_believed_from_ports_that_anybody_can_use() {
    let place = Place::with_exports("");
    let server = place.start();
    let address = server.address;
    let from_high_port = Options {
        patience: Duration::from_secs(2),
        ..Options::dialling(move || TcpStream::connect(address))
    };
    block_on(async {
        assert!(Client::connect(from_high_port).await.is_err());
        // The client takes a privileged port if it may use one.
        if rustix::process::getuid().is_root() {
            let client = Client::connect(Options::at(address)).await.unwrap();
            client.mount("/export").await.unwrap();
        }
    });
    assert!(server.answers_null(), "NULL tells nothing");
    let log = place.read_log();
    assert!(log.contains("secure = false"), "{log}");
    server.stop();
}

#[test]
fn connections_that_are_open_do_not_delay_the_end() {
    let place = Place::new("");
    let server = place.start();
    let mut idle = TcpStream::connect(server.address).unwrap();
    assert!(null_call(&mut idle, 1));
    server.stop();
    assert!(!null_call(&mut idle, 2));
    assert!(
        !place.read_log().contains("unfinished"),
        "{}",
        place.read_log()
    );
}

/// A client that takes no replies keeps its requests under way, and so the end waiting.
#[test]
fn a_second_signal_ends_the_wait() {
    let place = Place::new("");
    let server = place.start();
    let mut deaf = TcpStream::connect(server.address).unwrap();
    fill_with_calls(&mut deaf);
    server.signal(Signal::TERM);
    while !place.read_log().contains("stopping") {
        std::thread::sleep(Duration::from_millis(10));
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(130), "{}", place.read_log());
    assert!(place.start().answers_null());
}

/// Sends calls without reading until neither side takes more.
fn fill_with_calls(stream: &mut TcpStream) {
    const PATIENCE: Duration = Duration::from_millis(300);
    const BYTES_MAX: usize = 1 << 30;
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let calls: Vec<u8> = (0..1000)
        .flat_map(crate::fixture::null_call_bytes)
        .collect();
    let mut sent = 0;
    while let Ok(count) = stream.write(&calls[sent % calls.len()..]) {
        sent += count;
        assert!(sent < BYTES_MAX, "the server takes calls without end");
    }
}

#[test]
fn it_is_the_same_server_after_a_crash() {
    let place = Place::new("");
    let server = place.start();
    let before = place.status();
    server.kill();
    assert!(
        place.data().join("control.sock").exists(),
        "the crash left its socket"
    );
    let server = place.start();
    let after = place.status();
    assert!(server.answers_null());
    assert_eq!((after.replica, after.set), (before.replica, before.set));
    assert_eq!(after.exports[0].fs_id, before.exports[0].fs_id);
    assert!(after.incarnation > before.incarnation);
}

#[test]
fn the_command_line_decides_where_and_what() {
    let place = Place::new("");
    let arguments = [
        "--export",
        "/some/where",
        "--listen",
        "127.0.0.1:0",
        "--listen",
        "[::1]:0",
    ];
    let server = place.start_with(&arguments);
    assert!(server.answers_null());
    let status = place.status();
    assert_eq!(status.exports[0].path, "/some/where");
    assert_eq!(status.exports[0].tree, "default");
    let families: Vec<_> = status
        .listen
        .iter()
        .map(|address| address.is_ipv6())
        .collect();
    assert_eq!(families, [false, true]);
}

#[test]
fn several_exports_are_several_trees() {
    let place = Place::new(
        "[[export]]\npath = \"/a\"\ntree = \"one\"\n[[export]]\npath = \"/b/c\"\ntree = \"two\"\n",
    );
    let _server = place.start();
    let status = place.status();
    let shown: Vec<_> = status
        .exports
        .iter()
        .map(|export| (export.path.as_str(), export.tree.as_str()))
        .collect();
    assert_eq!(shown, [("/a", "one"), ("/b/c", "two")]);
    assert_ne!(status.exports[0].fs_id, status.exports[1].fs_id);
    for tree in ["one", "two"] {
        assert!(is_filled(&place.data().join("trees").join(tree)), "{tree}");
    }
}

#[test]
fn prometheus_is_answered() {
    let place = Place::new("");
    let server = place.start();
    assert!(server.answers_null());
    let page = http_get(place.status().metrics.unwrap(), "/metrics");
    for line in [
        "meridian_connections_accepted_total 1",
        "meridian_clients 0",
        "# EOF",
    ] {
        assert!(
            page.lines().any(|found| found == line),
            "{line} is not in\n{page}"
        );
    }
}

#[test]
fn logs_can_be_json() {
    let place = Place::new("[log]\nformat = \"json\"\nlevel = \"info\"");
    place.start().stop();
    let log = place.read_log();
    assert!(log.lines().count() > 1, "{log}");
    for line in log.lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(
            event["timestamp"].is_string() && event["level"] == "INFO",
            "{line}"
        );
    }
}

/// Tries to serve and fails.
fn refusal(place: &Place, arguments: &[&str]) -> (Option<i32>, String) {
    let output: Output = place.serve().args(arguments).output().unwrap();
    (output.status.code(), complaint(&output))
}

fn assert_contains(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn one_data_directory_has_one_server() {
    let place = Place::new("");
    let server = place.start();
    let process = format!("process {}", place.status().process);
    let (code, message) = refusal(&place, &[]);
    assert_eq!(code, Some(1));
    assert_contains(&message, &["in use", &process, "--data"]);
    assert!(server.answers_null());
    place.status();
}

#[test]
fn a_port_that_is_taken_is_named_with_a_way_out() {
    let place = Place::new("");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let (code, message) = refusal(&place, &["--listen", &address.to_string()]);
    assert_eq!(code, Some(1));
    let port = format!("sport = :{}", address.port());
    assert_contains(
        &message,
        &[&address.to_string(), "in use", &port, "--listen"],
    );
    let (_, message) = refusal(&place, &["--listen", "192.0.2.1:2049"]);
    assert_contains(
        &message,
        &["192.0.2.1:2049", "no address of this machine", "ip address"],
    );
}

#[test]
fn a_metrics_port_that_was_asked_for_must_be_free() {
    let place = Place::new("");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let configuration = format!("listen = \"127.0.0.1:0\"\n[metrics]\nlisten = \"{address}\"\n");
    fs::write(place.configuration(), configuration).unwrap();
    let (code, message) = refusal(&place, &[]);
    assert_eq!(code, Some(1));
    assert_contains(&message, &[&address.to_string(), "[metrics]", "\"off\""]);
}

#[test]
fn directories_that_cannot_hold_data_are_refused_and_left_alone() {
    let place = Place::new("");
    fs::create_dir(place.data()).unwrap();
    fs::write(place.data().join("diary"), "today").unwrap();
    let (code, message) = refusal(&place, &[]);
    assert_eq!(code, Some(1));
    assert_contains(
        &message,
        &["is not empty", "no data directory of Meridian", "--data"],
    );
    assert_eq!(fs::read_dir(place.data()).unwrap().count(), 1);

    let file = place.data().join("diary");
    for (path, part) in [
        (file.to_str().unwrap(), "is not a directory"),
        (
            "/proc/nothing/here",
            "/proc is on a file system without space",
        ),
        ("/proc/nothing/here", "choose a directory on a disk"),
        ("/sys/nothing", "choose a directory on a disk"),
    ] {
        let output = run(&["serve", "--listen", "127.0.0.1:0", "--data", path]);
        assert_eq!(output.status.code(), Some(1));
        assert_contains(&complaint(&output), &[part]);
        assert!(!complaint(&output).contains("free space"), "{output:?}");
    }
}

#[test]
fn a_tree_of_a_newer_program_is_left_to_it() {
    let place = Place::new("");
    place.start().stop();
    let path = place.data().join("trees/default/store.toml");
    let identity = fs::read_to_string(&path).unwrap();
    fs::write(&path, identity.replace("format = 2", "format = 99")).unwrap();
    let (code, message) = refusal(&place, &[]);
    assert_eq!(code, Some(1));
    assert_contains(
        &message,
        &["tree \"default\"", "format 99", "newer program"],
    );
}

#[test]
fn a_damaged_identity_stops_the_start() {
    let place = Place::new("");
    place.start().stop();
    fs::write(place.data().join("identity"), "meridian identity 1\n").unwrap();
    let (code, message) = refusal(&place, &[]);
    assert_eq!(code, Some(1));
    assert_contains(
        &message,
        &["identity is damaged", "backup", "check --repair"],
    );
}

#[test]
fn a_wrong_configuration_is_refused_before_anything_is_made() {
    let place = Place::new("commit = \"never\"\nlistn = 1");
    let (code, message) = refusal(&place, &[]);
    assert_eq!(code, Some(78));
    let file = place.configuration();
    let file = file.to_str().unwrap();
    assert_contains(
        &message,
        &[
            &format!("{file}:2:10: "),
            "\"sync\" or \"async\"",
            &format!("{file}:3:1: "),
            "`listen`",
        ],
    );
    assert!(!place.data().exists());

    let (code, message) = refusal(&place, &["--config", "/nowhere.toml"]);
    assert_eq!(code, Some(2), "--config was given twice");
    assert_contains(&message, &["--config"]);
}

#[test]
fn the_command_line_explains_itself() {
    for (arguments, code, parts) in [
        (&["--version"][..], 0, &["meridian 0."][..]),
        (&["--help"], 0, &["serve", "status", "check", "config"]),
        (
            &["serve", "--help"],
            0,
            &["--data <DIR>", "--listen <ADDR:PORT>", "--export <PATH>"],
        ),
        (&[], 2, &["Usage"]),
        (&["serv"], 2, &["serve"]),
        (&["serve", "--listen", "2049"], 2, &["192.0.2.1:2049"]),
        (&["serve", "--log", "loud"], 2, &["info,store=debug"]),
        (
            &["serve", "--config", "/nowhere.toml"],
            78,
            &["/nowhere.toml", "check the path"],
        ),
        (
            &["serve", "--data", "/x", "--export", "relative"],
            78,
            &["--export", "slash"],
        ),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &complaint(&output);
        assert_contains(&text, parts);
    }
}

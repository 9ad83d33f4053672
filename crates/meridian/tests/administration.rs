//! What an administrator does to a server that runs: other access rules, clients, health; and what a newcomer reads first.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::fixture::site::block_on;
use crate::fixture::{Place, complaint, http_get, run};
use nfs4_client::{Client, How, Options};
use rustix::process::Signal;

/// How often something is looked for that has to appear.
const PAUSE: Duration = Duration::from_millis(20);

fn meridian(place: &Place, arguments: &[&str]) -> Output {
    let data = place.data();
    run(&[arguments, &["--data", data.to_str().unwrap()]].concat())
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", complaint(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Whether the export can be mounted there, from any port.
fn is_admitted(address: SocketAddr) -> bool {
    let options = Options {
        patience: Duration::from_secs(2),
        ..Options::dialling(move || TcpStream::connect(address))
    };
    block_on(async {
        match Client::connect(options).await {
            Ok(client) => client.mount("/export").await.is_ok(),
            Err(_) => false,
        }
    })
}

/// The configuration of a place with other rules for `/export`.
fn with_rule(before: &str, rule: &str) -> String {
    let (head, rest) = before.split_once("[[export]]").unwrap();
    let (_, behind) = rest.split_once("[metrics]").unwrap();
    format!("{head}[[export]]\npath = \"/export\"\n[[export.allow]]\n{rule}\n[metrics]{behind}")
}

#[test]
fn access_rules_change_while_the_server_runs() {
    let place = Place::new("");
    let server = place.start();
    assert!(is_admitted(server.address));
    let before = fs::read_to_string(place.configuration()).unwrap();
    let closed = with_rule(&before, "clients = \"192.0.2.1\"") + "\n[limits]\nclients = 7\n";

    fs::write(place.configuration(), &closed).unwrap();
    let told = said(&meridian(&place, &["config", "reload"]));
    assert_eq!(
        told,
        "/export: other access rules are in force now.\nDifferent, and in force from the next start on: [limits].\n"
    );
    assert!(!is_admitted(server.address));

    fs::write(place.configuration(), "listen = 7").unwrap();
    let refused = meridian(&place, &["config", "reload"]);
    assert_eq!(refused.status.code(), Some(78));
    let complaint = complaint(&refused);
    assert!(complaint.contains("nothing was changed: /"), "{complaint}");
    let refused = meridian(&place, &["config", "reload", "--json"]);
    assert_eq!(refused.status.code(), Some(78));
    let verdict: serde_json::Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(verdict["right"], false);
    let problem = verdict["problems"][0].as_str().unwrap();
    assert!(problem.contains("meridian.toml:1:"), "{problem}");
    assert!(!is_admitted(server.address));

    fs::write(place.configuration(), &before).unwrap();
    server.signal(Signal::HUP);
    while !is_admitted(server.address) {
        std::thread::sleep(PAUSE);
    }
    server.stop();
}

/// Who reads a pipe waits until somebody has written into it, and a device may have no end.
#[test]
fn a_configuration_is_a_regular_file_and_whatever_else_there_is_is_refused_at_once() {
    let place = Place::new("");
    let server = place.start();
    let file = place.configuration();
    let kept = place.directory.path().join("kept");
    fs::rename(&file, &kept).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RWXU).unwrap();
    let refused = meridian(&place, &["config", "reload"]);
    assert_eq!(refused.status.code(), Some(78));
    let told = complaint(&refused);
    assert!(told.contains("not a regular file"), "{told}");
    server.signal(Signal::HUP);
    while !place.read_log().contains("not a regular file") {
        std::thread::sleep(PAUSE);
    }
    assert!(is_admitted(server.address));
    for path in [file.to_str().unwrap(), "/dev/zero"] {
        let checked = run(&["config", "check", path]);
        assert_eq!(checked.status.code(), Some(78));
        let told = complaint(&checked);
        assert!(told.contains("not a regular file"), "{told}");
    }
    fs::remove_file(&file).unwrap();
    let long = fs::File::create(&file).unwrap();
    long.set_len(1 << 40).unwrap();
    let told = complaint(&run(&["config", "check", file.to_str().unwrap()]));
    assert!(told.contains("longer than any such file"), "{told}");
    fs::rename(&kept, &file).unwrap();
    said(&meridian(&place, &["config", "reload"]));
    server.stop();
}

#[test]
fn clients_are_shown_and_sent_away() {
    let place = Place::new("");
    let server = place.start();
    let address = server.address;
    assert_eq!(
        said(&meridian(&place, &["clients"])),
        "no client is connected\n"
    );
    let clients = || -> Vec<server::ClientStatus> {
        serde_json::from_str(&said(&meridian(&place, &["clients", "--json"]))).unwrap()
    };
    block_on(async {
        let options = Options::dialling(move || TcpStream::connect(address));
        let client = Client::connect(options).await.unwrap();
        let root = client.mount("/export").await.unwrap();
        let file = client
            .open(&root, "kept", &How::create(0o644))
            .await
            .unwrap();
        let [seen] = &clients()[..] else {
            panic!("{:?}", clients());
        };
        assert_eq!((seen.opens, seen.address.is_loopback()), (1, true));
        assert!(seen.version.starts_with("4."), "{seen:?}");

        let none = meridian(&place, &["clients", "evict", "ffffffff"]);
        assert!(complaint(&none).contains("no such client"), "{none:?}");
        let told = said(&meridian(&place, &["clients", "evict", &seen.id]));
        assert!(told.contains(&seen.name), "{told}");
        assert_eq!(place.status().opens, 0);
        drop(file);
    });
    let log = place.read_log();
    assert!(log.contains("sent away by the administrator"), "{log}");
    server.stop();
}

#[test]
fn machines_that_look_after_it_learn_how_and_what_it_is() {
    let place = Place::new("");
    let server = place.start();
    let status = place.status();
    for port in [status.metrics, status.page] {
        assert_eq!(http_get(port.unwrap(), "/healthz"), "ok\n");
    }
    let metrics = http_get(status.metrics.unwrap(), "/metrics");
    let build = format!(
        "meridian_build_info{{version=\"{}\",commit=\"",
        status.version
    );
    assert!(metrics.contains(&build), "{metrics}");
    let version = said(&run(&["--version"]));
    assert_eq!(
        version,
        format!("meridian {} ({})\n", status.version, status.build)
    );
    server.stop();
}

#[test]
fn what_cannot_be_done_is_told_once_and_with_a_way_out() {
    let place = Place::new("");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = place.serve().args(["--listen", &address]).output().unwrap();
    let told = complaint(&output);
    assert_eq!(
        told.matches("is in use by another program").count(),
        1,
        "{told}"
    );

    let directory = place.directory.path().to_str().unwrap();
    let told = complaint(&run(&["config", "check", directory]));
    assert!(told.contains("name the file in it"), "{told}");
    assert!(!told.contains("--config"), "{told}");

    fs::write(place.configuration(), "[limits]\nmemory = \"900 MB\"\n").unwrap();
    let told = complaint(&run(&[
        "config",
        "check",
        place.configuration().to_str().unwrap(),
    ]));
    assert!(told.contains("no unit `MB`"), "{told}");
    assert!(told.contains("did you mean `MiB`?"), "{told}");

    let unused = run(&["check"]);
    let told = complaint(&unused);
    assert_ne!(unused.status.code(), Some(2), "{told}");
}

/// A new server has nobody to wait for.
#[test]
fn only_a_grace_period_that_was_comes_to_an_end() {
    let place = Place::new("");
    let server = place.start();
    while place.status().uptime_seconds < 2 {
        std::thread::sleep(PAUSE);
    }
    server.stop();
    let log = place.read_log();
    assert!(!log.contains("grace period"), "{log}");
}

/// Each command that shows something shows it to programs, too.
#[test]
fn what_is_shown_is_shown_as_json() {
    let (site, server) = crate::fixture::site::Site::founding();
    for words in [
        &["status"][..],
        &["clients"],
        &["view"],
        &["frozen"],
        &["set", "members"],
        &["set", "token", "list"],
        &["set", "authority", "show"],
        &["recovered", "list"],
        &["durability", "/"],
        &["scrub", "--show"],
        &["config", "reload"],
    ] {
        let told = said(&site.meridian(&[words, &["--json"]].concat()));
        let value: Result<serde_json::Value, _> = serde_json::from_str(&told);
        assert!(value.is_ok(), "{words:?}: {told}");
    }
    server.stop();
    let told = said(&site.meridian(&["check", "--json"]));
    assert!(told.contains("\"sound\": true"), "{told}");
}

#[test]
fn a_doctor_sees_what_is_wrong() {
    let (site, server) = crate::fixture::site::Site::founding();
    let looked = site.meridian(&["doctor", "--json"]);
    let findings: Vec<serde_json::Value> = serde_json::from_slice(&looked.stdout).unwrap();
    let about = |what: &str| -> Vec<&serde_json::Value> {
        let findings = findings.iter();
        findings
            .filter(|finding| finding["about"] == what)
            .collect()
    };
    for (what, verdict) in [
        ("server", "well"),
        ("version", "well"),
        ("certificate", "well"),
        ("names", "well"),
    ] {
        assert_eq!(about(what)[0]["verdict"], verdict, "{findings:?}");
    }
    let running = server.address.to_string();
    said(&site.command(&["client-address", "1", &running]));
    let second = crate::fixture::site::Site::new();
    second.join(&site);
    let joined = second.place.start();
    let wanted = [
        format!("they reach replica 1 at {running}"),
        "replica 2 runs ".to_owned(),
        "replica 2 at 127.0.0.1:2049".to_owned(),
    ];
    let began = Instant::now();
    loop {
        let told = String::from_utf8(site.meridian(&["doctor"]).stdout).unwrap();
        if wanted.iter().all(|words| told.contains(words)) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{told}");
    }
    joined.kill();
    server.kill();
    let told = String::from_utf8(site.meridian(&["doctor"]).stdout).unwrap();
    assert!(
        told.contains("MIND  server       no server runs on"),
        "{told}"
    );
    let set = site.place.data().join("set");
    let readable = fs::Permissions::from_mode(0o644);
    fs::set_permissions(set.join("replica.key"), readable).unwrap();
    fs::remove_file(set.join("authority.key")).unwrap();
    let told = String::from_utf8(site.meridian(&["doctor"]).stdout).unwrap();
    for wanted in ["`chmod 600 ", "`set/authority.key` is missing"] {
        assert!(told.contains(wanted), "{told}");
    }
}

#[test]
fn members_have_names() {
    let site = crate::fixture::site::Site::new();
    said(&site.set(&["create", "--name", "alpha"]));
    let server = site.place.start();
    let told = said(&site.meridian(&["status"]));
    assert!(told.contains("replica      1 (alpha), ready"), "{told}");
    said(&site.meridian(&["set", "name", "1", "north"]));
    let told = said(&site.meridian(&["set", "members"]));
    assert!(told.contains("north"), "{told}");
    // A server that has just started may not take part yet.
    let began = Instant::now();
    loop {
        let told = said(&site.meridian(&["view"]));
        if told.contains("replica 1 (north)") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{told}");
        std::thread::sleep(PAUSE);
    }
    let refused = site.meridian(&["set", "invite", "--name", "north"]);
    assert!(
        complaint(&refused).contains("replica 1 is called `north`"),
        "{refused:?}"
    );
    server.stop();
}

#[test]
fn of_a_data_directory_that_is_not_there_that_is_said_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let [absent, in_file] = [directory.path().join("absent"), file.join("data")];
    for command in [
        &["set", "members"][..],
        &["set", "invite"],
        &["set", "remove", "2"],
        &["set", "token", "list"],
        &["set", "authority", "show"],
        &["pool", "members"],
        &["pool", "token", "list"],
        &["domain", "records", "example.org"],
        &["junction", "list"],
        &["recovered", "list"],
        &["check"],
        &["status"],
        &["clients"],
        &["view"],
    ] {
        for (data, part) in [
            (&absent, "there is no data directory"),
            (&file, "is not a directory"),
            (&in_file, "is not a directory"),
        ] {
            let output = run(&[command, &["--data", data.to_str().unwrap()]].concat());
            let told = complaint(&output);
            assert!(
                !output.status.success() && told.contains(part),
                "{command:?}: {told}"
            );
            for other in ["belongs to no", "os error", "dmesg"] {
                assert!(!told.contains(other), "{command:?}: {told}");
            }
        }
    }
    for data in [&absent, &in_file] {
        let output = run(&["doctor", "--data", data.to_str().unwrap()]);
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(!told.contains("belongs to none"), "{told}");
        assert!(!told.contains("os error"), "{told}");
    }
}

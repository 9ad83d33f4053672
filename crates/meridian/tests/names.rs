//! Names as administrators and clients meet them: records for a zone, a DNS server that has them, servers that have the domain's
//! root or not, the map that autofs calls, and junctions that a set agrees on.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::fixture::site::{Site, block_on, refuse, succeed};
use crate::fixture::{complaint, run};
use nfs4_client::{Client, Options};
use tempfile::TempDir;
use testbed::Requirements;

const PATIENCE: Duration = Duration::from_secs(60);

/// A DNS server with these lines in its configuration, as dnsmasq(8) has them.
struct Dns {
    process: Child,
    address: SocketAddr,
    _directory: TempDir,
}

impl Dns {
    fn start(lines: &str) -> Dns {
        Requirements::default()
            .with_names()
            .install_missing()
            .unwrap();
        let began = Instant::now();
        loop {
            let mut dns = Dns::at_free_port(lines);
            // Another process may take the port first, of UDP or of TCP; then it ends at once.
            while dns.process.try_wait().unwrap().is_none() {
                if dns.answers() {
                    return dns;
                }
                assert!(began.elapsed() < PATIENCE, "the DNS server does not start");
                std::thread::sleep(Duration::from_millis(50));
            }
            assert!(began.elapsed() < PATIENCE, "the DNS server ends");
        }
    }

    fn at_free_port(lines: &str) -> Dns {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("dnsmasq.conf");
        let common = format!(
            "port={}\nlisten-address=127.0.0.1\nbind-interfaces\nno-resolv\nno-hosts\nlocal=/example.org/\n",
            address.port()
        );
        fs::write(&file, common + lines).unwrap();
        let mut command = Command::new("/usr/sbin/dnsmasq");
        command
            .arg("--no-daemon")
            .arg(format!("--conf-file={}", file.display()));
        command.stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Dns {
            process: command.spawn().unwrap(),
            address,
            _directory: directory,
        }
    }

    /// Whether it answers a question for the root's name servers, with whatever.
    fn answers(&self) -> bool {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let question = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
        let sent = socket.send_to(&question, self.address);
        sent.is_ok() && socket.recv(&mut [0; 512]).is_ok()
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let at = self.address.to_string();
        run(&[arguments, &["--dns", &at]].concat())
    }

    /// Asks until what is told contains this. The program waits shortly for each server and for DNS, as automount(8) would not wait long.
    fn ask_until(&self, arguments: &[&str], expected: &str) -> Output {
        let began = Instant::now();
        loop {
            let told = self.ask(arguments);
            let is_there = String::from_utf8_lossy(&told.stdout).contains(expected);
            if is_there || began.elapsed() > PATIENCE {
                return told;
            }
        }
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A server for the domain, in a set of its own.
fn server(domain: &str) -> (Site, crate::fixture::Running) {
    let site = Site::configured(&format!("[names]\ndomain = \"{domain}\"\n"));
    succeed(&site.set(&["create"]));
    let running = site.place.start();
    (site, running)
}

#[test]
fn a_dns_server_that_is_silent_is_named() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = silent.local_addr().unwrap().to_string();
    for arguments in [
        &["domain", "check", "example.org"][..],
        &["automount-map", "example.org"],
    ] {
        let told = complaint(&run(&[arguments, &["--dns", &at]].concat()));
        let named =
            format!("(request timed out); look at the network and at the DNS server at {at}");
        assert!(told.contains(&named), "{told}");
    }
}

#[test]
fn what_a_set_publishes_is_what_clients_find() {
    let (site, running) = server("example.org");
    let port = running.address.port();
    let told = site.meridian(&["domain", "records", "example.org"]);
    assert_eq!(
        succeed(&told),
        "_nfs-domainroot._tcp.example.org. 300 IN SRV 0 0 2049 nfs1.example.org.\n\
         nfs1.example.org. 300 IN A 127.0.0.1\n"
    );
    let there = format!("127.0.0.1:{port}");
    let changed = site.command(&["client-address", "1", &there]);
    assert!(succeed(&changed).contains(&there));
    assert!(complaint(&changed).contains("port 2049"), "{changed:?}");
    assert!(
        site.members()
            .contains(&format!("clients reach it at {there}"))
    );
    let told = site.meridian(&["domain", "records", "example.org", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&succeed(&told)).unwrap();
    let line = told["lines"][0].as_str().unwrap();
    assert!(
        line.ends_with(&format!("SRV 0 0 {port} nfs1.example.org.")),
        "{told}"
    );
    let told = site.meridian(&["domain", "records", "example.org"]);
    assert!(succeed(&told).contains(line));
    assert!(complaint(&told).contains("referrals lead to port 2049"));

    let dns = Dns::start(&format!(
        "srv-host=_nfs-domainroot._tcp.example.org,nfs1.example.org,{port},0,0\n\
         srv-host=_nfs-domainroot._tcp.example.org,gone.example.org,2049,5,0\n\
         srv-host=_nfs-domainroot._tcp.silent.example.org,nfs1.example.org,1,0,0\n\
         srv-host=_nfs-domainroot._tcp.other.example.org,nfs1.example.org,{port},0,0\n\
         srv-host=_nfs-domainroot._tcp.none.example.org\n\
         host-record=nfs1.example.org,127.0.0.1\n"
    ));
    let map = dns.ask_until(&["automount-map", "Example.ORG"], "-fstype=nfs4");
    assert_eq!(
        succeed(&map),
        format!(
            "-fstype=nfs4,nobind,use-weight-only,port={port} 127.0.0.1(1):/.domainroot/example.org\n"
        )
    );
    // What the line says can be mounted.
    let mounted = block_on(async {
        let client = Client::connect(Options::at(running.address)).await?;
        client.mount("/.domainroot/example.org/export").await
    });
    mounted.unwrap();

    let checked = dns.ask_until(&["domain", "check", "example.org"], "answers in");
    assert_eq!(checked.status.code(), Some(3), "{checked:?}");
    let told = String::from_utf8(checked.stdout).unwrap();
    assert!(told.contains("serves example.org, answers in"), "{told}");
    assert!(told.contains("gone.example.org has no address"), "{told}");
    let other = dns.ask_until(
        &["domain", "check", "other.example.org", "--json"],
        "does not have the root",
    );
    assert_eq!(other.status.code(), Some(3), "{other:?}");
    let told = String::from_utf8(other.stdout).unwrap();
    assert!(told.contains("\"serves\": false"), "{told}");
    assert!(
        told.contains("does not have the root of this domain"),
        "{told}"
    );

    let silent = dns.ask_until(
        &["domain", "check", "silent.example.org"],
        "Connection refused",
    );
    let told = String::from_utf8(silent.stdout).unwrap();
    assert!(
        told.contains("it does not answer (Connection refused);"),
        "{told}"
    );
    for (domain, why) in [
        ("silent.example.org", "none of the servers"),
        ("none.example.org", "that it has no NFS servers"),
        ("unknown.example.org", "names no NFS servers"),
    ] {
        refuse(&dns.ask(&["automount-map", domain]), &[why, domain]);
    }
    for domain in ["none.example.org", "unknown.example.org"] {
        let checked = dns.ask(&["domain", "check", domain, "--json"]);
        assert_eq!(checked.status.code(), Some(3), "{checked:?}");
        assert_eq!(checked.stdout, b"[]\n", "{checked:?}");
    }
}

/// What is told of a domain whose only server is at `::1`, on this machine: by the map, and by `domain check`.
fn told_of_own_server(listen: &str) -> (String, u16, serde_json::Value) {
    let site = Site::configured("[names]\ndomain = \"example.org\"\n");
    let running = site.place.start_with(&["--listen", listen]);
    let port = running.address.port();
    let dns = Dns::start(&format!(
        "srv-host=_nfs-domainroot._tcp.example.org,nfs1.example.org,{port},0,0\n\
         host-record=nfs1.example.org,::1\n"
    ));
    let line = succeed(&dns.ask_until(&["automount-map", "example.org"], "-fstype=nfs4"));
    let checked = succeed(&dns.ask_until(
        &["domain", "check", "example.org", "--json"],
        "\"serves\": true",
    ));
    (line, port, serde_json::from_str(&checked).unwrap())
}

#[test]
fn the_own_server_that_dns_has_at_ipv6_alone_is_mounted_over_ipv4() {
    let (line, port, checked) = told_of_own_server("[::]:0");
    let expected = format!("port={port} 127.0.0.1(1):/.domainroot/example.org\n");
    assert!(line.ends_with(&expected), "{line}");
    let remark = checked[0]["remark"].as_str().unwrap();
    assert!(remark.contains("mounts it at 127.0.0.1 here"), "{checked}");
    assert!(remark.contains("for its own"), "{checked}");

    // One that listens there alone is named as it is, and how autofs could find it is told.
    let (line, port, checked) = told_of_own_server("[::1]:0");
    let expected = format!("port={port} [::1]:/.domainroot/example.org\n");
    assert!(line.ends_with(&expected), "{line}");
    let remark = checked[0]["remark"].as_str().unwrap();
    assert!(remark.contains("does not mount it here"), "{checked}");
    assert_eq!(checked[0]["serves"], true, "{checked}");
}

#[test]
fn a_key_that_is_no_domain_gets_no_further_and_one_line_of_words() {
    for key in [
        "",
        ".git",
        ".Trash",
        "autorun",
        "a/../b.org",
        "x.org\n-fstype=nfs4 evil.example:/",
        "$(touch /tmp/meridian-was-here).org",
        "\u{1b}[2J.org",
        "x.org:/",
        "-rf",
    ] {
        let refused = run(&["automount-map", "--", key]);
        refuse(&refused, &["no name of a domain"]);
        assert_eq!(complaint(&refused).lines().count(), 1, "{refused:?}");
        let refused = run(&["domain", "check", "--", key]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
}

#[test]
fn who_asks_for_one_name_after_another_does_not_fill_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let tally = directory.path().join("tally");
    let tally = tally.to_str().unwrap();
    let mut lines = 0;
    // More than two minutes' worth, should the minute end meanwhile.
    for name in 0..60 {
        let key = format!("x\n{name}/..");
        let refused = run(&["automount-map", "--refusals", tally, "--", &key]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(refused.stdout.is_empty(), "{refused:?}");
        lines += complaint(&refused).lines().count();
    }
    assert!((20..=40).contains(&lines), "{lines}");
}

#[test]
fn a_set_agrees_on_junctions_and_refuses_those_that_lead_nowhere_else() {
    let (first, running) = server("example.org");
    let second = Site::configured("[names]\ndomain = \"example.org\"\n");
    second.join(&first);
    let second_running = second.place.start();
    let add = |name: &str, to: &str| first.meridian(&["junction", "add", name, "--to", to]);
    refuse(&add("x", "127.0.0.1:/"), &["back to the junction itself"]);
    refuse(
        &add("x", "127.0.0.1:/.domainroot/example.org/x/y"),
        &["back to the junction itself"],
    );
    refuse(&add("export", "192.0.2.1:/"), &["this server's export"]);
    refuse(&add("a/b", "192.0.2.1:/"), &["cannot be a name"]);

    let added = once_agreed(|| add("soft", "no-such-host.invalid:/export"));
    assert!(
        complaint(&added).contains("cannot be looked up"),
        "{added:?}"
    );
    for site in [&first, &second] {
        let began = Instant::now();
        while !succeed(&site.meridian(&["junction", "list"])).contains("no-such-host") {
            assert!(
                began.elapsed() < PATIENCE,
                "the other member does not hear of it"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    for server in [&running, &second_running] {
        let began = Instant::now();
        while !referred(server.address) {
            assert!(began.elapsed() < PATIENCE, "clients are not told");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let own = "127.0.0.1:/.domainroot/example.org/";
    once_agreed(|| add("round", &format!("{own}soft")));
    refuse(
        &add("soft", &format!("{own}round")),
        &["back to itself through other junctions"],
    );
    once_agreed(|| second.meridian(&["junction", "remove", "soft"]));
    refuse(
        &second.meridian(&["junction", "remove", "soft"]),
        &["there is no junction soft"],
    );
}

/// What a command says once it succeeds: a new server may not be in the view yet, and one server of two is no majority.
fn once_agreed(command: impl Fn() -> Output) -> Output {
    let began = Instant::now();
    loop {
        let said = command();
        if said.status.success() {
            return said;
        }
        assert!(began.elapsed() < PATIENCE, "{said:?}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Whether a client that walks into `soft` is told that it is elsewhere.
fn referred(server: SocketAddr) -> bool {
    let walked = block_on(async {
        let client = Client::connect(Options::at(server)).await?;
        let walked = client.mount("/.domainroot/example.org/soft").await;
        client.leave().await?;
        walked
    });
    let error = walked.unwrap_err();
    match error.status() {
        Some(nfs4::NfsStat4::Moved) => true,
        Some(nfs4::NfsStat4::NoEnt) => false,
        _ => panic!("{error}"),
    }
}

#[test]
fn who_begins_or_joins_a_set_says_where_clients_reach_it() {
    let first = Site::new();
    succeed(&first.set(&["create", "--client-address", "192.0.2.7"]));
    let _running = first.place.start();
    let second = Site::new();
    let nowhere = ["join", &first.invite(), "--client-address", "x.invalid"];
    refuse(&second.set(&nowhere), &["cannot be looked up"]);
    let somewhere = ["join", &first.invite(), "--client-address", "192.0.2.8:50"];
    let joined = second.set(&somewhere);
    succeed(&joined);
    assert!(complaint(&joined).contains("port 2049"), "{joined:?}");
    for told in [first.members(), second.members()] {
        for address in ["192.0.2.7:2049", "192.0.2.8:50"] {
            let wanted = format!("clients reach it at {address}");
            assert!(told.contains(&wanted), "{told}");
        }
    }
}

#[test]
fn what_a_junction_needs_is_said() {
    let alone = Site::new();
    let running = alone.place.start();
    let add = ["junction", "add", "x", "--to", "192.0.2.1:/"];
    refuse(&alone.meridian(&add), &["belongs to no set"]);
    drop(running);
    let (founded, _running) = Site::founding();
    refuse(&founded.meridian(&add), &["`domain` in [names]"]);
    refuse(
        &founded.command(&["client-address", "7", "192.0.2.1"]),
        &["no replica 7"],
    );
    refuse(
        &founded.command(&["client-address", "1", "no-such-host.invalid"]),
        &["cannot be looked up"],
    );
}

//! The status page as browsers, and those who would abuse them, meet it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use crate::fixture::site::{Site, block_on};
use crate::fixture::{Place, Running, complaint, http_get, run};
use nfs4_client::{Client, How, Options, StableHow4};

/// How often something is looked for that has to appear.
const PAUSE: Duration = Duration::from_millis(50);

/// What an HTTP server answers to some bytes, until it closes the connection.
fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn page_of(place: &Place) -> SocketAddr {
    place.status().page.expect("there is a page")
}

/// What the page of a server that lacks nothing says. Whether the disk of this machine is nearly full is not for
/// the test to choose.
fn verdict(place: &Place) -> &'static str {
    let alarms = place.status().alarms;
    assert!(
        alarms.iter().all(|alarm| alarm.name == "disk-nearly-full"),
        "{alarms:?}"
    );
    match alarms.len() {
        0 => "All is well.",
        _ => "1 alarm",
    }
}

#[test]
fn a_server_on_its_own_shows_how_it_is() {
    let place = Place::new("");
    let server = place.start();
    let page = page_of(&place);
    let html = http_get(page, "/");
    let listening = server.address.to_string();
    for part in [
        "<!doctype html>",
        "on its own",
        verdict(&place),
        "kept by this server alone",
        // Without scripts the browser asks again by itself.
        "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>",
        "The last minutes",
        &listening,
    ] {
        assert!(html.contains(part), "`{part}` is not in\n{html}");
    }
    assert!(!html.contains("Sites and links"), "{html}");
    let now = http_get(page, "/now");
    assert!(
        now.starts_with("<header") && !now.contains("<script"),
        "{now}"
    );
    let text = run(&["status", "--data", place.data().to_str().unwrap()]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains(&format!("http://{page}/")), "{text}");
}

#[test]
fn only_reading_under_a_name_of_this_server_is_answered() {
    let place = Place::new("");
    let _server = place.start();
    let page = page_of(&place);
    let ask = |line: &str, hosts: &[&str]| {
        let hosts: String = hosts
            .iter()
            .map(|host| format!("Host: {host}\r\n"))
            .collect();
        exchange(page, &format!("{line}\r\n{hosts}\r\n"))
    };
    let expect = |status: &str, line: &str, hosts: &[&str]| {
        let answer = ask(line, hosts);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} "))
                || answer.starts_with(&format!("HTTP/1.0 {status} ")),
            "{line} {hosts:?}: {answer}"
        );
        answer
    };
    let port = page.port();
    for host in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        "[::1]".to_owned(),
    ] {
        expect("200", "GET / HTTP/1.1", &[&host]);
    }
    for hosts in [
        &["evil.example"][..],
        &["127.0.0.1.evil.example"],
        &["localhost", "evil.example"],
        &[],
    ] {
        for path in ["/", "/now", "/nothing"] {
            let line = format!("GET {path} HTTP/1.0");
            let answer = expect("421", &line, hosts);
            assert!(!answer.contains("operations"), "{answer}");
        }
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        expect("405", &format!("{method} / HTTP/1.1"), &["localhost"]);
    }
    expect("404", "GET /nothing HTTP/1.1", &["localhost"]);
    expect("404", "GET /metrics HTTP/1.1", &["localhost"]);
}

#[test]
fn no_other_page_can_read_embed_or_frame_it() {
    let place = Place::new("");
    let _server = place.start();
    let page = page_of(&place);
    let ask = |path: &str| {
        exchange(
            page,
            &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        )
    };
    let nonce = |answer: &str| {
        let after = answer.split("script-src 'nonce-").nth(1);
        after.unwrap().split('\'').next().unwrap().to_owned()
    };
    let [first, second] = ["/", "/"].map(ask);
    assert_ne!(nonce(&first), nonce(&second));
    assert!(first.contains(&format!("<script nonce=\"{}\">", nonce(&first))));
    for answer in [first, ask("/now"), ask("/nothing")] {
        for header in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(answer.contains(header), "`{header}` is not in\n{answer}");
        }
        assert!(
            !answer.to_ascii_lowercase().contains("access-control-"),
            "{answer}"
        );
    }
}

#[test]
fn connections_that_say_nothing_keep_nobody_waiting_for_ever() {
    let place = Place::new("");
    let _server = place.start();
    let page = page_of(&place);
    let silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(page).unwrap()).collect();
    assert!(http_get(page, "/now").contains("on its own"));
    // More than there are places for: the first ones are closed when their time is over.
    let more: Vec<TcpStream> = (0..16).map(|_| TcpStream::connect(page).unwrap()).collect();
    assert!(http_get(page, "/now").contains("on its own"));
    drop((silent, more));
}

/// A set of two that are in touch. Control lasts, so that it can be looked at.
fn two() -> [(Site, Running); 2] {
    let slow = "[replication]\ndeep_control_idle = \"1 min\"\nfile_control_idle = \"1 min\"\n";
    let first = Site::configured(slow);
    let created = first.set(&["create"]);
    assert!(created.status.success(), "{}", complaint(&created));
    let first_server = first.place.start();
    let second = Site::configured(slow);
    second.join(&first);
    let second_server = second.place.start();
    for site in [&first, &second] {
        until(site, |html| {
            html.contains("2 of 2 servers take part") && html.contains(" ms</dd>")
        });
    }
    [(first, first_server), (second, second_server)]
}

/// Waits until the page of a server shows something.
fn until(site: &Site, fact: impl Fn(&str) -> bool) -> String {
    let page = page_of(&site.place);
    loop {
        let html = http_get(page, "/");
        if fact(&html) {
            return html;
        }
        sleep(PAUSE);
    }
}

#[test]
fn two_sites_show_their_link_and_who_controls_what_whatever_it_is_called() {
    let [(first, first_server), (second, second_server)] = two();
    let evil = b"<img src=x onerror=alert(1)>\"'&\xff\n\xe2\x80\xae.txt".to_vec();
    block_on(async {
        let client = Client::connect(Options::at(first_server.address))
            .await
            .unwrap();
        let root = client.mount("/export").await.unwrap();
        let file = client
            .open(&root, nfs4::Component4(evil.into()), &How::create(0o600))
            .await
            .unwrap();
        let content = vec![7; 1 << 18].into();
        let written = client.write(&file, 0, content, StableHow4::FileSync).await;
        written.unwrap();
        for (site, holder) in [(&first, "this server"), (&second, "replica 1")] {
            let html = until(site, |html| html.contains("onerror"));
            assert!(
                !html.contains("<img") && !html.contains('\u{202e}'),
                "{html}"
            );
            assert!(html.contains("\\u{a}\\u{202e}.txt"), "{html}");
            assert!(html.contains(holder), "{html}");
            assert!(
                html.contains("two-voters") && html.contains("What to do:"),
                "{html}"
            );
        }
        client.close(&file).await.unwrap();
        client.leave().await.unwrap();
    });
    // Charts begin with the second sample.
    let html = until(&first, |html| {
        html.contains("points=\"") && !html.contains("points=\"\"")
    });
    assert!(html.contains("Between sites"), "{html}");
    let other = format!("127.0.0.1:{}", second.port);
    assert!(html.contains(&other), "{html}");
    second_server.kill();
    until(&first, |html| {
        html.contains("NOT CONNECTED") || html.contains("AWAY")
    });
}

#[test]
fn a_page_for_other_machines_has_to_be_wished_for() {
    let place = Place::new("");
    let file = place.configuration();
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        run(&["config", "check", file.to_str().unwrap()])
    };
    let refused = check("[page]\nlisten = \"192.0.2.1:9650\"\n");
    assert_eq!(refused.status.code(), Some(78));
    let message = complaint(&refused);
    for part in [
        ":2:10:",
        "ssh -L 9650:127.0.0.1:9650",
        "allow_remote = true",
    ] {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
    for text in [
        "[page]\nlisten = \"192.0.2.1:9650\"\nallow_remote = true\nnames = \"alpha.example\"\n",
        "[page]\nlisten = \"[::1]:9650\"\n",
        "[page]\nlisten = \"off\"\n",
    ] {
        let accepted = check(text);
        assert!(accepted.status.success(), "{}", complaint(&accepted));
    }
}

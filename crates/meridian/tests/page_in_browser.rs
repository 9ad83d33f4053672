//! The status page in a real browser. Not among the tests that are run unless asked for, because a browser is larger
//! than all the rest that tests need; `make test-page` installs one and asks.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "fixture/browser.rs"]
mod browser;
mod fixture;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use browser::Browser;
use fixture::site::{HASTY, Site, block_on, succeed};
use fixture::{Place, Running};
use nfs4_client::{Client, How, Options, StableHow4};

/// Where people find the pictures that the tests take.
fn keep(name: &str, picture: &[u8]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), picture).unwrap();
}

fn page_of(place: &Place) -> SocketAddr {
    place.status().page.unwrap()
}

/// A set of three, all of them in the view.
fn three() -> [(Site, Running); 3] {
    let lasting = format!("{HASTY}deep_control_idle = \"1 min\"\nfile_control_idle = \"1 min\"\n");
    let first = Site::configured(&lasting);
    succeed(&first.set(&["create"]));
    let first_server = first.place.start();
    let join = || {
        let site = Site::configured(&lasting);
        site.join(&first);
        let server = site.place.start();
        (site, server)
    };
    let (second, third) = (join(), join());
    [(first, first_server), second, third]
}

/// Has a client of the server write to a file of this name and keep it open.
fn write(server: &Running, name: &[u8]) {
    block_on(async {
        let client = Client::connect(Options::at(server.address)).await.unwrap();
        let root = client.mount("/export").await.unwrap();
        let file = client
            .open(
                &root,
                nfs4::Component4(name.to_vec().into()),
                &How::create(0o644),
            )
            .await;
        let (file, content) = (file.unwrap(), vec![7; 1 << 18].into());
        let written = client.write(&file, 0, content, StableHow4::FileSync);
        written.await.unwrap();
    });
}

/// Whether the page is no wider than the screen.
const FITS: &str = "document.documentElement.scrollWidth <= innerWidth";

/// The text that a person reads.
fn shows(text: &str) -> String {
    format!(
        "document.body.innerText.includes({})",
        serde_json::json!(text)
    )
}

#[test]
fn people_see_it_live_on_a_desk_and_on_a_phone() {
    let [
        (first, first_server),
        (_second, _second_server),
        (_third, third_server),
    ] = three();
    let browser = Browser::start();
    browser.resize(1280, 900, false);
    browser.open(&format!("http://{}/", page_of(&first.place)));
    browser.value("(window.loadedOnce = true)");
    browser.wait(&shows("3 of 3 servers take part"));
    browser.wait(&shows("All is well."));
    browser.wait(&shows("its link to replica 3"));

    // What happens appears by itself, whatever it is called. The third is first, so it controls what it makes.
    write(&third_server, b"ledger");
    write(
        &first_server,
        b"<img src=x onerror='window.evil=1'>\xff\xe2\x80\xae.txt",
    );
    browser.wait(&shows("<img src=x onerror='window.evil=1'>"));
    browser.wait("[...document.querySelectorAll('polyline')].some(line => line.points.length > 5)");
    assert_eq!(
        browser.value("window.evil === undefined && window.loadedOnce"),
        true
    );
    assert_eq!(browser.value("document.images.length"), 0);
    assert_eq!(browser.value(FITS), true);
    assert_eq!(browser.complaints(), [""; 0]);

    // One is lost, with what it was changing.
    third_server.kill();
    browser.wait(&shows("Frozen"));
    browser.wait(&shows("meridian thaw --discard 3"));
    browser.wait("document.title.startsWith('(!)')");
    keep("desk-light.png", &browser.picture());
    let ground = "getComputedStyle(document.body).backgroundColor";
    let light = browser.value(ground);
    browser.prefer("dark");
    assert_ne!(browser.value(ground), light);
    keep("desk-dark.png", &browser.picture());

    browser.resize(360, 740, true);
    assert_eq!(browser.value("innerWidth"), 360);
    assert_eq!(browser.value(FITS), true);
    keep("phone-dark.png", &browser.picture());
    browser.prefer("light");
    keep("phone-light.png", &browser.picture());
    assert_eq!(browser.complaints(), [""; 0]);

    // A page that is no longer true says so.
    first_server.kill();
    browser.wait(&shows("The server does not answer."));
    assert_eq!(browser.value("window.loadedOnce"), true);
}

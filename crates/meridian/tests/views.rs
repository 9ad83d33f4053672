//! Servers of a set that are lost, and what their administrator is told and can do.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use crate::fixture::site::{HASTY, Site, block_on, refuse, succeed};
use crate::fixture::{Running, complaint, http_get};
use nfs4_client::{Client, Error, How, Options, StableHow4};
use rustix::process::Signal;
use server::{FrozenView, ViewStatus};

/// How often something is looked for that has to appear.
const PAUSE: Duration = Duration::from_millis(50);

fn frozen(site: &Site) -> Vec<FrozenView> {
    serde_json::from_str(&succeed(&site.meridian(&["frozen", "--json"]))).unwrap()
}

fn active(view: &ViewStatus) -> Vec<u16> {
    let members = view.members.iter().filter(|member| member.active);
    members.map(|member| member.slot).collect()
}

/// Waits until a server knows such a view.
fn until(site: &Site, fact: impl Fn(&ViewStatus) -> bool) -> ViewStatus {
    loop {
        let asked = site.meridian(&["view", "--json"]);
        // One that starts anew does not answer for a moment.
        if asked.status.code() != Some(4) {
            let view = serde_json::from_str(&succeed(&asked)).unwrap();
            if fact(&view) {
                return view;
            }
        }
        sleep(PAUSE);
    }
}

fn until_in_view(site: &Site, slots: &[u16]) -> ViewStatus {
    until(site, |view| {
        active(view) == slots && view.takes_part && view.up_to_date
    })
}

/// A set of three, all of them in the view.
fn three() -> [(Site, Running); 3] {
    three_configured(HASTY)
}

fn three_configured(text: &str) -> [(Site, Running); 3] {
    let first = Site::configured(text);
    succeed(&first.set(&["create"]));
    let first_server = first.place.start();
    let join = || {
        let site = Site::configured(text);
        site.join(&first);
        let server = site.place.start();
        (site, server)
    };
    let (second, third) = (join(), join());
    let all = [(first, first_server), second, third];
    for (site, _) in &all {
        until_in_view(site, &[1, 2, 3]);
    }
    all
}

/// Has a client of the server change a file and keep it open, so that the server decides about it, and kills
/// the server.
fn kill_while_it_decides(server: Running) {
    end_while_it_decides(server, Running::kill);
}

/// The same, with another end.
fn end_while_it_decides(server: Running, end: impl FnOnce(Running)) {
    block_on(async {
        let client = Client::connect(Options::at(server.address)).await.unwrap();
        let root = client.mount("/export").await.unwrap();
        let file = client.open(&root, "ledger", &How::create(0o644)).await;
        let file = file.unwrap();
        let entry = b"an entry".to_vec().into();
        let written = client.write(&file, 0, entry, StableHow4::FileSync).await;
        written.unwrap();
        end(server);
    });
}

#[test]
fn what_a_lost_server_decided_about_is_frozen_until_it_is_given_up() {
    let [(first, _first), (second, _second), (_third, third_server)] = three();
    assert!(frozen(&first).is_empty());
    kill_while_it_decides(third_server);
    let present = until(&first, |view| active(view) == [1, 2]);
    let lost = &present.members[2];
    assert!(
        lost.excluded_at_unix_s.is_some() && lost.reason.is_some(),
        "{lost:?}"
    );
    assert!(!present.audit.is_empty());
    let told = succeed(&first.meridian(&["view"]));
    assert!(
        told.contains("AWAY since") && told.contains("decisions"),
        "{told}"
    );

    while frozen(&first).is_empty() {
        sleep(PAUSE);
    }
    assert!(frozen(&first).iter().all(|one| one.slot == 3));
    let told = succeed(&first.meridian(&["frozen"]));
    assert!(
        told.contains("replica 3") && told.contains("frozen since"),
        "{told}"
    );
    let status = first.place.status();
    for name in ["member-away", "frozen-objects"] {
        let found = status.alarms.iter().any(|alarm| alarm.name == name);
        assert!(found, "{name}: {:?}", status.alarms);
    }
    let page = http_get(status.metrics.unwrap(), "/metrics");
    for line in [
        "meridian_view_active{tree=\"default\",slot=\"3\"} 0.0",
        "meridian_alarm{tree=\"default\",alarm=\"frozen-objects\"} 1.0",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    let page = http_get(status.page.unwrap(), "/now");
    for part in ["nobody may change it", "meridian thaw --discard 3", "AWAY"] {
        assert!(page.contains(part), "{part}: {page}");
    }

    refuse_what_makes_no_sense(&first);
    let thaw = ["thaw", "--discard", "3", "--reason", "it burnt down"];
    let asked = loop {
        let asked = first.meridian(&thaw);
        // The survivors may not have the same of it yet.
        if !complaint(&asked).contains("cannot be done yet") {
            break asked;
        }
        sleep(PAUSE);
    };
    refuse(&asked, &["for ever", "--yes"]);
    assert!(!frozen(&first).is_empty(), "nobody has agreed");
    let thaw = [&thaw[..], &["--yes"]].concat();
    let told = succeed(&first.meridian(&thaw));
    assert!(told.contains("is given up"), "{told}");
    for site in [&first, &second] {
        while !frozen(site).is_empty() {
            sleep(PAUSE);
        }
        let audit = site.view().audit;
        let mut recorded = audit.iter();
        let recorded = recorded.any(|entry| entry.what.contains("it burnt down"));
        assert!(recorded, "{audit:?}");
    }
    refuse(&first.meridian(&thaw), &["frozen any more"]);
}

/// What a new client of the server at this address reads from a file.
async fn try_read(address: SocketAddr, name: &str) -> Result<Vec<u8>, Error> {
    let client = Client::connect(Options::at(address)).await?;
    let root = client.mount("/export").await?;
    let file = client.open(&root, name, &How::read()).await?;
    let read = client.read_to_end(&file).await?;
    client.close(&file).await?;
    client.leave().await?;
    Ok(read.to_vec())
}

fn read(server: &Running, name: &str) -> Vec<u8> {
    block_on(try_read(server.address, name)).unwrap()
}

/// Makes a file with this text, or writes over it.
async fn make(client: &Client, name: &str, text: &str) {
    let root = client.mount("/export").await.unwrap();
    let file = client.open(&root, name, &How::create(0o644)).await.unwrap();
    let text = text.to_owned().into_bytes().into();
    client.write_all(&file, 0, &text).await.unwrap();
    client.close(&file).await.unwrap();
}

fn make_at(server: &Running, name: &str, text: &str) {
    block_on(async {
        let client = Client::connect(Options::at(server.address)).await.unwrap();
        make(&client, name, text).await;
        client.leave().await.unwrap();
    });
}

/// Waits until a server controls nothing any more.
fn until_quiet(site: &Site) {
    let controls = || {
        let status = site.place.status();
        let replication = status.exports[0].replication.as_ref();
        replication.unwrap().controls_total
    };
    while controls() > 0 {
        sleep(PAUSE);
    }
}

#[test]
fn a_close_waits_for_a_hanging_server_to_be_left_out_and_nobody_sees_the_version_before_there() {
    let settings = format!("{HASTY}[time]\ngrace_seconds = 0\n");
    let [
        (first, first_server),
        (_second, _second_server),
        (third, third_server),
    ] = three_configured(&settings);
    make_at(&first_server, "ledger", "before");
    assert_eq!(read(&third_server, "ledger"), b"before");
    // Or the third would know already whom to ask.
    until_quiet(&first);
    third_server.signal(Signal::STOP);
    make_at(&first_server, "ledger", "after!");
    assert_eq!(
        active(&first.view()),
        [1, 2],
        "else the close came too early"
    );
    third_server.signal(Signal::CONT);
    // It may just be starting anew, and then cannot be reached.
    if let Ok(read) = block_on(try_read(third_server.address, "ledger")) {
        assert_eq!(read, b"after!");
    }
    until_in_view(&third, &[1, 2, 3]);
    let address = third.place.status().listen[0];
    let read = block_on(try_read(address, "ledger")).unwrap();
    assert_eq!(read, b"after!");
}

#[test]
fn what_was_given_up_is_listed_and_copied_out_at_the_server_that_had_it() {
    // Contents are not sent before the server is killed.
    let settings = format!("{HASTY}data_delay = \"1 min\"\n");
    let [
        (first, first_server),
        (_second, _second_server),
        (third, third_server),
    ] = three_configured(&settings);
    kill_while_it_decides(third_server);
    until(&first, |view| active(view) == [1, 2]);
    let thaw = [
        "thaw",
        "--discard",
        "3",
        "--reason",
        "it burnt down",
        "--yes",
        "--json",
    ];
    let told = loop {
        let thawed = first.meridian(&thaw);
        if thawed.status.success() {
            break succeed(&thawed);
        }
        sleep(PAUSE);
    };
    let told: server::ThawAnswer = serde_json::from_str(&told).unwrap();
    assert!(told.done && told.frozen.total() > 0, "{told:?}");
    let _third_server = third.place.start();
    // It believes itself in the view it knows until it has heard of later ones.
    until(&first, |view| active(view) == [1, 2, 3]);
    until_in_view(&third, &[1, 2, 3]);
    let listed = succeed(&third.meridian(&["recovered", "list"]));
    let label = listed.split_whitespace().next().unwrap();
    let listed = succeed(&third.meridian(&["recovered", "list", label]));
    assert!(listed.contains("ledger"), "{listed}");
    let found = third.place.data().join("found");
    let to = found.to_str().unwrap();
    let told = succeed(&third.meridian(&["recovered", "restore", label, "--to", to]));
    assert!(told.contains("1 file,"), "{told}");
    assert_eq!(std::fs::read(found.join("ledger")).unwrap(), b"an entry");
    assert_ne!(read(&first_server, "ledger"), b"an entry");
    succeed(&third.meridian(&["recovered", "forget", label, "--yes"]));
    let told = succeed(&third.meridian(&["recovered", "list"]));
    assert!(told.contains("no discarded versions"), "{told}");
}

/// A lost server was removed without a word about the changes that it alone had, and could not hand them over any more.
#[test]
fn a_lost_server_that_alone_has_something_is_removed_only_on_an_explicit_word() {
    // Contents are not sent before the server is killed.
    let settings = format!("{HASTY}data_delay = \"1 min\"\n");
    let [
        (first, _first_server),
        (_second, _second_server),
        (_third, third_server),
    ] = three_configured(&settings);
    kill_while_it_decides(third_server);
    until(&first, |view| {
        let mut losses = view.losses.iter();
        losses.any(|loss| loss.frozen_controls > 0)
    });
    refuse(
        &first.command(&["remove", "3"]),
        &["replica 3 is lost", "nothing was done", "--discard"],
    );
    assert!(!first.members().contains("removed"));
    let told = succeed(&first.command(&["remove", "3", "--discard"]));
    assert!(told.contains("What it alone had is given up"), "{told}");
    until(&first, |view| view.members.len() == 2);
    assert!(frozen(&first).is_empty());
}

fn refuse_what_makes_no_sense(site: &Site) {
    let thaw = |discard: &str, reason: &str| {
        site.meridian(&["thaw", "--discard", discard, "--reason", reason, "--yes"])
    };
    refuse(&thaw("9", "gone"), &["no replica 9", "meridian view"]);
    refuse(&thaw("2", "gone"), &["is in the view", "meridian view"]);
    refuse(&thaw("3", " "), &["--reason"]);
    let without = site.meridian(&["thaw", "--discard", "3", "--yes"]);
    assert_eq!(without.status.code(), Some(2), "{}", complaint(&without));
    assert!(complaint(&without).contains("--reason"));
}

#[test]
fn a_survivor_goes_on_alone_when_its_administrator_says_that_the_others_are_gone() {
    let [
        (first, first_server),
        (second, second_server),
        (_third, third_server),
    ] = three();
    make_at(&first_server, "kept", "by the survivor");
    second_server.kill();
    third_server.kill();
    let recover = |site: &Site, survivors: &str, more: &[&str]| {
        let arguments = [&["set", "recover", "--survivors", survivors], more].concat();
        site.meridian(&arguments)
    };
    refuse(&recover(&first, "1", &["--yes"]), &["in use by process"]);
    first_server.kill();
    refuse(
        &recover(&first, "1", &[]),
        &["replicas 2, 3: for ever", "majority", "Say --yes"],
    );
    refuse(
        &recover(&first, "2", &["--yes"]),
        &["is replica 1", "not among the survivors"],
    );
    refuse(
        &recover(&first, "1,2,3", &["--yes"]),
        &["nobody is given up"],
    );
    refuse(
        &recover(&first, "1,9", &["--yes"]),
        &["replica 9 is not in the set"],
    );
    let told = succeed(&recover(&first, "1", &["--yes"]));
    assert!(told.contains("replica 1 now"), "{told}");
    let told = complaint(&recover(&second, "2", &[]));
    assert!(told.contains("New members"), "{told}");

    let first_server = first.place.start();
    let view = until_in_view(&first, &[1]);
    assert_eq!(view.members.len(), 1, "{view:?}");
    assert_eq!(read(&first_server, "kept"), b"by the survivor");
    let members = first.members();
    assert!(members.contains("  removed       2 to 3\n"), "{members}");
}

/// As virtual machines are, while their host is busy with something else. None of them could hear the others.
#[test]
fn servers_that_were_all_suspended_accuse_nobody_afterwards() {
    let suspicion = Duration::from_secs(3);
    let settings = "[replication]\nsite_lease = \"5 s\"\nsuspicion = \"3 s\"\n";
    let set = three_configured(settings);
    let decided = set.each_ref().map(|(site, _)| site.view().audit);
    for (_, server) in &set {
        server.signal(Signal::STOP);
    }
    sleep(2 * suspicion);
    for (_, server) in &set {
        server.signal(Signal::CONT);
    }
    // A server that accuses another one does so now.
    sleep(suspicion);
    let after = set.each_ref().map(|(site, _)| site.view().audit);
    assert_eq!(after, decided);
    for (site, _) in &set {
        until_in_view(site, &[1, 2, 3]);
    }
}

#[test]
fn what_an_administrator_does_is_on_record_everywhere() {
    let [
        (first, first_server),
        (second, _second),
        (third, third_server),
    ] = three();
    succeed(&first.durability(&["/", "majority"]));
    for (to, why) in [
        ("no-such-host.invalid", "cannot be looked up"),
        ("192.0.2.1", "no address of another member"),
        ("9=127.0.0.1", "no address of another member"),
    ] {
        refuse(&third.meridian(&["drain", "--to", to]), &[why]);
    }
    let to = first_server.address.to_string();
    succeed(&third.meridian(&["drain", "--to", &to]));
    assert!(third_server.wait().success());
    let sent = format!("sent its clients to {to}");
    for (by, what) in [(1, "set the durability of / to majority"), (3, &sent)] {
        until(&second, |view| {
            let mut audit = view.audit.iter();
            audit.any(|entry| entry.by.0 == by && entry.what == what)
        });
    }
}

#[test]
fn a_removed_server_counts_no_longer() {
    let [(first, _first), (_second, _second_server), (_third, third)] = three();
    // It gives up what it decides about, so that nothing is frozen and nothing has to be discarded.
    end_while_it_decides(third, Running::stop);
    until(&first, |view| active(view) == [1, 2]);
    assert!(frozen(&first).is_empty());
    succeed(&first.command(&["remove", "3"]));
    let view = until(&first, |view| view.members.len() == 2);
    assert!(view.has_two_voters());
    let status = first.place.status();
    let warned = status.alarms.iter().any(|alarm| alarm.name == "two-voters");
    assert!(warned, "{:?}", status.alarms);
    refuse(
        &first.durability(&["/", "majority"]),
        &["third replica or a witness"],
    );
}

#[test]
fn a_server_is_removed_while_clients_of_the_others_work() {
    let [
        (first, first_server),
        (_second, second_server),
        (_third, _third_server),
    ] = three();
    let over = AtomicBool::new(false);
    let made = thread::scope(|scope| {
        let work = scope.spawn(|| {
            block_on(async {
                let client = Client::connect(Options::at(first_server.address)).await;
                let client = client.unwrap();
                let mut made = 0;
                while !over.load(Ordering::Relaxed) {
                    let name = format!("made-{made}");
                    make(&client, &name, &name).await;
                    made += 1;
                }
                made
            })
        });
        succeed(&first.command(&["remove", "3"]));
        let view = until(&first, |view| view.members.len() == 2);
        assert_eq!(active(&view), [1, 2]);
        sleep(10 * PAUSE);
        over.store(true, Ordering::Relaxed);
        work.join().unwrap()
    });
    assert!(made > 0);
    for number in 0..made {
        let name = format!("made-{number}");
        assert_eq!(read(&second_server, &name), name.as_bytes());
    }
}

#[test]
fn a_server_without_a_set_has_no_view_and_nothing_discarded() {
    let site = Site::new();
    for command in [&["view"][..], &["frozen"]] {
        assert_eq!(
            site.meridian(command).status.code(),
            Some(4),
            "nobody serves"
        );
    }
    let _server = site.place.start();
    for command in [
        &["view"][..],
        &["frozen", "--json"],
        &["thaw", "--discard", "2", "--reason", "gone", "--yes"],
    ] {
        refuse(&site.meridian(command), &["no set", "meridian set create"]);
    }
    let told = succeed(&site.meridian(&["recovered", "list"]));
    assert!(told.contains("no discarded versions"), "{told}");
    for command in [
        &["recovered", "list", "thaw-1"][..],
        &["recovered", "restore", "thaw-1", "--to", "/nowhere"],
        &["recovered", "forget", "thaw-1", "--yes"],
    ] {
        refuse(
            &site.meridian(command),
            &["\"thaw-1\"", "meridian recovered list"],
        );
    }
}

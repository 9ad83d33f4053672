//! A witness as administrators meet it: how it is set up, what it shows, what it refuses, and what it is good for.

use std::thread::sleep;
use std::time::Duration;

use crate::fixture::Running;
use crate::fixture::site::{HASTY, Site, block_on, refuse, succeed};
use nfs4_client::{Client, How, Options, StableHow4};
use server::ReplicaStatus;

/// How often something is looked for that has to appear.
const PAUSE: Duration = Duration::from_millis(50);

fn replication(site: &Site) -> ReplicaStatus {
    let mut exports = site.place.status().exports;
    exports.remove(0).replication.unwrap()
}

/// Waits until a server answers in a view of these.
fn until_active(site: &Site, slots: &[u16]) {
    loop {
        let view = site.view();
        let active = view.members.iter().filter(|member| member.active);
        let active: Vec<u16> = active.map(|member| member.slot).collect();
        if active == slots && view.takes_part && view.up_to_date {
            return;
        }
        sleep(PAUSE);
    }
}

/// Two replicas and a witness, all of them in the view.
fn two_and_a_witness() -> [(Site, Running); 3] {
    let first = Site::configured(HASTY);
    succeed(&first.set(&["create"]));
    let first_server = first.place.start();
    let second = Site::configured(HASTY);
    second.join(&first);
    let second_server = second.place.start();
    let witness = Site::configured(HASTY);
    let told = witness.join_as_witness(&first);
    assert!(
        told.contains("This server is replica 3, a witness,"),
        "{told}"
    );
    assert!(!told.contains("WARNING"), "{told}");
    let witness_server = witness.place.start();
    let all = [
        (first, first_server),
        (second, second_server),
        (witness, witness_server),
    ];
    for (site, _) in &all {
        until_active(site, &[1, 2, 3]);
    }
    all
}

async fn client(server: &Running) -> Client {
    Client::connect(Options::at(server.address)).await.unwrap()
}

#[test]
fn a_witness_says_what_it_is_and_refuses_what_it_cannot_do() {
    let [(first, _first), (second, _second), (witness, server)] = two_and_a_witness();
    for site in [&first, &second, &witness] {
        let line = format!("replica 3     127.0.0.1:{}  witness", witness.port);
        let members = site.members();
        assert!(members.contains(&line), "`{line}` is not in: {members}");
        let told = succeed(&site.meridian(&["view"]));
        assert!(
            told.contains("replica 3      witness in the view"),
            "{told}"
        );
        let alarms = site.place.status().alarms;
        assert!(
            !alarms.iter().any(|alarm| alarm.name == "two-voters"),
            "{alarms:?}"
        );
    }
    let told = succeed(&witness.meridian(&["status"]));
    assert!(told.contains("replica      3, a witness"), "{told}");
    let told = succeed(&first.meridian(&["status"]));
    let peer = format!("peer 3       127.0.0.1:{}, a witness", witness.port);
    assert!(told.contains(&peer), "`{peer}` is not in: {told}");
    assert!(replication(&witness).witness && !replication(&second).witness);
    // It has no space for contents to speak of, and the others say of it what is known.
    let peers = replication(&first).peers;
    assert_eq!(peers[1].available_bytes, None, "{peers:?}");
    assert!(peers[0].available_bytes.is_some(), "{peers:?}");

    assert!(
        server.announcement.contains("It is a witness of its set"),
        "{}",
        server.announcement
    );
    assert!(
        !server.announcement.contains("mount -t nfs4"),
        "{}",
        server.announcement
    );
    block_on(async {
        // It has no export, so there is nobody whom one admits.
        let refused = Client::connect(Options::at(server.address)).await;
        assert!(refused.is_err(), "clients have nothing to mount");
    });
    for command in [
        &["durability", "/", "majority"][..],
        &["durability", "/"],
        &["thaw", "--discard", "2", "--reason", "gone", "--yes"],
        &["drain", "--to", "127.0.0.1"],
        &["scrub"],
    ] {
        refuse(&witness.meridian(command), &["this server is a witness"]);
    }
    server.stop();
    let recover = ["set", "recover", "--survivors", "3", "--yes"];
    refuse(
        &witness.meridian(&recover),
        &["a witness", "keeps the tree"],
    );
}

#[test]
fn a_replica_goes_on_with_the_witness_and_the_lost_one_gets_everything() {
    let [
        (first, first_server),
        (second, second_server),
        (witness, _witness),
    ] = two_and_a_witness();
    succeed(&first.durability(&["/", "majority"]));
    let content = |number: u64| format!("entry {number}").into_bytes();
    block_on(async {
        let here = client(&first_server).await;
        let root = here.mount("/export").await.unwrap();
        let write = async |number: u64| {
            let name = format!("file {number}");
            let file = here.open(&root, &*name, &How::create(0o640)).await.unwrap();
            let content = content(number).into();
            let written = here.write(&file, 0, content, StableHow4::FileSync).await;
            written.unwrap();
            here.close(&file).await.unwrap();
        };
        write(0).await;
        second_server.kill();
        for number in 1..10 {
            write(number).await;
        }
        until_active(&first, &[1, 3]);
        write(10).await;
    });
    let second_server = second.place.start();
    until_active(&second, &[1, 2, 3]);
    first_server.kill();
    until_active(&second, &[2, 3]);
    block_on(async {
        let there = client(&second_server).await;
        let root = there.mount("/export").await.unwrap();
        for number in 0..=10 {
            let handle = there.walk(&root, &format!("file {number}")).await.unwrap();
            let file = there.open_handle(&handle, &How::read()).await.unwrap();
            assert_eq!(there.read_to_end(&file).await.unwrap(), content(number));
            there.close(&file).await.unwrap();
        }
    });
    let store = witness.place.data().join("trees/default/data");
    let files = files_below(&store);
    assert!(files.is_empty(), "the witness keeps {files:?}");
    assert!(!files_below(&second.place.data().join("trees/default/data")).is_empty());
}

fn files_below(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let below = paths.flat_map(|path| match path.is_dir() {
        true => files_below(&path),
        false => vec![path],
    });
    below.collect()
}

#[test]
fn two_servers_are_told_that_majority_takes_a_third() {
    let majority = "[replication]\ndurability = \"majority\"\n";
    let (first, second) = (Site::configured(majority), Site::configured(majority));
    succeed(&first.set(&["create"]));
    let _first = first.place.start();
    second.join(&first);
    let _second = second.place.start();
    until_active(&first, &[1, 2]);
    let way_out = "add a third replica or a witness";
    refuse(&first.durability(&["/", "majority"]), &[way_out]);
    let log = second.place.read_log();
    assert!(log.contains("ERROR") && log.contains(way_out), "{log}");
    for told in [first.members(), succeed(&second.meridian(&["status"]))] {
        assert!(told.contains(way_out), "{told}");
    }

    let witness = Site::configured("");
    witness.join_as_witness(&first);
    let _witness = witness.place.start();
    until_active(&first, &[1, 2, 3]);
    succeed(&first.durability(&["/", "majority"]));
    assert!(!first.members().contains(way_out));
}

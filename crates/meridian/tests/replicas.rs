//! Servers of one set as clients and administrators meet them: one tree, the same everywhere.

use std::thread::sleep;
use std::time::Duration;

use crate::fixture::site::{Site, block_on, refuse, succeed};
use crate::fixture::{Running, http_get, run};
use nfs4::{Attr, Bitmap4, NfsStat4};
use nfs4_client::{Client, How, Options, STAT, StableHow4};
use oncrpc::{AuthSys, Credentials, Groups};

/// How often something is looked for that has to appear.
const PAUSE: Duration = Duration::from_millis(20);

/// A set of two, both running, in contact, and with the whole tree.
pub(crate) fn two() -> [(Site, Running); 2] {
    two_configured("")
}

/// The same with this in their configurations.
pub(crate) fn two_configured(text: &str) -> [(Site, Running); 2] {
    let first = Site::configured(text);
    succeed(&first.set(&["create"]));
    let first_server = first.place.start();
    let second = Site::configured(text);
    second.join(&first);
    let second_server = second.place.start();
    for site in [&first, &second] {
        until(site, |replication| {
            replication.ready && replication.peers.iter().any(|peer| peer.connected)
        });
    }
    [(first, first_server), (second, second_server)]
}

/// Waits until a server says so of its replica.
pub(crate) fn until(
    site: &Site,
    fact: impl Fn(&server::ReplicaStatus) -> bool,
) -> server::ReplicaStatus {
    loop {
        let status = site.place.status().exports.remove(0).replication.unwrap();
        if fact(&status) {
            return status;
        }
        sleep(PAUSE);
    }
}

/// Attributes that are the same everywhere: not when a copy was read, and not the space that it takes.
fn compared() -> Bitmap4 {
    let mut attributes = STAT;
    attributes.remove(Attr::TimeAccess);
    attributes.remove(Attr::SpaceUsed);
    attributes
}

async fn client(server: &Running) -> Client {
    Client::connect(Options::at(server.address)).await.unwrap()
}

/// An open is registered before anybody judges it, and what is registered needed no permission: any user could open any file of a set.
#[test]
fn the_mode_of_a_file_keeps_other_users_out_at_every_server() {
    let [(_first, first_server), (_second, second_server)] = two();
    block_on(async {
        let owner = client(&first_server).await;
        let root = owner.mount("/export").await.unwrap();
        let how = How::create(0o640);
        let secret = owner.open(&root, "secret", &how).await.unwrap();
        owner.close(&secret).await.unwrap();
        // The second time nobody decides about it any more.
        for pause in [Duration::ZERO, Duration::from_secs(4)] {
            tokio::time::sleep(pause).await;
            for server in [&first_server, &second_server] {
                let options = Options {
                    credentials: Credentials::Sys(AuthSys {
                        stamp: 0,
                        machinename: "elsewhere".into(),
                        uid: 1001,
                        gid: 1001,
                        gids: Groups::first_of(&[1001]),
                    }),
                    ..Options::at(server.address)
                };
                let other = Client::connect(options).await.unwrap();
                for how in [How::read(), How::write()] {
                    let named = other.open(&root, "secret", &how).await;
                    let by_handle = other.open_handle(&secret.handle, &how).await;
                    for refused in [named, by_handle] {
                        let status = refused.err().and_then(|error| error.status());
                        assert_eq!(status, Some(NfsStat4::Access));
                    }
                }
                other.leave().await.unwrap();
            }
        }
    });
    second_server.stop();
    first_server.stop();
}

#[test]
fn a_file_closed_at_one_server_opens_at_the_other_with_the_same_filehandle() {
    let [(_first, first_server), (_second, second_server)] = two();
    block_on(async {
        let (here, there) = (client(&first_server).await, client(&second_server).await);
        let root = here.mount("/export").await.unwrap();
        for number in 0..20 {
            let name = format!("file {number}");
            let file = here.open(&root, &*name, &How::create(0o640)).await.unwrap();
            let content = format!("content {number}");
            here.write(&file, 0, content.clone().into(), StableHow4::FileSync)
                .await
                .unwrap();
            here.close(&file).await.unwrap();

            let handle = here.walk(&root, &name).await.unwrap();
            assert_eq!(there.walk(&root, &name).await.unwrap(), handle);
            let opened = there.open_handle(&handle, &How::read()).await.unwrap();
            assert_eq!(there.read_to_end(&opened).await.unwrap(), content);
            there.close(&opened).await.unwrap();
            let seen = [&here, &there].map(|client| client.getattr(&handle, compared()));
            let [seen_here, seen_there] = seen;
            assert_eq!(seen_here.await.unwrap(), seen_there.await.unwrap());
        }
        here.leave().await.unwrap();
        there.leave().await.unwrap();
    });
}

#[test]
fn status_tells_peers_controls_and_what_was_shipped() {
    let [(first, first_server), (second, second_server)] = two();
    block_on(async {
        let here = client(&first_server).await;
        let root = here.mount("/export").await.unwrap();
        let file = here.open(&root, "big", &How::create(0o600)).await.unwrap();
        let content = vec![7; 1 << 18].into();
        here.write(&file, 0, content, StableHow4::FileSync)
            .await
            .unwrap();
        let held = until(&second, |replication| replication.controls_total > 0);
        assert!(
            held.controls.iter().any(|control| control.holder == 1),
            "{held:?}"
        );
        here.close(&file).await.unwrap();
        here.leave().await.unwrap();
    });
    let status = until(&first, |replication| {
        let behind = |peer: &server::PeerView| peer.lag_updates + peer.lag_files > 0;
        replication.shipped_content_bytes >= 1 << 18 && !replication.peers.iter().any(behind)
    });
    assert_eq!((status.slot, status.peers[0].slot), (1, 2));
    assert!(status.peers[0].round_trip_us.is_some(), "{status:?}");
    assert!(status.shipped_record_bytes > 0, "{status:?}");

    let data = first.place.data();
    let output = run(&["status", "--data", data.to_str().unwrap()]);
    let text = succeed(&output);
    let peer = format!("peer 2       127.0.0.1:{}", second.port);
    for part in [
        "replica      1, ready",
        &peer,
        "connected, round trip",
        "has everything",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let page = http_get(first.place.status().metrics.unwrap(), "/metrics");
    let line = "meridian_replica_peer_connected{tree=\"default\",peer=\"2\"} 1.0";
    assert!(page.contains(line), "{page}");
    second_server.stop();
    until(&first, |replication| !replication.peers[0].connected);
    first_server.stop();
}

/// Waits until a server says so of a directory.
fn until_told(site: &Site, path: &str, words: &str) {
    while !succeed(&site.durability(&[path])).contains(words) {
        sleep(PAUSE);
    }
}

#[test]
fn durability_is_chosen_by_directory_and_known_at_every_server() {
    let [(first, first_server), (second, _second_server)] = two();
    block_on(async {
        let here = client(&first_server).await;
        let root = here.mount("/export").await.unwrap();
        here.create_directory(&root, "books", 0o755).await.unwrap();
        here.leave().await.unwrap();
    });
    let told = |site: &Site, path: &str| succeed(&site.durability(&[path]));
    let unset = told(&first, "/books");
    assert!(
        unset.contains("/books: relaxed") && unset.contains("[replication]"),
        "{unset}"
    );
    refuse(
        &first.durability(&["/", "majority"]),
        &["two servers", "add a third replica or a witness"],
    );
    let third = Site::new();
    third.join(&first);
    let _third_server = third.place.start();
    until(&first, |replication| {
        let view = replication.view.as_ref();
        view.is_some_and(|view| view.members.len() == 3)
    });
    let set = succeed(&first.durability(&["/", "majority"]));
    assert!(set.contains("/: majority, set for this directory"), "{set}");
    for site in [&first, &second] {
        until_told(site, "/books", "majority, set for /\n");
    }
    let own = succeed(&second.durability(&["/books", "relaxed"]));
    assert!(
        own.contains("/books: relaxed, set for this directory"),
        "{own}"
    );
    until_told(&first, "/books", "/books: relaxed, set for this directory");
    succeed(&second.durability(&["/books", "inherit"]));
    until_told(&second, "/books", "majority, set for /\n");

    refuse(
        &first.durability(&["/nowhere"]),
        &["there is no /nowhere", "root of the tree"],
    );
    refuse(&first.durability(&["books"]), &["slash in front"]);
}

#[test]
fn a_server_without_a_set_says_that_there_is_nothing_to_choose() {
    let site = Site::new();
    assert_eq!(
        site.durability(&["/"]).status.code(),
        Some(4),
        "nobody serves"
    );
    let _server = site.place.start();
    refuse(&site.durability(&["/"]), &["no set", "meridian set create"]);
}

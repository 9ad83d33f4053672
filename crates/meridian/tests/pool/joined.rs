//! A second metadata server joins a pool, shows its clients what the first one keeps, and has that make their changes.

#[path = "busy.rs"]
mod busy;
#[path = "copies.rs"]
mod copies;
#[path = "held.rs"]
mod held;
#[path = "layouts.rs"]
mod layouts;
#[path = "striped_homes.rs"]
mod striped_homes;
#[path = "three.rs"]
mod three;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nemesis::world::clock::{Clock, Jumps};
use nfs4::{Attr, Attributes4, Bitmap4, NfsStat4, Stateid4};
use nfs4_client::Error;

use super::*;

const SIZE: Bitmap4 = Bitmap4::of(&[Attr::Size]);

/// A running pool of a metadata server and one that has joined, number 2.
fn two_metadata_servers() -> (Site, Running, Site, Running) {
    two_configured("")
}

/// The same with some lines of configuration at both.
fn two_configured(text: &str) -> (Site, Running, Site, Running) {
    let [first, second] = [(); 2].map(|()| Site::configured(text));
    let created = pool(&first, &["create", "--address", &address(&first)]);
    succeed(&created);
    let first_server = first.place.start();
    let token = succeed(&pool(&first, &["invite", "--metadata-server"]));
    let told = succeed(&join(&second, token.trim_end()));
    assert!(told.contains("This server is metadata server 2"), "{told}");
    let second_server = start(&second);
    (first, first_server, second, second_server)
}

/// Starts a server whose time of day jumps.
fn start_with_jumps(site: &Site) -> (Running, Jumps) {
    let folder = site.place.directory.path();
    let jumps = Jumps::in_folder(folder).unwrap();
    let environment = Clock::True.environment(folder, Some(&jumps)).unwrap();
    let mut serve = site.place.serve();
    let command = serve.args(["--listen", &address(site)]).envs(environment);
    (site.place.start_command(command), jumps)
}

/// For a client whose connection lives on between its calls.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

async fn listed(server: &Running) -> Vec<(String, u64)> {
    try_listed(server).await.unwrap()
}

async fn try_listed(server: &Running) -> Result<Vec<(String, u64)>, Error> {
    let (client, root) = client_of(server).await;
    let entries = client.readdir(&root, SIZE).await?.into_iter();
    let named = entries.map(|entry| {
        let name = String::from_utf8(entry.name.0.to_vec()).unwrap();
        (name, entry.attributes.size.unwrap())
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    client.leave().await.unwrap();
    Ok(named)
}

fn status_of<T>(answer: Result<T, Error>) -> Option<NfsStat4> {
    answer.err().map(|error| error.status().unwrap())
}

#[test]
fn a_second_metadata_server_shows_what_the_first_keeps_and_has_it_make_changes() {
    let (first, names, second, shown) = two_metadata_servers();
    let machine = joined(&first);
    let _data = start(&machine);
    until("new files lie there", || data_server(&first, 3).new_files);
    let members = succeed(&pool(&first, &["members"]));
    let line = format!("metadata server 2     {}", address(&second));
    assert!(members.contains(&line), "`{line}` is not in: {members}");
    assert!(shown.announcement.contains("metadata server 2 of pool"));
    assert!(data_server(&first, 2).serves && status(&second).servers[0].connected);
    assert!(first.place.status().alarms.is_empty());
    block_on(async {
        assert_eq!(listed(&shown).await, []);
        // Whatever one has done is seen at once at the other.
        for (writer, reader, file, stripe) in
            [(&names, &shown, "one", 1), (&shown, &names, "other", 20)]
        {
            write(writer, file, &striped_bytes(stripe)).await;
            assert_eq!(read(reader, file).await, striped_bytes(stripe));
        }
        let size = striped_bytes(1).len() as u64;
        let all = ["one", "other"].map(|name| (name.to_owned(), size));
        assert_eq!(listed(&shown).await, all);
        assert_eq!(listed(&names).await, all);
        let (client, root) = client_of(&shown).await;
        let file = client.open(&root, "one", &How::read()).await.unwrap();
        let below = client.create_directory(&root, "below", 0o755).await;
        let below = below.unwrap();
        let renamed = client.rename(&root, "other", &below, "moved").await;
        renamed.unwrap();
        client.link(&file.handle, &below, "link").await.unwrap();
        client.remove(&below, "link").await.unwrap();
        let cut = Attributes4 {
            size: Some(1),
            ..Attributes4::default()
        };
        let moved = client.lookup(&below, "moved").await.unwrap();
        let set = client.setattr(&moved, Stateid4::ANONYMOUS, &cut).await;
        set.unwrap();
        // What is open stays open.
        remove(&names, "one").await;
        let missing = client.lookup(&root, "one").await;
        assert_eq!(status_of(missing), Some(NfsStat4::NoEnt));
        let bytes = client.read_to_end(&file).await.unwrap();
        assert_eq!(bytes.to_vec(), striped_bytes(1));
        client.close(&file).await.unwrap();
        client.leave().await.unwrap();
        let (client, root) = client_of(&names).await;
        let moved = client.walk(&root, "below/moved").await.unwrap();
        assert_eq!(client.stat(&moved).await.unwrap().size, Some(1));
        client.leave().await.unwrap();
    });
    until("nothing of the removed file is left", || {
        data_server(&first, 3).holding.unwrap().contents == 1
    });
}

#[test]
fn changes_are_made_once_when_the_first_metadata_server_is_killed() {
    let (first, names, second, mut shown) = two_metadata_servers();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (client, root) = runtime.block_on(client_of(&shown));
    let (made, enough) = (AtomicU64::new(0), AtomicBool::new(false));
    let so_far = || made.load(Ordering::SeqCst);
    let names = std::thread::scope(|scope| {
        let mut names = names;
        let works = scope.spawn(|| {
            while !enough.load(Ordering::SeqCst) {
                let number = so_far();
                let name = format!("directory {number:03}");
                // Made twice, the second time it would exist.
                let directory = runtime.block_on(client.create_directory(&root, &*name, 0o755));
                directory.unwrap();
                made.fetch_add(1, Ordering::SeqCst);
            }
        });
        for _ in 0..4 {
            let goal = so_far() + 20;
            until("some are made", || so_far() >= goal || works.is_finished());
            names.kill();
            names = first.place.start();
        }
        enough.store(true, Ordering::SeqCst);
        works.join().unwrap();
        names
    });
    let all = block_on(try_listed(&shown)).unwrap_or_else(|error| {
        let logs = [&first, &second].map(|site| site.place.read_log());
        panic!("{error:?}: {}", logs.join("\n---\n"))
    });
    assert_eq!(all.len() as u64, so_far());
    shown.kill();
    shown = start(&second);
    assert_eq!(block_on(listed(&shown)).len() as u64, so_far());
    drop(names);
}

#[test]
fn either_metadata_server_may_be_killed() {
    let (first, names, second, shown) = two_metadata_servers();
    block_on(write(&names, "kept", b"kept"));
    block_on(write(&names, "open", b"open"));
    let runtime = runtime();
    let (client, root) = runtime.block_on(client_of(&shown));
    let opened = runtime.block_on(client.open(&root, "open", &How::read()));
    let file = opened.unwrap();
    names.kill();
    let names = std::thread::scope(|scope| {
        // Asks again until the first is back.
        let waits = scope.spawn(|| block_on(read(&shown, "kept")));
        until("the first is missed", || {
            !status(&second).servers[0].connected
        });
        let alarms = second.place.status().alarms;
        assert!(alarms.iter().any(|alarm| alarm.name == "pool-server-away"));
        let names = first.place.start();
        assert_eq!(waits.join().unwrap(), b"kept");
        names
    });
    until("what is open was handed over", || {
        let log = second.place.read_log();
        log.contains("knows what clients have open here") && log.contains("opens=1")
    });
    block_on(remove(&names, "open"));
    let bytes = runtime.block_on(client.read_to_end(&file));
    assert_eq!(bytes.unwrap().to_vec(), b"open");
    // Nobody has anything to reclaim.
    runtime.block_on(client.close(&file)).unwrap();
    runtime.block_on(client.leave()).unwrap();
    shown.kill();
    let shown = start(&second);
    until("it is there again", || data_server(&first, 2).serves);
    assert_eq!(block_on(read(&shown, "kept")), b"kept");
    assert_eq!(block_on(listed(&shown)).len(), 1);
}

#[test]
fn a_metadata_server_that_has_joined_is_told_what_it_cannot_do_and_leaves() {
    let (first, names, second, shown) = two_metadata_servers();
    let invited = pool(&second, &["invite", "--data-server"]);
    refuse(&invited, &["first metadata server", &address(&first)]);
    let removed = pool(&second, &["remove", "1"]);
    refuse(&removed, &["first metadata server"]);
    for command in ["drain-data", "readmit"] {
        refuse(
            &pool(&first, &[command, "2"]),
            &["server 2 is a metadata server"],
        );
    }
    refuse(
        &pool(&first, &["forget", "2", "--yes"]),
        &["metadata server 2 runs", "meridian pool remove 2"],
    );
    shown.stop();
    // Its store without the files of the pool, and the other way round.
    let (files, aside) = (
        second.place.data().join("pool"),
        second.place.directory.path().join("aside"),
    );
    fs::rename(&files, &aside).unwrap();
    refuse_to_serve(&second, &["metadata server 2 of a pool", "one backup"]);
    fs::rename(&aside, &files).unwrap();
    let store = second.place.data().join("trees/default");
    fs::rename(&store, &aside).unwrap();
    refuse_to_serve(&second, &["its store in", "Mount the disk"]);
    fs::rename(&aside, &store).unwrap();
    let shown = start(&second);
    until("it is there", || data_server(&first, 2).serves);
    succeed(&pool(&first, &["remove", "2"]));
    until("it is told", || {
        let first = &status(&second).servers[0];
        let trouble = first.trouble.as_deref().unwrap_or("");
        !first.connected && trouble.contains("was removed")
    });
    assert!(status(&first).servers.is_empty());
    shown.stop();
    drop(names);
}

#[test]
fn a_metadata_server_that_cannot_ask_which_tree_it_shows_does_not_start() {
    let (first, names) = founding();
    let second = Site::new();
    let token = succeed(&pool(&first, &["invite", "--metadata-server"]));
    let tokens = succeed(&pool(&first, &["token", "list"]));
    assert!(tokens.contains("server 2      metadata server"), "{tokens}");
    succeed(&join(&second, token.trim_end()));
    names.stop();
    refuse_to_serve(&second, &["for the first time", &address(&first)]);
    let _names = first.place.start();
    let shown = start(&second);
    assert_eq!(block_on(listed(&shown)), []);
}

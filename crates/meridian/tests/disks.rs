//! Disks that fail under one server of a set.

use std::fs;
use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

use crate::fixture::disk::{BLOCK, OwnDisk, until_there_is_ballast};
use crate::fixture::site::{HASTY, Site, block_on, succeed};
use crate::fixture::{Running, complaint, run};
use bytes::Bytes;
use nfs4_client::How;
use server::ViewStatus;
use testbed::{DiskFormat, Requirements};

/// How often something is looked for that has to appear.
const PAUSE: Duration = Duration::from_millis(50);

/// A content in which no block is like another.
fn content(seed: u64, length: usize) -> Bytes {
    let mut state = seed;
    let words = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 32) as u8
    });
    words.take(length).collect()
}

fn write(server: &Running, name: &str, bytes: &Bytes) {
    block_on(async {
        let client = server.client().await;
        let root = client.mount("/export").await.unwrap();
        let file = client.open(&root, name, &How::create(0o644)).await.unwrap();
        client.write_all(&file, 0, bytes).await.unwrap();
        client.commit(&file.handle, 0, 0).await.unwrap();
        client.close(&file).await.unwrap();
        client.leave().await.unwrap();
    });
}

fn read(server: &Running, name: &str) -> Bytes {
    block_on(async {
        let client = server.client().await;
        let root = client.mount("/export").await.unwrap();
        let file = client.open(&root, name, &How::read()).await.unwrap();
        let bytes = client.read_to_end(&file).await.unwrap();
        client.close(&file).await.unwrap();
        client.leave().await.unwrap();
        bytes
    })
}

/// Waits until a server knows such a view.
fn until(site: &Site, fact: impl Fn(&ViewStatus) -> bool) {
    while !fact(&site.view()) {
        sleep(PAUSE);
    }
}

/// Waits until these take part, this server among them.
fn until_in_view(site: &Site, slots: &[u16]) {
    until(site, |view| {
        let active = view.members.iter().filter(|member| member.active);
        let same = active.map(|member| member.slot).eq(slots.iter().copied());
        same && view.takes_part && view.up_to_date
    });
}

/// Waits until nobody lacks or controls anything, so that nothing is sent once more after a restart.
fn until_quiet(site: &Site) {
    let is_quiet = || {
        let status = site.place.status();
        let replication = status.exports[0].replication.as_ref().unwrap();
        let mut peers = replication.peers.iter();
        replication.controls_total == 0
            && peers.all(|peer| (peer.lag_updates, peer.lag_files) == (0, 0))
    };
    while !is_quiet() {
        sleep(PAUSE);
    }
}

/// A set of `count` servers; the last one's data is on this disk.
fn set_of(count: usize, disk: &OwnDisk) -> Vec<(Site, Running)> {
    let mut set: Vec<(Site, Running)> = Vec::new();
    for number in 1..=count {
        let site = Site::configured(HASTY);
        if number == count {
            disk.carry(&site.place);
        }
        match set.first() {
            None => {
                succeed(&site.set(&["create"]));
            }
            Some((first, _)) => site.join(first),
        }
        let server = site.place.start();
        set.push((site, server));
    }
    let slots: Vec<u16> = (1..).take(count).collect();
    for (site, _) in &set {
        until_in_view(site, &slots);
    }
    set
}

/// The record of a new client did not fit on the disk, so it waited, with whatever it wanted to read.
#[test]
fn a_new_client_reads_and_removes_on_a_disk_that_somebody_else_has_filled() {
    let wanted = Requirements::disks();
    if !wanted.admit("new clients on a disk that is full").unwrap() {
        return;
    }
    let (own, place) = OwnDisk::with_place(DiskFormat::Ext4);
    let server = place.start();
    let written = content(1, 1 << 20);
    write(&server, "there before", &written);
    until_there_is_ballast(&place);
    own.fill();
    // Each of them is a client that was never seen before.
    for _ in 0..3 {
        assert_eq!(read(&server, "there before"), written);
    }
    block_on(async {
        let client = server.client().await;
        let root = client.mount("/export").await.unwrap();
        client.remove(&root, "there before").await.unwrap();
    });
    server.stop();
}

/// `meridian status` said that no server runs.
#[test]
fn a_server_that_waits_for_space_says_so_and_goes_on() {
    let wanted = Requirements::disks();
    if !wanted.admit("a disk that is full").unwrap() {
        return;
    }
    let (own, place) = OwnDisk::with_place(DiskFormat::Ext4);
    place.start().stop();
    let balloon = own.fill();
    let mut log = fs::File::create(place.directory.path().join("log")).unwrap();
    let mut server = place.serve();
    server
        .stdout(log.try_clone().unwrap())
        .stderr(log.try_clone().unwrap());
    let mut server = server.spawn().unwrap();
    let data = place.data();
    let ask = || run(&["status", "--data", data.to_str().unwrap()]);
    loop {
        let asked = ask();
        let message = complaint(&asked);
        if message.contains("runs and serves nobody, because its disk is full") {
            assert_eq!(asked.status.code(), Some(1));
            break;
        }
        assert!(!asked.status.success(), "it found space");
        assert!(server.try_wait().unwrap().is_none(), "{}", place.read_log());
        sleep(PAUSE);
    }
    fs::remove_file(balloon).unwrap();
    while !ask().status.success() {
        sleep(PAUSE);
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&server),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert!(server.wait().unwrap().success());
    log.flush().unwrap();
}

#[test]
fn a_server_whose_disk_refuses_to_store_leaves_and_is_back_when_that_is_mended() {
    let wanted = Requirements::disks();
    if !wanted.admit("a disk that refuses to store").unwrap() {
        return;
    }
    let own = OwnDisk::new(DiskFormat::Ext4);
    let mut set = set_of(3, &own);
    let (third, third_server) = set.pop().unwrap();
    let (first, first_server) = &set[0];
    let (before, after) = (content(1, 1 << 20), content(2, 8 << 20));
    write(first_server, "before", &before);
    assert_eq!(read(&third_server, "before"), before);

    own.disk.refuse_writes().unwrap();
    // Clients of the other servers wait for a moment at most.
    write(first_server, "after", &after);
    assert_eq!(third_server.wait().code(), Some(1), "it ends by itself");
    let log = third.place.read_log();
    for part in ["stable storage failed", "dmesg"] {
        assert!(log.contains(part), "`{part}` is not in:\n{log}");
    }
    // The kernel hands on either what the medium said or that it failed, as data or the file system's journal comes first.
    let said = ["Input/output error", "No space left on device"];
    assert!(said.iter().any(|said| log.contains(said)), "{log}");
    until_in_view(first, &[1, 2]);
    let why = first.view().members[2].reason.clone();
    assert!(why.is_some_and(|why| why.contains("cannot store")));
    let alarms = first.place.status().alarms;
    let is_missed = alarms.iter().any(|alarm| alarm.name == "member-away");
    assert!(is_missed, "{alarms:?}");
    write(first_server, "meanwhile", &before);

    own.disk.mend().unwrap();
    let third_server = third.place.start();
    until_in_view(&third, &[1, 2, 3]);
    for (name, written) in [
        ("before", &before),
        ("after", &after),
        ("meanwhile", &before),
    ] {
        assert_eq!(read(&third_server, name), *written, "{name}");
    }
    write(&third_server, "later", &before);
    assert_eq!(read(first_server, "later"), before);
    third_server.stop();
    let checked = third.meridian(&["check"]);
    assert!(succeed(&checked).contains("All is well."), "{checked:?}");
}

#[test]
fn what_the_disk_cannot_read_comes_from_another_server_and_is_got_back() {
    let wanted = Requirements::disks();
    if !wanted.admit("a disk that cannot read a file").unwrap() {
        return;
    }
    let own = OwnDisk::new(DiskFormat::Btrfs);
    let mut set = set_of(2, &own);
    let (second, server) = set.pop().unwrap();
    let (first, first_server) = &set[0];
    let written = content(3, 1 << 20);
    write(first_server, "measurements", &written);
    assert_eq!(read(&server, "measurements"), written);
    // It notes what it has, and finds nothing wrong.
    let told = succeed(&second.meridian(&["scrub"]));
    assert!(told.contains("found 0"), "{told}");
    until_quiet(first);
    until_quiet(&second);

    server.stop();
    own.disk.unmount().unwrap();
    let middle = written.len() / 2;
    let spoilt = own.disk.spoil(&written[middle..middle + BLOCK]).unwrap();
    assert!(spoilt > 0, "the content lies on the disk as it is");
    own.disk.mount().unwrap();

    let server = second.place.start();
    until_in_view(&second, &[1, 2]);
    assert_eq!(read(&server, "measurements"), written);
    loop {
        let scrub: serde_json::Value =
            serde_json::from_str(&succeed(&second.meridian(&["scrub", "--show", "--json"])))
                .unwrap();
        if scrub["mended"] == 1 && scrub["damaged"] == 0 {
            break;
        }
        sleep(PAUSE);
    }
    let told = succeed(&second.meridian(&["scrub"]));
    for part in [
        "found 1, mended 1",
        "/measurements",
        "the disk cannot read it",
    ] {
        assert!(told.contains(part), "`{part}` is not in:\n{told}");
    }
    assert_eq!(read(&server, "measurements"), written);
}

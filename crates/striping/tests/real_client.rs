//! The real Linux client reads and writes striped files at the data servers: a User Mode Linux guest, and bytes counted at each server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;
#[path = "../../data-server/tests/fixture/tcp.rs"]
mod tcp;

use std::collections::BTreeMap;
use std::sync::Mutex;

use fixture::nfs::{BYTES_READ, BYTES_WRITTEN, HOST, options};
use fixture::{Site, UNIT};
use nfs4_server::{AccessMode, AccessRule, Export, Namespace, Service, Squash};
use testbed::{Guest, Mount, Requirements};
use tokio::net::TcpListener;

const METADATA: &str = "a metadata server";
/// Forty-seven stripe units and a rest.
const BYTES: u64 = 47 * UNIT + 1234;

/// The number of bytes that went through the metadata server and through each data server since the last call.
fn taken(counts: &Mutex<BTreeMap<String, u64>>) -> (u64, Vec<u64>) {
    let mut counts = std::mem::take(&mut *counts.lock().unwrap());
    let through_metadata = counts.remove(METADATA).unwrap_or(0);
    (through_metadata, counts.into_values().collect())
}

fn run(guest: &Guest, script: &str) -> String {
    tokio::task::block_in_place(|| guest.run(script).unwrap().success().unwrap().text())
}

#[test]
fn linux_reads_and_writes_at_the_data_servers_and_goes_on_when_a_file_is_cut() {
    if !Requirements::guest().admit("layouts with Linux").unwrap() {
        return;
    }
    let site = testbed::Site::new().unwrap();
    HOST.set(site.address()).unwrap();
    // Files that the runtime's threads open belong to the site, too.
    let story = || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(story(&site));
    };
    site.enter(story).unwrap();
}

async fn story(place: &testbed::Site) {
    let pool = Site::new().await;
    let seen = pool.striped.file_system(pool.store.clone());
    let export = Export::new("/export".parse().unwrap(), seen, vec![rule()]);
    let export = export.with_layouts(pool.striped.clone());
    let service = Service::new(
        Namespace::new(vec![export]).unwrap(),
        options(METADATA.into()),
    );
    service.housekeep().await;
    let listener = TcpListener::bind(place.nfs_address()).await.unwrap();
    let serving = tokio::spawn(tcp::accept(listener, service, tcp::Connections::default()));
    let guest = tokio::task::block_in_place(|| {
        let guest = Guest::boot(place, "alpha").unwrap();
        let mount = Mount::of(place.nfs_address(), "/export");
        guest.mount(&mount, "/run/m").unwrap();
        guest
    });
    let write = format!(
        "head -c {BYTES} /dev/urandom > /run/bytes && cp /run/bytes /run/m/file && sync && echo 3 > /proc/sys/vm/drop_caches"
    );
    run(&guest, &write);
    let (through_metadata, at_data_servers) = taken(&BYTES_WRITTEN);
    println!("written at {METADATA}: {through_metadata}, at data servers: {at_data_servers:?}");
    assert_eq!(at_data_servers.len(), 3);
    assert!(at_data_servers.iter().sum::<u64>() >= BYTES);
    assert_eq!(through_metadata, 0);
    taken(&BYTES_READ);
    run(&guest, "cmp /run/bytes /run/m/file");
    let (through_metadata, at_data_servers) = taken(&BYTES_READ);
    println!("read at {METADATA}: {through_metadata}, at data servers: {at_data_servers:?}");
    let statistics = run(&guest, "grep -E 'pnfs=|events:' /proc/self/mountstats");
    println!("{statistics}");
    assert!(
        statistics.contains("pnfs=LAYOUT_NFSV4_1_FILES"),
        "{statistics}"
    );
    assert_eq!(at_data_servers.len(), 3);
    assert!(at_data_servers.iter().sum::<u64>() >= BYTES);
    // Only the metadata server knows where the file ends: the last page is read there once more (rule 6).
    assert!(through_metadata < 4096);

    // The client itself cuts a file for which it has a layout, and reads the rest.
    let cut = "truncate -s 100000 /run/m/file && truncate -s 100000 /run/bytes && echo 3 > /proc/sys/vm/drop_caches && cmp /run/bytes /run/m/file";
    run(&guest, cut);
    let grown = "truncate -s 300000 /run/m/file && truncate -s 300000 /run/bytes && echo end >> /run/m/file && echo end >> /run/bytes && sync && echo 3 > /proc/sys/vm/drop_caches && cmp /run/bytes /run/m/file && rm /run/m/file";
    run(&guest, grown);
    println!("{:?}", taken(&BYTES_READ));
    writes_in_other_ways(&guest);
    tokio::task::block_in_place(|| {
        guest.unmount("/run/m").unwrap();
        guest.power_off().unwrap();
    });
    serving.abort();
}

/// Holes, writes that bypass the client's cache, and appends of several processes under a lock.
fn writes_in_other_ways(guest: &Guest) {
    taken(&BYTES_WRITTEN);
    run(
        guest,
        "set -e
        for file in /run/holes /run/m/holes; do
            for place in 5000000 70000 900000; do
                printf late | dd of=$file bs=4 seek=$place oflag=seek_bytes conv=notrunc status=none
            done
        done
        sync; echo 3 > /proc/sys/vm/drop_caches; cmp /run/holes /run/m/holes",
    );
    run(
        guest,
        "set -e
        dd if=/run/bytes of=/run/m/direct bs=256k oflag=direct status=none
        echo 3 > /proc/sys/vm/drop_caches; cmp /run/bytes /run/m/direct",
    );
    run(
        guest,
        "set -e
        for process in 1 2 3 4; do
            for line in 1 2 3 4 5; do
                (flock 9; echo $process $line >&9) 9>>/run/m/lines
            done &
        done
        wait
        echo 3 > /proc/sys/vm/drop_caches
        test $(sort -u /run/m/lines | wc -l) = 20; test $(wc -l < /run/m/lines) = 20",
    );
    println!("written: {:?}", taken(&BYTES_WRITTEN));
}

/// All clients may read and write.
fn rule() -> AccessRule {
    AccessRule {
        clients: "*".parse().unwrap(),
        mode: AccessMode::ReadWrite,
        squash: Squash::None,
        anonymous_user: 65534,
        anonymous_group: 65534,
        secure: false,
    }
}

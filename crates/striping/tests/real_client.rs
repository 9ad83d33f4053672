//! The real Linux client reads striped files at the data servers: a User Mode Linux guest, and bytes counted at each server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;
#[path = "../../data-server/tests/fixture/tcp.rs"]
mod tcp;

use fixture::nfs::{BYTES_READ, HOST, options};
use fixture::{Site, UNIT};
use nfs4_server::{AccessMode, AccessRule, Export, Namespace, Service, Squash};
use testbed::{Guest, Mount, Requirements};
use tokio::net::TcpListener;

const METADATA: &str = "a metadata server";
/// Forty-seven stripe units and a bit.
const BYTES: u64 = 47 * UNIT + 1234;

/// How many bytes each service has read since the last time.
fn bytes_read() -> (u64, Vec<u64>) {
    let mut counts = std::mem::take(&mut *BYTES_READ.lock().unwrap());
    let through_metadata = counts.remove(METADATA).unwrap_or(0);
    (through_metadata, counts.into_values().collect())
}

fn run(guest: &Guest, script: &str) -> String {
    tokio::task::block_in_place(|| guest.run(script).unwrap().success().unwrap().text())
}

#[test]
fn linux_reads_at_the_data_servers_and_goes_on_when_a_file_is_cut() {
    if !Requirements::guest().admit("layouts with Linux").unwrap() {
        return;
    }
    let site = testbed::Site::new().unwrap();
    HOST.set(site.address()).unwrap();
    // What the runtime's threads open belongs to the site, too.
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
    let export = Export::new("/export".parse().unwrap(), pool.store.clone(), vec![rule()]);
    let export = export.with_layouts(pool.striped.clone());
    let service = Service::new(
        Namespace::new(vec![export]).unwrap(),
        options(METADATA.into()),
    );
    service.housekeep().await;
    let listener = TcpListener::bind(place.nfs_address()).await.unwrap();
    let serving = tokio::spawn(tcp::accept(listener, service));
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
    bytes_read();
    run(&guest, "cmp /run/bytes /run/m/file");
    let (through_metadata, at_data_servers) = bytes_read();
    println!("read at {METADATA}: {through_metadata}, at data servers: {at_data_servers:?}");
    let statistics = run(&guest, "grep -E 'pnfs=|events:' /proc/self/mountstats");
    println!("{statistics}");
    assert!(
        statistics.contains("pnfs=LAYOUT_NFSV4_1_FILES"),
        "{statistics}"
    );
    assert_eq!(at_data_servers.len(), 3);
    assert!(at_data_servers.iter().sum::<u64>() >= BYTES);
    // Where the file ends only the metadata server can say: the last page is read there once more (rule 6).
    assert!(through_metadata < 4096);

    // The client itself cuts a file of which it has a layout, and reads what is left.
    let cut = "truncate -s 100000 /run/m/file && truncate -s 100000 /run/bytes && echo 3 > /proc/sys/vm/drop_caches && cmp /run/bytes /run/m/file";
    run(&guest, cut);
    let grown = "truncate -s 300000 /run/m/file && truncate -s 300000 /run/bytes && echo end >> /run/m/file && echo end >> /run/bytes && sync && echo 3 > /proc/sys/vm/drop_caches && cmp /run/bytes /run/m/file && rm /run/m/file";
    run(&guest, grown);
    println!("{:?}", bytes_read());
    tokio::task::block_in_place(|| {
        guest.unmount("/run/m").unwrap();
        guest.power_off().unwrap();
    });
    serving.abort();
}

/// Everybody may read and write.
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

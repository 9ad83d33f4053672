//! Clients with layouts read striped files at the data servers. The rows are in a store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;
#[path = "../../data-server/tests/fixture/tcp.rs"]
mod tcp;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fixture::nfs::options;
use fixture::{Site, UNIT};
use nfs4::callback::{CbLayoutrecallArgs, CbNotifyDeviceidArgs};
use nfs4::{
    ArgOp4, Attributes4, FileLayout4, GetdeviceinfoArgs, LayoutIomode4, NfsFh4, NfsStat4, ResOp4,
    Stateid4, layout_type,
};
use nfs4_client::{
    Callbacks, Client, DataServers, How, OpenFile, Options, StableHow4, Striped, ops,
};
use nfs4_server::{AccessMode, AccessRule, Export, Namespace, Service, Squash};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Counts recalls and removed devices, and keeps its layouts.
#[derive(Debug, Default)]
struct Keeps(AtomicUsize, AtomicUsize);

impl Callbacks for Keeps {
    fn recall_layout(&self, _: &CbLayoutrecallArgs) -> NfsStat4 {
        self.0.fetch_add(1, Ordering::Relaxed);
        NfsStat4::Delay
    }

    fn notify_device(&self, _: &CbNotifyDeviceidArgs) -> NfsStat4 {
        self.1.fetch_add(1, Ordering::Relaxed);
        NfsStat4::Ok
    }
}

/// A metadata server over a site.
struct Metadata {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Drop for Metadata {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Metadata {
    async fn over(site: &Site) -> Metadata {
        let seen = site.striped.file_system(site.store.clone());
        let export = Export::new("/export".parse().unwrap(), seen, vec![rule()]);
        let export = export.with_layouts(site.striped.clone());
        let namespace = Namespace::new(vec![export]).unwrap();
        let service = Service::new(namespace, options("a metadata server".into()));
        // No client has anything to reclaim.
        service.housekeep().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(tcp::accept(listener, service, tcp::Connections::default()));
        Metadata { address, serving }
    }

    /// A client with a file of this many stripe units.
    async fn with_file(&self, units: u64) -> (Client, OpenFile, Bytes) {
        let client = Client::connect(Options::at(self.address)).await.unwrap();
        let root = client.mount("/export").await.unwrap();
        let file = client.open(&root, "file", &How::create(0o644)).await;
        let file = file.unwrap();
        let bytes: Vec<u8> = (0..units * UNIT).map(|at| (at % 251) as u8).collect();
        let bytes = Bytes::from(bytes);
        client.write_all(&file, 0, &bytes).await.unwrap();
        (client, file, bytes)
    }
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

async fn asked(
    client: &Client,
    file: &OpenFile,
    iomode: LayoutIomode4,
) -> Result<(Stateid4, FileLayout4), NfsStat4> {
    let layout = client.layout(&file.handle, file.stateid, iomode).await;
    let layout = layout.map_err(|error| error.status().unwrap());
    layout.map(|(got, body)| (got.stateid, body))
}

/// Asks for a layout until the data servers serve.
async fn layout(client: &Client, file: &OpenFile) -> FileLayout4 {
    loop {
        match asked(client, file, LayoutIomode4::Read).await {
            Ok((_, body)) => return body,
            Err(NfsStat4::BadLayout | NfsStat4::RecallConflict) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// The data servers of a layout, in the order of stripes.
async fn servers(client: &Client, layout: &FileLayout4) -> Vec<Client> {
    let device = client.device(layout.deviceid).await.unwrap();
    let mut servers = Vec::new();
    for addresses in &device.multipath_ds_list {
        let address = addresses.0[0].socket().unwrap();
        servers.push(Client::connect(Options::at(address)).await.unwrap());
    }
    servers
}

async fn read(server: &Client, handle: &NfsFh4, offset: u64) -> Result<Bytes, NfsStat4> {
    let read = ops::read(Stateid4::ANONYMOUS, offset, UNIT as u32);
    let mut reply = server
        .compound(vec![ops::putfh(handle), read])
        .await
        .unwrap();
    match reply.results.pop() {
        Some(ResOp4::Read(Ok(read))) => Ok(read.data),
        _ => Err(reply.status),
    }
}

async fn is_fenced(servers: &[Client], layout: &FileLayout4) -> bool {
    for (server, handle) in servers.iter().zip(&layout.fh_list) {
        if read(server, handle, 0).await != Err(NfsStat4::Stale) {
            return false;
        }
    }
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_stripe_is_read_where_its_layout_says() {
    let site = Site::new().await;
    let metadata = Metadata::over(&site).await;
    let (client, file, bytes) = metadata.with_file(7).await;
    let layout = layout(&client, &file).await;
    assert_eq!(u64::from(layout.util), UNIT);
    let servers = servers(&client, &layout).await;
    assert_eq!((servers.len(), layout.fh_list.len()), (3, 3));
    for unit in 0..7 {
        let place = (unit + u64::from(layout.first_stripe_index)) as usize % 3;
        let offset = unit * UNIT;
        let read = read(&servers[place], &layout.fh_list[place], offset).await;
        let expected = &bytes[offset as usize..(offset + UNIT) as usize];
        assert!(read.unwrap()[..] == *expected, "unit {unit}");
    }
    // A client's write through the metadata server is visible at the data servers at once.
    let written = Bytes::from_static(b"new");
    client.write_all(&file, 0, &written).await.unwrap();
    let place = layout.first_stripe_index as usize;
    let first = read(&servers[place], &layout.fh_list[place], 0)
        .await
        .unwrap();
    assert_eq!(&first[..3], b"new");
    client.close(&file).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_keeps_its_layout_reads_nothing_once_the_file_is_cut() {
    let site = Site::new().await;
    let metadata = Metadata::over(&site).await;
    let (writer, file, bytes) = metadata.with_file(4).await;
    let keeps = Arc::new(Keeps::default());
    let reader = Client::connect(Options {
        callbacks: keeps.clone(),
        ..Options::at(metadata.address)
    });
    let reader = reader.await.unwrap();
    let opened = reader
        .open_handle(&file.handle, &How::read())
        .await
        .unwrap();
    let old = layout(&reader, &opened).await;
    let servers = servers(&reader, &old).await;
    let shorter = Attributes4 {
        size: Some(5),
        ..Attributes4::default()
    };
    let cut = writer.setattr(&file.handle, file.stateid, &shorter).await;
    cut.unwrap();
    assert!(keeps.0.load(Ordering::Relaxed) > 0);
    assert!(is_fenced(&servers, &old).await);
    let new = layout(&reader, &opened).await;
    let place = new.first_stripe_index as usize;
    let rest = read(&servers[place], &new.fh_list[place], 0).await.unwrap();
    assert_eq!(rest[..], bytes[..5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_data_server_is_away_there_are_no_layouts_and_then_another_device() {
    let mut site = Site::new().await;
    let metadata = Metadata::over(&site).await;
    let (client, file, _) = metadata.with_file(1).await;
    let before = layout(&client, &file).await;
    let keeps = Arc::new(Keeps::default());
    let watcher = Client::connect(Options {
        callbacks: keeps.clone(),
        ..Options::at(metadata.address)
    });
    let watcher = watcher.await.unwrap();
    let watch = ArgOp4::Getdeviceinfo(GetdeviceinfoArgs {
        device_id: before.deviceid,
        layout_type: layout_type::NFSV4_1_FILES,
        maxcount: 4096,
        notify_types: [2].into_iter().collect(),
    });
    let watching = watcher.compound(vec![watch]).await.unwrap();
    assert!(watching.status.is_ok(), "{watching:?}");
    site.stop(2).await;
    while asked(&client, &file, LayoutIomode4::Read).await.map(|_| ()) != Err(NfsStat4::BadLayout) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    site.start(2).await;
    while keeps.1.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let after = layout(&client, &file).await;
    assert_ne!(before.deviceid, after.deviceid, "its port has changed");
    let device = client.device(after.deviceid).await.unwrap();
    assert_eq!(device.multipath_ds_list.len(), 3);
}

/// Asks for a layout until it is given. Returns it with its data servers.
async fn striped(
    client: &Client,
    file: &OpenFile,
    iomode: LayoutIomode4,
    servers: &DataServers,
) -> Striped {
    loop {
        match Striped::open(client, file, iomode, servers).await {
            Ok(striped) => return striped,
            Err(error) => match error.status() {
                Some(NfsStat4::BadLayout | NfsStat4::RecallConflict) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                _ => panic!("{error}"),
            },
        }
    }
}

/// Reads everything from an offset on, one request after the other.
async fn rest(striped: &Striped, mut offset: u64) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let part = striped.read(offset, u32::MAX).await;
        match part.map_err(|error| error.status()) {
            Ok(part) if !part.data.is_empty() => {
                offset += part.data.len() as u64;
                all.extend_from_slice(&part.data);
            }
            // Beyond the bytes of a data server, only the metadata server knows whether the file ends.
            Ok(_) | Err(Some(NfsStat4::PnfsIoHole)) => return all,
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_reads_and_writes_at_the_data_servers_what_others_find_through_the_home() {
    let site = Site::new().await;
    let metadata = Metadata::over(&site).await;
    let (client, file, bytes) = metadata.with_file(7).await;
    let servers = DataServers::reached(Options::at);
    let reading = striped(&client, &file, LayoutIomode4::Read, &servers).await;
    assert_eq!((reading.unit(), reading.width()), (UNIT, 3));
    // A read from within a stripe ends where the stripe ends.
    let first = reading.read(100, u32::MAX).await.unwrap();
    assert_eq!(first.data.len() as u64, UNIT - 100);
    assert!(rest(&reading, 100).await == bytes[100..]);

    let writing = striped(&client, &file, LayoutIomode4::ReadWrite, &servers).await;
    let new: Vec<u8> = (0..4 * UNIT).map(|at| (at % 241) as u8).collect();
    let from = 5 * UNIT - 9;
    let mut done = 0;
    while done < new.len() {
        let (at, part) = (from + done as u64, Bytes::copy_from_slice(&new[done..]));
        let write = writing.write(at, part, StableHow4::Unstable);
        done += write.await.unwrap().count as usize;
    }
    let committed = writing.commit().await.unwrap();
    assert_eq!(committed.len(), 3, "five stripes lie on three servers");
    assert_eq!(writing.commit().await.unwrap(), [], "nothing is left to do");
    let last = from + new.len() as u64 - 1;
    let commit = client.commit_layout(&file.handle, writing.stateid, last);
    commit.await.unwrap();
    client
        .return_layout(&file.handle, writing.stateid)
        .await
        .unwrap();
    let all = client.read_to_end(&file).await.unwrap();
    assert!(all[..from as usize] == bytes[..from as usize] && all[from as usize..] == new[..]);
    servers.leave().await.unwrap();
}

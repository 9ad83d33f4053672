//! Clients write striped files directly at the data servers, and the home's answers about these files stay true.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fixture::{Site, UNIT};
use nfs4::{ArgOp4, NfsFh4, NfsStat4, StableHow4, Stateid4};
use nfs4_client::{Client, Options, ops};
use nfs4_server::{FileLayout, LayoutAccess, LayoutHolder, Layouts, NoLayout};
use vfs::{
    AccessCheck, Attributes, Credentials, Error, FileSystem, ObjectId, Result, SetAttributes,
    Stability,
};

const WRITER: LayoutHolder = LayoutHolder(1);

/// The tree as clients of the site see it.
fn seen(site: &Site) -> Arc<dyn FileSystem> {
    site.striped.file_system(site.store.clone())
}

/// Asks for a layout until the data servers serve.
async fn layout(site: &Site, file: ObjectId, holder: LayoutHolder) -> FileLayout {
    loop {
        let given = site.striped.layout(file, holder, LayoutAccess::ReadWrite);
        match given.await {
            Ok(layout) => return layout,
            Err(NoLayout::ThroughServer | NoLayout::Recalled) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Writes within one stripe unit, by a layout.
async fn put(
    site: &Site,
    layout: &FileLayout,
    offset: u64,
    bytes: &[u8],
) -> std::result::Result<(), NfsStat4> {
    let bytes = Bytes::copy_from_slice(bytes);
    let write = ops::write(Stateid4::ANONYMOUS, offset, StableHow4::FileSync, bytes);
    send(site, layout, offset, write).await
}

/// Sends a request by a layout to the data server of a stripe unit.
async fn send(
    site: &Site,
    layout: &FileLayout,
    offset: u64,
    what: ArgOp4,
) -> std::result::Result<(), NfsStat4> {
    let place = (offset / UNIT + u64::from(layout.first_index)) as usize % layout.handles.len();
    let device = site.striped.device(layout.device).await.unwrap();
    let server = Client::connect(Options::at(device[place][0]))
        .await
        .unwrap();
    let handle = NfsFh4(layout.handles[place].clone());
    let reply = server.compound(vec![ops::putfh(&handle), what]).await;
    match reply.unwrap().status {
        NfsStat4::Ok => Ok(()),
        status => Err(status),
    }
}

async fn attributes(site: &Site, file: ObjectId) -> Attributes {
    let seen = seen(site);
    let found = site.in_time(async || seen.attributes(file).await).await;
    found.unwrap()
}

async fn size(site: &Site, file: ObjectId) -> u64 {
    attributes(site, file).await.size
}

async fn read(site: &Site, file: ObjectId, offset: u64, count: u32) -> Bytes {
    let (seen, who) = (seen(site), Credentials::root());
    let read = async || {
        seen.read(AccessCheck::Open(&who), file, offset, count)
            .await
    };
    site.in_time(read).await.unwrap().bytes
}

async fn set(site: &Site, file: ObjectId, set: SetAttributes) -> Result<Attributes> {
    let (seen, who) = (seen(site), Credentials::root());
    let access = AccessCheck::Open(&who);
    site.in_time(async || seen.set_attributes(access, file, &set).await)
        .await
}

fn of_size(size: u64) -> SetAttributes {
    SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asks_while_another_writes_hears_of_every_byte() {
    let site = Site::new().await;
    let file = site.make("file").await;
    let with_set_id = SetAttributes {
        mode: Some(0o4755),
        ..SetAttributes::default()
    };
    set(&site, file, with_set_id).await.unwrap();
    let before = attributes(&site, file).await;
    let given = layout(&site, file, WRITER).await;
    put(&site, &given, 0, b"first").await.unwrap();
    put(&site, &given, 4 * UNIT, b"last").await.unwrap();
    let during = attributes(&site, file).await;
    assert_eq!((during.size, during.mode), (4 * UNIT + 4, 0o755));
    assert!(during.change > before.change && during.modified >= before.modified);
    assert_eq!(read(&site, file, 4 * UNIT - 1, 100).await[..], *b"\0last");
    put(&site, &given, 7 * UNIT, b"more").await.unwrap();
    let said = site.striped.commit(file, WRITER, Some(1)).await;
    assert_eq!(said, Ok(7 * UNIT + 4), "the data servers know better");
    put(&site, &given, 0, b"FIRST").await.unwrap();
    site.striped.returned(file, WRITER).await.unwrap();
    let after = attributes(&site, file).await;
    assert!(after.change > during.change);
    assert_eq!(after.size, 7 * UNIT + 4);
    assert_eq!(read(&site, file, 0, 6).await[..], *b"FIRST\0");
    // A delayed write comes too late, and changes nothing.
    let late = put(&site, &given, 0, b"later").await;
    assert_eq!(late, Err(NfsStat4::Stale));
    assert_eq!(attributes(&site, file).await.change, after.change);
    let late = site.striped.commit(file, WRITER, Some(8 * UNIT)).await;
    assert_eq!(late, Err(NoLayout::ThroughServer));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layout_that_nothing_is_written_by_leaves_times_and_version() {
    let site = Site::new().await;
    let file = site.make("file").await;
    site.in_time(async || site.write(file, 0, b"as it was").await)
        .await
        .unwrap();
    let before = attributes(&site, file).await;
    layout(&site, file, WRITER).await;
    let during = attributes(&site, file).await;
    site.striped.returned(file, WRITER).await.unwrap();
    let after = attributes(&site, file).await;
    let told = |found: &Attributes| (found.change, found.modified, found.size);
    assert_eq!(told(&during), told(&before));
    assert_eq!(told(&after), told(&before));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_that_are_set_behind_a_write_stay() {
    let site = Site::new().await;
    let file = site.make("file").await;
    let given = layout(&site, file, WRITER).await;
    put(&site, &given, 0, b"copied").await.unwrap();
    let at = vfs::Timestamp {
        seconds: 1_000_000_000,
        nanoseconds: 7,
    };
    let times = SetAttributes {
        modified: Some(vfs::SetTime::To(at)),
        ..SetAttributes::default()
    };
    set(&site, file, times).await.unwrap();
    site.striped.returned(file, WRITER).await.unwrap();
    let after = attributes(&site, file).await;
    assert_eq!((after.modified, after.size), (at, 6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_that_dies_while_others_write_loses_no_byte() {
    let site = Site::new().await;
    let file = site.make("file").await;
    // The store has a mark of it, too, and would cut it to the size in its row.
    site.in_time(async || site.write(file, 0, b"through the home").await)
        .await
        .unwrap();
    let given = layout(&site, file, WRITER).await;
    put(&site, &given, 2 * UNIT, b"past it").await.unwrap();
    let site = site.restart_home().await;
    let (who, longer) = (Credentials::root(), of_size(5 * UNIT));
    let cut = site
        .store
        .set_attributes(AccessCheck::Open(&who), file, &longer);
    assert_eq!(
        cut.await.map(|_| ()),
        Err(Error::Delay),
        "the row says too little"
    );
    assert_eq!(size(&site, file).await, 2 * UNIT + 7);
    assert_eq!(read(&site, file, 2 * UNIT, 7).await[..], *b"past it");
    assert_eq!(read(&site, file, 0, 16).await[..], *b"through the home");
    let late = put(&site, &given, 0, b"later").await;
    assert_eq!(late, Err(NfsStat4::Stale));
    set(&site, file, of_size(5 * UNIT)).await.unwrap();
    assert_eq!(read(&site, file, 2 * UNIT, 8).await[..], *b"past it\0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_ends_what_others_write() {
    let site = Site::new().await;
    let file = site.make("file").await;
    let given = layout(&site, file, WRITER).await;
    put(&site, &given, 0, b"0123456789abcdef").await.unwrap();
    put(&site, &given, 5 * UNIT, b"goes").await.unwrap();
    let cut = set(&site, file, of_size(10)).await.unwrap();
    assert_eq!(cut.size, 10);
    let late = put(&site, &given, 5 * UNIT, b"late").await;
    assert_eq!(late, Err(NfsStat4::Stale));
    assert_eq!(read(&site, file, 0, 100).await[..], *b"0123456789");
    // The same holder starts again.
    let given = layout(&site, file, WRITER).await;
    put(&site, &given, 5 * UNIT, b"new").await.unwrap();
    site.striped.returned(file, WRITER).await.unwrap();
    assert_eq!(size(&site, file).await, 5 * UNIT + 3);
    assert_eq!(read(&site, file, 10, 6).await[..], [0; 6]);
    // An enlarged file stays enlarged, although no data server has bytes there.
    set(&site, file, of_size(9 * UNIT)).await.unwrap();
    layout(&site, file, WRITER).await;
    site.striped.lost(file, WRITER).await.unwrap();
    assert_eq!(size(&site, file).await, 9 * UNIT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_through_the_home_meets_no_write_past_it() {
    let site = Site::new().await;
    let file = site.make("file").await;
    let given = layout(&site, file, WRITER).await;
    put(&site, &given, 0, b"past the home").await.unwrap();
    let (seen, who) = (seen(&site), Credentials::root());
    let write = async || {
        let access = AccessCheck::Open(&who);
        let bytes = Bytes::from_static(b"through");
        seen.write(access, file, 0, bytes, Stability::File).await
    };
    site.in_time(write).await.unwrap();
    let late = put(&site, &given, 0, b"late").await;
    assert_eq!(late, Err(NfsStat4::Stale));
    assert_eq!(read(&site, file, 0, 100).await[..], *b"throughe home");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_data_server_is_away_nobody_hears_less_than_there_is() {
    let mut site = Site::with_patience(Duration::from_secs(3)).await;
    let (file, other) = (site.make("file").await, site.make("other").await);
    let given = layout(&site, file, WRITER).await;
    for unit in 0..3 {
        put(&site, &given, unit * UNIT, b"written").await.unwrap();
    }
    site.stop(2).await;
    let seen = seen(&site);
    let asked = seen.attributes(file).await;
    assert_eq!(asked.map(|_| ()), Err(Error::Delay));
    assert_eq!(size(&site, other).await, 0, "others do not wait");
    // Closing waits only for the lease of the data server that is away.
    site.striped.returned(file, WRITER).await.unwrap();
    site.start(2).await;
    assert_eq!(size(&site, file).await, 2 * UNIT + 7);
    site.remove("file").await.unwrap();
    site.cleared().await;
    assert!(site.store.facts(b"striping/unsettled/").unwrap().is_empty());
}

/// Another part decides whether clients may read the file, and forbids it while a client with a layout asks for it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layout_that_is_not_given_in_the_end_leaves_its_holder_none() {
    let site = Site::new().await;
    let file = site.make("file").await;
    let written = site.in_time(async || site.write(file, 0, b"text").await);
    written.await.unwrap();
    let given = loop {
        match site.striped.layout_while(file, WRITER, || true).await {
            Ok(layout) => break layout,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let read = async || {
        let read = ops::read(Stateid4::ANONYMOUS, 0, 4);
        send(&site, &given, 0, read).await
    };
    assert_eq!(read().await, Ok(()));
    let refused = site.striped.layout_while(file, WRITER, || false).await;
    assert_eq!(refused.unwrap_err(), NoLayout::ThroughServer);
    assert_eq!(read().await, Ok(()), "it has nothing to do with this");
    let is_let = AtomicBool::new(true);
    let once = || is_let.swap(false, Ordering::Relaxed);
    let refused = site.striped.layout_while(file, WRITER, once).await;
    assert_eq!(refused.unwrap_err(), NoLayout::ThroughServer);
    assert_eq!(read().await, Err(NfsStat4::Stale));
    assert_eq!(site.striped.held(), []);
}

/// A write through the home got no answer, and its client gave up. Who wrote by a layout after that was overwritten, since the store still
/// had to cut off what such a write may have left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_comes_late_overwrites_nothing_that_was_written_by_a_layout_since() {
    let site = Site::with_patience(Duration::from_millis(500)).await;
    let file = site.make("file").await;
    site.in_time(async || site.write(file, 0, b"before").await)
        .await
        .unwrap();
    let late = site.network.late.clone();
    late.hold_next();
    let breaking = async {
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            if late.holds() {
                site.break_connections();
            }
        }
    };
    tokio::select! {
        written = site.write(file, 0, b"late..") => {
            assert_eq!(written.map(|_| ()), Err(Error::Delay));
        }
        () = breaking => {}
    }
    assert!(late.holds(), "it is still to come");
    let given = layout(&site, file, WRITER).await;
    while let Err(status) = put(&site, &given, 0, b"direct").await {
        assert_eq!(status, NfsStat4::Delay);
    }
    late.let_go();
    while late.holds() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(read(&site, file, 0, 6).await[..], *b"direct");
}

//! Files that are open at one server of a set and removed, or replaced, at another: they stay what they are for who has them
//! open, however many there are, and go everywhere with the last close.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs4::{NfsFh4, NfsLockType4, NfsStat4, OpenClaim4, OpenDelegationType4};
use nfs4_client::{Client, Error, Held, How, LockAnswer, OpenFile, Options, StableHow4};

use crate::fixture::Running;
use crate::fixture::site::{HASTY, Site, block_on, each};
use crate::replicas::two;
use crate::restored::members_configured;

/// Directories, with an open file in each.
const MANY: usize = 700;

fn content(number: usize, version: &str) -> Bytes {
    format!("{version} content of {number}").into()
}

fn directory_of(number: usize) -> String {
    format!("directory {number}")
}

async fn client(server: &Running) -> Client {
    Client::connect(Options::at(server.address)).await.unwrap()
}

/// Makes a file in a directory of its own.
async fn make(client: &Client, root: &NfsFh4, number: usize) {
    let directory = directory_of(number);
    let made = client.create_directory(root, directory.as_str(), 0o755);
    let made = made.await.unwrap();
    for (name, version) in [("file", "old"), ("other", "new")] {
        let file = client.open(&made, name, &How::create(0o644)).await.unwrap();
        let bytes = content(number, version);
        let written = client.write(&file, 0, bytes, StableHow4::FileSync).await;
        written.unwrap();
        client.close(&file).await.unwrap();
    }
}

/// Opens it elsewhere, for reading and writing.
async fn open(client: &Client, root: &NfsFh4, number: usize) -> OpenFile {
    let directory = client.walk(root, &directory_of(number)).await.unwrap();
    client
        .open(&directory, "file", &How::write())
        .await
        .unwrap()
}

/// Takes its name away: every other one is removed, the rest replaced. Then the directory goes.
async fn take_away(client: &Client, root: &NfsFh4, number: usize) {
    let directory = client.walk(root, &directory_of(number)).await.unwrap();
    if number.is_multiple_of(2) {
        client.remove(&directory, "file").await.unwrap();
        client.remove(&directory, "other").await.unwrap();
    } else {
        let renamed = client.rename(&directory, "other", &directory, "file");
        renamed.await.unwrap();
        client.remove(&directory, "file").await.unwrap();
    }
    let removed = client.remove(root, directory_of(number).as_str()).await;
    removed.unwrap();
}

/// Who has it open reads, writes and flushes it.
async fn assert_is_open(client: &Client, file: &OpenFile, number: usize) {
    let read = client.read_to_end(file).await;
    let read = read.unwrap_or_else(|error| panic!("reading {number}: {error}"));
    assert_eq!(read, content(number, "old"));
    let more = content(number, "own");
    let written = client.write(file, 0, more.clone(), StableHow4::Unstable);
    written
        .await
        .unwrap_or_else(|error| panic!("writing {number}: {error}"));
    client.commit(&file.handle, 0, 0).await.unwrap();
    assert_eq!(client.read_to_end(file).await.unwrap(), more);
}

async fn until_orphans(site: &Site, fits: impl Fn(u64) -> bool) {
    while !fits(site.place.status().exports[0].store.orphans) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Every one of 48 gave ESTALE at the other site, and what was left stayed until a restart.
#[test]
fn what_is_open_here_and_removed_there_stays_open_and_goes_with_the_last_close() {
    let [(first, first_server), (second, second_server)] = two();
    block_on(async {
        let here = Arc::new(client(&first_server).await);
        let there = Arc::new(client(&second_server).await);
        let root = here.mount("/export").await.unwrap();
        let by = |client: &Arc<Client>| (Arc::clone(client), root.clone());
        each(MANY, |number| {
            let (here, root) = by(&here);
            async move { make(&here, &root, number).await }
        })
        .await;
        let files = each(MANY, |number| {
            let (here, root) = by(&here);
            async move { open(&here, &root, number).await }
        });
        let files = files.await;
        each(MANY, |number| {
            let (there, root) = by(&there);
            async move { take_away(&there, &root, number).await }
        })
        .await;
        until_orphans(&first, |orphans| orphans == MANY as u64).await;
        each(MANY, |number| {
            let (here, file) = (Arc::clone(&here), files[number].clone());
            async move { assert_is_open(&here, &file, number).await }
        })
        .await;
        for file in &files {
            here.close(file).await.unwrap();
        }
        for site in [&first, &second] {
            until_orphans(site, |orphans| orphans == 0).await;
        }
    });
    second_server.stop();
    first_server.stop();
}

/// Clients whose servers are lost keep what they have locked for so long.
const LEASE: &str = "[time]\nlease_seconds = 6\n";

/// Three servers that miss each other soon.
fn three() -> [(Site, Running); 3] {
    let members = members_configured(3, &format!("{HASTY}{LEASE}"));
    members.try_into().ok().unwrap()
}

/// Waits without keeping clients from renewing their leases.
async fn until_active(site: &Site, slots: &[u16]) {
    loop {
        let asked = site.meridian(&["view", "--json"]).stdout;
        // One that starts anew does not answer for a moment.
        let view: Result<server::ViewStatus, _> = serde_json::from_slice(&asked);
        let is_so = view.is_ok_and(|view| {
            let active = view.members.iter().filter(|member| member.active);
            let active: Vec<u16> = active.map(|member| member.slot).collect();
            active == slots && view.takes_part && view.up_to_date
        });
        if is_so {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn until_quiet(site: &Site) {
    let controls = || {
        let status = site.place.status();
        let replication = status.exports[0].replication.as_ref();
        replication.unwrap().controls_total
    };
    while controls() > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// One that keeps its lease while it is there.
fn lasting(server: &Running) -> Options {
    Options {
        renewal: Some(Duration::from_millis(500)),
        patience: Duration::from_secs(60),
        ..Options::at(server.address)
    }
}

async fn lasting_client(server: &Running) -> Client {
    Client::connect(lasting(server)).await.unwrap()
}

/// Makes a file here that nobody decides about afterwards, and opens it.
async fn made_and_open(here: &Client, site: &Site, root: &NfsFh4) -> OpenFile {
    let made = here.open(root, "file", &How::create(0o666)).await.unwrap();
    here.write_all(&made, 0, &Bytes::from_static(b"old"))
        .await
        .unwrap();
    here.close(&made).await.unwrap();
    until_quiet(site).await;
    here.open(root, "file", &How::write()).await.unwrap()
}

/// Has another server remove the file, which is at home there afterwards: that server is changing the directory.
async fn remove_there(there: &Client, site: &Site, root: &NfsFh4) {
    for name in ["busy", "busier"] {
        let busy = there.open(root, name, &How::create(0o666)).await.unwrap();
        there.close(&busy).await.unwrap();
    }
    there.remove(root, "file").await.unwrap();
    until_orphans(site, |orphans| orphans == 1).await;
}

/// Asks as often as it is put off.
async fn insist<T, F: Future<Output = Result<T, Error>>>(ask: impl Fn() -> F) -> T {
    loop {
        match ask().await {
            Err(error) if error.status() == Some(NfsStat4::Delay) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            answer => return answer.unwrap(),
        }
    }
}

/// Locks ten bytes, if nobody else has them locked.
async fn lock(client: &Client, file: &OpenFile, owner: &'static str, offset: u64) -> Option<Held> {
    let asked = insist(|| client.lock(file, owner, NfsLockType4::Write, offset, 10));
    match asked.await {
        LockAnswer::Granted(held) => Some(held),
        LockAnswer::Denied(_) => None,
    }
}

async fn is_locked(client: &Client, file: &OpenFile, offset: u64) -> bool {
    let asked = insist(|| client.test_lock(&file.handle, "other", NfsLockType4::Write, offset, 10));
    asked.await.is_some()
}

/// It was given to somebody else: only clients of the home itself say again what they hold of such a file.
#[test]
fn what_is_locked_of_a_removed_file_stands_when_its_home_is_started_anew() {
    let [
        (first, first_server),
        (second, second_server),
        (_third, _server),
    ] = three();
    block_on(async {
        let here = lasting_client(&first_server).await;
        let other = lasting_client(&first_server).await;
        let there = lasting_client(&second_server).await;
        let root = here.mount("/export").await.unwrap();
        let file = made_and_open(&here, &first, &root).await;
        assert!(lock(&here, &file, "before", 0).await.is_some());
        remove_there(&there, &second, &root).await;
        let after = lock(&here, &file, "after", 10).await.unwrap();
        second_server.kill();
        let _second_server = second.place.start();
        assert!(is_locked(&other, &file, 0).await);
        assert!(is_locked(&other, &file, 10).await, "after the removal");
        insist(|| here.unlock(&after, 10, 10)).await;
        assert!(!is_locked(&other, &file, 10).await, "it was given back");
        assert!(is_locked(&other, &file, 0).await);
        here.close(&file).await.unwrap();
        until_orphans(&second, |orphans| orphans == 0).await;
    });
}

/// The first replica asks whose clients are gone, and knew nothing of what was locked at the home of a removed file.
#[test]
fn what_a_lost_client_has_locked_of_a_removed_file_is_given_up() {
    let [
        (first, first_server),
        (second, second_server),
        (_third, third_server),
    ] = three();
    block_on(async {
        let here = lasting_client(&first_server).await;
        let there = lasting_client(&second_server).await;
        let far = lasting_client(&third_server).await;
        let root = here.mount("/export").await.unwrap();
        let file = made_and_open(&here, &first, &root).await;
        let of_lost = far.open(&root, "file", &How::write()).await.unwrap();
        remove_there(&there, &second, &root).await;
        assert!(lock(&far, &of_lost, "lost", 0).await.is_some());
        assert!(is_locked(&here, &file, 0).await);
        third_server.kill();
        while lock(&here, &file, "waiting", 0).await.is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

/// The home came back without it, and had it again after a restart of the server that had gone on: what was written and flushed there was
/// gone. What a client of a third server had unlocked stayed locked for ever.
#[test]
fn who_goes_on_alone_with_a_removed_file_does_so_after_a_restart_too() {
    let [
        (first, first_server),
        (second, second_server),
        (_third, third_server),
    ] = three();
    block_on(async {
        let options = lasting(&first_server);
        let here = Client::connect(options.clone()).await.unwrap();
        let there = lasting_client(&second_server).await;
        let far = lasting_client(&third_server).await;
        let root = here.mount("/export").await.unwrap();
        let file = made_and_open(&here, &first, &root).await;
        let at_third = far.open(&root, "file", &How::write()).await.unwrap();
        let locked = lock(&far, &at_third, "far", 0).await.unwrap();
        remove_there(&there, &second, &root).await;
        assert!(is_locked(&here, &file, 0).await);
        insist(|| far.unlock(&locked, 0, 10)).await;
        second_server.kill();
        until_active(&first, &[1, 3]).await;
        assert!(lock(&here, &file, "here", 0).await.is_some());
        let own = Bytes::from_static(b"own");
        here.write_all(&file, 0, &own).await.unwrap();
        let _second_server = second.place.start();
        until_active(&first, &[1, 2, 3]).await;
        assert_eq!(here.read_to_end(&file).await.unwrap(), own);

        first_server.kill();
        let first_server = first.place.start();
        let back = Options {
            owner: options.owner.clone(),
            verifier: options.verifier,
            reclaims: true,
            ..lasting(&first_server)
        };
        let here = Client::connect(back).await.unwrap();
        let claim = OpenClaim4::Previous(OpenDelegationType4::None);
        let opened = here.open_by(&file.handle, claim, &How::write()).await;
        let file = opened.unwrap();
        here.reclaim_complete().await.unwrap();
        assert_eq!(here.read_to_end(&file).await.unwrap(), own);
    });
}

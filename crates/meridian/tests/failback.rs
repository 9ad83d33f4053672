//! Clients that go to another server of the set and come back, and servers that give them up meanwhile.

use std::time::Duration;

use nfs4::{
    ArgOp4, LockArgs, Locker4, NfsFh4, NfsLockType4, OpenClaim4, OpenDelegationType4,
    OpenToLockOwner4, StateOwner4,
};
use nfs4_client::{Client, How, LockAnswer, OpenFile, Options, ops};

use crate::fixture::Running;
use crate::fixture::site::{HASTY, Site, block_on};
use crate::restored::members_configured;

/// A server gives up a silent client after this time.
const LEASE: &str = "[time]\nlease_seconds = 6\n";

fn options(server: &Running) -> Options {
    Options {
        renewal: Some(Duration::from_millis(500)),
        patience: Duration::from_secs(60),
        ..Options::at(server.address)
    }
}

/// Says at another server what the client holds: a file that is open, and its lock.
async fn reclaim(client: &Client, file: &NfsFh4, owner: &'static [u8]) -> OpenFile {
    let claim = OpenClaim4::Previous(OpenDelegationType4::None);
    let opened = client.open_by(file, claim, &How::write()).await.unwrap();
    let locker = Locker4::OpenOwner(OpenToLockOwner4 {
        open_seqid: 0,
        open_stateid: opened.stateid,
        lock_seqid: 0,
        lock_owner: StateOwner4 {
            clientid: 0,
            owner: owner.into(),
        },
    });
    let lock = LockArgs {
        locktype: NfsLockType4::Write,
        reclaim: true,
        offset: 0,
        length: 10,
        locker,
    };
    let locked = client.compound(vec![ops::putfh(file), ArgOp4::Lock(lock)]);
    locked.await.unwrap();
    client.reclaim_complete().await.unwrap();
    opened
}

async fn until_clients(site: &Site, count: u64) {
    while site.place.status().clients != count {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The earlier server released what the client held anywhere, and another client got its lock.
#[test]
fn what_was_reclaimed_at_another_server_outlives_the_lease_at_the_earlier_one() {
    let members = members_configured(2, &format!("{HASTY}{LEASE}"));
    let [(_first, first_server), (second, second_server)] = members.try_into().ok().unwrap();
    block_on(async {
        let mover = Options {
            renewal: None,
            ..options(&second_server)
        };
        let before = Client::connect(mover.clone()).await.unwrap();
        let root = before.mount("/export").await.unwrap();
        let file = before.open(&root, "file", &How::create(0o666)).await;
        let file = file.unwrap();
        let locked = before.lock(&file, "holder", NfsLockType4::Write, 0, 10);
        assert!(matches!(locked.await.unwrap(), LockAnswer::Granted(_)));

        let moved = Client::connect(Options {
            owner: mover.owner.clone(),
            verifier: mover.verifier,
            reclaims: true,
            ..options(&first_server)
        });
        let moved = moved.await.unwrap();
        let again = reclaim(&moved, &file.handle, b"holder").await;
        let other = Client::connect(options(&second_server)).await.unwrap();
        until_clients(&second, 1).await;
        // Nobody comes under its name before all that it held there is dealt with.
        let back = Client::connect(Options {
            reclaims: true,
            ..mover
        });
        drop(back.await.unwrap());
        let test = other.test_lock(&file.handle, "other", NfsLockType4::Write, 0, 10);
        assert!(test.await.unwrap().is_some(), "its lock is gone");
        moved.close(&again).await.unwrap();
        let test = other.test_lock(&file.handle, "other", NfsLockType4::Write, 0, 10);
        assert!(test.await.unwrap().is_none(), "its lock stays");
    });
    second_server.stop();
    first_server.stop();
}

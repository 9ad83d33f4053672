//! Clients at two metadata servers keep each other out, whichever of the two is killed.

use nfs4::NfsLockType4;
use nfs4_client::{Held, LockAnswer, OpenFile};

use super::*;

/// Long enough for no client to lose anything on a busy machine, and short enough to be waited for.
const LEASE: &str = "[time]\nlease_seconds = 20\n";

async fn locked(client: &Client, file: &OpenFile, owner: &'static str) -> Option<Held> {
    let kind = NfsLockType4::Write;
    match client.lock(file, owner, kind, 0, 100).await.unwrap() {
        LockAnswer::Granted(held) => Some(held),
        LockAnswer::Denied(_) => None,
    }
}

/// A client that has opened a file, made before.
async fn opening(server: &Running, name: &str) -> (Client, OpenFile) {
    let (client, root) = client_of(server).await;
    let how = How::write().by("opener");
    let file = client.open(&root, name, &how).await.unwrap();
    (client, file)
}

#[test]
fn locks_and_denials_of_clients_at_two_metadata_servers_hold_and_go_with_a_server_that_is_lost() {
    let (first, mut names, second, shown) = two_configured(LEASE);
    block_on(write(&names, "file", b"bytes"));
    let runtime = runtime();
    let (client, file) = runtime.block_on(opening(&shown, "file"));
    runtime.block_on(async {
        let (here, here_file) = opening(&names, "file").await;
        let held = locked(&client, &file, "there").await.unwrap();
        assert_eq!(locked(&here, &here_file, "here").await, None);
        client.unlock(&held, 0, 100).await.unwrap();
        let held = locked(&here, &here_file, "here").await.unwrap();
        assert_eq!(locked(&client, &file, "there").await, None);
        here.unlock(&held, 0, 100).await.unwrap();
        here.close(&here_file).await.unwrap();
        here.leave().await.unwrap();
        client.close(&file).await.unwrap();
    });
    let file = runtime.block_on(async {
        let root = client.mount("/export").await.unwrap();
        let denying = How::write().by("opener").denying(nfs4::share::DENY_WRITE);
        let file = client.open(&root, "file", &denying).await.unwrap();
        locked(&client, &file, "there").await.unwrap();
        file
    });
    // A home that was started anew knows neither, until it was told.
    names.kill();
    names = first.place.start();
    runtime.block_on(async {
        let (here, root) = client_of(&names).await;
        let refused = here.open(&root, "file", &How::write()).await;
        assert_eq!(status_of(refused), Some(NfsStat4::ShareDenied));
        let reading = here.open(&root, "file", &How::read()).await.unwrap();
        let kind = NfsLockType4::Read;
        let locked = here.lock(&reading, "here", kind, 0, 100).await.unwrap();
        assert!(matches!(locked, LockAnswer::Denied(_)), "{locked:?}");
        here.close(&reading).await.unwrap();
        here.leave().await.unwrap();
    });
    assert!(second.place.read_log().contains("opens=1 locks=1"));
    // Of one that is lost it is free when its lease and that of a client are over.
    shown.kill();
    drop(file);
    block_on(async {
        let (here, root) = client_of(&names).await;
        let how = How::write().by("here");
        let begun = Instant::now();
        let opened = loop {
            match here.open(&root, "file", &how).await {
                Ok(opened) => break opened,
                Err(error) => assert_eq!(error.status(), Some(NfsStat4::ShareDenied)),
            }
            assert!(begun.elapsed() < PATIENCE, "it is never free");
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        assert!(locked(&here, &opened, "here").await.is_some());
    });
    let log = first.place.read_log();
    assert!(log.contains("what its clients had open and locked is given up"));
}

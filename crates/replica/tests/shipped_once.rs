//! Nothing is shipped again that the other has already.

use crate::fixture::{ROOT, Set, Site, eventually, patiently, root};
use store::ContentPiece;
use vfs::{AccessCheck, Extent, ObjectId};

/// Each file is so long: several pieces.
const LENGTH: usize = 3 << 20;

/// What may differ within a file without more of it being shipped than that.
const BLOCK: u64 = 64 << 10;

/// Bytes that are alike nowhere, so that no two blocks are.
fn bytes(of: u64) -> Vec<u8> {
    let words =
        (0..LENGTH as u64 / 8).map(|at| (of << 32 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_be_bytes).collect()
}

fn shipped(site: &Site) -> u64 {
    site.replica.status().shipped_content_bytes
}

/// Waits until a replica lacks nothing of the first one.
async fn has_all(set: &Set, slot: u16) {
    let replica = set.sites[0].replica.clone();
    eventually("the peer has everything", || {
        let peers = replica.status().peers;
        let mut peer = peers.iter().filter(|peer| peer.slot == slot);
        peer.any(|peer| peer.connected && peer.lag_updates == 0 && peer.lag_files == 0)
    })
    .await;
}

/// The third replica goes, and the others go on without it.
async fn without_the_third(set: &mut Set) -> crate::fixture::Crashed {
    let away = set.crash(2).await;
    let replica = set.sites[0].replica.clone();
    eventually("the others go on without it", || {
        let members = replica.view_status().members;
        replica.ready()
            && members
                .iter()
                .any(|member| member.slot == 3 && !member.active)
    })
    .await;
    away
}

/// Starts the first replica again; what it has shipped counts from then on.
async fn restart_the_first(set: &mut Set) {
    let crashed = set.crash(0).await;
    set.revive(0, crashed).await;
    set.revive_until_ready(0).await;
}

async fn write(set: &Set, name: &str, of: u64) -> ObjectId {
    let file = set.sites[0].file(ROOT, name).await.unwrap();
    set.sites[0].write(file, 0, &bytes(of)).await.unwrap();
    file
}

/// A server that had shipped everything was started again while a third one was away, and shipped all of it to the second one again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_51_who_has_everything_is_sent_nothing_after_a_restart_of_the_sender() {
    let mut set = Set::failing(3).await;
    set.rest().await;
    let away = without_the_third(&mut set).await;
    for number in 0..4 {
        write(&set, &format!("file-{number}"), number).await;
    }
    has_all(&set, 2).await;
    assert!(shipped(&set.sites[0]) >= 4 * LENGTH as u64);
    restart_the_first(&mut set).await;
    has_all(&set, 2).await;
    let again = shipped(&set.sites[0]);
    assert!(again < BLOCK, "{again} bytes were shipped again");
    set.revive(2, away).await;
    set.revive_until_ready(2).await;
    set.assert_equal().await;
}

/// Of what has changed here and there the rest is not shipped, although nobody remembers what was changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_file_that_is_there_only_what_differs_is_shipped() {
    let mut set = Set::failing(3).await;
    let file = write(&set, "file", 1).await;
    set.rest().await;
    let away = without_the_third(&mut set).await;
    for at in [5, LENGTH as u64 / 2] {
        set.sites[0].write(file, at, b"changed").await.unwrap();
    }
    has_all(&set, 2).await;
    restart_the_first(&mut set).await;
    set.revive(2, away).await;
    set.revive_until_ready(2).await;
    has_all(&set, 3).await;
    let sent = shipped(&set.sites[0]);
    assert!(
        sent <= 3 * BLOCK,
        "{sent} bytes were shipped for two that differ"
    );
    set.assert_equal().await;
}

/// A hole of a terabyte was walked in pieces of a megabyte, for many minutes, in which the control of its file was kept; after a
/// restart the same again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hole_of_a_terabyte_is_shipped_at_once() {
    const FAR: u64 = 1 << 40;
    let mut set = Set::failing(2).await;
    let file = write(&set, "sparse", 1).await;
    set.sites[0].write(file, FAR, b"end").await.unwrap();
    set.rest().await;
    let who = root();
    let punched = patiently(|| {
        let extent = Extent {
            offset: BLOCK,
            length: FAR - BLOCK,
        };
        let by = AccessCheck::Open(&who);
        set.sites[0].files.deallocate(by, file, extent)
    });
    punched.await.unwrap();
    set.rest().await;
    restart_the_first(&mut set).await;
    has_all(&set, 2).await;
    set.rest().await;
    let store = &set.sites[1].store;
    let found = store.content(file, 0, 2 * BLOCK).unwrap();
    let ContentPiece::Data { bytes: data, .. } = &found[0] else {
        panic!("{found:?}");
    };
    assert_eq!(data[..], bytes(1)[..BLOCK as usize]);
    assert!(matches!(found[1..], [ContentPiece::Hole(_)]), "{found:?}");
    assert_eq!(store.hole_end(file, BLOCK).unwrap(), FAR);
    let end = store.content(file, FAR, 10).unwrap();
    assert!(matches!(&end[..], [ContentPiece::Data { bytes, .. }] if bytes[..] == *b"end"));
    set.sites[0].remove(ROOT, "sparse").await.unwrap();
    set.assert_equal().await;
}

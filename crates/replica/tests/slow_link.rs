//! Peers that are behind a slow link, or away: what waits for them, and what they are sent.

use std::time::Duration;

use crate::fixture::{ROOT, Set, Site, eventually, root};
use bytes::Bytes;
use vfs::{FileSystem, ObjectId, XattrMode, XattrName};

/// 8 Mbit/s, and 120 ms there and back.
pub const BYTES_PER_SECOND: u64 = 1_000_000;
pub const ONE_WAY: Duration = Duration::from_millis(60);

/// This many files get two extended attributes of `VALUE_BYTES` bytes: together several seconds of
/// the slow link.
const FILES: usize = 40;
const VALUE_BYTES: usize = 60_000;

/// What waits for a peer that is away, at most, in this test: less than its bound.
const LITTLE: u64 = 3 << 20;

fn waiting(site: &Site, peer: u16) -> u64 {
    let peers = site.replica.status().peers;
    peers
        .iter()
        .find(|one| one.slot == peer)
        .unwrap()
        .waiting_bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_45_what_waits_for_a_dead_peer_is_bounded_and_dies_with_it() {
    let mut set = Set::failing(3).await;
    set.rest().await;
    let third = set.crash(2).await;
    for number in 0..300 {
        let file = format!("f{number}");
        set.sites[0].save(ROOT, &file, b"text").await.unwrap();
        assert!(waiting(&set.sites[0], 3) < LITTLE);
    }
    set.revive(2, third).await;
    set.revive_until_ready(2).await;
    eventually("nothing waits", || waiting(&set.sites[0], 3) == 0).await;
    set.assert_equal().await;
}

pub fn lag(site: &Site, peer: u16) -> u64 {
    let peers = site.replica.status().peers;
    peers
        .iter()
        .find(|one| one.slot == peer)
        .unwrap()
        .lag_updates
}

fn sent(site: &Site, peer: u16) -> u64 {
    let peers = site.replica.status().peers;
    peers
        .iter()
        .find(|one| one.slot == peer)
        .unwrap()
        .sent_bytes
}

/// Makes files with extended attributes.
pub async fn change_much(site: &Site, directory: ObjectId) -> Vec<ObjectId> {
    let (who, mut files) = (root(), Vec::new());
    for number in 0..FILES {
        let file = site.file(directory, &format!("f{number}")).await.unwrap();
        for attribute in ["one", "two"] {
            let name = XattrName::new(attribute.as_bytes().to_vec()).unwrap();
            let value = Bytes::from(vec![7; VALUE_BYTES]);
            let set = site
                .files
                .set_xattr(&who, file, &name, value, XattrMode::Any);
            set.await.unwrap();
        }
        files.push(file);
    }
    files
}

/// The third replica is lost. The second has its updates, the first, behind a slow link, lacks most of them and gets them from
/// the second, which also has to grant the first one its lease all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_46_grants_do_not_wait_for_what_is_relayed() {
    let mut set = Set::failing_with(3, |settings| {
        settings.site_lease = Duration::from_secs(3);
        settings.suspicion = Duration::from_secs(2);
        // Shorter ones are over before an answer can be back.
        settings.views = replica::Settings::default().views;
    })
    .await;
    set.rest().await;
    set.cable.slow(BYTES_PER_SECOND, ONE_WAY);
    let files = change_much(&set.sites[2], ROOT).await;
    eventually("the second has all", || lag(&set.sites[2], 2) == 0).await;
    let lacked = lag(&set.sites[2], 1);
    assert!(
        lacked > FILES as u64,
        "the first lacks only {lacked} updates"
    );
    let whole = set.sites[1].replica.view_status().epoch;
    drop(set.crash(2).await);
    let (first, second) = (&set.sites[0].replica, &set.sites[1].replica);
    // It is agreed on before it is in force.
    eventually("a view without it is in force", || {
        let views = [first.view_status(), second.view_status()];
        views.iter().all(|view| view.epoch > whole)
    })
    .await;
    let epoch = second.view_status().epoch;
    let before = sent(&set.sites[1], 1);
    let last = *files.last().unwrap();
    let name = XattrName::new(&b"two"[..]).unwrap();
    let level = async {
        while set.sites[0]
            .store
            .xattr(&root(), last, &name)
            .await
            .is_err()
        {
            for replica in [first, second] {
                let left = replica.view_status().lease_ms;
                assert!(left.is_none_or(|left| left > 0), "a lease has lapsed");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(2 * crate::fixture::PATIENCE, level)
        .await
        .unwrap();
    assert_eq!(second.view_status().epoch, epoch);
    let relayed = sent(&set.sites[1], 1) - before;
    let all = (FILES * 2 * VALUE_BYTES) as u64;
    assert!(relayed < all + all / 2, "{relayed} bytes for {all}");
}

fn received(site: &Site, peer: u16) -> u64 {
    let peers = site.replica.status().peers;
    let mut peers = peers.iter();
    peers.find(|one| one.slot == peer).unwrap().received_bytes
}

/// Bytes that nobody can make fewer.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    });
    noise.take(count).collect()
}

/// The third was away while the first wrote. It is in the view again before the contents are there, and meanwhile the second
/// decides about their directory: they were taken for what the first had sent before, and dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counterexample_63_contents_that_are_lacking_are_taken_while_another_one_decides() {
    const FILES: usize = 6;
    let mut set = Set::failing(3).await;
    let folder = set.sites[0].directory(ROOT, "folder").await.unwrap();
    set.rest().await;
    let third = set.crash(2).await;
    let is_active = |set: &Set| {
        let members = set.sites[1].replica.view_status().members;
        let mut members = members.iter();
        members.any(|member| member.slot == 3 && member.active)
    };
    eventually("the others go on", || !is_active(&set)).await;
    let bytes = noise(1 << 20);
    for number in 0..FILES {
        let (name, bytes) = (format!("f{number}"), &bytes[number..]);
        set.sites[0].save(folder, &name, bytes).await.unwrap();
    }
    eventually("the first decides about nothing", || {
        set.sites[0].replica.status().controls_total == 0
    })
    .await;
    set.cable.slow(BYTES_PER_SECOND, ONE_WAY);
    set.revive(2, third).await;
    eventually("it is back", || is_active(&set)).await;
    let lacks = |set: &Set| {
        let peers = set.sites[0].replica.status().peers.into_iter();
        let mut third = peers.filter(|peer| peer.slot == 3);
        third.any(|peer| peer.lag_files > 0)
    };
    let mut made = 0;
    while lacks(&set) {
        made += 1;
        set.sites[1]
            .file(folder, &format!("own {made}"))
            .await
            .unwrap();
    }
    // On a busy machine the others may have gone on without one, which starts anew.
    set.all_take_part("all have all").await;
    set.assert_equal().await;
}

/// A site that removed a file that another site had written, or moved or linked it, asked for
/// control of the file and its directory together, and got it when all contents had been shipped;
/// until then nobody could change the directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_the_contents_of_a_file_whose_name_goes() {
    const PIECE: usize = 1 << 20;
    const PIECES: usize = 20;
    let set = Set::failing(2).await;
    let (writer, other) = (&set.sites[0], &set.sites[1]);
    let folder = writer.directory(ROOT, "folder").await.unwrap();
    let mut files = Vec::new();
    for name in ["removed", "moved", "linked"] {
        files.push(writer.save(folder, name, b"small").await.unwrap());
    }
    set.rest().await;
    set.cable.slow(BYTES_PER_SECOND, ONE_WAY);
    let before = received(other, 1);
    let noise = noise(PIECE);
    for (number, file) in (0..).zip(files.iter().cycle()).take(3 * PIECES) {
        // Nobody has the same bytes.
        let piece: Vec<u8> = noise.iter().map(|byte| byte ^ number).collect();
        let at = (usize::from(number) / 3 * PIECE) as u64;
        writer.write(*file, at, &piece).await.unwrap();
    }
    other.remove(folder, "removed").await.unwrap();
    other
        .rename((folder, "moved"), (ROOT, "new"))
        .await
        .unwrap();
    other.link(files[2], folder, "second").await.unwrap();
    other.file(folder, "made there").await.unwrap();
    writer.file(folder, "made here").await.unwrap();
    let received = received(other, 1) - before;
    assert!(
        received < (PIECES * PIECE) as u64,
        "{received} bytes had come first"
    );
}

//! A resynchronisation whose process is killed at any moment, again and again: it is restarted each time,
//! and at the end the two stores are the same.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::fixture::pair::Pair;
use crate::fixture::resync::{fetch, files, replace_rows, same_tree};
use crate::fixture::{Fixture, with_size};
use store::{BaseState, Reserve, Store, StoreOptions};
use vfs::ObjectId;

const CHILD: &str = "STORE_RESYNC_CHILD";
const ROOT: ObjectId = ObjectId::ROOT;
const ROUNDS: u64 = 12;
const FILES: usize = 300;

fn open(path: &Path) -> Store {
    let mut options = StoreOptions::new(path);
    options.reserve = Reserve::Bytes(0);
    Store::open(&options).unwrap()
}

/// The process that is killed: it resynchronises and fetches without end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(paths) = std::env::var(CHILD) else {
        return;
    };
    let (from, to) = paths.split_once(':').unwrap();
    let (from, to) = (open(Path::new(from)), open(Path::new(to)));
    loop {
        replace_rows(&from, &to, 2000).await;
        fetch(&from, &to).await;
    }
}

/// Stores with common files, of which one store has changed some, and files that only one of them has.
async fn diverged() -> Pair {
    let mut pair = Pair::new().await;
    let mut ids = Vec::new();
    for number in 0..FILES {
        let id = pair.leader.file(ROOT, &format!("f{number}")).await;
        pair.leader
            .write(id, 0, &[number as u8; 6000])
            .await
            .unwrap();
        ids.push(id);
    }
    pair.follow().await;
    for id in &ids {
        pair.ship(*id).await;
    }
    pair.follower.hook();
    for (number, id) in ids.iter().enumerate() {
        match number % 6 {
            0 => pair.leader.write(*id, 100, b"there").await.unwrap(),
            1 => pair.follower.write(*id, 200, b"here").await.unwrap(),
            2 => drop(pair.follower.set(*id, &with_size(9000)).await.unwrap()),
            3 => pair
                .follower
                .remove(ROOT, &format!("f{number}"))
                .await
                .unwrap(),
            4 => {
                let mine = pair.follower.file(ROOT, &format!("mine{number}")).await;
                pair.follower.write(mine, 0, b"mine").await.unwrap();
            }
            _ => {}
        }
    }
    pair
}

/// Changes some files of the resynchronised store, as far as they can be changed now.
async fn diverge_again(follower: &Fixture, round: u64) {
    let (fetching, all) = (
        follower.store().files_to_fetch().unwrap(),
        files(follower.store()).await,
    );
    for id in all.into_keys().filter(|id| id.as_u64() % 7 == round % 7) {
        // Files without their content must not be changed.
        if !fetching.contains(&id) {
            follower.write(id, 50, &[round as u8; 3000]).await.unwrap();
            follower.set(id, &with_size(2000 + round)).await.unwrap();
        }
    }
}

fn run_and_kill(from: &Fixture, to: &Fixture, after: Duration) {
    let (from, to) = (
        from.options.directory.display(),
        to.options.directory.display(),
    );
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "resync_killed::child"])
        .env(CHILD, format!("{from}:{to}"))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_resynchronisation_is_begun_again() {
    let mut pair = diverged().await;
    pair.leader.close();
    pair.follower.close();
    let mut unfinished = 0;
    for round in 0..ROUNDS {
        // Different rounds are killed at different points of their work; the exact points do not matter.
        let after = Duration::from_millis(60 + 37 * round);
        run_and_kill(&pair.leader, &pair.follower, after);
        pair.follower.reopen_unsynced();
        match pair.follower.store().base_state().unwrap() {
            BaseState::Whole => diverge_again(&pair.follower, round).await,
            _ => unfinished += 1,
        }
        pair.follower.close();
    }
    println!("{unfinished} of {ROUNDS} were killed before the rows were there");
    pair.leader.reopen_unsynced();
    pair.follower.reopen_unsynced();
    replace_rows(pair.leader.store(), pair.follower.store(), 1 << 20).await;
    fetch(pair.leader.store(), pair.follower.store()).await;
    same_tree(pair.leader.store(), pair.follower.store()).await;
    let directory = pair.follower.options.directory.clone();
    pair.follower.close();
    let report = Store::check(&directory, false).unwrap();
    assert!(report.sound, "{report}");
}

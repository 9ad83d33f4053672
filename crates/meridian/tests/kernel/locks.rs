//! Byte-range locks between clients.

use anyhow::{Context, Result};
use nix::errno::Errno;
use testbed::{Guest, Signal};

use crate::inside::hand::{Act, Kind, Range, Way};
use crate::scene::{Hand, MOUNT, Scene, eventually, finish, program, run};

const FILE: &str = "f";

fn open(hand: &mut Hand) -> Result<()> {
    hand.does(Act::Open(FILE.into(), Way::Write)).map(drop)
}

/// Whether the lock was free.
fn takes(hand: &mut Hand, kind: Kind, range: Range) -> Result<bool> {
    match hand.tries(Act::TryLock(FILE.into(), kind, range))? {
        Ok(_) => Ok(true),
        Err(number) if number == Errno::EAGAIN as i32 => Ok(false),
        Err(number) => anyhow::bail!("a lock failed with {}", Errno::from_raw(number)),
    }
}

fn unlocks(hand: &mut Hand, range: Range) -> Result<()> {
    hand.does(Act::Unlock(FILE.into(), range)).map(drop)
}

fn obstacle(hand: &mut Hand, range: Range) -> Result<String> {
    hand.does(Act::TestLock(FILE.into(), Kind::Exclusive, range))
}

/// Two guests, and a second mount of the first guest that shares no lock table with its first.
pub fn byte_ranges_conflict_split_and_merge_between_guests() -> Result<()> {
    let scene = Scene::open()?;
    let alpha = scene.guest("alpha")?;
    let beta = scene.guest("beta")?;
    alpha.mount(&scene.mount().option("nosharecache"), "/run/again")?;
    let mut one = scene.hand(&alpha)?;
    let mut two = scene.hand(&beta)?;
    let mut again = scene.hand_of(&alpha, |script| script.directory("/run/again"))?;
    open(&mut one)?;
    open(&mut two)?;
    open(&mut again)?;

    // Readers share; a writer excludes.
    assert!(takes(&mut one, Kind::Shared, (0, 100))?);
    assert!(takes(&mut two, Kind::Shared, (50, 100))?);
    assert!(!takes(&mut two, Kind::Exclusive, (99, 1))?);
    assert!(takes(&mut two, Kind::Exclusive, (100, 10))?);
    assert!(!takes(&mut again, Kind::Shared, (105, 1))?);
    unlocks(&mut two, (0, 0))?;

    // A hole in the middle splits a lock.
    assert!(takes(&mut one, Kind::Exclusive, (0, 100))?);
    unlocks(&mut one, (40, 20))?;
    assert!(takes(&mut two, Kind::Exclusive, (40, 20))?);
    assert!(!takes(&mut two, Kind::Exclusive, (39, 1))?);
    assert!(!takes(&mut again, Kind::Shared, (60, 1))?);
    assert_eq!(obstacle(&mut two, (60, 5))?, "exclusive 60 40");
    assert_eq!(obstacle(&mut again, (45, 1))?, "exclusive 40 20");

    // What is taken again between the parts merges them, and a part may become shared.
    unlocks(&mut two, (40, 20))?;
    assert!(takes(&mut one, Kind::Exclusive, (40, 20))?);
    assert_eq!(obstacle(&mut two, (10, 1))?, "exclusive 0 100");
    assert!(takes(&mut one, Kind::Shared, (20, 10))?);
    assert!(takes(&mut two, Kind::Shared, (20, 10))?);
    assert!(!takes(&mut two, Kind::Shared, (19, 2))?);

    // Locks to the end of any file, and close as release.
    assert!(takes(&mut two, Kind::Exclusive, (1 << 40, 0))?);
    assert!(!takes(&mut one, Kind::Shared, (i64::MAX - 1, 1))?);
    two.does(Act::Close(FILE.into()))?;
    assert!(takes(&mut one, Kind::Exclusive, (0, 0))?);
    assert!(!takes(&mut again, Kind::Shared, (7, 1))?);
    one.does(Act::Close(FILE.into()))?;
    assert!(takes(&mut again, Kind::Exclusive, (0, 0))?);
    alpha.power_off()?;
    beta.power_off()
}

/// Four processes in two guests count in one file, each with a lock around its step; a lost step would
/// show in the sum. Waiters are woken thousands of times, so a lost wake-up would show as a standstill.
pub fn counting_under_a_lock_loses_no_step() -> Result<()> {
    const STEPS: u32 = 150;
    let scene = Scene::open()?;
    let alpha = scene.guest("alpha")?;
    let beta = scene.guest("beta")?;
    let mut last = scene.hand(&alpha)?;
    last.does(Act::WriteFile("count".into(), "0".into()))?;
    let steps = STEPS.to_string();
    let count = || program(["count", "/run/m/count", &steps]);
    let jobs = [
        alpha.start(count())?,
        alpha.start(count())?,
        beta.start(count())?,
        beta.start(count())?,
    ];
    for job in &jobs {
        finish(job)?;
    }
    let sum = last.does(Act::ReadFile("count".into()))?;
    assert_eq!(sum, (STEPS * 4).to_string());
    alpha.power_off()?;
    beta.power_off()
}

/// How often a guest has asked its server for a lock: the first number of the LOCK line that the
/// kernel counts for each mount (nfs-utils, mountstats(8)).
fn lock_calls(guest: &Guest) -> Result<u64> {
    let text = run(guest, "cat /proc/self/mountstats")?.text();
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("LOCK:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("the kernel counts LOCK calls")?.parse()?)
}

/// Without the server's word a Linux client asks again after 1, 2, 4, 8 and so on seconds; with it, once
/// it was told. The waiter below waits long enough to tell the one from the other by counting.
pub fn a_waiting_client_is_told_when_the_lock_is_free() -> Result<()> {
    let scene = Scene::open()?;
    let alpha = scene.guest("alpha")?;
    let beta = scene.guest("beta")?;
    let (mut holder, mut waiter) = (scene.hand(&alpha)?, scene.hand(&beta)?);
    open(&mut holder)?;
    open(&mut waiter)?;
    let frees = [
        Act::Unlock(FILE.into(), (0, 10)),
        // Readers may come in where a writer has become one.
        Act::TryLock(FILE.into(), Kind::Shared, (0, 10)),
    ];
    for free in frees {
        assert!(takes(&mut holder, Kind::Exclusive, (0, 10))?);
        let before = lock_calls(&beta)?;
        waiter.begins(&Act::Lock(FILE.into(), Kind::Shared, (5, 10)))?;
        eventually("the waiter's first attempt", || {
            Ok(lock_calls(&beta)? > before)
        })?;
        std::thread::sleep(std::time::Duration::from_secs(4));
        holder.does(free.clone())?;
        assert_eq!(waiter.outcome()?, Ok(String::new()));
        let calls = lock_calls(&beta)? - before;
        assert_eq!(calls, 2, "the client asked by itself after {free:?}");
        assert!(!takes(&mut holder, Kind::Exclusive, (14, 1))?);
        unlocks(&mut waiter, (0, 0))?;
    }
    alpha.power_off()?;
    beta.power_off()
}

pub fn the_locks_of_a_killed_process_are_free() -> Result<()> {
    let scene = Scene::open()?;
    let alpha = scene.guest("alpha")?;
    let beta = scene.guest("beta")?;
    let (mut doomed, mut waiter) = (scene.hand(&alpha)?, scene.hand(&beta)?);
    open(&mut doomed)?;
    open(&mut waiter)?;
    assert!(takes(&mut doomed, Kind::Exclusive, (0, 0))?);
    waiter.begins(&Act::Lock(FILE.into(), Kind::Shared, (0, 0)))?;
    doomed.job.signal(Signal::KILL)?;
    assert_eq!(waiter.outcome()?, Ok(String::new()));

    // An orderly goodbye of the whole client frees what it held, too.
    let mut last = scene.hand(&alpha)?;
    open(&mut last)?;
    unlocks(&mut waiter, (0, 0))?;
    assert!(takes(&mut last, Kind::Exclusive, (0, 0))?);
    waiter.begins(&Act::Lock(FILE.into(), Kind::Shared, (0, 0)))?;
    alpha.power_off()?;
    assert_eq!(waiter.outcome()?, Ok(String::new()));
    waiter.does(Act::Close(FILE.into()))?;
    beta.unmount(MOUNT)
        .err()
        .context("its process still works there")?;
    drop(waiter);
    beta.power_off()
}

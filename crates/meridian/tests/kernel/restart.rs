//! The server goes away in the middle of work and comes back.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use testbed::{Job, Signal};

use crate::inside::hand::{Act, Kind, Way};
use crate::scene::{
    LONG_LEASE, MOUNT, OPEN_EXPORT, PATIENCE, Scene, eventually, finish, lines, program, run,
};

/// Waits until the job has written some more lines.
pub fn more(job: &Job, count: usize) -> Result<()> {
    let goal = lines(job)? + count;
    eventually("the work goes on", || {
        if lines(job)? >= goal {
            return Ok(true);
        }
        let ended = job.wait(Duration::ZERO)?;
        ensure!(
            ended.is_none(),
            "the work ended: {}",
            ended.context("just seen")?.error_text()
        );
        Ok(false)
    })
}

pub fn synchronous_data_survives_kill_9_and_work_goes_on() -> Result<()> {
    // The last client has to wait for the end of the grace period.
    let mut scene = Scene::with(&[OPEN_EXPORT, "[time]\nlease_seconds = 12\n"])?;
    let guest = scene.guest("alpha")?;
    let journal = guest.start(program(["journal", "/run/m/journal"]))?;
    more(&journal, 20)?;
    for _ in 0..3 {
        scene.crash_server()?;
        more(&journal, 20)?;
        scene.restart_server()?;
        more(&journal, 20)?;
    }
    // Both die at once: nobody is left who could send anything again.
    scene.server.kill()?;
    let acknowledged = lines(&journal)?.to_string();
    guest.crash();
    scene.start_server()?;
    let beta = scene.guest("beta")?;
    run(&beta, program(["audit", "/run/m/journal", &acknowledged]))?;
    beta.power_off()?;
    scene.check_store()
}

/// The client keeps what it has written until the server says that it is stable, and sends it again when
/// the write verifier shows that the server was another meanwhile.
pub fn data_on_its_way_is_sent_again_after_a_crash() -> Result<()> {
    let mut scene = Scene::open()?;
    let guest = scene.guest("alpha")?;
    let pour = guest.start(program(["pour", "/run/m/f"]))?;
    more(&pour, 4)?;
    scene.crash_server()?;
    // On a fast machine everything is written by now.
    if pour.wait(Duration::ZERO)?.is_none() {
        scene.crash_server()?;
    }
    finish(&pour)?;
    guest.power_off()?;
    scene.check_store()
}

/// In the grace period the holder gets its lock back, and another client gets it at no moment.
pub fn locks_are_reclaimed_and_nobody_steals_them() -> Result<()> {
    let mut scene = Scene::open()?;
    let alpha = scene.guest("alpha")?;
    let beta = scene.guest("beta")?;
    let (mut holder, mut thief) = (scene.hand(&alpha)?, scene.hand(&beta)?);
    for hand in [&mut holder, &mut thief] {
        hand.does(Act::Open("f".into(), Way::Write))?;
    }
    let take = |range| Act::TryLock("f".into(), Kind::Exclusive, range);
    holder.does(take((100, 50)))?;
    for crash in [true, false, true] {
        thief.does(take((0, 10)))?;
        match crash {
            true => scene.crash_server()?,
            false => scene.restart_server()?,
        }
        // The holder is busy, so that it notices the restart at once and not at its next renewal.
        holder.does(Act::WriteAt("f".into(), 100, format!("{crash}")))?;
        holder.begins(&Act::Sync("f".into()))?;
        // The thief's attempt waits for the end of the grace period and is then refused.
        let stolen = thief.tries(take((149, 1)))?;
        assert_eq!(stolen, Err(Errno::EAGAIN as i32), "crash: {crash}");
        assert_eq!(holder.outcome()?, Ok(String::new()));
        let stolen = holder.tries(take((5, 1)))?;
        assert_eq!(stolen, Err(Errno::EAGAIN as i32), "crash: {crash}");
        thief.does(Act::Unlock("f".into(), (0, 0)))?;
    }
    holder.does(Act::Close("f".into()))?;
    thief.does(take((149, 1)))?;
    alpha.power_off()?;
    beta.power_off()?;
    scene.check_store()
}

/// Removed files stay open for those who have them open, also when the server was killed meanwhile.
pub fn open_files_stay_usable_across_restarts() -> Result<()> {
    let mut scene = Scene::open()?;
    let guest = scene.guest("alpha")?;
    let mut hand = scene.hand(&guest)?;
    for name in ["kept", "removed", "replaced"] {
        hand.does(Act::Open(name.into(), Way::Write))?;
        hand.does(Act::WriteAt(name.into(), 0, "before ".into()))?;
    }
    hand.does(Act::Remove("removed".into()))?;
    hand.does(Act::WriteFile("fresh".into(), "fresh".into()))?;
    hand.does(Act::Rename("fresh".into(), "replaced".into()))?;
    scene.crash_server()?;
    for name in ["kept", "removed", "replaced"] {
        hand.does(Act::WriteAt(name.into(), 7, "after".into()))?;
        hand.does(Act::Sync(name.into()))?;
    }
    run(&guest, "echo 3 > /proc/sys/vm/drop_caches")?;
    for name in ["kept", "removed", "replaced"] {
        assert_eq!(
            hand.does(Act::ReadAt(name.into(), (0, 100)))?,
            "before after",
            "{name}"
        );
        hand.does(Act::Close(name.into()))?;
    }
    assert_eq!(hand.does(Act::List(".".into()))?, "kept replaced");
    assert_eq!(hand.does(Act::ReadFile("replaced".into()))?, "fresh");
    guest.power_off()
}

/// An orderly stop lets every answer out, so nothing is repeated that was done.
pub fn names_change_exactly_once_across_orderly_restarts() -> Result<()> {
    names_change_across(Scene::open()?, Scene::restart_server)
}

/// What a server had done when it was killed is answered by its next start, before the client makes a new session.
pub fn names_change_exactly_once_across_crashes() -> Result<()> {
    names_change_across(Scene::open()?, Scene::crash_server)
}

/// What the server has given to the machine's kernel is safe from the server's own death.
pub fn crashes_lose_nothing_with_asynchronous_commits_either() -> Result<()> {
    let scene = Scene::with(&["commit = \"async\"\n", OPEN_EXPORT, LONG_LEASE])?;
    names_change_across(scene, Scene::crash_server)
}

fn names_change_across(mut scene: Scene, again: fn(&mut Scene) -> Result<()>) -> Result<()> {
    let alpha = scene.guest("alpha")?;
    let beta = scene.guest("beta")?;
    let jobs = [
        alpha.start(program(["bustle", MOUNT, "one"]))?,
        alpha.start(program(["bustle", MOUNT, "two"]))?,
        beta.start(program(["bustle", MOUNT, "three"]))?,
    ];
    jobs.iter().try_for_each(|job| more(job, 3))?;
    for _ in 0..3 {
        again(&mut scene)?;
        jobs.iter().try_for_each(|job| more(job, 3))?;
    }
    for job in &jobs {
        job.signal(Signal::KILL)?;
        job.wait(PATIENCE)?.context("a killed program ends")?;
    }
    run(&alpha, "rm -r /run/m/one /run/m/two /run/m/three")?;
    assert_eq!(run(&beta, "ls -A /run/m")?.text(), "");
    alpha.power_off()?;
    beta.power_off()?;
    scene.check_store()
}

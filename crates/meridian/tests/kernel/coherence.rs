//! What clients see of each other.

use std::time::Duration;

use anyhow::{Result, ensure};
use nix::errno::Errno;
use testbed::{Job, Signal};

use crate::inside::hand::Act;
use crate::scene::{MOUNT, Scene, eventually, lines, program};

/// Close-to-open, in rounds whose order the test decides: a client that opens after the other has
/// closed sees what was written. Versions have the same length, so only the change attribute
/// differs.
pub fn what_was_closed_is_seen_by_the_next_open() -> Result<()> {
    const ROUNDS: u32 = 2000;
    let scene = Scene::open()?;
    let alpha = scene.guest("alpha")?;
    let beta = scene.guest("beta")?;
    let mut hands = [scene.hand(&alpha)?, scene.hand(&beta)?];
    for round in 0..ROUNDS {
        let text = format!("version {round:05}");
        let writer = round as usize % 2;
        hands[writer].does(Act::WriteFile("f".into(), text.clone()))?;
        let seen = hands[1 - writer].does(Act::ReadFile("f".into()))?;
        ensure!(
            seen == text,
            "after {text} was closed, the other client saw {seen}"
        );
    }
    alpha.power_off()?;
    beta.power_off()
}

/// Both clients try at the same moment.
pub fn exclusive_creation_has_one_winner() -> Result<()> {
    const ROUNDS: usize = 500;
    let scene = Scene::open()?;
    let alpha = scene.guest("alpha")?;
    let beta = scene.guest("beta")?;
    let mut hands = [scene.hand(&alpha)?, scene.hand(&beta)?];
    let mut wins = [0, 0];
    for round in 0..ROUNDS {
        let name = format!("prize-{round}");
        let act = match round % 3 {
            0 | 1 => Act::CreateNew(name),
            _ => Act::MakeDirectory(name),
        };
        // Who is told first changes, so that both have a chance.
        hands[round % 2].begins(&act)?;
        hands[1 - round % 2].begins(&act)?;
        let outcomes = [hands[0].outcome()?, hands[1].outcome()?];
        let winners = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let loser = Err(Errno::EEXIST as i32);
        ensure!(
            winners == 1 && outcomes.contains(&loser),
            "round {round}: {outcomes:?}"
        );
        wins[usize::from(outcomes[1].is_ok())] += 1;
    }
    assert!(
        wins.iter().all(|wins| *wins > 0),
        "one client never won, so nothing was raced"
    );
    alpha.power_off()?;
    beta.power_off()
}

fn still_well(job: &Job) -> Result<()> {
    let ended = job.wait(Duration::ZERO)?;
    ensure!(
        ended.is_none(),
        "{}",
        ended.map(|output| output.error_text()).unwrap_or_default()
    );
    Ok(())
}

pub fn a_name_that_is_renamed_over_never_disappears() -> Result<()> {
    let scene = Scene::open()?;
    let alpha = scene.guest("alpha")?;
    let beta = scene.guest("beta")?;
    // Where a file is open the Linux client moves it aside before it renames another over it, and for
    // a moment the name is gone. So watchers have mounts that nobody writes through.
    let watching = scene.mount().option("nosharecache,noac,lookupcache=none");
    alpha.mount(&watching, "/run/w")?;
    beta.mount(&watching, "/run/w")?;
    let mut first = scene.hand(&alpha)?;
    first.does(Act::WriteFile("current".into(), "a".repeat(20_000)))?;
    let jobs = [
        alpha.start(program(["replace", MOUNT, "alpha"]))?,
        beta.start(program(["replace", MOUNT, "beta"]))?,
        alpha.start(program(["watch", "/run/w"]))?,
        beta.start(program(["watch", "/run/w"]))?,
    ];
    for job in &jobs {
        eventually("two hundred rounds", || {
            jobs.iter().try_for_each(still_well)?;
            Ok(lines(job)? >= 200)
        })?;
    }
    jobs.iter().try_for_each(|job| job.signal(Signal::KILL))?;
    alpha.power_off()?;
    beta.power_off()
}

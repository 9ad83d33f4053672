//! Directories with many entries.

use anyhow::{Result, ensure};
use testbed::{Guest, Signal};

use crate::scene::{MOUNT, Scene, eventually, finish, lines, program, run};

/// Entries that are there all the time.
const STEADY: u32 = 20_000;

/// How many of them one process makes: each is waited for as long as for anything else, on a machine
/// where other tests keep the disk busy.
const AT_A_TIME: u32 = 2_500;

pub fn a_listing_shows_every_steady_entry_once_while_others_change_the_directory() -> Result<()> {
    let scene = Scene::open()?;
    let lister = scene.guest("alpha")?;
    let changer = scene.guest("beta")?;
    fill(&lister, &changer)?;

    let churn = changer.start(program(["churn", MOUNT]))?;
    eventually("the first changes", || Ok(lines(&churn)? > 2))?;
    let mut overlapping = 0;
    for _ in 0..4 {
        let before = lines(&churn)?;
        run(&lister, "echo 3 > /proc/sys/vm/drop_caches")?;
        run(
            &lister,
            program(["list", MOUNT, "steady-", &STEADY.to_string()]),
        )?;
        overlapping += lines(&churn)? - before;
        ensure!(
            churn.is_running()?,
            "{:?}",
            churn.wait(std::time::Duration::ZERO)?
        );
    }
    assert!(
        overlapping > 2,
        "nothing changed while the directory was listed"
    );
    churn.signal(Signal::KILL)?;
    lister.power_off()?;
    changer.power_off()
}

/// Makes the steady entries, one half from each guest at the same time.
fn fill(lister: &Guest, changer: &Guest) -> Result<()> {
    let begin = |guest: &Guest, first: u32| {
        let (first, end) = (first.to_string(), (first + AT_A_TIME).to_string());
        guest.start(program(["fill", MOUNT, "steady-", &first, &end]))
    };
    for first in (0..STEADY / 2).step_by(AT_A_TIME as usize) {
        let fillers = [begin(lister, first)?, begin(changer, STEADY / 2 + first)?];
        for filler in &fillers {
            finish(filler)?;
        }
    }
    Ok(())
}

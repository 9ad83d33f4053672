//! Directories with many entries.

use anyhow::{Result, ensure};
use testbed::Signal;

use crate::scene::{MOUNT, Scene, eventually, finish, lines, program, run};

/// Entries that are there all the time.
const STEADY: &str = "20000";

pub fn a_listing_shows_every_steady_entry_once_while_others_change_the_directory() -> Result<()> {
    let scene = Scene::open()?;
    let lister = scene.guest("alpha")?;
    let changer = scene.guest("beta")?;
    let half = (STEADY.parse::<u32>()? / 2).to_string();
    let fillers = [
        lister.start(program(["fill", MOUNT, "steady-", "0", &half]))?,
        changer.start(program(["fill", MOUNT, "steady-", &half, STEADY]))?,
    ];
    for filler in &fillers {
        finish(filler)?;
    }

    let churn = changer.start(program(["churn", MOUNT]))?;
    eventually("the first changes", || Ok(lines(&churn)? > 2))?;
    let mut overlapping = 0;
    for _ in 0..4 {
        let before = lines(&churn)?;
        run(&lister, "echo 3 > /proc/sys/vm/drop_caches")?;
        run(&lister, program(["list", MOUNT, "steady-", STEADY]))?;
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

//! Connections break while requests are under way, and the server stays.

use anyhow::{Context, Result};
use testbed::Signal;

use crate::restart::more;
use crate::scene::{MOUNT, Scene, program, run};

/// With a short `timeo` the client gives a silent connection up, makes another and sends again what was
/// not answered; the server must answer from its reply cache what it has executed already.
pub fn names_change_exactly_once_across_pulled_cables() -> Result<()> {
    let scene = Scene::open()?;
    let guest = scene.guest_with("alpha", &scene.mount().option("timeo=10,retrans=1"))?;
    let jobs = [
        guest.start(program(["bustle", MOUNT, "one"]))?,
        guest.start(program(["bustle", MOUNT, "two"]))?,
    ];
    for _ in 0..3 {
        jobs.iter().try_for_each(|job| more(job, 2))?;
        guest.unplug()?;
        std::thread::sleep(std::time::Duration::from_secs(4));
        guest.plug()?;
    }
    jobs.iter().try_for_each(|job| more(job, 3))?;
    assert!(connections(&run(&guest, "cat /proc/self/mountstats")?.text())? > 1);
    jobs.iter().try_for_each(|job| job.signal(Signal::KILL))?;
    guest.power_off()
}

/// How many connections the mount has made: the third number of its transport line (mountstats(8)).
fn connections(stats: &str) -> Result<u32> {
    let line = stats
        .lines()
        .find_map(|line| line.trim().strip_prefix("xprt:"));
    let line = line.context("the kernel describes its transport")?;
    let number = line.split_whitespace().nth(3);
    Ok(number.context("the kernel counts connections")?.parse()?)
}

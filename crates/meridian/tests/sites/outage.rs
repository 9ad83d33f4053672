//! A link fails and comes back.
//!
//! What must never enter: servers that fail.

use anyhow::{Context, Result};
use testbed::{Job, Signal};

use crate::scene::{MOUNT, NAMES, PATIENCE, Sites, eventually, more, program, whole};

/// Whether the first site's server is in contact with the third one's.
fn in_contact(sites: &Sites) -> Result<bool> {
    let status = sites.status(0)?;
    let third = status.peers.iter().find(|peer| peer.slot == 3);
    Ok(third.context("the set has three")?.connected)
}

/// The server in the middle reaches both others all the time.
pub fn work_goes_on_when_a_cut_link_heals_and_all_copies_are_equal() -> Result<()> {
    let sites = whole()?;
    let folder = format!("{MOUNT}/outage");
    sites.run(0, format!("mkdir {folder}"))?;
    let begin = |site: usize| sites.start(site, program(["bustle", &folder, NAMES[site]]));
    let jobs = (0..NAMES.len()).map(begin);
    let jobs: Vec<Job> = jobs.collect::<Result<_>>()?;
    for _ in 0..2 {
        jobs.iter().try_for_each(more)?;
        sites.wan().cut(NAMES[0], NAMES[2])?;
        eventually("the cut is noticed", || Ok(!in_contact(&sites)?))?;
        sites.wan().heal(NAMES[0], NAMES[2])?;
        eventually("the link is back", || in_contact(&sites))?;
    }
    jobs.iter().try_for_each(more)?;
    for job in &jobs {
        job.signal(Signal::KILL)?;
        job.wait(PATIENCE)?.context("a killed program ends")?;
    }
    sites.equal_everywhere(".")?;
    sites.end_well()
}

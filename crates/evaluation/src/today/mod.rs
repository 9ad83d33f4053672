//! Comparison with programs that people use today: GlusterFS, GridFTP and rsync, over the same links on the same machine, in turns.
//!
//! What must never enter: advantages. Every peer runs as its package ships it, and does the same work on the same bytes.

mod age;
mod copies;
mod package;
mod stand;

pub(crate) use age::Age;
pub(crate) use copies::Copies;
pub(crate) use package::Package;

use std::time::Duration;

use anyhow::{Context, Result};
use bench::statistics::LATENESS;
use bench::trial::{Job, Outcome};
use stand::{Mounted, Stand};
use testbed::LinkSettings;

use crate::experiment::{Book, by_place};
use crate::field::Field;

/// The bandwidth of every link, in bits a second.
const BANDWIDTH: u64 = 1_000_000_000;

/// The series of Meridian.
const MERIDIAN: &str = "Meridian, 3 replicas";

/// A volume with a replica at every site.
const GLUSTER: &str = "GlusterFS, 3 replicas";

/// Copying after the work.
const GRIDFTP: &str = "GridFTP";

/// Copying after the work, or repeatedly.
const RSYNC: &str = "rsync";

/// The link for a place on the axis, which is a round trip in milliseconds.
fn link(x: &str) -> Result<LinkSettings> {
    let milliseconds: f64 = x.parse().with_context(|| format!("'{x}' is no time"))?;
    let round_trip = Duration::from_secs_f64(milliseconds / 1000.0);
    Ok(LinkSettings::round_trip(round_trip).bandwidth(BANDWIDTH))
}

/// Round trips in milliseconds; in between the curves are straight lines.
const DISTANCES: &[&str] = &["0.2", "60", "120"];

/// Measures jobs side by side: restarts everything at each place, prepares there what is `ready` for all jobs, and measures one job
/// after another, each under its own name. All servers must run all the time.
fn at_each_place<T>(
    field: &Field,
    jobs: &[Job],
    book: &dyn Book,
    ready: impl Fn(&Stand) -> Result<T>,
    measure: impl Fn(&Stand, &Mounted, &T, &Job, &str) -> Result<Outcome>,
) -> Result<()> {
    for (x, jobs) in by_place(jobs) {
        let stand = Stand::start(field, &link(x)?)?;
        let mut mounted = stand.gluster()?;
        let ready = ready(&stand)?;
        for (number, job) in jobs.into_iter().enumerate() {
            let name = format!("work-{number}");
            let outcome = measure(&stand, &mounted, &ready, job, &name);
            mounted.check_running()?;
            stand.sites.check_running()?;
            let mut outcome = outcome.with_context(|| job.to_string())?;
            note_lateness(&mut outcome, &stand)?;
            book.keep(job, outcome)?;
        }
        mounted.stop()?;
    }
    Ok(())
}

/// Adds the lateness of packets since these sites were started.
fn note_lateness(outcome: &mut Outcome, stand: &Stand) -> Result<()> {
    let late = stand.sites.lateness()?.as_secs_f64() * 1e6;
    outcome.insert(LATENESS.to_owned(), late);
    Ok(())
}

/// Figures by their names.
fn outcome<const N: usize>(figures: [(&str, Duration); N]) -> Outcome {
    let figures = figures.map(|(name, time)| (name.to_owned(), time.as_secs_f64()));
    figures.into()
}

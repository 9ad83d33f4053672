//! Beside what people use today: GlusterFS, GridFTP and rsync, over the same links on the same machine, in turns.
//!
//! What must never enter: favours. Every peer runs as its package ships it, and does the same work on the same bytes.

mod age;
mod copies;
mod package;
mod stand;

pub(crate) use age::Age;
pub(crate) use copies::Copies;
pub(crate) use package::Package;

use std::time::Duration;

use anyhow::{Context, Result};
use testbed::LinkSettings;

use super::experiment::Outcome;

/// The bandwidth of every link, in bits a second.
const BANDWIDTH: u64 = 1_000_000_000;

/// Our own series.
const MERIDIAN: &str = "Meridian, 3 replicas";

/// A volume with a replica at every site.
const GLUSTER: &str = "GlusterFS, 3 replicas";

/// Copying after the work.
const GRIDFTP: &str = "GridFTP";

/// Copying after the work, or again and again.
const RSYNC: &str = "rsync";

/// The link of a place on the axis, which is a round trip in milliseconds.
fn link(x: &str) -> Result<LinkSettings> {
    let milliseconds: f64 = x.parse().with_context(|| format!("'{x}' is no time"))?;
    let round_trip = Duration::from_secs_f64(milliseconds / 1000.0);
    Ok(LinkSettings::round_trip(round_trip).bandwidth(BANDWIDTH))
}

/// Figures by their names.
fn outcome<const N: usize>(figures: [(&str, Duration); N]) -> Outcome {
    let figures = figures.map(|(name, time)| (name.to_owned(), time.as_secs_f64()));
    figures.into()
}

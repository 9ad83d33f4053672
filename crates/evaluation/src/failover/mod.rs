//! A set of three replicas whose servers are killed as by `kill -9` while clients work: how long clients wait for a lost server
//! (`takeover`), how it catches up (`absence`), and the cost of being prepared (`leases`).
//!
//! What must never enter: failures that the servers are told of.

mod absence;
mod leases;
mod takeover;

pub(crate) use absence::Absence;
pub(crate) use leases::Leases;
pub(crate) use takeover::Takeover;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testbed::LinkSettings;
use tokio::runtime::Runtime;

use crate::field::Field;
use crate::sites::Sites;

/// The number of replicas.
const REPLICAS: usize = 3;

/// The round trip between two sites.
const DISTANCE: Duration = Duration::from_millis(60);

/// Starts a set in a folder, with these lines of configuration and this durability of the whole tree.
fn start(field: &Field, folder: &Path, settings: &str, durability: &str) -> Result<Sites> {
    let link = LinkSettings::round_trip(DISTANCE);
    let sites = Sites::start_with(&link, &field.program, folder, REPLICAS, settings)?;
    let status = sites.replicas[0].replication()?;
    ensure!(
        status["view"]["epoch"].is_u64(),
        "these servers agree on no views, so nobody takes over from a lost one"
    );
    sites.replicas[0]
        .ask(&["durability", "/", durability])
        .context("durability could not be set")?;
    Ok(sites)
}

/// For clients that work while this thread acts on their servers.
fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(2).enable_all().build()?)
}

/// A time in seconds, in the form of outcomes.
fn seconds(name: &str, time: Duration) -> (String, f64) {
    (name.to_owned(), time.as_secs_f64())
}

/// The places of all servers, for pages.
fn where_words() -> String {
    format!(
        "Three replicas {} ms from each to each and back, and their clients.",
        DISTANCE.as_millis()
    )
}

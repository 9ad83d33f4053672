//! Real servers at three sites are restarted one after another, as for an upgrade, while clients work at all of them,
//! Linux kernels among them, and what these were answered is judged.
//!
//! What must never enter: faults; those are drawn by the `nemesis` program.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use nemesis::run::{Order, folder, run};
use nemesis::schedule::Profile;
use nemesis::world::Together;
use testbed::Requirements;

const SITES: usize = 3;

/// Draws what the clients do; any would serve.
const SEED: u64 = 1;

#[test]
fn every_server_is_restarted_in_turn_while_clients_work() -> Result<()> {
    if !Requirements::guest()
        .with_wan()
        .admit("a rolling restart")?
    {
        return Ok(());
    }
    let base = tempfile::tempdir()?;
    let order = Order {
        kind: Together::Set,
        profile: Profile {
            seed: SEED,
            sites: SITES,
            data_servers: 0,
            length: Duration::ZERO,
            kinds: Vec::new(),
            majority: false,
            rolling: true,
        },
        round_trip: Duration::from_millis(60),
        stall_limit: None,
        homes: false,
        kernels: true,
        settings: String::new(),
        program: PathBuf::from(env!("CARGO_BIN_EXE_meridian")),
        folder: folder(base.path(), SEED)?,
    };
    let outcome = run(&order)?;
    ensure!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
    let restarted: Vec<usize> = outcome.faults.iter().map(|one| one.fault.victim).collect();
    ensure!(restarted == [0, 1, 2], "{restarted:?}");
    for site in 0..SITES {
        let last = outcome.faults.iter().filter_map(|one| one.end).max();
        let mut later = outcome.events.iter();
        let goes_on = later.any(|event| {
            event.site == site && event.is_done() && last.is_some_and(|last| event.begin > last)
        });
        ensure!(goes_on, "nothing is done at site {site} any more");
    }
    Ok(())
}

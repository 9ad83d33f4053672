//! `bench failover`: how long a lost server is missed, and what it costs to be prepared for that.
//!
//! A set of three replicas runs in sites of its own; servers are killed as by `kill -9` while clients work.
//!
//! What must never enter: a figure without its conditions, and trials left out.

mod absence;
mod cost;
mod report;
mod takeover;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use testbed::{LinkSettings, Requirements};
use tokio::runtime::Runtime;

use crate::arguments::FailoverArguments;
use crate::comparison::WorkFolder;
use crate::contender::{meridian_program, version};
use crate::machine::Machine;
use crate::page;
use crate::sites::Sites;
use report::{Conditions, Report};

/// How many replicas.
const REPLICAS: usize = 3;

/// The time from one site to another and back.
const DISTANCE: Duration = Duration::from_millis(60);

/// Settings by name: those of every new server, and shorter ones for sites with good links.
const SETTINGS: [(&str, &str); 2] = [
    ("default", "[time]\nlease_seconds = 5\n"),
    (
        "tuned",
        "[time]\nlease_seconds = 5\n[replication]\nsite_lease = \"2 s\"\n",
    ),
];

/// A lease that is asked for ten times less often than by default.
const RARE: &str = "[replication]\nsite_lease = \"50 s\"\n";

/// How long a server is away.
const HOUR: Duration = Duration::from_secs(3600);

/// How it catches up, and the settings that lead to it.
const ABSENCES: [(&str, &str); 2] = [
    (absence::BY_LOG, ""),
    (absence::COMPARING, "[replication]\nkept_updates = 10000\n"),
];

/// How much is done.
#[derive(Debug, Clone, Copy)]
struct Extent {
    /// How often a primary is killed.
    trials: usize,
    /// How many files a second are made in the hour for which a server is away; all of them as fast as can be.
    files_a_second: f64,
    /// How often the servers with and without frequent leases have their turns.
    rounds: usize,
    /// How many files are made in a turn.
    files: usize,
}

const WHOLE: Extent = Extent {
    trials: 10,
    files_a_second: 10.0,
    rounds: 20,
    files: 300,
};

const QUICK: Extent = Extent {
    trials: 3,
    files_a_second: 0.5,
    rounds: 6,
    files: 100,
};

/// Runs the benchmark and writes its results.
pub(crate) fn run(arguments: &FailoverArguments) -> Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("bench: THIS IS NOT A RELEASE BUILD. The figures say nothing.");
    }
    let program = meridian_program(arguments.run.meridian.as_deref())?;
    let needs = Requirements::site().with_wan();
    if !needs.admit("bench failover, which needs sites and a WAN between them")? {
        bail!("there is no WAN on this machine, see above");
    }
    let extent = match arguments.quick {
        true => QUICK,
        false => WHOLE,
    };
    let disk = WorkFolder::make_in(&arguments.run.disk)?;
    let mut report = Report::new(Conditions {
        machine: Machine::describe(disk.path())?,
        meridian: version(&program, "--version")?,
        trials: extent.trials,
        files_a_second: extent.files_a_second,
        file_bytes: absence::SIZE,
        rounds: extent.rounds,
        files: extent.files,
        round_trip_ms: DISTANCE.as_millis() as u64,
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let measured = measure(&program, disk.path(), extent, &runtime, &mut report);
    // What was measured before a failure is worth reading.
    write(arguments, &report)?;
    measured?;
    if let Some(date) = &arguments.run.publish {
        page::publish_failover(Path::new("docs/benchmarks.md"), date, &report.section(date))?;
    }
    Ok(())
}

fn measure(
    program: &Path,
    disk: &Path,
    extent: Extent,
    runtime: &Runtime,
    report: &mut Report,
) -> Result<()> {
    for (name, settings) in SETTINGS {
        let mut sites = start(program, disk, name, settings)?;
        eprintln!("bench: killing primaries, {name} settings");
        let figures = takeover::measure(&mut sites, runtime, name, extent.trials)?;
        report.takeovers.push(figures);
    }
    for (way, settings) in ABSENCES {
        let mut sites = start(program, disk, &way.replace(' ', "-"), settings)?;
        eprintln!("bench: a server is away for an hour's changes, and catches up {way}");
        let updates = (extent.files_a_second * HOUR.as_secs_f64()) as usize;
        let figures = absence::measure(&mut sites, runtime, way, updates)?;
        report.absences.push(figures);
    }
    eprintln!("bench: what leases cost");
    let usual = start(program, disk, "usual", "")?;
    let again = start(program, disk, "again", "")?;
    let rare = start(program, disk, "rare", RARE)?;
    let sets = [&usual, &again, &rare];
    let cost = runtime.block_on(cost::measure(sets, extent.rounds, extent.files))?;
    report.cost = Some(cost);
    Ok(())
}

fn start(program: &Path, disk: &Path, name: &str, settings: &str) -> Result<Sites> {
    let sites = Sites::start_with(
        &LinkSettings::default(),
        program,
        &disk.join(name),
        REPLICAS,
        settings,
    )?;
    let status = sites.replicas[0].replication()?;
    ensure!(
        status["view"]["epoch"].is_u64(),
        "these servers agree on no views, so nobody takes over from a lost one"
    );
    sites.set(&LinkSettings::round_trip(DISTANCE))?;
    sites.replicas[0]
        .ask(&["durability", "/", "majority"])
        .context("durability could not be set")?;
    Ok(sites)
}

fn write(arguments: &FailoverArguments, report: &Report) -> Result<()> {
    fs::create_dir_all(&arguments.run.output)?;
    let markdown = report.tables();
    let raw = serde_json::to_string_pretty(report)?;
    fs::write(arguments.run.output.join("failover.md"), &markdown)?;
    fs::write(arguments.run.output.join("failover.json"), raw)?;
    println!("{markdown}");
    Ok(())
}

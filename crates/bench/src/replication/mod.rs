//! `bench replication`: what replication costs and brings, over an emulated wide area network.
//!
//! Sets of replicas run in sites of their own, joined by a WAN; the work is done at the first of them.
//! Beside it, in the same site, runs a server without replicas that does the same work in turns, so that
//! whatever else happens on this machine meets both. All servers share its disk and its processors.
//!
//! What must never enter: a figure without the one it is compared with.

mod bulk;
mod latency;
mod package;
mod report;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use testbed::Requirements;

use crate::arguments::{Part, ReplicationArguments};
use crate::comparison::WorkFolder;
use crate::contender::{meridian_program, version};
use crate::machine::Machine;
use crate::page;
use crate::sites::Sites;
use crate::trace::Trace;
use report::{Conditions, Report};

/// Round trips, in microseconds.
const DISTANCES_US: [u64; 4] = [200, 60_000, 120_000, 200_000];

/// The round trip of everything that is measured at one only.
const DISTANCE: Duration = Duration::from_millis(120);

/// The link that a large file crosses, in bits a second.
const BANDWIDTH: u64 = 1_000_000_000;

/// How much is done.
struct Extent {
    /// Numbers of replicas.
    sets: &'static [usize],
    /// Of them, those at which the package is played with pauses.
    thinking: &'static [usize],
    latency: latency::Extent,
    /// Round trips at which the package is played, in microseconds.
    package_us: &'static [u64],
    far_steps: usize,
    file_size: u64,
}

const WHOLE: Extent = Extent {
    sets: &[2, 3, 8],
    thinking: &[2, 8],
    latency: latency::Extent {
        beginnings: 10,
        following: 40,
    },
    package_us: &DISTANCES_US,
    far_steps: 2000,
    file_size: 1 << 30,
};

const QUICK: Extent = Extent {
    sets: &[2, 3],
    thinking: &[],
    latency: latency::Extent {
        beginnings: 4,
        following: 25,
    },
    package_us: &[200, 120_000],
    far_steps: 400,
    file_size: 256 << 20,
};

/// Runs the benchmark and writes its results.
pub(crate) fn run(arguments: &ReplicationArguments) -> Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("bench: THIS IS NOT A RELEASE BUILD. The figures say nothing.");
    }
    let program = meridian_program(arguments.run.meridian.as_deref())?;
    if !Requirements::site()
        .with_wan()
        .admit("bench replication, which needs sites and a WAN between them")?
    {
        bail!("there is no WAN on this machine, see above");
    }
    let parts = match arguments.parts.is_empty() {
        true => &[Part::Latency, Part::Package, Part::Bulk][..],
        false => &arguments.parts,
    };
    let trace = match parts.contains(&Part::Package) {
        true => Trace::read(&arguments.trace)?,
        false => Trace::new("no package".to_owned()),
    };
    let extent = match arguments.quick {
        true => QUICK,
        false => WHOLE,
    };
    let disk = WorkFolder::make_in(&arguments.run.disk)?;
    let mut report = Report::new(Conditions {
        machine: Machine::describe(disk.path())?,
        meridian: version(&program, "--version")?,
        package: trace.title.clone(),
        beginnings: extent.latency.beginnings,
        following: extent.latency.following,
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    for &count in extent.sets {
        let sites = Sites::start(&program, disk.path(), count)?;
        let measured = runtime.block_on(measure(&sites, &trace, &extent, parts, &mut report));
        // What was measured before a failure is worth reading.
        write(arguments, &report)?;
        measured?;
    }
    if let Some(date) = &arguments.run.publish {
        page::publish_replication(Path::new("docs/benchmarks.md"), date, &report.section(date))?;
    }
    Ok(())
}

/// Everything that is measured at one set.
async fn measure(
    sites: &Sites,
    trace: &Trace,
    extent: &Extent,
    parts: &[Part],
    report: &mut Report,
) -> Result<()> {
    let count = sites.replicas.len();
    let is_first = count == extent.sets[0];
    if parts.contains(&Part::Latency) && count <= 3 {
        for distance in DISTANCES_US.map(Duration::from_micros) {
            eprintln!("bench: latency, {count} replicas, {distance:?}");
            let figures = latency::measure(sites, distance, extent.latency).await?;
            report.latencies.extend(figures);
        }
    }
    if parts.contains(&Part::Bulk) && is_first {
        eprintln!("bench: one large file");
        let figures = bulk::measure(sites, DISTANCE, BANDWIDTH, extent.file_size).await?;
        report.bulk = Some(figures);
    }
    if parts.contains(&Part::Package) {
        for &distance in extent.package_us {
            let distance = Duration::from_micros(distance);
            eprintln!("bench: the package, {count} replicas, {distance:?}");
            let figures = package::measure(sites, trace, distance, false).await?;
            report.phases.extend(figures);
        }
        if extent.thinking.contains(&count) {
            eprintln!("bench: the package with pauses, {count} replicas");
            let figures = package::measure(sites, trace, DISTANCE, true).await?;
            report.phases.extend(figures);
        }
        if is_first {
            eprintln!("bench: the package at a server far away");
            let far = package::measure_far(sites, trace, DISTANCE, extent.far_steps);
            report.far = Some(far.await?);
        }
    }
    Ok(())
}

fn write(arguments: &ReplicationArguments, report: &Report) -> Result<()> {
    fs::create_dir_all(&arguments.run.output)?;
    let markdown = report.tables();
    let raw = serde_json::to_string_pretty(report)?;
    fs::write(arguments.run.output.join("replication.md"), &markdown)?;
    fs::write(arguments.run.output.join("replication.json"), raw)?;
    println!("{markdown}");
    Ok(())
}

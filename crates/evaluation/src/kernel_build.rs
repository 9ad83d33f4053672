//! The real SSH-Build: the package is unpacked, configured and built by its own scripts and compilers through the Linux
//! client, whose kernel runs as an ordinary process (User Mode Linux).
//!
//! What must never enter: the recorded trace.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::client::Target;
use bench::program;
use bench::raw::file_hash;
use bench::statistics::Results;
use bench::table::{self, Heads};
use bench::trial::{Job, Outcome, Point};
use plot::Plot;
use testbed::{Guest, GuestConfig, LinkSettings, Mount, Place, Requirements, Script, quoted};

use crate::experiment::{Book, Experiment, Peer, Shown};
use crate::extent::Extent;
use crate::field::Field;
use crate::sites::Sites;
use crate::ssh_build;
use crate::ssh_build::sweep::side_by_side;

const REPLICATED: &str = "two replicas";
const LOCAL: &str = "single local server";

/// The round trip between the replicas, in the form of points.
const DISTANCE: &str = "120";

/// The folder of the source package; scripts/evaluate fetches it.
const SOURCES: &str = "target/evaluation/source";

/// The mount point in guests.
const FOLDER: &str = "/run/m";

/// Names and commands of the phases, as they were recorded for the trace.
const CONFIGURE: (&str, &str) = ("configure_s", "cd dropbear-* && ./configure --disable-zlib");
const BUILD: (&str, &str) = ("build_s", "cd dropbear-* && make");

/// Longer than a phase may take in a guest.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Lists all files with their checksums.
const SUMS: &str = "find . -type f -exec sha256sum {} + | sort";

/// The real package.
#[derive(Debug)]
pub(crate) struct KernelBuild;

impl Experiment for KernelBuild {
    fn name(&self) -> &'static str {
        "kernel-build"
    }

    fn needs(&self) -> Requirements {
        Requirements::guest().with_wan().with_programs()
    }

    fn peers(&self) -> Result<Vec<Peer>> {
        archive()?;
        Ok(vec![Peer {
            name: "the C compiler GCC".to_owned(),
            version: program::version(Path::new("cc"), "-dumpfullversion")?,
        }])
    }

    fn settings(&self, extent: Extent) -> String {
        // Without an archive nothing is measured, see `peers`.
        let source = archive().and_then(|archive| file_hash(&archive));
        let source = source.unwrap_or_default();
        format!("{source} {DISTANCE} {:?}", phases(Path::new(""), extent))
    }

    fn points(&self, _: Extent) -> Vec<Point> {
        [REPLICATED, LOCAL]
            .map(|series| Point::new("", series, DISTANCE))
            .to_vec()
    }

    fn expected(&self, _: &Point, extent: Extent) -> Duration {
        extent.choose(Duration::from_secs(450), Duration::from_secs(15))
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let archive = archive()?;
        let phases = phases(&archive, field.extent);
        side_by_side(2, jobs, |job| {
            let outcome = one(field, &phases, job.point.series == REPLICATED);
            book.keep(job, outcome.with_context(|| job.to_string())?)
        })
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        let shortened = extent.choose("", " This quick run only unpacked it.");
        let heads = Heads::of("server", "");
        let columns = ssh_build::figures(results);
        Shown {
            title: "SSH-Build through the Linux client",
            about: format!(
                "**This ran inside an emulated client kernel.** The package was really unpacked, configured and built, by GNU tar, \
                 configure, make and the C compiler, in a User Mode Linux kernel that had mounted the first of two replicas \
                 {DISTANCE} ms apart by NFSv4.1, and another one a server without replicas; both at the same time. Starting a program \
                 there takes many times what it takes on the host, so the whole times say little; side by side they show that \
                 a real client sees what the recording shows. Compared are checksums of all files at the other site, and of the server \
                 alone after a new mount.{shortened}"
            ),
            claims: "",
            tables: vec![table::by_point(results, heads, &columns, Some(LOCAL))],
            plots: vec![Plot::only(
                "SSH-Build, really, through the Linux client",
                2,
                ssh_build::charts_by_phase(results, "", Some(LOCAL)),
            )],
        }
    }

    fn result(&self, results: &Results) -> Option<String> {
        let x = results.last_place("")?;
        let ratios = table::ratios(results, "", x, ssh_build::TOTAL, LOCAL)?;
        Some(format!("time at {x} ms: {ratios}"))
    }
}

/// The archive of the package.
fn archive() -> Result<PathBuf> {
    let entries = fs::read_dir(SOURCES).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut archives = paths.filter(|path| path.to_string_lossy().ends_with(".orig.tar.bz2"));
    let archive = archives.next().with_context(|| {
        format!("there is no source package in {SOURCES}; scripts/evaluate fetches it")
    })?;
    Ok(archive.canonicalize()?)
}

/// Figures, each with the command whose time it is.
fn phases(archive: &Path, extent: Extent) -> Vec<(&'static str, String)> {
    let archive = quoted(&archive.to_string_lossy());
    let unpack = ("unpack_s", format!("tar --no-same-owner -xf {archive}"));
    let others = [CONFIGURE, BUILD].map(|(name, command)| (name, command.to_owned()));
    let others = others.into_iter().take(extent.choose(2, 0));
    [unpack].into_iter().chain(others).collect()
}

/// One build at new servers.
fn one(field: &Field, phases: &[(&str, String)], is_replicated: bool) -> Result<Outcome> {
    let folder = field.folder()?;
    let link = LinkSettings::round_trip(ssh_build::round_trip(DISTANCE)?);
    let disk = folder.path().join("set");
    let sites = Sites::start_with(&link, &field.program, &disk, 2, "")?;
    sites.wait_for_quiet()?;
    let [first, second] = sites.two_places()?;
    let [near, far] = match is_replicated {
        true => [sites.replicas[0].target(), sites.replicas[1].target()],
        false => [sites.alone.target(), sites.alone.target()],
    };
    let guest = client(first, "builder", &near)?;
    let mut outcome = Outcome::new();
    for (name, command) in phases {
        let began = Instant::now();
        run(&guest, command).with_context(|| format!("{command} failed"))?;
        outcome.insert((*name).to_owned(), began.elapsed().as_secs_f64());
    }
    let total = outcome.values().sum();
    outcome.insert(ssh_build::TOTAL.to_owned(), total);
    let here = run(&guest, SUMS)?;
    guest.power_off()?;
    sites.wait_for_copies()?;
    sites.wait_for_quiet()?;
    let place = if is_replicated { second } else { first };
    let guest = client(place, "reader", &far)?;
    let there = run(&guest, SUMS)?;
    guest.power_off()?;
    ensure!(
        here == there && !here.is_empty(),
        "the files differ at the other site"
    );
    sites.check_running()?;
    Ok(outcome)
}

/// A Linux client in a place, with the export of a server mounted.
fn client(place: &Place, name: &str, server: &Target) -> Result<Guest> {
    let config = GuestConfig {
        memory_mib: 512,
        lifetime: 4 * PATIENCE,
    };
    let guest = Guest::boot_with(place.site(), &format!("{}-{name}", place.name()), &config)?;
    let address: SocketAddr = server.address;
    guest.mount(&Mount::of(address, &server.export), FOLDER)?;
    Ok(guest)
}

fn run(guest: &Guest, command: &str) -> Result<String> {
    let script = format!("set -e -o pipefail; cd {FOLDER}; ({command}) 2>/run/tmp/errors");
    let script = format!("{script} || {{ tail -n 20 /run/tmp/errors >&2; exit 1; }}");
    let output = guest.run(Script::new(script).within(PATIENCE))?;
    Ok(output.success()?.text())
}

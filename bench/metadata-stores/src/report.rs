//! Runs every case in turn, the candidates interleaved, and prints medians as one table.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::store::Kind;

/// Figures by candidate and name, one for each round.
type Figures = BTreeMap<(&'static str, String), Vec<f64>>;

/// Column of figures that belong to no candidate.
const MACHINE: &str = "machine";

/// The rows of the table: name of the figure, what it means, digits after the point.
const ROWS: &[(&str, &str, usize)] = &[
    ("create_1_sync", "create, 1 client, durable (op/s)", 0),
    ("create_1_sync_p99_ms", "– 99th percentile (ms)", 2),
    (
        "create_16_sync",
        "create, 16 clients, durable, group commit (op/s)",
        0,
    ),
    ("create_16_sync_p99_ms", "– 99th percentile (ms)", 2),
    (
        "create_16_sync_cpu_us",
        "– processor time an operation (µs)",
        0,
    ),
    (
        "create_16_sync_appended",
        "– with every client appending for itself (op/s)",
        0,
    ),
    (
        "create_16_sync_appended_p99_ms",
        "– – 99th percentile (ms)",
        2,
    ),
    (
        "write_16_sync",
        "write, 16 clients, durable, group commit (op/s)",
        0,
    ),
    (
        "create_16_async",
        "create, 16 clients, not durable (op/s)",
        0,
    ),
    ("create_16_async_p99_ms", "– 99th percentile (ms)", 2),
    (
        "create_16_async_cpu_us",
        "– processor time an operation (µs)",
        0,
    ),
    (
        "fill_s",
        "filling with 1M files, not durable, 16 clients (s)",
        1,
    ),
    (
        "settle_cpu_s",
        "– processor time in the 5 s after it (s)",
        1,
    ),
    (
        "idle_cpu_percent",
        "– processor use in the 2 s after those (%)",
        0,
    ),
    (
        "getattr_large_cache",
        "getattr at random of 1M, everything cached (op/s)",
        0,
    ),
    ("getattr", "getattr at random of 1M, 64 MiB cache (op/s)", 0),
    ("lookup", "lookup at random of 1M, 64 MiB cache (op/s)", 0),
    (
        "readdir",
        "readdir of 100k with attributes, 256 a page (entries/s)",
        0,
    ),
    ("remove_100k", "removing those 100k, not durable (op/s)", 0),
    (
        "readdir_emptied_ms",
        "readdir of the emptied directory (ms)",
        2,
    ),
    (
        "recreate_100k",
        "creating them again, not durable (op/s)",
        0,
    ),
    (
        "readdir_refilled",
        "readdir of the refilled directory (entries/s)",
        0,
    ),
    ("reopen_ms", "reopening after kill -9 with 1M files (ms)", 0),
    (
        "serve_anon_mib",
        "memory of its own while serving 1M files, 64 MiB cache (MiB)",
        0,
    ),
    ("serve_file_mib", "– mapped pages of files besides (MiB)", 0),
    (
        "fill_anon_mib",
        "memory of its own after the filling (MiB)",
        0,
    ),
    ("fill_disk_mib", "disk space of 1M files (MiB)", 0),
    (
        "crash_sync_operations",
        "20 kills, durable: operations checked",
        0,
    ),
    ("crash_sync_lost", "– acknowledged and lost", 0),
    (
        "crash_async_operations",
        "20 kills, not durable: operations checked",
        0,
    ),
    ("crash_async_lost", "– acknowledged and lost", 0),
];

/// Runs everything beneath `directory`, the repeatable cases `rounds` times or more.
pub fn run(directory: &Path, rounds: usize) -> Result<()> {
    let mut figures = Figures::new();
    // What the disk grants changes from second to second, hence twice as many and shorter runs.
    interleaved(rounds * 2, |kind| {
        let scratch = directory.join("scratch");
        quiet_disk()?;
        run_case(
            &mut figures,
            MACHINE,
            &["disk"],
            &directory.join("disk"),
            &[],
        )?;
        run_store_case(&mut figures, "burst", kind, &scratch)?;
        Ok(std::fs::remove_dir_all(&scratch)?)
    })?;
    interleaved(1, |kind| {
        quiet_disk()?;
        run_store_case(&mut figures, "fill", kind, &population(directory, kind))
    })?;
    interleaved(rounds, |kind| {
        quiet_disk()?;
        run_store_case(&mut figures, "serve", kind, &population(directory, kind))?;
        run_store_case(&mut figures, "restart", kind, &population(directory, kind))
    })?;
    interleaved(1, |kind| {
        let scratch = directory.join("crash").join(kind.name());
        run_store_case(&mut figures, "crash", kind, &scratch)
    })?;
    run_hazards(&mut figures, &directory.join("hazards"))?;
    print_table(&figures);
    Ok(())
}

/// Visits every candidate once a round; another one begins each round, so that none is always
/// the first.
fn interleaved(rounds: usize, mut visit: impl FnMut(Kind) -> Result<()>) -> Result<()> {
    for round in 0..rounds {
        for turn in 0..Kind::ALL.len() {
            visit(Kind::ALL[(round + turn) % Kind::ALL.len()])?;
        }
    }
    Ok(())
}

/// Waits until what earlier cases wrote has left the page cache, so that nobody pays for others.
fn quiet_disk() -> Result<()> {
    ensure!(Command::new("sync").status()?.success(), "sync failed");
    Ok(())
}

fn population(directory: &Path, kind: Kind) -> std::path::PathBuf {
    directory.join("population").join(kind.name())
}

fn run_hazards(figures: &mut Figures, directory: &Path) -> Result<()> {
    for (workers, who) in [("1", "own"), ("2", "own"), ("2", "ours")] {
        let scratch = directory.join(format!("rotation-{who}-{workers}"));
        run_case(figures, MACHINE, &["rotation"], &scratch, &[workers, who])?;
    }
    for rows in ["4", "256"] {
        run_case(
            figures,
            MACHINE,
            &["torn"],
            &directory.join(format!("torn-{rows}")),
            &[rows],
        )?;
    }
    Ok(())
}

fn run_store_case(figures: &mut Figures, case: &str, kind: Kind, directory: &Path) -> Result<()> {
    run_case(figures, kind.name(), &[case, kind.name()], directory, &[])
}

/// Runs one case in a process of its own and keeps the figures that it prints.
fn run_case(
    figures: &mut Figures,
    column: &'static str,
    case: &[&str],
    directory: &Path,
    more: &[&str],
) -> Result<()> {
    eprintln!("{} {}", case.join(" "), more.join(" "));
    let output = Command::new(std::env::current_exe()?)
        .args(case)
        .arg(directory)
        .args(more)
        .stderr(std::process::Stdio::inherit())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    for line in text.lines() {
        eprintln!("  {line}");
        let Some(rest) = line.strip_prefix("figure ") else {
            continue;
        };
        let (name, value) = rest
            .split_once(' ')
            .context("a figure has a name and a value")?;
        figures
            .entry((column, name.to_owned()))
            .or_default()
            .push(value.parse()?);
    }
    ensure!(
        output.status.success(),
        "{case:?} failed: {}",
        output.status
    );
    Ok(())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn print_table(figures: &Figures) {
    println!("| | {} |", Kind::ALL.map(Kind::name).join(" | "));
    println!("|---|{}", "---|".repeat(Kind::ALL.len()));
    for (name, meaning, digits) in ROWS {
        let cells = Kind::ALL.map(|kind| {
            let values = figures.get(&(kind.name(), (*name).to_owned()));
            values.map_or("–".to_owned(), |values| {
                group_digits(median(values), *digits)
            })
        });
        println!("| {meaning} | {} |", cells.join(" | "));
    }
    println!();
    for ((_, name), values) in figures.iter().filter(|((column, _), _)| *column == MACHINE) {
        let (least, most) = values.iter().fold((f64::MAX, 0.0), |(least, most), value| {
            (f64::min(least, *value), f64::max(most, *value))
        });
        let numbers = [median(values), least, most].map(|number| group_digits(number, 1));
        println!(
            "{name}: {} (from {} to {})",
            numbers[0], numbers[1], numbers[2]
        );
    }
}

/// A number with a comma after every third digit before the point.
fn group_digits(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

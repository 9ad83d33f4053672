//! The comparison: servers that take turns, round after round.
//!
//! All servers run all the time and wait idle while another has its turn; between two turns
//! everything written goes to the disk, so that nobody pays for what a neighbour left behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use testbed::{Requirements, Site};

use crate::arguments::ServerArguments;
use crate::contender::{Contender, Kind, meridian_program, version};
use crate::figures::Figures;
use crate::machine::{self, Machine};
use crate::page;
use crate::processor::{ProcessorTime, everybodys_user_time};
use crate::report::{Conditions, Report};
use crate::turn::{self, Extent};
use crate::workload::directory;

/// How many clients work at once.
pub(crate) const CLIENTS: [usize; 2] = [1, 16];

/// How much is written to large files in a turn, in bytes.
const DATA_SIZE: u64 = 512 << 20;
const DATA_SIZE_QUICK: u64 = 128 << 20;

/// What part of the free space may be written in a turn: one in so many.
const FREE_SHARE: u64 = 8;

/// How long a server may go on working on its own after its turn.
const SETTLING_MAX: Duration = Duration::from_secs(3);

/// What share of the processors other programs may use during a turn before it is repeated. Half as
/// many turns as there are can be repeated; after that they count as they are.
const OTHERS_MAX: f64 = 0.03;

/// What came out.
#[derive(Default)]
struct Outcome {
    figures: Figures,
    /// The largest share of the processors that other programs used in a turn that counts.
    others: f64,
}

/// Runs the comparison and writes its results.
pub(crate) fn run(arguments: &ServerArguments) -> Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("bench: THIS IS NOT A RELEASE BUILD. The figures say nothing.");
    }
    let program = meridian_program(arguments.meridian.as_deref())?;
    if !Requirements::site()
        .with_ganesha()
        .admit("bench server, which needs its peer NFS-Ganesha")?
    {
        bail!("there is nothing to compare with on this machine, see above");
    }
    let disk = WorkFolder::make_in(&arguments.disk)?;
    let conditions = conditions(arguments, &disk.path, &program)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(measure(&conditions, &disk.path, &program))?;
    let report = Report {
        conditions,
        others: outcome.others,
        figures: outcome.figures,
    };
    write(arguments, &report)
}

fn conditions(arguments: &ServerArguments, disk: &Path, program: &Path) -> Result<Conditions> {
    let (rounds, length, data_size) = match arguments.quick {
        true => (2, Duration::from_millis(400), DATA_SIZE_QUICK),
        false => (5, Duration::from_secs(1), DATA_SIZE),
    };
    let data_size = data_size.min(machine::free_space(disk)? / FREE_SHARE);
    Ok(Conditions {
        machine: Machine::describe(disk)?,
        meridian: version(program, "--version")?,
        ganesha: version(Path::new("ganesha.nfsd"), "-v")?,
        rounds: arguments.rounds.unwrap_or(rounds).max(1),
        length,
        data_size,
        entries: directory::ENTRIES,
    })
}

async fn measure(conditions: &Conditions, disk: &Path, program: &Path) -> Result<Outcome> {
    let site = Site::new()?;
    let mut contenders = Vec::new();
    for kind in Kind::ALL {
        eprintln!("bench: starting {}", kind.title());
        let mut contender = Contender::start(kind, &site, disk, program)?;
        if !kind.is_durable() {
            directory::make(contender.target()).await?;
        }
        contender.settle(SETTLING_MAX)?;
        contenders.push(contender);
    }
    let outcome = rounds(conditions, disk, &mut contenders).await;
    if outcome.is_err() {
        site.keep_folder();
    }
    outcome
}

async fn rounds(
    conditions: &Conditions,
    disk: &Path,
    contenders: &mut [Contender],
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut repeats_left = conditions.rounds * contenders.len() * CLIENTS.len() / 2;
    for round in 0..conditions.rounds {
        for clients in CLIENTS {
            for index in 0..contenders.len() {
                let (figures, others) = loop {
                    let (figures, others) =
                        one_turn(conditions, disk, contenders, index, round, clients).await?;
                    if others <= OTHERS_MAX || repeats_left == 0 {
                        break (figures, others);
                    }
                    repeats_left -= 1;
                    eprintln!("bench: other programs were busy meanwhile, so it is repeated");
                };
                outcome.figures.absorb(figures);
                outcome.others = outcome.others.max(others);
            }
        }
        // Who comes first changes from round to round, in case it matters.
        contenders.rotate_left(1);
    }
    Ok(outcome)
}

/// A server's turn on a quiet disk. Returns also what share of the processors programs used that
/// are not part of the measurement.
async fn one_turn(
    conditions: &Conditions,
    disk: &Path,
    contenders: &mut [Contender],
    index: usize,
    round: usize,
    clients: usize,
) -> Result<(Figures, f64)> {
    let extent = Extent {
        length: conditions.length,
        data_size: conditions.data_size,
    };
    machine::write_back(disk)?;
    let (began, before) = (Instant::now(), strangers_time(contenders)?);
    let contender = &mut contenders[index];
    let figures = turn::take(contender, round, clients, extent).await?;
    contender.settle(SETTLING_MAX)?;
    let took = began.elapsed().as_secs_f64();
    eprintln!(
        "bench: round {} of {}, {clients} clients, {}: {took:.1} s",
        round + 1,
        conditions.rounds,
        contender.kind().title(),
    );
    let strangers = strangers_time(contenders)?.saturating_sub(before);
    let share = strangers.as_secs_f64() / took / conditions.machine.cores as f64;
    Ok((figures, share))
}

/// The time in user space of programs that are not part of the measurement, up to now.
fn strangers_time(contenders: &mut [Contender]) -> Result<Duration> {
    let mut ours = ProcessorTime::own()?.user;
    for contender in contenders {
        ours += contender.processor_time()?.user;
    }
    Ok(everybodys_user_time()?.saturating_sub(ours))
}

fn write(arguments: &ServerArguments, report: &Report) -> Result<()> {
    fs::create_dir_all(&arguments.output)?;
    let markdown = report.markdown();
    let raw = serde_json::to_string_pretty(report)?;
    fs::write(arguments.output.join("server.md"), &markdown)?;
    fs::write(arguments.output.join("server.json"), raw)?;
    println!("{markdown}");
    if let Some(date) = &arguments.publish {
        page::publish(Path::new("docs/benchmarks.md"), date, report)?;
    }
    eprintln!(
        "bench: the report is {0}/server.md, the raw figures are {0}/server.json",
        arguments.output.display()
    );
    Ok(())
}

/// A folder on the disk to measure, removed when it is dropped.
struct WorkFolder {
    path: PathBuf,
}

impl WorkFolder {
    fn make_in(parent: &Path) -> Result<Self> {
        let path = parent.join(format!("work-{}", std::process::id()));
        fs::create_dir_all(&path)
            .with_context(|| format!("could not create {}", path.display()))?;
        let path = path.canonicalize()?;
        Ok(Self { path })
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("bench: could not remove {}: {error}", self.path.display());
        }
    }
}

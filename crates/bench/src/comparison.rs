//! The comparison: servers that take turns, round after round.
//!
//! All servers run all the time, and are idle during the turns of others. Between two turns
//! everything written goes to the disk, so that no server pays for the work of another.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bench::machine::{self, Machine};
use bench::page;
use bench::processor::{ProcessorTime, everybodys_user_time};
use bench::program;
use bench::raw::{RawFile, settings_hash};
use bench::trial::{Job, Point};
use bench::work_folder::WorkFolder;
use testbed::{Requirements, Site};

use crate::arguments::ServerArguments;
use crate::bare::{self, Loop, Promise};
use crate::contender::{Contender, Kind};
use crate::report::{Conditions, Report};
use crate::turn::{self, CLIENTS, Outcomes, Place, figure};
use crate::worker::Left;
use crate::workload::{Workload, directory};

/// The page of the results.
const PAGE: &str = "docs/benchmarks.md";

/// The number of bytes written to large files in a turn.
const DATA_SIZE: u64 = 512 << 20;
const DATA_SIZE_QUICK: u64 = 128 << 20;

/// The part of the free space that may be written in a turn: one part in this number.
const FREE_SHARE: u64 = 8;

/// How long a server may continue to work on its own after its turn.
const SETTLING_MAX: Duration = Duration::from_secs(3);

/// The maximum share of the processors that other programs may use during a turn before it is repeated, and the
/// maximum number of repetitions.
const OTHERS_MAX: f64 = 0.03;
const REPEATS_MAX: usize = 2;

/// How long all turns together wait for other programs to become quiet.
const PATIENCE: Duration = Duration::from_secs(600);
const PATIENCE_QUICK: Duration = Duration::from_secs(60);

/// A comparison in progress.
struct Run<'a> {
    contenders: Vec<Contender>,
    cores: usize,
    patience: Duration,
    raw: &'a RawFile,
}

/// Runs the comparison and writes its results.
pub(crate) fn run(arguments: &ServerArguments) -> Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("bench: THIS IS NOT A RELEASE BUILD. The figures say nothing.");
    }
    if let Some(date) = &arguments.run.publish {
        page::check_date(date)?;
    }
    let program = program::meridian(arguments.run.meridian.as_deref())?;
    if !Requirements::site()
        .with_ganesha()
        .admit("bench server, which needs its peer NFS-Ganesha")?
    {
        bail!("there is nothing to compare with on this machine, see above");
    }
    let disk = WorkFolder::make_in(&arguments.run.disk)?;
    let conditions = conditions(arguments, disk.path(), &program)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let patience = match arguments.quick {
        true => PATIENCE_QUICK,
        false => PATIENCE,
    };
    fs::create_dir_all(&arguments.run.output)?;
    let settings = settings_hash(&[&format!("{conditions:?}")]);
    let raw = RawFile::new(&arguments.run.output, "server", settings);
    raw.discard()?;
    runtime.block_on(measure(
        &conditions,
        disk.path(),
        (&program, &raw),
        patience,
    ))?;
    let results = raw.results(points())?;
    write(
        arguments,
        &Report {
            conditions,
            results,
        },
    )
}

fn conditions(arguments: &ServerArguments, disk: &Path, program: &Path) -> Result<Conditions> {
    let (rounds, length, data_size) = match arguments.quick {
        true => (2, Duration::from_millis(400), DATA_SIZE_QUICK),
        false => (5, Duration::from_secs(1), DATA_SIZE),
    };
    let data_size = data_size.min(machine::free_space(disk)? / FREE_SHARE);
    Ok(Conditions {
        machine: Machine::describe(disk)?,
        meridian: program::version(program, "--version")?,
        ganesha: program::version(Path::new("ganesha.nfsd"), "-v")?,
        rounds: arguments.rounds.unwrap_or(rounds).max(1),
        length,
        data_size,
        entries: directory::ENTRIES,
    })
}

async fn measure(
    conditions: &Conditions,
    disk: &Path,
    (program, raw): (&Path, &RawFile),
    patience: Duration,
) -> Result<()> {
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
    let mut run = Run {
        contenders,
        cores: conditions.machine.cores,
        patience,
        raw,
    };
    let done = rounds(conditions, disk, &mut run).await;
    if done.is_err() {
        site.keep_folder();
    }
    done
}

/// The rounds: first all turns that make and read, then all turns that remove.
async fn rounds(conditions: &Conditions, disk: &Path, run: &mut Run<'_>) -> Result<()> {
    let (mut left, mut bare_left) = (Vec::new(), Vec::new());
    for round in 0..conditions.rounds {
        for clients in CLIENTS {
            for index in 0..run.contenders.len() {
                let made = run.work(conditions, disk, index, (round, clients)).await?;
                left.push((run.contenders[index].kind(), round, clients, made));
            }
            for promise in Promise::ALL {
                let made = run
                    .work_bare(conditions, disk, promise, (round, clients))
                    .await?;
                bare_left.push((round, made));
            }
        }
        // The first server changes from round to round, in case it matters.
        run.contenders.rotate_left(1);
    }
    for (kind, round, clients, left) in left {
        run.removal(disk, kind, round, clients, left).await?;
    }
    for (round, left) in bare_left {
        run.wait_for_quiet(disk)?;
        let watch = run.start_watch()?;
        let outcomes = bare::remove(left)?;
        let others = run.others_since(&watch)?;
        run.keep(outcomes, round, others)?;
    }
    Ok(())
}

impl Run<'_> {
    /// A turn. If other programs were busy meanwhile, it is repeated under a new name. Records its results, and returns what remains.
    async fn undisturbed<L>(
        &mut self,
        disk: &Path,
        (round, clients, title): (usize, usize, String),
        turn: impl AsyncFn(&mut Self, &str) -> Result<(Outcomes, L)>,
    ) -> Result<L> {
        let mut repeat = 0;
        loop {
            self.wait_for_quiet(disk)?;
            let watch = self.start_watch()?;
            let name = format!("round-{round}-{clients}-{repeat}");
            let (outcomes, left) = turn(self, &name).await?;
            let others = self.others_since(&watch)?;
            let seconds = watch.seconds();
            eprintln!("bench: round {round}, {clients} {title}: {seconds:.1} s");
            if others <= OTHERS_MAX || repeat == REPEATS_MAX {
                self.keep(outcomes, round, others)?;
                return Ok(left);
            }
            eprintln!("bench: other programs were busy meanwhile, so it is repeated");
            repeat += 1;
        }
    }

    /// A server's turn to work.
    async fn work(
        &mut self,
        conditions: &Conditions,
        disk: &Path,
        index: usize,
        (round, clients): (usize, usize),
    ) -> Result<Left> {
        let title = format!("clients, {}", self.contenders[index].kind().title());
        let turn = async |run: &mut Self, name: &str| {
            let contender = &mut run.contenders[index];
            let place = Place { contender, clients };
            let worked = turn::work(place, name, conditions.extent()).await?;
            run.contenders[index].settle(SETTLING_MAX)?;
            Ok(worked)
        };
        self.undisturbed(disk, (round, clients, title), turn).await
    }

    /// The turn of the bare loop, while the servers are idle.
    async fn work_bare(
        &mut self,
        conditions: &Conditions,
        disk: &Path,
        promise: Promise,
        (round, threads): (usize, usize),
    ) -> Result<Loop> {
        let title = format!("threads, {}", promise.title());
        let turn = async |_: &mut Self, name: &str| {
            bare::work((disk, name), promise, threads, conditions.extent())
        };
        self.undisturbed(disk, (round, threads, title), turn).await
    }

    async fn removal(
        &mut self,
        disk: &Path,
        kind: Kind,
        round: usize,
        clients: usize,
        left: Left,
    ) -> Result<()> {
        self.wait_for_quiet(disk)?;
        let watch = self.start_watch()?;
        let contender = self
            .contenders
            .iter_mut()
            .find(|contender| contender.kind() == kind)
            .context("a server has left the run")?;
        let place = Place {
            contender: &mut *contender,
            clients,
        };
        let outcomes = turn::remove(place, left).await?;
        contender.settle(SETTLING_MAX)?;
        let others = self.others_since(&watch)?;
        self.keep(outcomes, round, others)?;
        let title = kind.title();
        eprintln!(
            "bench: round {round}, {clients} clients, {title}, removing: {:.1} s",
            watch.seconds()
        );
        Ok(())
    }

    /// Records the results of a turn in which other programs used this share of the processors.
    fn keep(&self, outcomes: Outcomes, round: usize, others: f64) -> Result<()> {
        let trial = u32::try_from(round + 1)?;
        for (point, mut outcome) in outcomes {
            outcome.insert(figure::OTHERS.to_owned(), others);
            self.raw.append(&Job { point, trial }, outcome)?;
        }
        Ok(())
    }

    /// Writes everything to the disk, and waits until no other program is busy, within the
    /// time limit of the run.
    fn wait_for_quiet(&mut self, disk: &Path) -> Result<()> {
        const LOOK_FOR: Duration = Duration::from_millis(300);
        machine::write_back(disk)?;
        loop {
            let watch = self.start_watch()?;
            std::thread::sleep(LOOK_FOR);
            if self.others_since(&watch)? <= OTHERS_MAX || self.patience.is_zero() {
                return Ok(());
            }
            self.patience = self.patience.saturating_sub(watch.began.elapsed());
        }
    }

    fn start_watch(&mut self) -> Result<Watch> {
        Ok(Watch {
            began: Instant::now(),
            before: strangers_time(&mut self.contenders)?,
        })
    }

    /// The share of the processors that other programs have used since then.
    fn others_since(&mut self, watch: &Watch) -> Result<f64> {
        let used = strangers_time(&mut self.contenders)?.saturating_sub(watch.before);
        Ok(used.as_secs_f64() / watch.seconds() / self.cores as f64)
    }
}

/// A look at how busy other programs are.
struct Watch {
    began: Instant,
    before: Duration,
}

impl Watch {
    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}

/// The time in user space of programs that are not part of the measurement, up to now.
fn strangers_time(contenders: &mut [Contender]) -> Result<Duration> {
    let mut ours = ProcessorTime::own()?.user;
    for contender in contenders {
        ours += contender.processor_time()?.user;
    }
    Ok(everybodys_user_time()?.saturating_sub(ours))
}

/// All points that may be measured.
fn points() -> Vec<Point> {
    let points = Workload::ORDER.iter().flat_map(|workload| {
        CLIENTS.into_iter().flat_map(|clients| {
            let servers = Kind::ALL.map(|kind| turn::point(*workload, kind, clients));
            let loops = Promise::ALL.map(|promise| bare::point(*workload, promise, clients));
            servers.into_iter().chain(loops)
        })
    });
    points.collect()
}

fn write(arguments: &ServerArguments, report: &Report) -> Result<()> {
    let markdown = report.markdown();
    fs::write(arguments.run.output.join("server.md"), &markdown)?;
    println!("{markdown}");
    if let Some(date) = &arguments.run.publish {
        page::publish(Path::new(PAGE), report.page(date)?)?;
    }
    eprintln!(
        "bench: the report is {0}/server.md, the raw figures are {0}/server.jsonl",
        arguments.run.output.display()
    );
    Ok(())
}

//! `bench count`: the system calls of a server for one operation of a single client, by kind.
//!
//! strace(1) counts them while the client works. This makes the server slow, so times mean nothing here. Counts hardly
//! depend on the load of the machine, and show the cost of an operation where times would not be fair.
//! Independent work of the server meanwhile is counted too: the faster the client, the less of it.
//! The waits of its threads are counted before, without strace, because they do depend on times.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::program;
use bench::work_folder::WorkFolder;
use rustix::process::{Pid, Signal, kill_process};
use testbed::{Requirements, Site};

use crate::arguments::CountArguments;
use crate::contender::{Contender, Kind};
use crate::worker::Crew;
use crate::workload::Workload;

/// The workloads, in an order in which each finds what it needs.
const WORKLOADS: [Workload; 2] = [Workload::CreateDurable, Workload::Remove];

/// For this time files are made before anything is counted, so that directories of data files exist.
const WARM_UP: Duration = Duration::from_secs(1);

/// How long strace may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Counts, and prints the results.
pub(crate) fn run(arguments: &CountArguments) -> Result<()> {
    let program = program::meridian(arguments.meridian.as_deref())?;
    if !Requirements::site().admit("bench count")? {
        return Ok(());
    }
    let disk = WorkFolder::make_in(&arguments.disk)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(count(arguments, disk.path(), &program))
}

async fn count(arguments: &CountArguments, disk: &Path, program: &Path) -> Result<()> {
    let site = Site::new()?;
    let mut contender = Contender::start(Kind::MeridianSync, &site, disk, program)?;
    let mut crew = Crew::hire(contender.target(), 1, "count", 0).await?;
    Workload::CreateDurable.run(&mut crew, WARM_UP).await?;
    let length = Duration::from_secs_f64(arguments.seconds);
    for workload in WORKLOADS {
        let process = contender.pid()?;
        let before = waits(process)?;
        let (tally, _) = workload.run(&mut crew, length).await?;
        let waits = waits(process)?.saturating_sub(before) as f64 / tally.amount.max(1) as f64;
        if workload == Workload::Remove {
            Workload::CreateDurable.run(&mut crew, length).await?;
        }
        let strace = Strace::attach(process, disk.join("strace.log"))?;
        let (tally, _) = workload.run(&mut crew, length).await?;
        let calls = strace.detach()?;
        print!("{}", table(workload, tally.amount, &calls));
        println!("  {:18}{waits:8.2}, not traced", "waits of threads");
    }
    crew.clear().await
}

/// strace(1) at a process that runs.
struct Strace {
    child: Child,
    log: PathBuf,
}

impl Strace {
    /// Returns when every thread of the process is traced.
    fn attach(process: Pid, log: PathBuf) -> Result<Strace> {
        let mut command = Command::new("strace");
        command.args(["-f", "-c", "-U", "name,calls,errors"]);
        command.arg("-o").arg(&log);
        command.args(["-p", &process.as_raw_nonzero().to_string()]);
        command.stderr(Stdio::null());
        let child = command.spawn().context("could not start strace")?;
        let mut strace = Strace { child, log };
        let began = Instant::now();
        while !is_traced(process)? {
            let ended = strace.child.try_wait()?;
            ensure!(ended.is_none(), "strace could not trace the server");
            ensure!(began.elapsed() < PATIENCE, "strace does not begin");
            thread::sleep(LOOK_EVERY);
        }
        Ok(strace)
    }

    /// Ends it, and returns its counts.
    fn detach(mut self) -> Result<Vec<Calls>> {
        let process = Pid::from_child(&self.child);
        kill_process(process, Signal::INT)?;
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(began.elapsed() < PATIENCE, "strace does not end");
            thread::sleep(LOOK_EVERY);
        }
        let log = fs::read_to_string(&self.log)
            .with_context(|| format!("strace left no {}", self.log.display()))?;
        Ok(summary(&log))
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _gone = self.child.kill();
            let _status = self.child.wait();
        }
    }
}

/// How often the threads of a process have waited so far, for example for a client, for the disk, or for each other.
fn waits(process: Pid) -> Result<u64> {
    let tasks = format!("/proc/{}/task", process.as_raw_nonzero());
    let mut all = 0;
    for task in fs::read_dir(tasks)? {
        // A thread may end meanwhile.
        let status = fs::read_to_string(task?.path().join("status")).unwrap_or_default();
        all += waits_in(&status).unwrap_or_default();
    }
    Ok(all)
}

/// The same for one thread, from its `status` of proc(5).
fn waits_in(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    count.trim().parse().ok()
}

/// Whether every thread of a process is traced.
fn is_traced(process: Pid) -> Result<bool> {
    let tasks = format!("/proc/{}/task", process.as_raw_nonzero());
    for task in fs::read_dir(tasks)? {
        // A thread may end meanwhile.
        let status = fs::read_to_string(task?.path().join("status")).unwrap_or_default();
        if status.lines().any(|line| line == "TracerPid:\t0") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The count of a system call.
#[derive(Debug, PartialEq)]
struct Calls {
    name: String,
    count: u64,
    failed: u64,
}

/// The final output of strace: names, calls, and errors if there were any.
fn summary(log: &str) -> Vec<Calls> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, count) = (words.next()?, words.next()?);
        let calls = Calls {
            name: name.to_owned(),
            count: count.parse().ok()?,
            failed: words.next().map_or(Some(0), |word| word.parse().ok())?,
        };
        (name != "total").then_some(calls)
    };
    log.lines().filter_map(line).collect()
}

/// The calls for each operation, the most frequent first.
fn table(workload: Workload, operations: u64, calls: &[Calls]) -> String {
    let each = |count: u64| count as f64 / operations.max(1) as f64;
    let mut sorted: Vec<&Calls> = calls.iter().collect();
    sorted.sort_by_key(|calls| std::cmp::Reverse(calls.count));
    let mut text = format!("{}: {operations} times\n", workload.title());
    for calls in sorted.iter().filter(|calls| each(calls.count) >= 0.01) {
        let (all, failed) = (each(calls.count), each(calls.failed));
        text += &match calls.failed {
            0 => format!("  {:18}{all:8.2}\n", calls.name),
            _ => format!("  {:18}{all:8.2}, {failed:.2} of them failed\n", calls.name),
        };
    }
    let total = each(calls.iter().map(|calls| calls.count).sum());
    text + &format!("  {:18}{total:8.2}\n", "together")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
syscall              calls    errors
---------------- --------- ---------
futex                   30         2
fdatasync               10          
---------------- --------- ---------
total                   40         2
";

    #[test]
    fn a_summary_is_read_without_its_frame() {
        let calls = |name: &str, count, failed| Calls {
            name: name.to_owned(),
            count,
            failed,
        };
        let expected = [calls("futex", 30, 2), calls("fdatasync", 10, 0)];
        assert_eq!(summary(LOG), expected);
    }

    #[test]
    fn waits_are_not_taken_for_what_the_system_made_of_a_thread() {
        let status = "Name:\tx\nnonvoluntary_ctxt_switches:\t9\nvoluntary_ctxt_switches:\t7\n";
        assert_eq!(waits_in(status), Some(7));
        assert_eq!(waits_in("Name:\tx\n"), None);
    }

    #[test]
    fn a_table_counts_for_each_operation() {
        let table = table(Workload::Remove, 10, &summary(LOG));
        let numbers: Vec<&str> = table.split_whitespace().collect();
        assert_eq!(
            numbers,
            [
                "remove:",
                "10",
                "times",
                "futex",
                "3.00,",
                "0.20",
                "of",
                "them",
                "failed",
                "fdatasync",
                "1.00",
                "together",
                "4.00"
            ]
            .as_slice()
        );
    }
}

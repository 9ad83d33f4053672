//! Assigns processors: programs that stand for separate machines must not share processors with the measured program.
//!
//! What must never enter: how long anything takes.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// The processors of this process in two parts. The first is smaller if their number is odd.
#[derive(Debug, Clone)]
pub struct Parts {
    /// For the measured program.
    pub measured: CpuSet,
    /// For everything else.
    pub others: CpuSet,
    all: CpuSet,
}

impl Parts {
    /// Splits the processors that this thread may use.
    ///
    /// # Errors
    /// Fails if there is only one.
    pub fn of_this_machine() -> Result<Self> {
        let all = sched_getaffinity(None)?;
        let numbers: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|at| all.is_set(*at)).collect();
        let (first, second) = numbers.split_at(numbers.len() / 2);
        anyhow::ensure!(
            !first.is_empty(),
            "there is one processor only, and two parts need two"
        );
        Ok(Self {
            measured: set(first),
            others: set(second),
            all,
        })
    }

    /// During this work, lets this thread run on the processors of the measured program, and all other threads of this process on
    /// the others.
    ///
    /// # Errors
    /// Fails when the kernel refuses.
    pub fn with_this_thread_apart<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        confine(std::process::id(), &self.others)?;
        sched_setaffinity(None, &self.measured)?;
        let done = work();
        confine(std::process::id(), &self.all)?;
        Ok(done)
    }
}

/// Restricts all present and future threads of a process to these processors.
///
/// # Errors
/// Fails when the process has ended, or the kernel refuses.
pub fn confine(process: u32, to: &CpuSet) -> Result<()> {
    let mut confined = BTreeSet::new();
    // A thread that an unrestricted thread starts meanwhile is found in the next pass.
    loop {
        let threads = threads_of(process)?;
        let new: Vec<i32> = threads.difference(&confined).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        for thread in new {
            match sched_setaffinity(Pid::from_raw(thread), to) {
                // It has ended.
                Ok(()) | Err(Errno::SRCH) => confined.insert(thread),
                Err(error) => return Err(error).context("the kernel confines no threads"),
            };
        }
    }
}

fn threads_of(process: u32) -> Result<BTreeSet<i32>> {
    let folder = format!("/proc/{process}/task");
    let entries = fs::read_dir(&folder).with_context(|| format!("could not read {folder}"))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().parse()?));
    names.collect()
}

fn set(numbers: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for number in numbers {
        set.set(*number);
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_and_others_run_apart_meanwhile() {
        let Ok(parts) = Parts::of_this_machine() else {
            assert_eq!(std::thread::available_parallelism().unwrap().get(), 1);
            return;
        };
        let before = sched_getaffinity(None).unwrap();
        let own = parts.with_this_thread_apart(|| sched_getaffinity(None).unwrap());
        assert_eq!(own.unwrap(), parts.measured);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        let both = (0..CpuSet::MAX_CPU)
            .filter(|at| parts.measured.is_set(*at) && parts.others.is_set(*at));
        assert_eq!(both.count(), 0);
    }
}

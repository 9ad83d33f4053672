//! The bare loop: what the machine allows a program without clients and without a network.
//!
//! There are as many threads as clients. For each unit of a workload, they make the system calls that every server needs, and
//! make durable what Meridian makes durable before it answers. Additional time of a server is its own cost, or its network's.
//!
//! What must never enter: what servers do, and anything that saves a thread a system call.

mod hand;
mod journal;
mod large;
mod small;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use bench::processor::ProcessorTime;
use bench::tally::{Span, Tally};
use bench::trial::Point;
use fastrand::Rng;

use crate::turn::{self, Extent, Outcomes};
use crate::workload::Workload;
use hand::{Hand, Shared};
use journal::Journal;

pub(crate) use hand::Promise;

/// A workload by this many threads.
pub(crate) fn point(workload: Workload, promise: Promise, threads: usize) -> Point {
    Point::new(workload.title(), promise.title(), threads)
}

/// Threads that do the same at the same time, and the journal that they share.
#[derive(Debug)]
pub(crate) struct Loop {
    promise: Promise,
    folder: PathBuf,
    hands: Vec<Hand>,
    journal: Journal,
    outcomes: Outcomes,
}

/// Everything except removing, in a new folder called `name`. Also returns what remains for [`remove`], which comes last
/// for the reason given in [`turn::work`].
pub(crate) fn work(
    (disk, name): (&Path, &str),
    promise: Promise,
    threads: usize,
    extent: Extent,
) -> Result<(Outcomes, Loop)> {
    let mut bare = Loop::new(&disk.join(promise.folder()).join(name), promise, threads)?;
    let span = || Span::of(extent.length);
    bare.measure(Workload::Create, |this, hand| {
        small::create(hand, &this, span(), false)
    })?;
    bare.measure(Workload::CreateDurable, |this, hand| {
        small::create(hand, &this, span(), true)
    })?;
    if promise == Promise::Later {
        bare.measure(Workload::Getattr, |_, hand| small::look(hand, span()))?;
        bare.measure(Workload::Lookup, |_, hand| small::look(hand, span()))?;
        // Made only once, since it is slow to make many files where many were removed.
        let directory = disk.join(promise.folder()).join("directory");
        small::make_directory(&directory)?;
        bare.measure(Workload::Readdir, |_, _| small::list(&directory, span()))?;
        let size = extent.data_size / threads as u64;
        bare.measure(Workload::Write, |_, hand| large::write(hand, size))?;
        bare.measure(Workload::Read, |_, hand| large::read(hand, size))?;
        bare.measure(Workload::RandomRead, |_, hand| {
            large::read_randomly(hand, size, span())
        })?;
        bare.measure(Workload::RandomWrite, |_, hand| {
            large::write_randomly(hand, size, span())
        })?;
        bare.hands.iter().try_for_each(large::clear)?;
    }
    Ok((std::mem::take(&mut bare.outcomes), bare))
}

/// Removes all small files that were made, and everything else.
pub(crate) fn remove(mut bare: Loop) -> Result<Outcomes> {
    bare.measure(Workload::Remove, |this, hand| small::remove(hand, &this))?;
    fs::remove_dir_all(&bare.folder)
        .with_context(|| format!("could not remove {}", bare.folder.display()))?;
    Ok(bare.outcomes)
}

impl Loop {
    fn new(folder: &Path, promise: Promise, threads: usize) -> Result<Self> {
        let mut hands = Vec::with_capacity(threads);
        for number in 0..threads {
            let folder = folder.join(format!("worker-{number}"));
            fs::create_dir_all(&folder)
                .with_context(|| format!("could not create {}", folder.display()))?;
            hands.push(Hand {
                folder,
                files: 0,
                random: Rng::with_seed(number as u64),
            });
        }
        Ok(Self {
            promise,
            folder: folder.to_owned(),
            hands,
            journal: Journal::new(&folder.join("journal"))?,
            outcomes: Vec::new(),
        })
    }

    /// Lets all threads do it, and records the results.
    fn measure(
        &mut self,
        workload: Workload,
        work: impl Fn(Shared<'_>, &mut Hand) -> Result<Tally> + Sync,
    ) -> Result<()> {
        let shared = Shared {
            journal: &self.journal,
            promise: self.promise,
        };
        let before = ProcessorTime::own()?.total();
        let (tally, took) = together(&mut self.hands, |hand| work(shared, hand))
            .with_context(|| format!("the bare loop failed at: {}", workload.title()))?;
        let cpu = ProcessorTime::own()?.total() - before;
        let outcome = turn::outcome(workload, &tally, took, (cpu, Duration::ZERO));
        let point = point(workload, self.promise, self.hands.len());
        self.outcomes.push((point, outcome));
        Ok(())
    }
}

/// Runs each in a thread; returns their common tally, and the time until the last was done.
fn together(
    hands: &mut [Hand],
    work: impl Fn(&mut Hand) -> Result<Tally> + Sync,
) -> Result<(Tally, Duration)> {
    let began = Instant::now();
    let work = &work;
    let all = thread::scope(|scope| {
        let at_work = hands.iter_mut().map(|hand| scope.spawn(move || work(hand)));
        let at_work: Vec<_> = at_work.collect();
        let mut all = Tally::default();
        for one in at_work {
            let done = one.join().map_err(|_| anyhow!("a thread has died"))?;
            all.absorb(&done?);
        }
        anyhow::Ok(all)
    })?;
    Ok((all, began.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::figure;

    #[test]
    fn every_workload_has_a_limit_and_nothing_is_left() {
        let disk = std::env::temp_dir().join(format!("bench-bare-{}", std::process::id()));
        let extent = Extent {
            length: Duration::from_millis(1),
            data_size: 2 * large::BLOCK as u64,
        };
        for promise in Promise::ALL {
            let (mut outcomes, bare) = work((&disk, "turn"), promise, 2, extent).unwrap();
            outcomes.extend(remove(bare).unwrap());
            let measured = |workload| {
                let wanted = point(workload, promise, 2);
                let mut found = outcomes.iter().filter(|(point, _)| *point == wanted);
                found.any(|(_, outcome)| outcome[figure::RATE] > 0.0)
            };
            let names = [Workload::Create, Workload::CreateDurable, Workload::Remove];
            let expected = Workload::ORDER.iter().filter(|workload| match promise {
                Promise::Later => **workload != Workload::Null,
                Promise::AtOnce => names.contains(workload),
            });
            for workload in expected {
                assert!(measured(*workload), "{promise:?}: {workload:?}");
            }
            let left = disk.join(promise.folder()).join("turn");
            assert!(!left.exists(), "{promise:?}");
        }
        fs::remove_dir_all(disk).unwrap();
    }
}

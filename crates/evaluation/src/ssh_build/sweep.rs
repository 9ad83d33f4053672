//! Sweeps: experiments in which each point replays the package at some servers.
//!
//! What must never enter: a particular experiment.

use std::cmp::Reverse;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};
use bench::statistics::Results;
use bench::trial::{Job, Point};

use super::stands::{Beside, Setup, Stands};
use crate::experiment::{Book, Experiment, Shown, by_place};
use crate::extent::Extent;
use crate::field::Field;

/// The approximate number of steps of the whole recording, to estimate the time left.
pub(super) const STEPS_ALL: usize = 351_000;

/// The maximum number of parallel jobs that wait for distant servers.
const WAITING: usize = 12;

/// The approximate start time of servers if each job has its own, to estimate the time left.
const START: Duration = Duration::from_secs(4);

/// An experiment of this kind.
pub(super) trait Sweep: Sync {
    /// See [`Experiment::name`].
    fn name(&self) -> &'static str;

    /// See [`Experiment::points`].
    fn points(&self, extent: Extent) -> Vec<Point>;

    /// The setup of a point.
    ///
    /// # Errors
    /// Fails on points that are not of this experiment.
    fn setup(&self, point: &Point, extent: Extent) -> Result<Setup>;

    /// The number of parallel jobs with the pauses of the recording.
    fn side_by_side(&self) -> usize {
        8
    }

    /// See [`Experiment::shown`].
    fn shown(&self, results: &Results, extent: Extent) -> Shown;

    /// See [`Experiment::result`].
    fn result(&self, results: &Results) -> Option<String>;
}

impl<T: Sweep> Experiment for T {
    fn name(&self) -> &'static str {
        Sweep::name(self)
    }

    fn settings(&self, extent: Extent) -> String {
        let points = Sweep::points(self, extent);
        let setups = points.iter().map(|point| self.setup(point, extent));
        let setups: Vec<String> = setups.map(|setup| format!("{setup:?}")).collect();
        format!("{WAITING} {} {}", self.side_by_side(), setups.join(" "))
    }

    fn points(&self, extent: Extent) -> Vec<Point> {
        Sweep::points(self, extent)
    }

    fn expected(&self, point: &Point, extent: Extent) -> Duration {
        let Ok(setup) = self.setup(point, extent) else {
            return Duration::ZERO;
        };
        let alone = setup.expected(STEPS_ALL);
        match setup.beside {
            Beside::Nothing => alone,
            Beside::Pauses => (alone + START) / self.side_by_side() as u32,
            Beside::Everything { .. } => (alone + START) / waiting(self, extent) as u32,
        }
    }

    /// All trials at one place follow each other, at servers that are started once for it. There, series alternate from
    /// trial to trial.
    fn is_at_once(&self, _: Extent) -> bool {
        true
    }

    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()> {
        let (mut busy, mut thinking, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        for job in by_place(jobs).into_iter().flat_map(|(_, jobs)| jobs) {
            let setup = self.setup(&job.point, field.extent)?;
            let kind = match setup.beside {
                Beside::Nothing => &mut busy,
                Beside::Pauses => &mut thinking,
                Beside::Everything { .. } => &mut waiting,
            };
            kind.push((job, setup));
        }
        let mut stands = Stands::of(field);
        for (job, setup) in &busy {
            let outcome = stands.play(setup).with_context(|| job.to_string())?;
            book.keep(job, outcome)?;
        }
        drop(stands);
        let alone = |(job, setup): &(&Job, Setup)| {
            let outcome = Stands::of(field).play(setup);
            book.keep(job, outcome.with_context(|| job.to_string())?)
        };
        // The longest jobs first, so that no long one is left at the end.
        waiting.sort_by_key(|(_, setup)| Reverse(setup.expected(STEPS_ALL)));
        side_by_side(WAITING, &waiting, alone)?;
        side_by_side(self.side_by_side(), &thinking, alone)
    }

    fn shown(&self, results: &Results, extent: Extent) -> Shown {
        Sweep::shown(self, results, extent)
    }

    fn result(&self, results: &Results) -> Option<String> {
        Sweep::result(self, results)
    }
}

/// The number of parallel jobs that wait for distant servers, in a run from the beginning.
fn waiting(sweep: &impl Sweep, extent: Extent) -> usize {
    let points = sweep.points(extent).into_iter();
    let waits = points.filter(|point| {
        let setup = sweep.setup(point, extent);
        setup.is_ok_and(|setup| matches!(setup.beside, Beside::Everything { .. }))
    });
    (waits.count() * extent.trials() as usize).clamp(1, WAITING)
}

/// Does the same with all of them, at most `count` at a time. After a failure nothing more is
/// begun.
///
/// # Errors
/// Fails with the first failure.
pub(crate) fn side_by_side<T: Sync>(
    count: usize,
    all: &[T],
    work: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    let state = Mutex::new((all.iter(), Ok(())));
    let next = || {
        let mut state = state.lock().ok()?;
        match state.1 {
            Ok(()) => state.0.next(),
            Err(_) => None,
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..count.min(all.len()) {
            scope.spawn(|| {
                while let Some(one) = next() {
                    let done = work(one);
                    if let (Err(error), Ok(mut state)) = (done, state.lock()) {
                        // Later errors may follow from the first, so the first is kept.
                        state.1 = std::mem::replace(&mut state.1, Ok(())).and(Err(error));
                    }
                }
            });
        }
    });
    let ended = state.into_inner();
    ended.map_or_else(
        |_| anyhow::bail!("a thread has died"),
        |(_, outcome)| outcome,
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn everything_is_done_once_and_the_first_failure_ends_it() {
        let all: Vec<usize> = (0..20).collect();
        let sum = AtomicUsize::new(0);
        let add = |one: &usize| {
            sum.fetch_add(*one, Ordering::Relaxed);
            Ok(())
        };
        side_by_side(3, &all, add).unwrap();
        assert_eq!(sum.into_inner(), 190);
        let begun = AtomicUsize::new(0);
        let failed = side_by_side(1, &all, |one| {
            begun.fetch_add(1, Ordering::Relaxed);
            anyhow::ensure!(*one < 2, "number {one}");
            Ok(())
        });
        assert_eq!(failed.unwrap_err().to_string(), "number 2");
        assert_eq!(begun.into_inner(), 3);
        side_by_side(3, &[], |_: &usize| Ok(())).unwrap();
    }
}

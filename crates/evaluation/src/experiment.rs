//! What an experiment is: points to measure, a way to measure them, and a way to show what came out.
//!
//! What must never enter: a particular experiment, and where results are kept.

use std::time::Duration;

use anyhow::Result;
use bench::statistics::Results;
use bench::trial::{Job, Outcome, Point};
use plot::Plot;
use serde::Serialize;
use testbed::Requirements;

use crate::extent::Extent;
use crate::field::Field;

/// Jobs by their place on the horizontal axis, in the order in which places come first: for experiments that start
/// servers anew at each.
pub(crate) fn by_place(jobs: &[Job]) -> Vec<(&str, Vec<&Job>)> {
    let mut groups: Vec<(&str, Vec<&Job>)> = Vec::new();
    for job in jobs {
        match groups.iter_mut().find(|(x, _)| *x == job.point.x) {
            Some((_, group)) => group.push(job),
            None => groups.push((&job.point.x, vec![job])),
        }
    }
    groups
}

/// Another program that takes part, with the version that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Peer {
    /// What it is called.
    pub(crate) name: String,
    /// What it says of itself.
    pub(crate) version: String,
}

/// Where outcomes go, each as soon as it is there. Threads share it.
pub(crate) trait Book: Sync {
    /// Keeps the outcome of a job. A job that is not kept in the end counts as a fault of the experiment.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    fn keep(&self, job: &Job, outcome: Outcome) -> Result<()>;
}

/// Something to be measured, and shown.
pub(crate) trait Experiment: Sync {
    /// Its name in files and on the command line, such as `figure-6`.
    fn name(&self) -> &'static str;

    /// What the testbed must have for it.
    fn needs(&self) -> Requirements {
        Requirements::site().with_wan()
    }

    /// The programs beside Meridian that take part. Asked before anything is measured.
    ///
    /// # Errors
    /// Fails when one is missing, saying what to do.
    fn peers(&self) -> Result<Vec<Peer>> {
        Ok(Vec::new())
    }

    /// Everything beside points, trials, extent, trace and versions that decides about results, as text: results under
    /// other settings are not taken for these.
    fn settings(&self, extent: Extent) -> String;

    /// What is measured, in the order of one round.
    fn points(&self, extent: Extent) -> Vec<Point>;

    /// How often every point is measured.
    fn trials(&self, extent: Extent) -> u32 {
        extent.trials()
    }

    /// About how long one trial at a point keeps everybody waiting. Only proportions matter, for the time left.
    fn expected(&self, point: &Point, extent: Extent) -> Duration;

    /// Whether all trials are handed over at once, because several can be measured at the same time. Otherwise the jobs of
    /// one round are, so that the series alternate from trial to trial.
    fn is_at_once(&self, _extent: Extent) -> bool {
        false
    }

    /// Measures these jobs, which are those of a round, or of all rounds, that are not in the book yet, and keeps each
    /// outcome as soon as it is there.
    ///
    /// # Errors
    /// Fails when a trial was not valid: contents differ at another site, or a server has not run all the time.
    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()>;

    /// How the results are shown.
    fn shown(&self, results: &Results, extent: Extent) -> Shown;

    /// What came out, in one line; none while it is not known.
    fn result(&self, _results: &Results) -> Option<String> {
        None
    }
}

/// An experiment's page.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The heading.
    pub(crate) title: &'static str,
    /// What was run, and how to read it; Markdown.
    pub(crate) about: String,
    /// What the papers say, each statement with its section; Markdown.
    pub(crate) claims: &'static str,
    /// Tables, in Markdown.
    pub(crate) tables: Vec<String>,
    /// Plots, in their order on the page.
    pub(crate) plots: Vec<Plot>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_grouped_by_place_and_keep_their_order() {
        let job = |panel: &str, x: &str| Job {
            point: Point::new(panel, "series", x),
            trial: 1,
        };
        let jobs = [job("one", "0.2"), job("one", "60"), job("two", "0.2")];
        let groups = by_place(&jobs);
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0], ("0.2", vec![&jobs[0], &jobs[2]]));
        assert_eq!(groups[1], ("60", vec![&jobs[1]]));
    }
}

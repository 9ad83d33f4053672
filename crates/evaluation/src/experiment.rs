//! An experiment: points to measure, a way to measure them, and a way to show the results.
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

/// Jobs by their place on the horizontal axis, in the order of the places' first occurrence: for experiments that restart
/// the servers at each place.
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

/// Another program that takes part, with its installed version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Peer {
    /// Its name.
    pub(crate) name: String,
    /// The version that it prints.
    pub(crate) version: String,
}

/// Stores outcomes, each as soon as it is known. Threads share it.
pub(crate) trait Book: Sync {
    /// Stores the outcome of a job. A job without an outcome at the end counts as a fault of the experiment.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    fn keep(&self, job: &Job, outcome: Outcome) -> Result<()>;
}

/// Something to measure and to show.
pub(crate) trait Experiment: Sync {
    /// Its name in files and on the command line, such as `figure-6`.
    fn name(&self) -> &'static str;

    /// The requirements on the testbed.
    fn needs(&self) -> Requirements {
        Requirements::site().with_wan()
    }

    /// The programs besides Meridian that take part. Called before anything is measured.
    ///
    /// # Errors
    /// Fails when one is missing, with advice.
    fn peers(&self) -> Result<Vec<Peer>> {
        Ok(Vec::new())
    }

    /// All settings that affect results, except points, trials, extent, trace and versions, as text. Results with
    /// other settings do not count.
    fn settings(&self, extent: Extent) -> String;

    /// The points to measure, in the order of one round.
    fn points(&self, extent: Extent) -> Vec<Point>;

    /// The number of trials of every point.
    fn trials(&self, extent: Extent) -> u32 {
        extent.trials()
    }

    /// The approximate time for which one trial at a point delays the others. Only proportions matter, for the time left.
    fn expected(&self, point: &Point, extent: Extent) -> Duration;

    /// Whether all trials are passed at once, because several can be measured at the same time. Otherwise the jobs of
    /// one round are passed, so that the series alternate from trial to trial.
    fn is_at_once(&self, _extent: Extent) -> bool {
        false
    }

    /// Measures these jobs of one round, or of all rounds, that are not in the book yet, and stores each
    /// outcome as soon as it is known.
    ///
    /// # Errors
    /// Fails when a trial was not valid: contents differ at another site, or a server did not run all the time.
    fn measure(&self, field: &Field, jobs: &[Job], book: &dyn Book) -> Result<()>;

    /// The content of its page.
    fn shown(&self, results: &Results, extent: Extent) -> Shown;

    /// The result in one line; none while it is unknown.
    fn result(&self, _results: &Results) -> Option<String> {
        None
    }
}

/// An experiment's page.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The heading.
    pub(crate) title: &'static str,
    /// The work, and how to read the results; Markdown.
    pub(crate) about: String,
    /// The statements of the papers, each with its section; Markdown.
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

//! A plan: the experiments of a run, and their remaining jobs, round by round.
//!
//! What must never enter: measuring, and showing results.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bench::raw::{RawFile, settings_hash};
use bench::statistics::Results;
use bench::trial::Job;

use crate::arguments::MeasureArguments;
use crate::experiment::{Experiment, Peer};
use crate::extent::Extent;
use crate::list::EXPERIMENTS;
use crate::progress::in_words;

/// Part of the hash of settings: raised when the meaning of figures changes.
const VERSION: &str = "4";

/// An experiment of a run with everything that it needs.
pub(super) struct Chosen {
    /// The experiment.
    pub(super) experiment: &'static dyn Experiment,
    /// The programs that take part.
    pub(super) peers: Vec<Peer>,
    /// The file of results.
    pub(super) raw: RawFile,
    /// Whether the user selected it.
    pub(super) is_selected: bool,
}

/// Jobs of an experiment that are not measured yet.
pub(super) struct Left {
    /// By rounds.
    pub(super) rounds: Vec<Vec<Job>>,
    /// Their approximate time.
    pub(super) expected: Duration,
}

/// All experiments of the list.
pub(super) struct Plan {
    /// The experiments that can run here.
    pub(super) chosen: Vec<Chosen>,
    /// Selected experiments that cannot run, with the reason. Empty when anything has to be measured.
    pub(super) hindered: Vec<(&'static str, anyhow::Error)>,
}

impl Plan {
    /// Checks whether every selected experiment has what it needs. If it has to be measured, it must.
    ///
    /// # Errors
    /// Fails for unknown names, and when a selected experiment lacks something and has to be measured.
    pub(super) fn make(
        arguments: &MeasureArguments,
        extent: Extent,
        output: &Path,
        versions: [&str; 2],
    ) -> Result<Self> {
        check_names(&arguments.only)?;
        let measures = !arguments.show && !arguments.list;
        let (mut chosen, mut hindered) = (Vec::new(), Vec::new());
        for &experiment in EXPERIMENTS {
            let name = experiment.name();
            let is_selected =
                arguments.only.is_empty() || arguments.only.iter().any(|one| one == name);
            let peers = match ready(experiment) {
                Ok(peers) => peers,
                Err(error) if is_selected && measures => return Err(error),
                Err(error) if is_selected => {
                    hindered.push((name, error));
                    continue;
                }
                // Its results are not shown either, because their version is unknown.
                Err(_) => continue,
            };
            let hash = hash(experiment, extent, &peers, versions)?;
            let raw = RawFile::new(output, name, hash);
            if is_selected && arguments.afresh {
                raw.discard()?;
            }
            chosen.push(Chosen {
                experiment,
                peers,
                raw,
                is_selected,
            });
        }
        Ok(Self { chosen, hindered })
    }

    /// The selected experiments.
    pub(super) fn selected(&self) -> impl Iterator<Item = &Chosen> {
        self.chosen.iter().filter(|one| one.is_selected)
    }

    /// Prints how much is left of each selected experiment.
    ///
    /// # Errors
    /// Fails when results cannot be read.
    pub(super) fn list(&self, extent: Extent) -> Result<()> {
        let mut expected = Duration::ZERO;
        for one in self.selected() {
            let left = one.left(extent)?;
            println!("{}", left.line(one.experiment.name()));
            expected += left.expected;
        }
        println!("all: about {}", in_words(expected));
        for (name, error) in &self.hindered {
            println!("{name:18} cannot run here: {error:#}");
        }
        Ok(())
    }
}

impl Chosen {
    /// The remaining jobs.
    ///
    /// # Errors
    /// Fails when results cannot be read.
    pub(super) fn left(&self, extent: Extent) -> Result<Left> {
        let results = self.raw.results(self.experiment.points(extent))?;
        let rounds = rounds_left(self.experiment, &results, extent);
        let jobs = rounds.iter().flatten();
        let expected = jobs.map(|job| self.experiment.expected(&job.point, extent));
        Ok(Left {
            expected: expected.sum(),
            rounds,
        })
    }
}

impl Left {
    /// The number of jobs.
    pub(super) fn jobs(&self) -> usize {
        self.rounds.iter().map(Vec::len).sum()
    }

    /// A line of text about them.
    pub(super) fn line(&self, name: &str) -> String {
        let time = in_words(self.expected);
        format!("{name:18} {:4} jobs, about {time}", self.jobs())
    }
}

fn check_names(names: &[String]) -> Result<()> {
    let known = |name: &String| EXPERIMENTS.iter().any(|one| one.name() == name);
    if let Some(stranger) = names.iter().find(|name| !known(name)) {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|one| one.name()).collect();
        bail!(
            "there is no experiment '{stranger}'; write one of {}",
            names.join(", ")
        );
    }
    Ok(())
}

/// The programs that take part, if everything is there.
fn ready(experiment: &dyn Experiment) -> Result<Vec<Peer>> {
    let name = experiment.name();
    ensure!(
        experiment.needs().admit(name)?,
        "{name} cannot run on this machine, see above"
    );
    experiment
        .peers()
        .with_context(|| format!("{name} lacks a peer"))
}

fn hash(
    experiment: &dyn Experiment,
    extent: Extent,
    peers: &[Peer],
    versions: [&str; 2],
) -> Result<String> {
    let peers = serde_json::to_string(peers)?;
    let settings = experiment.settings(extent);
    let extent = format!("{extent:?}");
    let [meridian, trace] = versions;
    Ok(settings_hash(&[
        VERSION, meridian, trace, &extent, &peers, &settings,
    ]))
}

/// The remaining jobs, by rounds or all at once.
fn rounds_left(experiment: &dyn Experiment, results: &Results, extent: Extent) -> Vec<Vec<Job>> {
    let trials = 1..=experiment.trials(extent);
    let round = |trial| {
        let points = results.points().iter();
        let missing = points.filter(move |point| !results.has(point, trial));
        missing.map(move |point| Job {
            point: point.clone(),
            trial,
        })
    };
    let mut rounds: Vec<Vec<Job>> = match experiment.is_at_once(extent) {
        true => vec![trials.flat_map(round).collect()],
        false => trials.map(|trial| round(trial).collect()).collect(),
    };
    rounds.retain(|round| !round.is_empty());
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Book, Shown};
    use crate::field::Field;
    use bench::trial::{Outcome, Point};

    struct Pair(bool);

    impl Experiment for Pair {
        fn name(&self) -> &'static str {
            "pair"
        }

        fn settings(&self, _: Extent) -> String {
            String::new()
        }

        fn points(&self, _: Extent) -> Vec<Point> {
            ["a", "b"].map(|series| Point::new("", series, "")).to_vec()
        }

        fn expected(&self, _: &Point, _: Extent) -> Duration {
            Duration::ZERO
        }

        fn is_at_once(&self, _: Extent) -> bool {
            self.0
        }

        fn measure(&self, _: &Field, _: &[Job], _: &dyn Book) -> Result<()> {
            Ok(())
        }

        fn shown(&self, _: &Results, _: Extent) -> Shown {
            Shown {
                title: "",
                about: String::new(),
                claims: "",
                tables: Vec::new(),
                plots: Vec::new(),
            }
        }
    }

    #[test]
    fn only_what_is_missing_is_left_and_series_alternate() {
        let points = Pair(false).points(Extent::Quick);
        let mut results = Results::of(points.clone());
        results.add(points[0].clone(), 1, Outcome::new());
        let rounds = rounds_left(&Pair(false), &results, Extent::Quick);
        let named = |jobs: &[Job]| jobs.iter().map(Job::to_string).collect::<Vec<_>>();
        let named: Vec<_> = rounds.iter().map(|jobs| named(jobs)).collect();
        assert_eq!(
            named,
            [vec!["b, trial 1"], vec!["a, trial 2", "b, trial 2"]]
        );
        let rounds = rounds_left(&Pair(true), &results, Extent::Quick);
        assert_eq!(rounds.len(), 1);
        assert_eq!(rounds[0].len(), 3);
        for point in points {
            for trial in 1..=2 {
                results.add(point.clone(), trial, Outcome::new());
            }
        }
        assert!(rounds_left(&Pair(true), &results, Extent::Quick).is_empty());
    }

    #[test]
    fn experiments_have_names_of_their_own_and_points_once() {
        let mut names: Vec<&str> = EXPERIMENTS.iter().map(|one| one.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), EXPERIMENTS.len());
        for experiment in EXPERIMENTS {
            for extent in [Extent::Quick, Extent::Whole] {
                let mut points = experiment.points(extent);
                let count = points.len();
                points.sort_unstable();
                points.dedup();
                assert_eq!(points.len(), count, "{}", experiment.name());
                assert!(count > 0);
            }
        }
    }
}

//! A run: which jobs are left, round by round, and what becomes of failures.
//!
//! What must never enter: what is measured, and how it is shown.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::experiment::{Book, Experiment, Extent, Job, Outcome, Peer};
use super::field::Field;
use super::list::EXPERIMENTS;
use super::page::{self, Conditions, Section};
use super::progress::{Progress, in_words};
use super::raw::{RawFile, file_hash, settings_hash};
use super::statistics::{LATENESS, Results};
use crate::arguments::PaperArguments;
use crate::comparison::WorkFolder;
use crate::contender::{meridian_program, version};
use crate::machine::Machine;
use crate::trace::Trace;

/// Counts in the hash of settings: raised when the meaning of figures changes.
const VERSION: &str = "1";

/// An experiment of a run.
struct Chosen {
    experiment: &'static dyn Experiment,
    peers: Vec<Peer>,
    raw: RawFile,
    is_selected: bool,
}

/// Measures what is missing, and writes the results.
pub(crate) fn run(arguments: &PaperArguments) -> Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("bench: THIS IS NOT A RELEASE BUILD. The figures say nothing.");
    }
    let extent = match arguments.quick {
        true => Extent::Quick,
        false => Extent::Whole,
    };
    let output = extent.choose(arguments.output.clone(), arguments.output.join("quick"));
    fs::create_dir_all(&output)
        .with_context(|| format!("could not create {}", output.display()))?;
    let program = meridian_program(arguments.meridian.as_deref())?;
    let meridian = format!(
        "{} ({})",
        version(&program, "--version")?,
        file_hash(&program)?
    );
    let trace_hash = file_hash(&arguments.trace)?;
    let chosen = choose(arguments, extent, &output, [&meridian, &trace_hash])?;
    let disk = WorkFolder::make_in(&arguments.disk)?;
    let trace = Trace::read(&arguments.trace)?;
    let mut conditions = Conditions {
        machine: Machine::describe(disk.path())?,
        meridian,
        package: trace.title.clone(),
        steps: trace.steps(),
        extent,
        peers: Vec::new(),
    };
    for peer in chosen.iter().flat_map(|one| &one.peers) {
        if !conditions.peers.contains(peer) {
            conditions.peers.push(peer.clone());
        }
    }
    let field = Field::new(program, extent, trace, disk.path());
    let failures = match arguments.show {
        true => Vec::new(),
        false => measure_all(&chosen, &field)?,
    };
    write(arguments, &output, &conditions, &chosen, &failures)
}

/// All experiments of the list; every one that will be measured has what it needs.
fn choose(
    arguments: &PaperArguments,
    extent: Extent,
    output: &Path,
    versions: [&str; 2],
) -> Result<Vec<Chosen>> {
    let known = |name: &String| EXPERIMENTS.iter().any(|one| one.name() == name);
    if let Some(stranger) = arguments.only.iter().find(|name| !known(name)) {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|one| one.name()).collect();
        bail!(
            "there is no experiment '{stranger}'; write one of {}",
            names.join(", ")
        );
    }
    let mut chosen = Vec::new();
    for &experiment in EXPERIMENTS {
        let name = experiment.name();
        let is_selected = arguments.only.is_empty() || arguments.only.iter().any(|one| one == name);
        let ready = ready(experiment);
        let peers = match (ready, is_selected && !arguments.show) {
            (Ok(peers), _) => peers,
            (Err(error), true) => return Err(error),
            // Its results are not shown either: they would be of an unknown version.
            (Err(_), false) => continue,
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
    Ok(chosen)
}

/// The programs that take part, when everything is there.
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

/// The jobs that are left, by rounds or all at once.
fn rounds_left(experiment: &dyn Experiment, results: &Results, extent: Extent) -> Vec<Vec<Job>> {
    let trials = 1..=extent.trials();
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

/// Measures everything that was selected and is missing. Returns what went wrong, by experiment.
fn measure_all(chosen: &[Chosen], field: &Field) -> Result<Vec<(&'static str, anyhow::Error)>> {
    let mut plans = Vec::new();
    let (mut jobs, mut expected) = (0, Duration::ZERO);
    for one in chosen.iter().filter(|one| one.is_selected) {
        let points = one.experiment.points(field.extent);
        let results = one.raw.results(points)?;
        let rounds = rounds_left(one.experiment, &results, field.extent);
        for job in rounds.iter().flatten() {
            jobs += 1;
            expected += one.experiment.expected(&job.point, field.extent);
        }
        plans.push((one, rounds));
    }
    eprintln!("bench: {jobs} jobs to do, about {}", in_words(expected));
    let progress = Progress::of(jobs, expected);
    let mut failures = Vec::new();
    for (one, rounds) in plans {
        if let Err(error) = measure(one, &rounds, field, &progress) {
            let name = one.experiment.name();
            eprintln!("bench: {name} FAILED: {error:#}");
            failures.push((name, error));
        }
    }
    Ok(failures)
}

fn measure(one: &Chosen, rounds: &[Vec<Job>], field: &Field, progress: &Progress) -> Result<()> {
    for jobs in rounds {
        let book = Keeper {
            one,
            extent: field.extent,
            progress,
            kept: AtomicUsize::new(0),
        };
        one.experiment.measure(field, jobs, &book)?;
        let kept = book.kept.into_inner();
        ensure!(
            kept == jobs.len(),
            "{kept} of {} jobs of a round were measured",
            jobs.len()
        );
    }
    Ok(())
}

/// Writes outcomes to the file of an experiment, and says so.
struct Keeper<'a> {
    one: &'a Chosen,
    extent: Extent,
    progress: &'a Progress,
    kept: AtomicUsize,
}

impl Book for Keeper<'_> {
    fn keep(&self, job: &Job, outcome: Outcome) -> Result<()> {
        let experiment = self.one.experiment;
        let name = experiment.name();
        for (figure, value) in &outcome {
            ensure!(value.is_finite(), "{name}, {job}: {figure} is {value}");
        }
        self.one.raw.append(job, outcome)?;
        self.kept.fetch_add(1, Ordering::Relaxed);
        let left = self
            .progress
            .done(experiment.expected(&job.point, self.extent));
        eprintln!("bench: {name}: {job} done; {left}");
        Ok(())
    }
}

/// Writes page and plots beside the raw results, and publishes them where that is asked for.
fn write(
    arguments: &PaperArguments,
    output: &Path,
    conditions: &Conditions,
    chosen: &[Chosen],
    failures: &[(&'static str, anyhow::Error)],
) -> Result<()> {
    let (mut sections, mut unfinished) = (Vec::new(), Vec::new());
    for one in chosen {
        let (experiment, extent) = (one.experiment, conditions.extent);
        let results = one.raw.results(experiment.points(extent))?;
        let name = experiment.name();
        if results.trials_min() < extent.trials() as usize {
            unfinished.push(name);
        }
        if !results.is_empty() {
            let shown = experiment.shown(&results, extent);
            let trials = results.trials_min();
            sections.push(Section {
                name,
                shown,
                trials,
                late_us: results.largest(LATENESS),
            });
        }
    }
    let missing = EXPERIMENTS.iter().map(|one| one.name());
    let missing = missing.filter(|name| chosen.iter().all(|one| one.experiment.name() != *name));
    unfinished.extend(missing);
    let page = output.join("evaluation.md");
    page::write(&page, Path::new(""), conditions, None, &sections)?;
    for (name, error) in failures {
        eprintln!("bench: {name} FAILED: {error:#}");
    }
    if !failures.is_empty() {
        bail!(
            "{} of the experiments failed; what was measured is kept",
            failures.len()
        );
    }
    let Some(date) = &arguments.publish else {
        return Ok(());
    };
    ensure!(
        unfinished.is_empty(),
        "these are not finished, so nothing is published: {}",
        unfinished.join(", ")
    );
    let page = PathBuf::from("docs/evaluation.md");
    page::write(
        &page,
        Path::new("evaluation"),
        conditions,
        Some(date),
        &sections,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::experiment::Point;
    use crate::paper::experiment::Shown;

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

//! A run: measures everything that is missing, and stores every outcome at once.
//!
//! What must never enter: the measurements themselves, and showing.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::machine::Machine;
use bench::program;
use bench::raw::file_hash;
use bench::trial::{Job, Outcome};
use bench::work_folder::WorkFolder;

use crate::arguments::MeasureArguments;
use crate::experiment::Book;
use crate::extent::Extent;
use crate::field::Field;
use crate::page::Conditions;
use crate::plan::{Chosen, Plan};
use crate::progress::{Progress, in_words};
use crate::publish;
use crate::trace::Trace;

/// Measures the missing jobs, and writes the results.
pub(crate) fn run(arguments: &MeasureArguments) -> Result<()> {
    let extent = match arguments.quick {
        true => Extent::Quick,
        false => Extent::Whole,
    };
    let is_release = !cfg!(debug_assertions);
    publish::check(arguments.publish.as_deref(), extent, is_release)?;
    if !is_release {
        eprintln!("evaluation: THIS IS NOT A RELEASE BUILD. The figures say nothing.");
    }
    let output = extent.choose(arguments.output.clone(), arguments.output.join("quick"));
    fs::create_dir_all(&output)
        .with_context(|| format!("could not create {}", output.display()))?;
    let program = program::meridian(arguments.meridian.as_deref())?;
    let meridian = format!(
        "{} ({})",
        program::version(&program, "--version")?,
        file_hash(&program)?
    );
    let trace_hash = file_hash(&arguments.trace)?;
    let plan = Plan::make(arguments, extent, &output, [&meridian, &trace_hash])?;
    if arguments.list {
        return plan.list(extent);
    }
    let disk = WorkFolder::make_in(&arguments.disk)?;
    let trace = Trace::read(&arguments.trace)?;
    let conditions = Conditions {
        machine: Machine::describe(disk.path())?,
        meridian,
        package: trace.title.clone(),
        steps: trace.steps(),
        extent,
    };
    let field = Field::new(program, extent, trace, disk.path());
    let failures = match arguments.show {
        true => Vec::new(),
        false => measure_all(&plan, &field)?,
    };
    publish::show(&output, &conditions, &plan)?;
    let published = match &arguments.publish {
        Some(date) => publish::publish(date, &conditions, &plan),
        None => Ok(()),
    };
    for (name, error) in &failures {
        eprintln!("evaluation: {name} FAILED: {error:#}");
    }
    published?;
    ensure!(
        failures.is_empty(),
        "{} of the experiments failed; what was measured is kept",
        failures.len()
    );
    Ok(())
}

/// Measures everything that was selected and is missing. Returns the errors, by experiment.
fn measure_all(plan: &Plan, field: &Field) -> Result<Vec<(&'static str, anyhow::Error)>> {
    let mut all = Vec::new();
    for one in plan.selected() {
        let left = one.left(field.extent)?;
        eprintln!("evaluation: {}", left.line(one.experiment.name()));
        all.push((one, left));
    }
    let jobs = all.iter().map(|(_, left)| left.jobs()).sum();
    let expected: Duration = all.iter().map(|(_, left)| left.expected).sum();
    eprintln!(
        "evaluation: {jobs} jobs to do, about {}",
        in_words(expected)
    );
    let progress = Progress::of(jobs, expected);
    let mut failures = Vec::new();
    for (one, left) in all {
        if let Err(error) = measure(one, &left.rounds, field, &progress) {
            let name = one.experiment.name();
            eprintln!("evaluation: {name} FAILED: {error:#}");
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

/// Writes outcomes to the file of an experiment, and prints them.
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
        eprintln!("evaluation: {name}: {job} done; {left}");
        Ok(())
    }
}

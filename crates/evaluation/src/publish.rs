//! Publishing: separate pages of finished experiments, and the index of all.
//!
//! What must never enter: measurements, and results of quick runs among published ones.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use bench::page::check_date;
use bench::statistics::{LATENESS, Results};

use crate::extent::Extent;
use crate::index;
use crate::list::EXPERIMENTS;
use crate::page::{self, Conditions, Section, warning};
use crate::plan::{Chosen, Plan};

/// The repository's folder of the index.
const DOCS: &str = "docs";

/// The repository's folder of findings about results.
const FINDINGS: &str = "crates/evaluation/findings";

/// Raw results of an experiment with more bytes than this are too large for a repository. They are still published, with
/// a warning.
const RAW_MAX: usize = 300_000;

/// Refuses what can never be published, before anything is measured.
///
/// # Errors
/// Fails for an invalid date, for quick runs, and unless this is a release build.
pub(super) fn check(date: Option<&str>, extent: Extent, is_release: bool) -> Result<()> {
    let Some(date) = date else {
        return Ok(());
    };
    check_date(date)?;
    ensure!(
        extent == Extent::Whole,
        "a quick run is never published: its figures are no results; leave out --quick or --publish"
    );
    ensure!(
        is_release,
        "what a debug build measures is never published; build with --release, as scripts/evaluate does"
    );
    Ok(())
}

/// Writes pages of everything with results, finished or not, for the user who measured it.
///
/// # Errors
/// Fails when a file cannot be written.
pub(super) fn show(output: &Path, conditions: &Conditions, plan: &Plan) -> Result<()> {
    for one in &plan.chosen {
        let section = section(one, conditions.extent)?;
        if let Some(section) = section {
            page::write(output, conditions, None, &section)?;
        }
    }
    write_index(output, conditions.extent)
}

/// Writes pages of the selected experiments that are finished into the repository.
///
/// # Errors
/// Fails when a file cannot be written; and, after everything else, when a selected experiment is not finished.
pub(super) fn publish(date: &str, conditions: &Conditions, plan: &Plan) -> Result<()> {
    let root = Path::new(DOCS);
    ensure!(
        root.is_dir(),
        "there is no folder {DOCS} here; run it in the repository"
    );
    let mut unfinished: Vec<String> = Vec::new();
    for one in plan.selected() {
        let name = one.experiment.name();
        match section(one, conditions.extent)? {
            Some(section) if section.trials >= section.wanted => {
                let size = section.raw.len();
                if size > RAW_MAX {
                    eprintln!(
                        "evaluation: THE RAW RESULTS OF {name} HAVE {size} BYTES, more than {RAW_MAX}"
                    );
                }
                page::write(root, conditions, Some(date), &section)?;
                eprintln!("evaluation: {name} is published");
            }
            _ => unfinished.push(name.to_owned()),
        }
    }
    for (name, error) in &plan.hindered {
        unfinished.push(format!("{name} ({error:#})"));
    }
    write_index(root, conditions.extent)?;
    if !unfinished.is_empty() {
        bail!(
            "these are not finished, so they are not published: {}",
            unfinished.join(", ")
        );
    }
    Ok(())
}

/// The results of an experiment, if any.
fn section(one: &Chosen, extent: Extent) -> Result<Option<Section>> {
    let points = one.experiment.points(extent);
    let raw = one.raw.text(&points)?;
    let results = one.raw.results(points)?;
    if results.is_empty() {
        return Ok(None);
    }
    let result = one.experiment.result(&results);
    Ok(Some(Section {
        name: one.experiment.name(),
        shown: one.experiment.shown(&results, extent),
        result: result.unwrap_or_else(|| "see the page".to_owned()),
        trials: results.trials_min(),
        wanted: one.experiment.trials(extent) as usize,
        peers: one.peers.clone(),
        late_us: results.largest(LATENESS),
        raw,
        findings: extent.choose(findings(one.experiment.name()), String::new()),
    }))
}

/// The findings about an experiment's results; empty if there are none.
fn findings(name: &str) -> String {
    std::fs::read_to_string(Path::new(FINDINGS).join(format!("{name}.md"))).unwrap_or_default()
}

fn write_index(root: &Path, extent: Extent) -> Result<()> {
    let titles = EXPERIMENTS.iter().map(|one| {
        let nothing = Results::of(one.points(extent));
        (one.name(), one.shown(&nothing, extent).title)
    });
    index::write(root, &titles.collect::<Vec<_>>(), warning(extent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_runs_and_debug_builds_are_never_published() {
        let date = Some("2026-01-31");
        for (extent, is_release) in [(Extent::Quick, true), (Extent::Whole, false)] {
            let error = check(date, extent, is_release).unwrap_err();
            assert!(error.to_string().contains("never published"), "{error}");
            check(None, extent, is_release).unwrap();
        }
        check(date, Extent::Whole, true).unwrap();
        assert!(check(Some("today"), Extent::Whole, true).is_err());
    }

    #[test]
    fn every_experiment_has_a_title_before_it_is_measured() {
        let root = std::env::temp_dir().join(format!("evaluation-publish-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        write_index(&root, Extent::Whole).unwrap();
        let index = std::fs::read_to_string(root.join("evaluation.md")).unwrap();
        let rows = index.matches("| not measured yet |").count();
        assert_eq!(rows, EXPERIMENTS.len());
        std::fs::remove_dir_all(root).unwrap();
    }
}

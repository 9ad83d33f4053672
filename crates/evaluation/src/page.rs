//! A page: the text of `templates/experiment.md` and of one experiment, around tables and plots, with the raw results beside it.
//!
//! What must never enter: figures; they come with the section. The text of other pages.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use askama::Template;
use bench::machine::Machine;

use crate::experiment::{Peer, Shown};
use crate::extent::Extent;
use crate::index::{Entry, FOLDER};

/// A page of an experiment.
#[derive(Debug, Template)]
#[template(path = "experiment.md", escape = "none")]
struct Page<'a> {
    section: &'a Section,
    conditions: &'a Conditions,
    machine: &'a Machine,
    date: &'a str,
    warning: &'a str,
    trials: String,
    peers: String,
}

/// The conditions of the measurements.
#[derive(Debug)]
pub(crate) struct Conditions {
    /// The machine.
    pub(crate) machine: Machine,
    /// Meridian's version.
    pub(crate) meridian: String,
    /// The recorded package.
    pub(crate) package: String,
    /// The number of its steps.
    pub(crate) steps: usize,
    /// The extent of the work.
    pub(crate) extent: Extent,
}

/// An experiment with results.
#[derive(Debug)]
pub(crate) struct Section {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its page content.
    pub(crate) shown: Shown,
    /// One line about the result.
    pub(crate) result: String,
    /// The number of trials of every point.
    pub(crate) trials: usize,
    /// The intended number of trials.
    pub(crate) wanted: usize,
    /// The other programs that took part.
    pub(crate) peers: Vec<Peer>,
    /// The mean lateness of the WAN in the worst trial, in microseconds, if it was measured.
    pub(crate) late_us: Option<f64>,
    /// The lines of its results.
    pub(crate) raw: String,
    /// A person's text about the causes of the results.
    pub(crate) findings: String,
}

/// The warning before results of a quick run; empty for others.
pub(crate) fn warning(extent: Extent) -> &'static str {
    extent.choose(
        "",
        "**This was a quick run: few trials of shortened work, to show that everything works. \
         Its figures are no results.**\n\n",
    )
}

/// Writes the page, its plots, its raw results and its entry for the index into [`FOLDER`] below `root`.
///
/// # Errors
/// Fails when a file cannot be written.
pub(crate) fn write(
    root: &Path,
    conditions: &Conditions,
    date: Option<&str>,
    section: &Section,
) -> Result<()> {
    let folder = root.join(FOLDER);
    fs::create_dir_all(&folder)
        .with_context(|| format!("could not create {}", folder.display()))?;
    let write = |name: String, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))
    };
    let name = section.name;
    for plot in &section.shown.plots {
        write(plot_file(name, plot.name), &plot.svg())?;
    }
    write(format!("{name}.jsonl"), &section.raw)?;
    write(format!("{name}.md"), &section.page(conditions, date)?)?;
    let entry = Entry {
        date: date.map(str::to_owned),
        meridian: conditions.meridian.clone(),
        result: section.result.clone(),
    };
    entry.write(&folder, name)
}

fn plot_file(experiment: &str, plot: &str) -> String {
    match plot {
        "" => format!("{experiment}.svg"),
        _ => format!("{experiment}-{plot}.svg"),
    }
}

fn listed(peers: &[Peer]) -> String {
    let words = peers
        .iter()
        .map(|peer| format!("{} {}", peer.name, peer.version));
    match peers {
        [] => "no other program".to_owned(),
        _ => words.collect::<Vec<_>>().join(", "),
    }
}

fn counted(trials: usize) -> String {
    match trials {
        1 => "one trial".to_owned(),
        _ => format!("{trials} trials"),
    }
}

impl Section {
    fn page(&self, conditions: &Conditions, date: Option<&str>) -> Result<String> {
        let page = Page {
            section: self,
            conditions,
            machine: &conditions.machine,
            date: date.unwrap_or("(not published)"),
            warning: warning(conditions.extent),
            trials: counted(self.trials),
            peers: listed(&self.peers),
        };
        Ok(page.render()? + "\n")
    }

    /// The plots, each with its file.
    fn plots(&self) -> impl Iterator<Item = (&str, String)> {
        let plots = self.shown.plots.iter();
        plots.map(|plot| (plot.title.as_str(), plot_file(self.name, plot.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(trials: usize) -> Section {
        Section {
            name: "figure-0",
            shown: Shown {
                title: "Nothing",
                about: "It is about nothing.".to_owned(),
                claims: "- Nothing comes of it (section 0).\n",
                tables: vec!["| a |\n|---|\n".to_owned()],
                plots: Vec::new(),
            },
            result: "nothing".to_owned(),
            trials,
            wanted: 5,
            peers: Vec::new(),
            late_us: Some(31.4),
            raw: "{}\n".to_owned(),
            findings: String::new(),
        }
    }

    fn conditions(extent: Extent) -> Conditions {
        Conditions {
            machine: Machine {
                cores: 2,
                memory_gib: 8,
                kernel: "Linux 1".to_owned(),
                file_system: "ext4".to_owned(),
                append_us: 1,
                create_us: 2,
            },
            meridian: "meridian 1".to_owned(),
            package: "a package".to_owned(),
            steps: 3,
            extent,
        }
    }

    #[test]
    fn a_page_says_when_it_is_not_finished() {
        let whole = section(5)
            .page(&conditions(Extent::Whole), Some("2026-01-31"))
            .unwrap();
        assert!(
            whole.starts_with("# Nothing\n\nIt is about nothing.\n\nWhat the papers say:"),
            "{whole}"
        );
        assert!(whole.contains("| a |\n|---|\n\n## Conditions"), "{whole}");
        assert!(whole.contains("Measured 2026-01-31 in 5 trials: Meridian meridian 1"));
        assert!(whole.contains("packets came 31 µs late"));
        assert!(whole.contains("[raw results](figure-0.jsonl)"));
        assert!(!whole.contains("Not finished") && !whole.contains('{'));
        let half = section(3).page(&conditions(Extent::Whole), None).unwrap();
        assert!(half.contains("some points have 3 of 5 trials"));
        let quick = section(2).page(&conditions(Extent::Quick), None).unwrap();
        assert!(quick.starts_with("# Nothing\n\n**This was a quick run"));
    }

    #[test]
    fn a_page_leaves_others_as_they_are() {
        let root = std::env::temp_dir().join(format!("evaluation-page-{}", std::process::id()));
        let folder = root.join(FOLDER);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("figure-1.md"), "another").unwrap();
        write(&root, &conditions(Extent::Whole), None, &section(5)).unwrap();
        let other = fs::read_to_string(folder.join("figure-1.md")).unwrap();
        assert_eq!(other, "another");
        let raw = fs::read_to_string(folder.join("figure-0.jsonl")).unwrap();
        assert_eq!(raw, "{}\n");
        assert!(folder.join("figure-0.json").is_file());
        fs::remove_dir_all(root).unwrap();
    }
}

//! The page: the words of `evaluation.md` and of each experiment, around tables and plots.
//!
//! What must never enter: figures; they come with the sections.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::experiment::{Extent, Peer, Shown};
use crate::machine::Machine;
use crate::page::is_date;

/// The page with places in braces.
const TEMPLATE: &str = include_str!("../../evaluation.md");

/// Under which conditions everything was measured.
#[derive(Debug)]
pub(crate) struct Conditions {
    /// Where.
    pub(crate) machine: Machine,
    /// Meridian's version.
    pub(crate) meridian: String,
    /// The package that was recorded.
    pub(crate) package: String,
    /// How many steps it has.
    pub(crate) steps: usize,
    /// How much was done.
    pub(crate) extent: Extent,
    /// The other programs.
    pub(crate) peers: Vec<Peer>,
}

/// An experiment with results.
#[derive(Debug)]
pub(crate) struct Section {
    /// Its name.
    pub(crate) name: &'static str,
    /// What is shown of it.
    pub(crate) shown: Shown,
    /// How many trials every point has.
    pub(crate) trials: usize,
    /// By how many microseconds the WAN was late in the mean of the worst trial, where that was looked at.
    pub(crate) late_us: Option<f64>,
}

/// Writes the page to a file, and the plots into a folder beside it.
///
/// # Errors
/// Fails when a file cannot be written, and when the date is none.
pub(crate) fn write(
    file: &Path,
    folder: &Path,
    conditions: &Conditions,
    date: Option<&str>,
    sections: &[Section],
) -> Result<()> {
    if let Some(date) = date {
        ensure!(is_date(date), "'{date}' is no date; write it as 2026-01-31");
    }
    let parent = file.parent().context("a page lies in a folder")?;
    let plots = parent.join(folder);
    fs::create_dir_all(&plots).with_context(|| format!("could not create {}", plots.display()))?;
    for section in sections {
        for plot in &section.shown.plots {
            let path = plots.join(plot_file(section.name, plot.name));
            fs::write(&path, plot.svg())
                .with_context(|| format!("could not write {}", path.display()))?;
        }
    }
    let text = text(folder, conditions, date, sections);
    fs::write(file, text).with_context(|| format!("could not write {}", file.display()))?;
    eprintln!("bench: {} is written", file.display());
    Ok(())
}

fn plot_file(experiment: &str, plot: &str) -> String {
    match plot {
        "" => format!("{experiment}.svg"),
        _ => format!("{experiment}-{plot}.svg"),
    }
}

fn text(
    folder: &Path,
    conditions: &Conditions,
    date: Option<&str>,
    sections: &[Section],
) -> String {
    let machine = &conditions.machine;
    let peers = conditions.peers.iter();
    let peers: Vec<String> = peers
        .map(|peer| format!("{} {}", peer.name, peer.version))
        .collect();
    let warning = conditions.extent.choose(
        "",
        "**This was a quick run: few trials of shortened work, to show that everything works. \
         Its figures are no results.**\n\n",
    );
    let all: Vec<String> = sections
        .iter()
        .map(|section| section.text(folder, conditions.extent))
        .collect();
    let places = [
        ("{warning}", warning.to_owned()),
        ("{date}", date.unwrap_or("(not published)").to_owned()),
        ("{meridian}", conditions.meridian.clone()),
        ("{peers}", listed(&peers)),
        ("{package}", conditions.package.clone()),
        ("{steps}", conditions.steps.to_string()),
        ("{sections}", all.join("\n")),
    ];
    let mut page = machine.fill(TEMPLATE);
    for (place, value) in places {
        page = page.replace(place, &value);
    }
    page.trim_end().to_owned() + "\n"
}

fn listed(words: &[String]) -> String {
    match words {
        [] => "no other program".to_owned(),
        _ => words.join(", "),
    }
}

impl Section {
    fn text(&self, folder: &Path, extent: Extent) -> String {
        let shown = &self.shown;
        let mut text = format!("## {}\n\n{}\n\n", shown.title, shown.about.trim());
        let claims = shown.claims.trim();
        if !claims.is_empty() {
            text += &format!("What the papers say:\n\n{claims}\n\n");
        }
        let (trials, wanted) = (self.trials, extent.trials() as usize);
        if trials < wanted {
            text += &format!("**Not finished: some points have {trials} of {wanted} trials.**\n\n");
        }
        if let Some(late) = self.late_us {
            text += &format!("In the worst trial packets came {late:.0} µs late in the mean.\n\n");
        }
        for plot in &shown.plots {
            let file = folder.join(plot_file(self.name, plot.name));
            text += &format!("![{}]({})\n\n", plot.title, file.display());
        }
        for table in &shown.tables {
            text += table.trim_end();
            text += "\n\n";
        }
        text
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
            trials,
            late_us: Some(31.4),
        }
    }

    #[test]
    fn a_section_says_when_it_is_not_finished() {
        let whole = section(5).text(Path::new(""), Extent::Whole);
        assert!(whole.starts_with("## Nothing\n\nIt is about nothing.\n\nWhat the papers say:"));
        assert!(whole.ends_with("| a |\n|---|\n\n"), "{whole}");
        assert!(whole.contains("packets came 31 µs late"));
        assert!(!whole.contains("Not finished"));
        let half = section(3).text(Path::new(""), Extent::Whole);
        assert!(half.contains("some points have 3 of 5 trials"));
    }
}

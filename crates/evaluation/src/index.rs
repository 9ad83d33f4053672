//! The index: one line for each experiment of the list, made from the files beside the existing pages.
//!
//! Each page has an [`Entry`] in a separate file, so that writing one page changes no other.
//!
//! What must never enter: results that are not on a page.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use askama::Template;
use bench::table::row;
use serde::{Deserialize, Serialize};

/// The folder of pages, below the folder of their index.
pub(crate) const FOLDER: &str = "evaluation";

/// The page of the index.
#[derive(Debug, Template)]
#[template(path = "evaluation.md", escape = "none")]
struct Page<'a> {
    warning: &'a str,
    table: String,
}

/// The entry of a page in the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// When it was published; none if it was not published.
    pub(crate) date: Option<String>,
    /// Meridian's version.
    pub(crate) meridian: String,
    /// One line about the result.
    pub(crate) result: String,
}

impl Entry {
    /// The entry of an experiment, if it has a page.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or is no entry.
    fn read(folder: &Path, name: &str) -> Result<Option<Self>> {
        let path = path(folder, name);
        let shown = || format!("could not read {}", path.display());
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            text => Ok(Some(
                serde_json::from_str(&text.with_context(shown)?).with_context(shown)?,
            )),
        }
    }

    /// Writes it beside the page.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> Result<()> {
        let path = path(folder, name);
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))
    }

    fn row(&self, name: &str, title: &str) -> String {
        let link = format!("[{title}]({FOLDER}/{name}.md)");
        let date = self.date.as_deref().unwrap_or("not published");
        row([&*link, date, &self.meridian, &self.result].into_iter())
    }
}

fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.json"))
}

/// Writes the index of the pages below `root`, of experiments by name and title, after a warning.
///
/// # Errors
/// Fails when an entry cannot be read, or the index cannot be written.
pub(crate) fn write(root: &Path, experiments: &[(&str, &str)], warning: &str) -> Result<()> {
    let mut table = row(["experiment", "measured", "Meridian", "result"].into_iter());
    table += "|---|---|---|---|\n";
    for &(name, title) in experiments {
        table += &match Entry::read(&root.join(FOLDER), name)? {
            Some(entry) => entry.row(name, title),
            None => {
                let title = format!("{title} (`{name}`)");
                row([&*title, "not measured yet", "", ""].into_iter())
            }
        };
    }
    let text = Page { warning, table }.render()? + "\n";
    let file = root.join("evaluation.md");
    fs::write(&file, text).with_context(|| format!("could not write {}", file.display()))?;
    eprintln!("evaluation: {} is written", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_without_a_page_is_not_measured_yet() {
        let root = std::env::temp_dir().join(format!("evaluation-index-{}", std::process::id()));
        let folder = root.join(FOLDER);
        fs::create_dir_all(&folder).unwrap();
        let entry = Entry {
            date: Some("2026-01-31".to_owned()),
            meridian: "meridian 1".to_owned(),
            result: "it went well".to_owned(),
        };
        entry.write(&folder, "one").unwrap();
        assert_eq!(Entry::read(&folder, "one").unwrap().unwrap(), entry);
        write(&root, &[("one", "One"), ("two", "Two")], "").unwrap();
        let index = fs::read_to_string(root.join("evaluation.md")).unwrap();
        let measured = "| [One](evaluation/one.md) | 2026-01-31 | meridian 1 | it went well |\n";
        assert!(index.contains(measured), "{index}");
        assert!(index.contains("| Two (`two`) | not measured yet |  |  |\n"));
        assert!(!index.contains("{"), "{index}");
        // Another content under its name is an error.
        fs::write(folder.join("two.json"), "{}").unwrap();
        assert!(write(&root, &[("two", "Two")], "").is_err());
        fs::remove_dir_all(root).unwrap();
    }
}

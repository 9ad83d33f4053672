//! Raw results: a file of JSON lines for each experiment, one line for each trial at a point, written as soon
//! as it is over.
//!
//! A line contains a hash of its settings, which covers the versions of all programs. Only
//! lines with the same settings count, so that an interrupted run can continue and never mixes different things.
//! An incomplete last line is ignored; any other unreadable line is an error.
//!
//! What must never enter: what is measured.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::statistics::Results;
use crate::trial::{Job, Outcome, Point};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The experiment's name.
    pub experiment: String,
    /// The hash of all settings.
    pub settings: String,
    /// What was measured.
    #[serde(flatten)]
    pub point: Point,
    /// The number of the trial.
    pub trial: u32,
    /// When it ended, in seconds since 1970.
    pub at: u64,
    /// The results.
    pub figures: Outcome,
}

/// The file of an experiment.
#[derive(Debug)]
pub struct RawFile {
    path: PathBuf,
    experiment: String,
    settings: String,
    file: Mutex<()>,
}

impl RawFile {
    /// The file in a folder, with these settings.
    pub fn new(folder: &Path, experiment: &str, settings: String) -> Self {
        Self {
            path: folder.join(format!("{experiment}.jsonl")),
            experiment: experiment.to_owned(),
            settings,
            file: Mutex::new(()),
        }
    }

    /// Drops everything in it.
    ///
    /// # Errors
    /// Fails when the file is there and cannot be removed.
    pub fn discard(&self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("could not remove {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }

    /// All lines that count, for these points.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or was not written by this program.
    pub fn results(&self, points: Vec<Point>) -> Result<Results> {
        let lines = self.lines(&points)?;
        let mut results = Results::of(points);
        for (line, _) in lines {
            results.add(line.point, line.trial, line.figures);
        }
        Ok(results)
    }

    /// The lines that count, for these points, as they are in the file.
    ///
    /// # Errors
    /// See [`RawFile::results`].
    pub fn text(&self, points: &[Point]) -> Result<String> {
        let lines = self.lines(points)?;
        Ok(lines.into_iter().map(|(_, text)| text + "\n").collect())
    }

    fn lines(&self, points: &[Point]) -> Result<Vec<(Line, String)>> {
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text.with_context(|| format!("could not read {}", self.path.display()))?,
        };
        let mut lines = Vec::new();
        for (number, text) in whole_lines(&text).enumerate() {
            let line: Line = serde_json::from_str(text).with_context(|| {
                let shown = self.path.display();
                format!("line {} of {shown} is no result; see --afresh", number + 1)
            })?;
            let counts = line.settings == self.settings && line.experiment == self.experiment;
            if counts && points.contains(&line.point) {
                lines.push((line, text.to_owned()));
            }
        }
        Ok(lines)
    }

    /// Appends a line and writes it to the disk.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn append(&self, job: &Job, figures: Outcome) -> Result<()> {
        let at = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let line = Line {
            experiment: self.experiment.clone(),
            settings: self.settings.clone(),
            point: job.point.clone(),
            trial: job.trial,
            at: at.as_secs(),
            figures,
        };
        let text = serde_json::to_string(&line)? + "\n";
        let _alone = self.file.lock();
        let shown = || format!("could not write {}", self.path.display());
        self.end_last_line().with_context(shown)?;
        let mut options = File::options();
        let mut file = options.append(true).create(true).open(&self.path)?;
        file.write_all(text.as_bytes()).with_context(shown)?;
        file.sync_data().with_context(shown)
    }

    /// Removes an incomplete last line, so that the next line begins correctly.
    fn end_last_line(&self) -> std::io::Result<()> {
        let Ok(text) = fs::read(&self.path) else {
            return Ok(());
        };
        let end = text.iter().rposition(|&byte| byte == b'\n');
        let end = end.map_or(0, |at| at + 1);
        if end < text.len() {
            let file = File::options().write(true).open(&self.path)?;
            file.set_len(end as u64)?;
        }
        Ok(())
    }
}

/// All complete lines.
fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
}

/// A short form of all these settings: the beginning of a BLAKE3 hash, in hexadecimal digits.
pub fn settings_hash(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        // Lengths keep the parts apart.
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

/// The same for a file's content.
///
/// # Errors
/// Fails when it cannot be read.
pub fn file_hash(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
    Ok(blake3::hash(&bytes).to_hex()[..16].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(series: &str, trial: u32) -> Job {
        let point = Point::new("panel", series, "0.2");
        Job { point, trial }
    }

    fn outcome(value: f64) -> Outcome {
        Outcome::from([("took_s".to_owned(), value)])
    }

    /// A folder that is removed with the test's process.
    fn folder(name: &str) -> PathBuf {
        let name = format!("bench-raw-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_run_finds_what_an_interrupted_one_has_left() {
        let folder = folder("resume");
        let open = |settings: &str| RawFile::new(&folder, "figure-0", settings.to_owned());
        let first = open("one");
        first.append(&job("a", 1), outcome(1.5)).unwrap();
        first.append(&job("b", 1), outcome(2.5)).unwrap();
        // The machine stopped in the middle of a line.
        let mut file = File::options().append(true).open(&first.path).unwrap();
        file.write_all(b"{\"experiment\":\"fig").unwrap();
        let points = vec![job("a", 1).point, job("b", 1).point];
        let again = open("one");
        let results = again.results(points.clone()).unwrap();
        assert!(results.has(&points[0], 1) && results.has(&points[1], 1));
        assert!(!results.has(&points[0], 2));
        again.append(&job("a", 2), outcome(3.5)).unwrap();
        let results = again.results(points.clone()).unwrap();
        let summary = results.summary(&points[0], "took_s").unwrap();
        assert_eq!((summary.trials, summary.mean), (2, 2.5));
        let text = again.text(&points).unwrap();
        assert_eq!(text, fs::read_to_string(&again.path).unwrap());
        assert_eq!(text.lines().count(), 3);
        // With other settings, and for other points, these lines do not count.
        assert!(open("two").text(&points).unwrap().is_empty());
        assert!(open("two").results(points.clone()).unwrap().is_empty());
        assert!(again.results(Vec::new()).unwrap().is_empty());
        again.discard().unwrap();
        assert!(again.results(points).unwrap().is_empty());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_line_that_is_no_result_is_not_passed_over() {
        let folder = folder("damaged");
        let raw = RawFile::new(&folder, "figure-0", "one".to_owned());
        fs::write(&raw.path, "{}\n").unwrap();
        let error = raw.results(Vec::new()).unwrap_err();
        assert!(error.to_string().contains("line 1 of"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn settings_are_told_apart_by_their_hash() {
        let hash = settings_hash(&["ab", "c"]);
        assert_eq!(hash.len(), 16);
        assert_eq!(hash, settings_hash(&["ab", "c"]));
        assert_ne!(hash, settings_hash(&["a", "bc"]));
    }
}

//! The problems in a configuration file: what, where, and how to fix them.
//!
//! What must never enter: the keys of the file.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use vfs::{ShownBytes, ShownText};

/// The maximum number of reported problems.
const PROBLEMS_MAX: usize = 20;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The position in the text, in bytes.
    pub(super) place: Range<usize>,
    /// The problem.
    pub(super) what: String,
    /// What to do about it.
    pub(super) remedy: String,
}

/// Why there is no configuration.
#[derive(Debug)]
pub enum ConfigurationError {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file contains something invalid.
    Wrong {
        /// The file.
        file: PathBuf,
        /// Line and column, counted from one, with the problem there. Not empty.
        problems: Vec<(Place, Problem)>,
    },
    /// The command line contains something invalid.
    CommandLine(String),
}

/// A position in a text, both numbers counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl ConfigurationError {
    /// Problems in the order of the file, each at most once per line, and only the first ones if there are many.
    pub(super) fn wrong(file: PathBuf, text: &str, problems: Vec<Problem>) -> ConfigurationError {
        let placed = |problem: Problem| (place_of(text, problem.place.start), problem);
        let mut problems: Vec<_> = problems.into_iter().map(placed).collect();
        problems.sort_by_key(|(place, _)| *place);
        problems.dedup_by(|(place, problem), (before, kept)| {
            place.line == before.line && problem.what == kept.what
        });
        let more = problems.len().saturating_sub(PROBLEMS_MAX);
        if let Some((place, next)) = problems.get(PROBLEMS_MAX).filter(|_| more > 1) {
            let left_out = Problem {
                place: next.place.clone(),
                what: format!("{more} more things are wrong from here on"),
                remedy: "mend those above first".to_owned(),
            };
            let place = *place;
            problems.truncate(PROBLEMS_MAX);
            problems.push((place, left_out));
        }
        ConfigurationError::Wrong { file, problems }
    }
}

impl ConfigurationError {
    /// Each problem on its own line.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.to_string().lines().map(str::to_owned).collect()
    }
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigurationError::Unreadable { file, source } => {
                let file = ShownBytes(file.as_os_str().as_bytes());
                let remedy = match source.kind() {
                    io::ErrorKind::IsADirectory => "name the file in it, such as meridian.toml",
                    io::ErrorKind::NotFound => "check the path",
                    io::ErrorKind::InvalidData => {
                        "it is to be a regular file with at most 1 MiB of text in UTF-8"
                    }
                    _ => "check the path, and who may read it",
                };
                write!(
                    f,
                    "cannot read the configuration {file}: {source}; {remedy}"
                )
            }
            ConfigurationError::Wrong { file, problems } => {
                for (index, (place, problem)) in problems.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "\n" };
                    let file = ShownBytes(file.as_os_str().as_bytes());
                    let Place { line, column } = place;
                    let (what, remedy) = (ShownText(&problem.what), ShownText(&problem.remedy));
                    write!(f, "{separator}{file}:{line}:{column}: {what}; {remedy}")?;
                }
                Ok(())
            }
            ConfigurationError::CommandLine(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for ConfigurationError {}

fn place_of(text: &str, offset: usize) -> Place {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    Place {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_one() {
        let text = "ab\ncé = 1\n";
        for (offset, line, column) in [(0, 1, 1), (1, 1, 2), (3, 2, 1), (6, 2, 3), (99, 3, 1)] {
            assert_eq!(place_of(text, offset), Place { line, column }, "{offset}");
        }
    }

    #[test]
    fn problems_are_told_in_the_order_of_the_file() {
        let problem = |start, what: &str| Problem {
            place: start..start,
            what: what.to_owned(),
            remedy: "mend it".to_owned(),
        };
        let problems = vec![problem(3, "second"), problem(0, "first")];
        let error = ConfigurationError::wrong("f.toml".into(), "a\nbb", problems);
        assert_eq!(
            error.to_string(),
            "f.toml:1:1: first; mend it\nf.toml:2:2: second; mend it"
        );
    }

    #[test]
    fn one_problem_is_told_once_and_of_many_the_first() {
        let told = |text: &str, problems: Vec<Problem>| {
            ConfigurationError::wrong("f.toml".into(), text, problems).lines()
        };
        let problem = |start: usize, what: String| Problem {
            place: start..start,
            what,
            remedy: "mend it".to_owned(),
        };
        let same = (0..80).map(|at| problem(at, "no such thing".to_owned()));
        assert_eq!(told(&"a".repeat(80), same.collect()).len(), 1);
        let many = (0..80).map(|at| problem(2 * at, format!("wrong {at}")));
        let told = told(&"a\n".repeat(80), many.collect());
        assert_eq!(told.len(), PROBLEMS_MAX + 1);
        assert!(told[PROBLEMS_MAX].contains("60 more things"), "{told:?}");
    }
}

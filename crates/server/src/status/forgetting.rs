//! A data server that is lost, with all that lay there: what is asked about it, and what is answered.
//!
//! What must never enter: which files these are.

use std::fmt;

use serde::{Deserialize, Serialize};
use vfs::ShownText;

/// A wish that a data server is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetQuestion {
    /// Which one.
    pub number: u16,
    /// Whether it is meant; otherwise it is only told what would be given up.
    pub meant: bool,
}

/// What is given up with a data server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetAnswer {
    /// Which one.
    pub number: u16,
    /// Whether it is done.
    pub done: bool,
    /// How many files had something there.
    pub files: u64,
    /// Their paths in the tree, if there are not too many; the first of them.
    pub paths: Vec<String>,
}

impl fmt::Display for ForgetAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForgetAnswer { number, files, .. } = self;
        match self.done {
            true => write!(
                f,
                "Data server {number} is given up. Reading and writing what lay there gives an error (EIO)."
            )?,
            false => write!(
                f,
                "Data server {number} is to be given up for ever: it never comes back, and what lies there is lost."
            )?,
        }
        write!(f, " Files of which a part lay there: {files}")?;
        for path in &self.paths {
            write!(f, "\n  {}", ShownText(path))?;
        }
        match files.saturating_sub(self.paths.len() as u64) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_and_those_that_are_not_are_counted() {
        let mut answer = ForgetAnswer {
            number: 3,
            done: false,
            files: 12,
            paths: vec!["/a".to_owned(), "/b\n".to_owned()],
        };
        let told = answer.to_string();
        assert!(told.contains("to be given up for ever"), "{told}");
        assert!(
            told.ends_with("lay there: 12\n  /a\n  /b\\u{a}\n  and 10 more"),
            "{told}"
        );
        (answer.done, answer.files) = (true, 2);
        let told = answer.to_string();
        assert!(told.contains("(EIO)") && !told.contains("more"), "{told}");
    }
}

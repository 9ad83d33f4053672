//! Data servers that are being emptied, or are lost with their contents: questions and answers.
//!
//! What must never enter: the selection of the files.

use std::fmt;

use serde::{Deserialize, Serialize};
use vfs::{Counted, ShownText};

use super::size;

/// A request to give up a data server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetQuestion {
    /// Its number.
    pub number: u16,
    /// Whether to do it. Otherwise the answer only says what would be given up.
    pub meant: bool,
}

/// What is given up with a server of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetAnswer {
    /// Its number.
    pub number: u16,
    /// Whether it is done.
    pub done: bool,
    /// Whether it is a joined metadata server; otherwise it is a data server.
    #[serde(default)]
    pub metadata_server: bool,
    /// The number of files with data on the data server, or of names that led to objects at the metadata server.
    pub files: u64,
    /// Their paths in the tree, or the first of them if there are too many.
    pub paths: Vec<String>,
    /// The search of the tree is not complete, because it takes longer than the command waits: there may be more.
    #[serde(default)]
    pub partial: bool,
    /// It is given up, and the consequences are still in progress.
    #[serde(default)]
    pub goes_on: bool,
}

impl fmt::Display for ForgetAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForgetAnswer { number, files, .. } = self;
        let kind = match self.metadata_server {
            true => "Metadata server",
            false => "Data server",
        };
        match (self.done, self.goes_on) {
            (false, _) => write!(
                f,
                "{kind} {number} is to be given up for ever: it never comes back, and all that is there is lost."
            )?,
            (true, false) => write!(f, "{kind} {number} is given up, with all that was there.")?,
            (true, true) => write!(
                f,
                "{kind} {number} is given up, and refused from now on. What follows from that goes on without this command, also when the server is started anew: `meridian status` shows it until it is done."
            )?,
        }
        match (self.done, self.metadata_server) {
            (false, _) => {}
            (true, true) => write!(
                f,
                " Files of this server that had names only there are in the directory lost+found.{number} of the root, if there were any; where something else has that name, in lost+found.{number}.1 or the next."
            )?,
            (true, false) => write!(
                f,
                " Reading and writing what lay there gives an error (EIO)."
            )?,
        }
        let what = match self.metadata_server {
            true => "Names that led there, those of directories with all that had been in them",
            false => "Files of which a part lay there",
        };
        let more = match self.partial {
            true => " at least, as searching the whole tree takes longer than this command waits",
            false => "",
        };
        write!(f, " {what}: {files}{more}")?;
        list(&self.paths, *files, f)
    }
}

/// One line for each path, and the number of further ones.
fn list(paths: &[String], files: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for path in paths {
        write!(f, "\n  {}", ShownText(path))?;
    }
    match files.saturating_sub(paths.len() as u64) {
        0 => Ok(()),
        more => write!(f, "\n  and {more} more"),
    }
}

/// A request that a data server gets no new files, so that it can be emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainDataQuestion {
    /// Its number.
    pub number: u16,
    /// It gets new files again.
    pub stop: bool,
    /// The new maximum rate for moving files, in bytes per second.
    #[serde(default)]
    pub rate_bytes: Option<u64>,
}

/// A request to spread files over added data servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebalanceQuestion {
    /// Stop spreading.
    pub stop: bool,
    /// The new maximum rate for moving files, in bytes per second.
    pub rate_bytes: Option<u64>,
}

/// The data servers over which files are spread, and the amount to move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebalanceAnswer {
    /// Spreading has stopped, and nothing was searched.
    pub stopped: bool,
    /// The data servers.
    pub over: Vec<u16>,
    /// The number of files to move.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

impl fmt::Display for RebalanceAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stopped {
            return write!(
                f,
                "Files stay where they are, apart from those of data servers that are to be emptied."
            );
        }
        let over: Vec<String> = self.over.iter().map(u16::to_string).collect();
        let (over, files) = (over.join(", "), self.files);
        if files == 0 {
            return write!(f, "All files are spread over the data servers {over}.");
        }
        write!(
            f,
            "What is being spread over the data servers {over}: {} ({}). `meridian status` shows how far that is.",
            Counted(files, "file"),
            size(self.bytes)
        )
    }
}

/// The contents of a data server that is being emptied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainDataAnswer {
    /// Its number.
    pub number: u16,
    /// It gets new files again, and nothing was searched.
    pub stopped: bool,
    /// The number of files that are striped over it.
    pub files: u64,
    /// Their paths in the tree, or the first of them if there are too many.
    pub paths: Vec<String>,
}

impl fmt::Display for DrainDataAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DrainDataAnswer { number, files, .. } = self;
        if self.stopped {
            return write!(f, "Data server {number} gets new files again.");
        }
        write!(
            f,
            "Data server {number} gets no new files. Files that are striped over it: {files}"
        )?;
        list(&self.paths, *files, f)?;
        match files {
            0 => write!(f, "\n`meridian pool remove {number}` removes it."),
            _ => write!(
                f,
                "\nThey move to the other data servers, while they are used; `meridian status` shows how far that is. When none is left, \
                 `meridian pool remove {number}`."
            ),
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
            metadata_server: false,
            files: 12,
            paths: vec!["/a".to_owned(), "/b\n".to_owned()],
            partial: false,
            goes_on: false,
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
        answer.metadata_server = true;
        let told = answer.to_string();
        assert!(
            told.contains("lost+found.3") && told.contains("been in them: 2\n  /a"),
            "{told}"
        );
        (answer.goes_on, answer.partial) = (true, true);
        let told = answer.to_string();
        assert!(
            told.contains("`meridian status` shows it")
                && told.contains("been in them: 2 at least"),
            "{told}"
        );
        let mut answer = DrainDataAnswer {
            number: 3,
            stopped: false,
            files: 0,
            paths: Vec::new(),
        };
        assert!(
            answer
                .to_string()
                .ends_with("`meridian pool remove 3` removes it.")
        );
        (answer.files, answer.paths) = (1, vec!["/a".to_owned()]);
        let told = answer.to_string();
        assert!(told.contains("over it: 1\n  /a\nThey move"), "{told}");
        let mut answer = RebalanceAnswer {
            stopped: false,
            over: vec![2, 3],
            files: 12,
            bytes: 1 << 20,
        };
        let told = answer.to_string();
        assert!(
            told.starts_with(
                "What is being spread over the data servers 2, 3: 12 files (1.0 MiB)."
            ),
            "{told}"
        );
        answer.files = 0;
        assert!(answer.to_string().starts_with("All files are spread"));
    }
}

//! Exit codes, which scripts and service managers rely on. `docs/operating.md` lists them.
//!
//! What must never enter: messages.

use std::process::ExitCode;

/// How the program ends. Code 2 belongs to the parser of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// All is well.
    Success = 0,
    /// Something failed while running or starting.
    Failure = 1,
    /// A check found problems that were not, or could not be, repaired.
    Defects = 3,
    /// No server runs on the data directory.
    NotRunning = 4,
    /// The configuration is wrong; `EX_CONFIG` of `sysexits.h`. Starting again does not help.
    Configuration = 78,
    /// A second signal ended the program before the shutdown was complete; the value is the one of a shell for SIGINT.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why the program fails, and its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) error: anyhow::Error,
}

impl Failure {
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Failure {
        Failure {
            exit,
            error: error.into(),
        }
    }
}

/// An error with its causes. Many errors already contain the text of their cause, so repeated text is left out.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if told.contains(&cause) {
            continue;
        }
        if !told.is_empty() {
            told += ": ";
        }
        told += &cause;
    }
    told
}

/// For all errors without a special code.
impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(Exit::Failure, error)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn each_cause_is_told_once() {
        let bound = anyhow!("port 2049 is in use");
        let repeated = bound.context("cannot listen: port 2049 is in use");
        assert_eq!(told(&repeated), "cannot listen: port 2049 is in use");
        let added = anyhow!("no such file").context("cannot start");
        assert_eq!(told(&added), "cannot start: no such file");
    }
}

//! The findings of the doctor: the state of one thing, and what to do about it.
//!
//! What must never enter: the checks.

use std::fmt;

use serde::Serialize;

/// The result of one check.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// What was checked.
    pub(super) about: &'static str,
    pub(super) verdict: Verdict,
    /// Its state.
    pub(super) what: String,
    /// What to do; absent when there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

/// The verdict about something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// Good.
    Well,
    /// It works now, but will not always.
    Mind,
    /// It does not work, or is harmful.
    Mend,
    /// It cannot be determined here.
    Unknown,
}

impl Finding {
    pub(super) fn well(about: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(about, Verdict::Well, what, None)
    }

    pub(super) fn unknown(about: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(about, Verdict::Unknown, what, None)
    }

    pub(super) fn mind(
        about: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding::new(about, Verdict::Mind, what, Some(remedy.into()))
    }

    pub(super) fn mend(
        about: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding::new(about, Verdict::Mend, what, Some(remedy.into()))
    }

    pub(super) fn new(
        about: &'static str,
        verdict: Verdict,
        what: impl Into<String>,
        remedy: Option<String>,
    ) -> Finding {
        let what = server::plain(what.into());
        Finding {
            about,
            verdict,
            what,
            remedy,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Well => "ok",
            Verdict::Mind => "MIND",
            Verdict::Mend => "MEND",
            Verdict::Unknown => "?",
        };
        write!(f, "{verdict:<5} {:<12} {}", self.about, self.what)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n      {:<12} {remedy}", ""),
            None => Ok(()),
        }
    }
}

//! What the doctor finds: how one thing is, and what to do about it.
//!
//! What must never enter: looking.

use std::fmt;

use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// What was looked at.
    pub(super) about: &'static str,
    pub(super) verdict: Verdict,
    /// What is the case.
    pub(super) what: String,
    /// What to do; absent when there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// As it should be.
    Well,
    /// It works, and will not always.
    Mind,
    /// It does not work, or harms somebody.
    Mend,
    /// It cannot be told here.
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

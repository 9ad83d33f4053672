//! What a running server says about the comparison of its copy with the others'.
//!
//! What must never enter: the comparison; the replica makes it, and here its figures only get a form that travels.

use std::fmt;

use replica::ScrubView;
use serde::{Deserialize, Serialize};

use super::text::{moment, size};

/// The scrub of a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubStatus {
    /// A run is under way.
    pub running: bool,
    /// Objects that it has looked at.
    pub objects: u64,
    /// Objects in the tree.
    pub objects_total: u64,
    /// Bytes of contents that it has read, also for others.
    pub read_bytes: u64,
    /// Runs finished since the server started.
    pub runs: u64,
    /// When the last run was finished, in seconds since 1970.
    pub last_finished_unix_s: Option<u64>,
    /// Files that this run, or else the last one, left out because they were being changed.
    pub skipped: u64,
    /// Contents and objects found wrong since the server started.
    pub found: u64,
    /// Contents got back from a good copy since then.
    pub mended: u64,
    /// Files whose content is damaged here now.
    pub damaged: u64,
    /// Objects that differ between copies now, and nobody knows which is right.
    pub undecided: u64,
    /// The last findings, oldest first.
    pub findings: Vec<ScrubFinding>,
}

/// Something that was found, or done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubFinding {
    /// When, in seconds since 1970.
    pub at_unix_s: u64,
    /// What, for people.
    pub what: String,
}

/// A question about the scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubQuestion {
    /// A run is to begin now.
    pub start: bool,
}

impl From<ScrubView> for ScrubStatus {
    fn from(view: ScrubView) -> ScrubStatus {
        let findings = view.findings.into_iter().map(|finding| ScrubFinding {
            at_unix_s: finding.at_unix_s,
            what: finding.what,
        });
        ScrubStatus {
            running: view.running,
            objects: view.objects,
            objects_total: view.objects_total,
            read_bytes: view.read_bytes,
            runs: view.runs,
            last_finished_unix_s: view.last_finished_unix_s,
            skipped: view.skipped,
            found: view.found,
            mended: view.mended,
            damaged: view.damaged,
            undecided: view.undecided,
            findings: findings.collect(),
        }
    }
}

/// One line for `meridian status`.
pub(super) struct Summary<'s>(pub(super) &'s ScrubStatus);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary(scrub) = self;
        match (scrub.running, scrub.last_finished_unix_s) {
            (true, _) => write!(
                f,
                "{} of {} objects, {} read",
                scrub.objects,
                scrub.objects_total,
                size(scrub.read_bytes)
            )?,
            (false, Some(at)) => write!(f, "last finished {}", moment(at))?,
            (false, None) => write!(f, "never finished")?,
        }
        write!(f, "; found {}, mended {}", scrub.found, scrub.mended)?;
        if scrub.damaged > 0 {
            write!(f, "; {} DAMAGED", scrub.damaged)?;
        }
        match scrub.undecided {
            0 => Ok(()),
            count => write!(f, "; {count} UNDECIDED"),
        }
    }
}

/// The answer to `meridian scrub`.
impl fmt::Display for ScrubStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Summary(self))?;
        if self.skipped > 0 {
            let count = self.skipped;
            write!(
                f,
                "\n  {count} files were being changed and are left to the next run"
            )?;
        }
        let mut findings = self.findings.iter();
        findings.try_for_each(|finding| {
            write!(f, "\n  {}  {}", moment(finding.at_unix_s), finding.what)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrub_reads_well() {
        let mut scrub = ScrubStatus {
            objects_total: 10,
            ..ScrubStatus::default()
        };
        assert_eq!(scrub.to_string(), "never finished; found 0, mended 0");
        scrub.running = true;
        scrub.objects = 4;
        scrub.read_bytes = 1 << 20;
        scrub.found = 2;
        scrub.damaged = 1;
        scrub.undecided = 1;
        assert_eq!(
            Summary(&scrub).to_string(),
            "4 of 10 objects, 1.0 MiB read; found 2, mended 0; 1 DAMAGED; 1 UNDECIDED"
        );
    }
}

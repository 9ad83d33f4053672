//! The status of the comparison of this server's copy with the others'.
//!
//! What must never enter: the comparison itself. The replica makes it; here its metrics get a form for answers.

use std::fmt;

use replica::ScrubView;
use serde::{Deserialize, Serialize};
use vfs::Counted;

use super::text::{moment, size};

/// A question about the scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubQuestion {
    /// Begin a run now.
    pub start: bool,
}

/// One line for `meridian status`.
pub(super) struct Summary<'s>(pub(super) &'s ScrubView);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary(scrub) = self;
        match (scrub.running, scrub.last_finished_unix_s) {
            (true, _) => write!(
                f,
                "{} of {}, {} read",
                scrub.objects,
                Counted(scrub.objects_total, "object"),
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

/// The answer to `meridian scrub`, for people.
pub struct ScrubText<'s>(pub &'s ScrubView);

impl fmt::Display for ScrubText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScrubText(scrub) = self;
        write!(f, "{}", Summary(scrub))?;
        if scrub.skipped > 0 {
            let files = Counted(scrub.skipped, "file");
            write!(
                f,
                "\n  left to the next run, since they were being changed: {files}"
            )?;
        }
        let mut findings = scrub.findings.iter();
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
        let mut scrub = ScrubView {
            objects_total: 10,
            ..ScrubView::default()
        };
        assert_eq!(
            ScrubText(&scrub).to_string(),
            "never finished; found 0, mended 0"
        );
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

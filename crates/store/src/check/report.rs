//! The report of a check, for people.
//!
//! What must never enter: how findings are made.

use std::fmt;

use vfs::{Counted, ShownText};

/// One inconsistency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A sentence with the problem and, after a repair, with what was done about it.
    pub what: String,
    /// Whether it was repaired.
    pub repaired: bool,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Objects checked.
    pub objects: u64,
    /// Names checked.
    pub names: u64,
    /// Data files checked.
    pub data_files: u64,
    /// The first thousand findings.
    pub findings: Vec<Finding>,
    /// The number of further findings.
    pub more_findings: u64,
    /// Whether the store is consistent now.
    pub sound: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let end = if finding.repaired { " (repaired)" } else { "" };
            writeln!(f, "{}{end}", ShownText(&finding.what))?;
        }
        if self.more_findings > 0 {
            writeln!(f, "… and {} more", self.more_findings)?;
        }
        let Report {
            objects,
            names,
            data_files,
            ..
        } = self;
        writeln!(
            f,
            "Checked: {}, {} and {}.",
            Counted(*objects, "object"),
            Counted(*names, "name"),
            Counted(*data_files, "data file")
        )?;
        match (self.sound, self.findings.is_empty()) {
            (true, true) => write!(f, "The store agrees with itself."),
            (true, false) => write!(f, "The store agrees with itself now."),
            (false, _) => write!(f, "The store is damaged; run the check with repair."),
        }
    }
}

//! What a check tells people.
//!
//! What must never enter: how it is found.

use std::fmt;

use vfs::{Counted, ShownText};

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A sentence that says what is wrong and, after a repair, what was done about it.
    pub what: String,
    /// Whether it was put right.
    pub repaired: bool,
}

/// What a check saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Objects looked at.
    pub objects: u64,
    /// Names looked at.
    pub names: u64,
    /// Data files looked at.
    pub data_files: u64,
    /// What is wrong, the first thousand.
    pub findings: Vec<Finding>,
    /// How much more is wrong than `findings` tells.
    pub more_findings: u64,
    /// Whether the store agrees with itself now.
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

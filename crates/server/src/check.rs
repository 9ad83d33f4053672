//! Verifies, and repairs, everything in a data directory while no server runs on it.
//!
//! What must never enter: the inside of a store; each store checks itself.

use std::fmt;
use std::path::Path;

use store::{Report, Store, StoreError};

use crate::data_directory::{DataDirectoryError, Defect, Examination};

/// What a check of a data directory saw.
#[derive(Debug)]
pub struct CheckReport {
    /// What is wrong outside of the trees.
    defects: Vec<Defect>,
    /// Each tree with what its store says, or why it cannot be looked at.
    trees: Vec<(String, Result<Report, StoreError>)>,
}

impl CheckReport {
    /// Whether all is well now.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.defects.iter().all(|defect| defect.repair.is_some())
            && self
                .trees
                .iter()
                .all(|(_, tree)| tree.as_ref().is_ok_and(|report| report.sound))
    }
}

/// Checks a data directory, and with `repair` puts right what can be. Takes as long as reading all
/// metadata does.
///
/// # Errors
/// [`DataDirectoryError`] when a server runs on it, or it cannot be read.
pub fn check(data: &Path, repair: bool) -> Result<CheckReport, DataDirectoryError> {
    let examination = Examination::begin(data, repair)?;
    let defects = examination.defects()?;
    let trees = examination.trees()?;
    let checked = trees
        .into_iter()
        .map(|(name, path)| (name, Store::check(&path, repair)));
    Ok(CheckReport {
        defects,
        trees: checked.collect(),
    })
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Defect { what, repair } in &self.defects {
            match repair {
                Some(repair) => writeln!(f, "{what}: {repair}")?,
                None => writeln!(f, "{what}")?,
            }
        }
        for (name, tree) in &self.trees {
            match tree {
                Ok(report) => writeln!(f, "tree \"{name}\":\n{report}")?,
                Err(error) => writeln!(f, "tree \"{name}\" cannot be checked: {error}")?,
            }
        }
        let verdict = match self.is_sound() {
            true => "All is well.",
            false => "Not all is well; run `meridian check --repair`, or restore a backup.",
        };
        f.write_str(verdict)
    }
}

//! Verifies, and repairs, everything in a data directory while no server runs on it.
//!
//! What must never enter: the inside of a store; each store checks itself.

use std::fmt;
use std::path::Path;

use serde::ser::{Serialize, SerializeStruct, Serializer};
use store::{Report, Store, StoreError};
use vfs::ShownText;

use crate::data_directory::{DataDirectoryError, Defect, Examination};

/// What a check may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Nothing; no file in the data directory is opened for writing.
    Nothing,
    /// What can be put right without losing anything that a copy may have.
    Mend,
    /// The same, and the rows end before what the disk has damaged of them, though more was answered.
    AcceptLoss,
}

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

/// Checks a data directory, and puts right what `repair` allows. Takes as long as reading all
/// metadata does.
///
/// # Errors
/// [`DataDirectoryError`] when a server runs on it, or it cannot be read.
pub fn check(data: &Path, repair: Repair) -> Result<CheckReport, DataDirectoryError> {
    let examination = Examination::begin(data, repair != Repair::Nothing)?;
    let mut report = CheckReport {
        defects: examination.defects()?,
        trees: Vec::new(),
    };
    for (name, path) in examination.trees()? {
        let lost = match repair {
            Repair::AcceptLoss => Store::give_up_damaged(&path),
            Repair::Nothing | Repair::Mend => Ok(Vec::new()),
        };
        let checked = lost.and_then(|lost| {
            report.defects.extend(lost.into_iter().map(|what| Defect {
                what: format!("tree \"{name}\": {what}"),
                repair: Some(GIVEN_UP),
            }));
            Store::check(&path, repair != Repair::Nothing)
        });
        report.trees.push((name, checked));
    }
    Ok(report)
}

impl Serialize for CheckReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let told = self.to_string();
        let mut report = serializer.serialize_struct("CheckReport", 2)?;
        report.serialize_field("sound", &self.is_sound())?;
        report.serialize_field("lines", &told.lines().collect::<Vec<_>>())?;
        report.end()
    }
}

const GIVEN_UP: &str = "everything changed later is lost; the damaged file is kept in `lost-data`";

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Defect { what, repair } in &self.defects {
            match repair {
                Some(repair) => writeln!(f, "{}: {}", ShownText(what), ShownText(repair))?,
                None => writeln!(f, "{}", ShownText(what))?,
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

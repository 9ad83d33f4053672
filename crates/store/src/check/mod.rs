//! Does a store agree with itself? Every row and every data file is looked at, against all the others.
//!
//! Works on a store that nobody has open. Tables are read side by side in the order of object
//! identifiers, so memory grows only with the number of directories (about 40 bytes each) and with
//! what is found. With `repair`, what can be derived is derived; what cannot be placed is kept: objects
//! without a name get one in `lost+found`, data files and rows that mean nothing go to `lost-data`.

mod data;
mod marks;
mod objects;
mod rescue;
#[cfg(test)]
mod tests;
mod tree;

use std::fmt;
use std::path::Path;

use vfs::{Counted, ObjectId, ShownText};

use crate::error::StoreError;
use crate::layout::Layout;
use crate::metadata::Metadata;
use crate::mutation::Mutation;
use crate::open_store::{OpenStore, open_error, open_metadata, opening_error};
use crate::options::{Reserve, StoreOptions};
use crate::space::Headroom;
use crate::store::Store;

/// Findings beyond this many are only counted.
const MAX_FINDINGS: usize = 1000;

/// One repair can uncover what another finding had hidden; after this many rounds it must be over.
const MAX_ROUNDS: usize = 5;

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

impl Store {
    /// Checks a store that nobody has open, and with `repair` puts right what it can. Without it, no file of the
    /// store is opened for writing: the embedded store works on a copy of its journals in the directory for temporary
    /// files.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be opened or read at all; [`StoreError::Rotten`] when the disk has
    /// damaged the rows, see [`Store::give_up_damaged`].
    pub fn check(directory: &Path, repair: bool) -> Result<Report, StoreError> {
        let mut options = StoreOptions::new(directory);
        // A full disk is a reason to check, and no reason not to.
        options.reserve = Reserve::Bytes(0);
        let (layout, identity) = match repair {
            true => Layout::open(directory)?,
            false => Layout::open_unchanged(directory)?,
        };
        let restored = match repair {
            true => rescue::restore_foundations(&layout, identity.slot, &options)?,
            false => Vec::new(),
        };
        let metadata = match repair {
            true => open_metadata(&layout, &options)?,
            false => Metadata::open_unchanged(&layout.metadata(), options.cache_bytes)
                .map_err(|error| open_error(&layout, error))?,
        };
        let headroom = Headroom::new(layout.root(), &layout.data(), options.reserve)?;
        let store = OpenStore::load(&options, layout, identity, (metadata, headroom))?;
        let failed = |error: vfs::Error| opening_error(directory, &error);
        if repair {
            store.prepare_to_change().map_err(failed)?;
        }
        let mut examination = Examination::new(&store, repair);
        restored
            .into_iter()
            .for_each(|what| examination.note(what, true));
        let report = examination.run().map_err(failed)?;
        if repair {
            store.persist_alone().map_err(failed)?;
        }
        Ok(report)
    }

    /// Goes on before what the disk has damaged among the rows of a store that nobody has open: what was changed
    /// later is lost, also where it was answered. Whole files are kept in `lost-data`. Says what was lost; nothing
    /// when nothing is damaged. A repair has to follow, because data and tables may be newer than the rows.
    ///
    /// # Errors
    /// [`StoreError::Rotten`] when not even that is possible.
    pub fn give_up_damaged(directory: &Path) -> Result<Vec<String>, StoreError> {
        let (layout, identity) = Layout::open(directory)?;
        let lost = Metadata::give_up_damaged(&layout.metadata(), &layout.lost_data())
            .map_err(|error| open_error(&layout, error))?;
        if !lost.is_empty() {
            let options = StoreOptions::new(directory);
            rescue::skip_numbers(&layout, identity.slot, &options)?;
            rescue::void_sums(&layout, &options)?;
        }
        Ok(lost)
    }
}

/// A check under way.
struct Examination<'i> {
    store: &'i OpenStore,
    repair: bool,
    report: Report,
    /// Findings in this round.
    found: u64,
}

impl<'i> Examination<'i> {
    fn new(store: &'i OpenStore, repair: bool) -> Self {
        Examination {
            store,
            repair,
            report: Report::default(),
            found: 0,
        }
    }

    fn run(mut self) -> vfs::Result<Report> {
        for _ in 0..MAX_ROUNDS {
            self.found = 0;
            let census = self.check_objects()?;
            self.check_reachability()?;
            self.check_marks(&census)?;
            self.check_data_files()?;
            self.report.objects = census.objects;
            self.report.names = census.names;
            self.report.sound = self.found == 0;
            if self.report.sound || !self.repair {
                break;
            }
        }
        Ok(self.report)
    }

    /// Notes a finding, and puts it right with one batch if that is wanted.
    fn find(
        &mut self,
        what: impl Into<String>,
        repair: impl FnOnce(&mut Mutation<'i>) -> vfs::Result<()>,
    ) -> vfs::Result<()> {
        if self.repair {
            self.quietly(repair)?;
        }
        self.note(what.into(), self.repair);
        Ok(())
    }

    /// Changes rows with one batch, in a repair that is under way.
    fn quietly(
        &self,
        repair: impl FnOnce(&mut Mutation<'i>) -> vfs::Result<()>,
    ) -> vfs::Result<()> {
        let mutation = self.store.begin_if_idle()?;
        let mut mutation = mutation.ok_or(vfs::Error::Io("the store is being changed".into()))?;
        repair(&mut mutation)?;
        mutation.commit_local().map(|_| ())
    }

    fn note(&mut self, what: String, repaired: bool) {
        self.found += 1;
        if self.report.findings.len() < MAX_FINDINGS {
            self.report.findings.push(Finding { what, repaired });
        } else {
            self.report.more_findings += 1;
        }
    }
}

/// How an object is called in findings.
fn called(id: ObjectId) -> String {
    if id == ObjectId::ROOT {
        "the root directory".into()
    } else {
        format!("object {id}")
    }
}

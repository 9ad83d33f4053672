//! A check under way: the order of its steps, and what it notes.
//!
//! What must never enter: what is looked at in each step.

use vfs::ObjectId;

use super::report::{Finding, Report};
use crate::mutation::Mutation;
use crate::open_store::OpenStore;

/// Findings beyond this many are only counted.
const MAX_FINDINGS: usize = 1000;

/// One repair can uncover what another finding had hidden; after this many rounds it must be over.
const MAX_ROUNDS: usize = 5;

/// A check under way.
pub(super) struct Examination<'i> {
    pub(super) store: &'i OpenStore,
    pub(super) repair: bool,
    pub(super) report: Report,
    /// Findings in this round.
    found: u64,
}

impl<'i> Examination<'i> {
    pub(super) fn new(store: &'i OpenStore, repair: bool) -> Self {
        Examination {
            store,
            repair,
            report: Report::default(),
            found: 0,
        }
    }

    pub(super) fn run(mut self) -> vfs::Result<Report> {
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
    pub(super) fn find(
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
    pub(super) fn quietly(
        &self,
        repair: impl FnOnce(&mut Mutation<'i>) -> vfs::Result<()>,
    ) -> vfs::Result<()> {
        let mutation = self.store.begin_if_idle()?;
        let mut mutation = mutation.ok_or(vfs::Error::Io("the store is being changed".into()))?;
        repair(&mut mutation)?;
        mutation.commit_local().map(|_| ())
    }

    pub(super) fn note(&mut self, what: String, repaired: bool) {
        self.found += 1;
        if self.report.findings.len() < MAX_FINDINGS {
            self.report.findings.push(Finding { what, repaired });
        } else {
            self.report.more_findings += 1;
        }
    }
}

/// How an object is called in findings.
pub(super) fn called(id: ObjectId) -> String {
    if id == ObjectId::ROOT {
        "the root directory".into()
    } else {
        format!("object {id}")
    }
}

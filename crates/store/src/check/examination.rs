//! A check in progress: the order of its steps, and its findings.
//!
//! What must never enter: what each step checks.

use vfs::ObjectId;

use super::report::{Finding, Report};
use crate::mutation::Mutation;
use crate::open_store::OpenStore;

/// Findings beyond this number are only counted.
const MAX_FINDINGS: usize = 1000;

/// A repair can uncover what another finding had hidden; this is the maximum number of rounds.
const MAX_ROUNDS: usize = 5;

/// A check in progress.
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

    /// Notes a finding, and repairs it with one batch if repair is requested.
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

    /// Changes rows with one batch, as part of a repair.
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

/// The name of an object in findings.
pub(super) fn called(id: ObjectId) -> String {
    if id == ObjectId::ROOT {
        "the root directory".into()
    } else {
        format!("object {id}")
    }
}

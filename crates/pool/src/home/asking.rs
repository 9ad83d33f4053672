//! The data servers know the size (rule 7).

use super::file::Job;
use super::{Home, Request};
use crate::message::{Report, ToDataServer};
use crate::numbers::DataServerNumber;
use control::{Moment, OperationId};
use std::collections::BTreeMap;
use vfs::ObjectId;

/// A question to all data servers of a file.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    question: u64,
    /// No client writes any more: the answers are final.
    settles: bool,
    reports: BTreeMap<DataServerNumber, Report>,
    /// The operations that wait for the answers; all of them came before the question.
    operations: Vec<OperationId>,
}

impl Home {
    /// Answers with the size of a file, now or when the data servers have reported.
    pub(super) fn look_at(&mut self, now: Moment, object: ObjectId, operation: OperationId) {
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        if !self.settings.rules.size_asked() {
            file.row.unsettled &= file.has_writers();
        }
        if !file.row.unsettled || !self.settings.rules.size_asked() {
            self.answer_size(object, operation);
            return;
        }
        let mut operations = vec![operation];
        while let Some((other, Request::Look | Request::Commit(..))) = file.queue.front() {
            operations.push(*other);
            file.queue.pop_front();
        }
        self.question(now, object, operations);
    }

    /// Settles an unsettled file before `then` is handled.
    pub(super) fn settle_first(
        &mut self,
        now: Moment,
        object: ObjectId,
        then: (OperationId, Request),
    ) {
        if let Some(file) = self.files.get_mut(&object) {
            file.queue.push_front(then);
            self.question(now, object, Vec::new());
        }
    }

    fn question(&mut self, now: Moment, object: ObjectId, operations: Vec<OperationId>) {
        let question = self.next_question;
        self.next_question += 1;
        self.questions.insert(question, object);
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        file.job = Some(Job::Asking(Asking {
            question,
            settles: !file.has_writers(),
            reports: BTreeMap::new(),
            operations,
        }));
        let members = file.row.members.clone();
        if members.is_empty() {
            // All data servers are gone for ever: only the row is left.
            self.questions.remove(&question);
            self.all_looked(object);
        }
        for member in members {
            if self.serves(now, member) {
                self.put_question(object, member);
            }
        }
    }

    /// A data server is gone for ever. Its answer is not needed any more.
    pub(super) fn ask_no_longer(&mut self, now: Moment, object: ObjectId, gone: DataServerNumber) {
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let Some(Job::Asking(asking)) = &mut file.job else {
            return;
        };
        asking.reports.remove(&gone);
        if asking.reports.len() == file.row.members.len() {
            let question = asking.question;
            self.questions.remove(&question);
            self.all_looked(object);
            self.advance(now, object);
        }
    }

    /// Gives a question up; returns the operations that wait for its answer.
    pub(super) fn stop_asking(&mut self, object: ObjectId) -> Vec<OperationId> {
        let Some(file) = self.files.get_mut(&object) else {
            return Vec::new();
        };
        match file.job.take() {
            Some(Job::Asking(asking)) => {
                self.questions.remove(&asking.question);
                asking.operations
            }
            other => {
                file.job = other;
                Vec::new()
            }
        }
    }

    /// Asks a data server that has not answered yet.
    fn put_question(&mut self, object: ObjectId, to: DataServerNumber) {
        let Some(file) = self.files.get(&object) else {
            return;
        };
        let Some(Job::Asking(asking)) = &file.job else {
            return;
        };
        if file.row.members.contains(&to) && !asking.reports.contains_key(&to) {
            let look = ToDataServer::Look {
                issue: self.issue,
                question: asking.question,
                contents: file.row.contents,
                stable: asking.settles && self.settings.rules.settled_is_stable(),
            };
            self.send(to, look);
        }
    }

    /// A data server has a lease, after it may have been away.
    pub(super) fn put_questions(&mut self, to: DataServerNumber) {
        for object in self.files.keys().copied().collect::<Vec<_>>() {
            self.put_question(object, to);
        }
    }

    pub(super) fn looked(
        &mut self,
        now: Moment,
        from: DataServerNumber,
        question: u64,
        report: Report,
    ) {
        let Some(object) = self.questions.get(&question).copied() else {
            return;
        };
        if !self.serves(now, from) || !self.believes(from, report) {
            return;
        }
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        if let Some(Job::Asking(asking)) = &mut file.job {
            asking.reports.insert(from, report);
            if asking.reports.len() == file.row.members.len() {
                self.questions.remove(&question);
                self.all_looked(object);
                self.advance(now, object);
            }
        }
    }

    fn all_looked(&mut self, object: ObjectId) {
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let Some(Job::Asking(asking)) = file.job.take() else {
            return;
        };
        let before = file.row.clone();
        let changed = self.take_reports(object, asking.reports);
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        file.row.unsettled &= !asking.settles;
        if changed || file.row != before {
            self.save(object, changed);
        }
        for operation in asking.operations {
            self.answer_size(object, operation);
        }
    }

    /// Takes over the reports of all data servers. Whether anything may have been written since the previous reports.
    pub(super) fn take_reports(
        &mut self,
        object: ObjectId,
        reports: BTreeMap<DataServerNumber, Report>,
    ) -> bool {
        let restart_counts = self.settings.rules.restart_counts_as_write();
        let Some(file) = self.files.get_mut(&object) else {
            return false;
        };
        let is_new = |(server, report): (&DataServerNumber, &Report)| {
            file.seen.get(server).is_none_or(|seen| {
                (seen.run != report.run && restart_counts) || seen.writes != report.writes
            })
        };
        // For a settled file the row is complete.
        let changed = file.row.unsettled && reports.iter().any(is_new);
        if file.row.unsettled {
            let ends = reports.values().map(|report| report.end);
            file.row.size = ends.max().unwrap_or(file.row.size);
        }
        file.seen = reports;
        changed
    }
}

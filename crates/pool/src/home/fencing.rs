//! Fencing: recall, intent, its execution by data servers, the row (rules 4 and 8).

use super::command::{Command, Record};
use super::file::{File, Job};
use super::{Home, Outcome, Owed};
use crate::message::{Act, ContentsId, Intent, IntentNumber, Report};
use crate::numbers::DataServerNumber;
use control::{Moment, OperationId};
use std::collections::BTreeMap;
use std::time::Duration;
use vfs::ObjectId;

/// The interval between repeated recalls.
const REPEAT: Duration = Duration::from_secs(1);

/// Holders are asked for their layouts.
#[derive(Clone, Debug)]
pub(super) struct Recalling {
    /// `None` if a key is renewed. Then nothing is fenced if all holders return their layouts.
    operation: Option<OperationId>,
    act: Act,
    /// At that time the holders are fenced.
    until: Moment,
    repeated: Moment,
}

/// An intent is stable, and data servers are carrying it out.
#[derive(Clone, Debug)]
pub(super) struct Carrying {
    /// `None` after a restart.
    operation: Option<OperationId>,
    number: IntentNumber,
    act: Act,
    reports: BTreeMap<DataServerNumber, Report>,
    begun: Moment,
}

impl Home {
    pub(super) fn change(
        &mut self,
        now: Moment,
        object: ObjectId,
        operation: OperationId,
        act: Act,
    ) {
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        if file.holders.is_empty() || act == Act::Fence || !self.settings.rules.cut_fences() {
            self.intend(now, object, Some(operation), act);
            return;
        }
        self.recall(now, object, Some(operation), act);
    }

    /// Asks all holders for their layouts before `act`.
    pub(super) fn recall(
        &mut self,
        now: Moment,
        object: ObjectId,
        operation: Option<OperationId>,
        act: Act,
    ) {
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        self.commands.extend(
            file.holders
                .keys()
                .map(|holder| Command::Recall(object, *holder)),
        );
        file.job = Some(Job::Recalling(Recalling {
            operation,
            act,
            until: now.after(self.settings.recall_patience),
            repeated: now,
        }));
    }

    /// All holders have returned their layouts, or their time is over.
    pub(super) fn recalled(&mut self, now: Moment, object: ObjectId) {
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        let (job, has_holders) = (file.job.take(), !file.holders.is_empty());
        if let Some(Job::Recalling(recalling)) = job
            && (has_holders || recalling.operation.is_some())
        {
            self.intend(now, object, recalling.operation, recalling.act);
        }
    }

    pub(super) fn intend(
        &mut self,
        now: Moment,
        object: ObjectId,
        operation: Option<OperationId>,
        act: Act,
    ) {
        let fences = act == Act::Fence || self.settings.rules.cut_fences();
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        if fences {
            file.holders.clear();
            file.row.generation = file.row.generation.next();
        }
        let number = IntentNumber(self.next_intent);
        self.next_intent += 1;
        let intent = Intent {
            number,
            contents: file.row.contents,
            generation: file.row.generation,
            act,
        };
        file.job = Some(Job::Carrying(Carrying {
            operation,
            number,
            act,
            reports: BTreeMap::new(),
            begun: now,
        }));
        let owed = Owed {
            intent,
            owed: file.row.members.iter().copied().collect(),
            in_row: false,
        };
        self.intents.insert(number, owed.clone());
        self.record(Record::Intend(owed.clone()));
        self.send_owed(&owed);
    }

    /// Sends an intent to those of its data servers that have no earlier intent to carry out.
    pub(super) fn send_owed(&mut self, owed: &Owed) {
        let intent = owed.intent;
        for member in &owed.owed {
            if self.next_owed(*member, intent.contents) == Some(intent) {
                self.send_intent(*member, intent);
            }
        }
    }

    /// The next intent that a data server has to carry out on some contents. It gets no later intent before it has carried this one out: if the
    /// earlier one were lost, the later one would count for both.
    fn next_owed(&self, server: DataServerNumber, contents: ContentsId) -> Option<Intent> {
        let mut intents = self.intents.values();
        let next =
            intents.find(|owed| owed.intent.contents == contents && owed.owed.contains(&server));
        next.map(|owed| owed.intent)
    }

    /// Continues with an intent that existed when the home started.
    pub(super) fn resume(&mut self, started: Moment, owed: Owed) {
        let intent = owed.intent;
        if let Some(file) = self.files.get_mut(&intent.contents.object)
            && !owed.in_row
        {
            file.row.generation = intent.generation;
            file.job = Some(Job::Carrying(Carrying {
                operation: None,
                number: intent.number,
                act: intent.act,
                reports: BTreeMap::new(),
                begun: started,
            }));
        }
        self.intents.insert(intent.number, owed);
    }

    pub(super) fn taken(
        &mut self,
        now: Moment,
        from: DataServerNumber,
        number: IntentNumber,
        report: Report,
    ) {
        if !self.believes(from, report) {
            return;
        }
        let Some(owed) = self.intents.get_mut(&number) else {
            return;
        };
        if !owed.owed.remove(&from) {
            return;
        }
        let (contents, is_over) = (owed.intent.contents, owed.owed.is_empty() && owed.in_row);
        let object = contents.object;
        self.record(Record::Taken(number, from));
        if is_over {
            self.intents.remove(&number);
        }
        match self.next_owed(from, contents) {
            Some(next) => self.send_intent(from, next),
            None => self.send_one_more(from),
        }
        let job = self
            .files
            .get_mut(&object)
            .and_then(|file| file.job.as_mut());
        if let Some(Job::Carrying(carrying)) = job
            && carrying.number == number
        {
            carrying.reports.insert(from, report);
            self.carried(now, object);
        } else if let Some(Job::Switching(switching)) = job
            && switching.number == number
        {
            self.cut_to_size(now, object);
        }
    }

    /// Whether the operation of an intent has begun less than `time` ago, and waits for it.
    pub(super) fn has_begun_since(&self, owed: &Owed, now: Moment, time: Duration) -> bool {
        let file = self.files.get(&owed.intent.contents.object);
        match file.and_then(|file| file.job.as_ref()) {
            Some(Job::Carrying(carrying)) => {
                carrying.number == owed.intent.number && now < carrying.begun.after(time)
            }
            _ => false,
        }
    }

    /// A data server is gone for ever. It owes nothing any more.
    pub(super) fn strike_owed(&mut self, gone: DataServerNumber) {
        let mut struck = Vec::new();
        for (number, owed) in &mut self.intents {
            if owed.owed.remove(&gone) {
                struck.push(*number);
            }
        }
        self.intents
            .retain(|_, owed| !owed.owed.is_empty() || !owed.in_row);
        for number in struck {
            self.record(Record::Taken(number, gone));
        }
    }

    /// Goes on with a file without a data server that is gone for ever.
    pub(super) fn leave_out(&mut self, now: Moment, object: ObjectId, gone: DataServerNumber) {
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        file.row.members.retain(|member| *member != gone);
        file.seen.remove(&gone);
        match &mut file.job {
            Some(Job::Carrying(carrying)) => {
                carrying.reports.remove(&gone);
                self.carried(now, object);
            }
            Some(Job::Asking(_)) => self.ask_no_longer(now, object, gone),
            Some(Job::Recalling(_) | Job::Switching(_)) | None => {}
        }
    }

    /// Whether nothing that was fenced can happen at this data server any more.
    fn is_fenced(&self, now: Moment, server: DataServerNumber, carrying: &Carrying) -> bool {
        let owes = self
            .intents
            .get(&carrying.number)
            .is_some_and(|owed| owed.owed.contains(&server));
        !owes || now >= self.fenced_from(server, carrying)
    }

    /// When the lease of a data server that does not answer has run out.
    fn fenced_from(&self, server: DataServerNumber, carrying: &Carrying) -> Moment {
        match self.settings.rules.lease_waited_for() {
            true => self.leased_until(server),
            false => carrying.begun.after(self.settings.lease.length / 10),
        }
    }

    /// Goes on with the row when every data server has carried the intent out or is fenced by its lease.
    fn carried(&mut self, now: Moment, object: ObjectId) {
        let Some(file) = self.files.get(&object) else {
            return;
        };
        let Some(Job::Carrying(carrying)) = &file.job else {
            return;
        };
        if !file
            .row
            .members
            .iter()
            .all(|member| self.is_fenced(now, *member, carrying))
        {
            return;
        }
        let carrying = carrying.clone();
        if let Some(owed) = self.intents.get_mut(&carrying.number) {
            owed.in_row = true;
            if owed.owed.is_empty() {
                self.intents.remove(&carrying.number);
            }
        }
        if carrying.act == Act::Remove {
            self.contents_gone(object, &carrying);
            return;
        }
        let changed = self.take_over(object, &carrying);
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        file.job = None;
        let record = Record::Row {
            row: file.row.clone(),
            changed,
            intent: Some(carrying.number),
        };
        self.record(record);
        if let Some(operation) = carrying.operation {
            self.answer(operation, Outcome::Done);
        }
        self.advance(now, object);
    }

    /// Applies an intent to size and change. Whether the contents may have changed.
    fn take_over(&mut self, object: ObjectId, carrying: &Carrying) -> bool {
        let Some(file) = self.files.get_mut(&object) else {
            return false;
        };
        let all_reported = carrying.reports.len() == file.row.members.len();
        if let Act::Truncate(size) = carrying.act {
            // An absent data server cuts its contents before it serves again.
            file.row.size = size;
            file.row.unsettled = file.has_writers();
            file.seen.clear();
            return true;
        }
        let cut = carrying.act != Act::Fence;
        if !file.row.unsettled || !all_reported {
            return cut;
        }
        let changed = self.take_reports(object, carrying.reports.clone());
        if let Some(file) = self.files.get_mut(&object) {
            file.row.unsettled = file.has_writers();
        }
        changed || cut
    }

    fn contents_gone(&mut self, object: ObjectId, carrying: &Carrying) {
        let file = self.files.remove(&object);
        self.record(Record::Gone(object, carrying.number));
        self.gone_while_moved(file.as_ref());
        if let Some(operation) = carrying.operation {
            self.answer(operation, Outcome::Done);
        }
        for (operation, _) in file.into_iter().flat_map(|file| file.queue) {
            self.answer(operation, Outcome::Gone);
        }
    }

    /// When the file needs a timer.
    pub(super) fn wakes(&self, file: &File) -> Option<Moment> {
        match file.job.as_ref()? {
            Job::Asking(_) => None,
            Job::Recalling(recalling) => {
                Some(recalling.until.min(recalling.repeated.after(REPEAT)))
            }
            Job::Switching(switching) => self.switch_wakes(switching),
            Job::Carrying(carrying) => {
                let owed = self.intents.get(&carrying.number)?.owed.iter();
                let fenced = owed.map(|server| self.fenced_from(*server, carrying));
                // All data servers had carried it out before the home was restarted.
                Some(fenced.max().unwrap_or(carrying.begun))
            }
        }
    }

    pub(super) fn time_passed(&mut self, now: Moment, object: ObjectId) {
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        match &mut file.job {
            Some(Job::Recalling(recalling)) if now >= recalling.until => {
                self.recalled(now, object);
            }
            Some(Job::Recalling(recalling)) if now >= recalling.repeated.after(REPEAT) => {
                recalling.repeated = now;
                let holders = file.holders.keys();
                self.commands
                    .extend(holders.map(|holder| Command::Recall(object, *holder)));
            }
            Some(Job::Carrying(_)) => self.carried(now, object),
            Some(Job::Switching(_)) => self.cut_to_size(now, object),
            _ => {}
        }
    }
}

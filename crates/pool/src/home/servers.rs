//! The data servers as a home sees them: which of them may serve, until when, and with which contents (rules 4 and 5).

use super::Home;
use super::command::{Command, Record};
use crate::message::{Intent, Report, StoreIdentity, ToDataServer};
use crate::numbers::DataServerNumber;
use control::Moment;
use std::collections::BTreeSet;
use std::time::Duration;

/// At most this many intents are sent to a data server that is back, and that may owe very many; another one for each that it has carried out.
const AT_ONCE: usize = 64;

/// A data server that has not carried out an intent gets further leases for this part of a lease.
const YOUNG_OF_LEASE: u32 = 3;

/// A data server of the pool.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// Its last known contents.
    identity: Option<StoreIdentity>,
    /// It may serve until then, by this home's clock.
    leased_until: Moment,
    /// This run of the home has given it a lease.
    is_leased: bool,
    /// The run of it that asked last, if its contents were accepted.
    run: Option<u64>,
    /// Why the contents were refused when it asked last.
    stranger: Option<Stranger>,
}

/// Why a data server gets no lease (rule 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// It has the contents of another store: an empty disk, or one of another machine.
    OtherContents,
    /// It has an older copy of its contents, or two runs of it are active.
    OlderCopy,
    /// An older copy of its contents was seen. The present contents are not older than the last known ones, and may be the right ones
    /// ([`Home::readmit`]).
    Doubted,
    /// It has the contents of this data server.
    ContentsOf(DataServerNumber),
}

/// A data server as administrators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerView {
    /// Its number.
    pub number: DataServerNumber,
    /// It has a lease of this run of the home.
    pub serves: bool,
    /// It may have a lease, from this run of the home or the previous one.
    pub may_serve: bool,
    /// It has asked for a lease with contents that are not its own.
    pub stranger: Option<Stranger>,
    /// Intents that it has not carried out yet.
    pub owes: usize,
}

impl Server {
    pub(super) fn new(identity: Option<StoreIdentity>, leased_until: Moment) -> Server {
        Server {
            identity,
            leased_until,
            is_leased: false,
            run: None,
            stranger: None,
        }
    }

    /// Why these contents are neither the last known contents nor a later state of them.
    fn objection(&self, identity: StoreIdentity) -> Option<Stranger> {
        let known = self.identity?;
        if known.store != identity.store {
            return Some(Stranger::OtherContents);
        }
        let counter = known.believed().counter;
        let is_later = (counter, true) <= (identity.counter, known.run == identity.run);
        match is_later {
            false => Some(Stranger::OlderCopy),
            true => known.is_doubted().then_some(Stranger::Doubted),
        }
    }
}

impl Home {
    /// A data server was removed from the pool: it gets no lease and owes nothing any more, and nothing waits for it. Its last lease must have
    /// run out, unless it has no contents.
    pub fn dismiss(&mut self, now: Moment, number: DataServerNumber) -> Vec<Command> {
        if let Some(server) = self.servers.get_mut(&number) {
            server.is_leased = false;
            server.run = None;
        }
        self.dismissed.insert(number);
        self.strike_owed(number);
        let files = self.files.iter();
        let with = files.filter(|(_, file)| file.row.members.contains(&number));
        for object in with.map(|(object, _)| *object).collect::<Vec<_>>() {
            self.leave_out(now, object, number);
        }
        self.move_elsewhere(now, number);
        self.take_commands()
    }

    /// An administrator says that a data server has the right contents, though an older copy of them was seen. `None` unless this was the
    /// only reason to refuse them ([`Stranger::Doubted`]).
    pub fn readmit(&mut self, number: DataServerNumber) -> Option<Vec<Command>> {
        let server = self.servers.get_mut(&number)?;
        let known = server.identity.as_mut()?;
        if server.stranger != Some(Stranger::Doubted) || self.dismissed.contains(&number) {
            return None;
        }
        server.stranger = None;
        *known = known.believed();
        let record = Record::StoreIdentity(number, *known);
        self.record(record);
        Some(self.take_commands())
    }

    /// The data servers, by number, without those that were removed.
    #[must_use]
    pub fn servers(&self, now: Moment) -> Vec<ServerView> {
        let known = self.servers.iter();
        let known = known.filter(|(number, _)| !self.dismissed.contains(number));
        let owes = |number: &DataServerNumber| {
            let intents = self.intents.values();
            intents.filter(|owed| owed.owed.contains(number)).count()
        };
        known
            .map(|(number, server)| ServerView {
                number: *number,
                serves: self.serves(now, *number),
                may_serve: now < server.leased_until,
                stranger: server.stranger,
                owes: owes(number),
            })
            .collect()
    }

    pub(super) fn ask(
        &mut self,
        now: Moment,
        from: DataServerNumber,
        (asked, identity): (Moment, StoreIdentity),
    ) {
        let rules = self.settings.rules;
        if self.dismissed.contains(&from) {
            return;
        }
        let has_it = |server: &Server| {
            let known = server.identity;
            known.is_some_and(|known| known.store == identity.store)
        };
        let mut others = self.servers.iter().filter(|(number, _)| **number != from);
        let owner = others.find_map(|(number, server)| has_it(server).then_some(*number));
        let Some(server) = self.servers.get_mut(&from) else {
            return;
        };
        let owner = owner.map(Stranger::ContentsOf);
        server.stranger = owner.or_else(|| server.objection(identity));
        if server.stranger.is_some() && rules.identity_checked() {
            server.run = None;
            // Contents of another store are recognised at every request.
            let is_older = server.stranger == Some(Stranger::OlderCopy);
            let known = server.identity.as_mut().filter(|_| is_older);
            if let Some(known) = known.filter(|known| !known.is_doubted()) {
                // From now on, also after a restart, an administrator has to say which contents are right: two servers may run with copies of one
                // store.
                *known = known.doubted();
                let stranger = Record::StoreIdentity(from, *known);
                self.record(stranger);
            }
            return;
        }
        server.identity = Some(identity);
        server.run = Some(identity.run);
        self.record(Record::StoreIdentity(from, identity));
        let intents: Vec<_> = self.owed_by(from).take(AT_ONCE).collect();
        for intent in intents {
            self.send_intent(from, intent);
        }
        if rules.intents_before_lease() && self.waits_for_intents(now, from) {
            return;
        }
        let granted = self.settings.lease.granted_until(now);
        if let Some(server) = self.servers.get_mut(&from) {
            server.leased_until = granted.max(server.leased_until);
            server.is_leased = true;
        }
        let lease = ToDataServer::Lease {
            asked,
            issue: self.issue,
            keys: self.keys.told().clone(),
            clients: self.clients_for(now),
        };
        self.send(from, lease);
        self.put_questions(from);
    }

    /// What a data server is to carry out, in this order: for each contents the first intent, since the next one follows when that is done.
    fn owed_by(&self, server: DataServerNumber) -> impl Iterator<Item = Intent> {
        let mut told = BTreeSet::new();
        let owed = self.intents.values();
        let owed = owed.filter(move |owed| owed.owed.contains(&server));
        owed.map(|owed| owed.intent)
            .filter(move |intent| told.insert(intent.contents))
    }

    /// A data server has carried one out, and gets another one of those that were not sent with the first ones.
    pub(super) fn send_one_more(&mut self, to: DataServerNumber) {
        let next = self.owed_by(to).nth(AT_ONCE - 1);
        if let Some(intent) = next {
            self.send_intent(to, intent);
        }
    }

    /// Whether a data server gets no lease before it has carried out intents: their operations were answered when its last lease had run out, or
    /// wait for that. While an intent is young, its operation waits for the data server's answer, or for the end of this lease too.
    fn waits_for_intents(&self, now: Moment, from: DataServerNumber) -> bool {
        let young = self.settings.lease.length / YOUNG_OF_LEASE;
        let owed = self.intents.values();
        let mut owed = owed.filter(|owed| owed.owed.contains(&from));
        owed.any(|owed| owed.in_row || !self.has_begun_since(owed, now, young))
    }

    /// How long clients may be served from now on.
    fn clients_for(&self, now: Moment) -> Duration {
        let lease = &self.settings.lease;
        self.clients_until.map_or(lease.length, |until| {
            lease.for_clients(Duration::from_micros(until.0.saturating_sub(now.0)))
        })
    }

    /// From when on the data server relies on no lease.
    pub(super) fn leased_until(&self, server: DataServerNumber) -> Moment {
        self.servers
            .get(&server)
            .map_or(Moment(0), |server| server.leased_until)
    }

    /// Whether a report comes from the accepted run of the data server.
    pub(super) fn believes(&self, number: DataServerNumber, report: Report) -> bool {
        self.servers
            .get(&number)
            .is_some_and(|server| server.run == Some(report.run))
    }

    /// Whether a data server has a lease of this run.
    #[must_use]
    pub fn serves(&self, now: Moment, number: DataServerNumber) -> bool {
        let server = self.servers.get(&number);
        server.is_some_and(|server| server.is_leased && now < server.leased_until)
    }
}

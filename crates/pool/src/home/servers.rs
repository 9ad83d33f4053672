//! The data servers as a home sees them: who may serve until when, and with which contents (rules 4 and 5).

use super::Home;
use super::command::{Command, Record};
use crate::message::{Report, Standing, ToDataServer};
use crate::numbers::DataServerNumber;
use control::Moment;

/// A data server of the pool.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// What it had when it was last heard of.
    standing: Option<Standing>,
    /// It may serve until then, by this home's clock.
    leased_until: Moment,
    /// This run of the home has given it a lease.
    is_leased: bool,
    /// Which run of it has asked last, with contents that it may have.
    run: Option<u64>,
}

impl Server {
    pub(super) fn new(standing: Option<Standing>, leased_until: Moment) -> Server {
        Server {
            standing,
            leased_until,
            is_leased: false,
            run: None,
        }
    }

    /// Whether these are the contents it had, or what came of them.
    fn is_itself(&self, standing: Standing) -> bool {
        self.standing.is_none_or(|known| {
            known.identity == standing.identity
                && (known.counter, true) <= (standing.counter, known.run == standing.run)
        })
    }
}

impl Home {
    pub(super) fn ask(
        &mut self,
        now: Moment,
        from: DataServerNumber,
        (asked, standing): (Moment, Standing),
        commands: &mut Vec<Command>,
    ) {
        let rules = self.settings.rules;
        let Some(server) = self.servers.get_mut(&from) else {
            return;
        };
        if !server.is_itself(standing) && rules.standing_checked() {
            server.run = None;
            if let Some(known) = server
                .standing
                .as_mut()
                .filter(|known| known.counter != u64::MAX)
            {
                // Its counter will grow beyond what is known: it stays a stranger all the same, after a restart, too.
                known.counter = u64::MAX;
                let stranger = Record::Standing(from, *known);
                self.record(stranger, commands);
            }
            return;
        }
        server.standing = Some(standing);
        server.run = Some(standing.run);
        self.record(Record::Standing(from, standing), commands);
        let owed = self
            .intents
            .values()
            .filter(|owed| owed.owed.contains(&from));
        let intents: Vec<_> = owed.map(|owed| owed.intent).collect();
        for intent in &intents {
            self.send(from, ToDataServer::Take(*intent), commands);
        }
        if !intents.is_empty() && rules.intents_before_lease() {
            return;
        }
        let promised = self.settings.lease.promised_until(now);
        if let Some(server) = self.servers.get_mut(&from) {
            server.leased_until = promised.max(server.leased_until);
            server.is_leased = true;
        }
        let lease = ToDataServer::Lease {
            asked,
            issue: self.issue,
            key: self.keys.current().clone(),
        };
        self.send(from, lease, commands);
        self.put_questions(from, commands);
    }

    /// From when on nobody relies on a lease that the data server may have.
    pub(super) fn leased_until(&self, server: DataServerNumber) -> Moment {
        self.servers
            .get(&server)
            .map_or(Moment(0), |server| server.leased_until)
    }

    /// Whether a report comes from contents that are those of the data server.
    pub(super) fn believes(&self, number: DataServerNumber, report: Report) -> bool {
        self.servers
            .get(&number)
            .is_some_and(|server| server.run == Some(report.run))
    }

    /// Whether a data server has a lease of this run and owes nothing.
    #[must_use]
    pub fn serves(&self, now: Moment, number: DataServerNumber) -> bool {
        let owes = || {
            self.intents
                .values()
                .any(|owed| owed.owed.contains(&number))
        };
        let server = self.servers.get(&number);
        server.is_some_and(|server| server.is_leased && now < server.leased_until) && !owes()
    }
}

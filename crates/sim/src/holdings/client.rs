//! Clients: each locks a file, writes to it through its server or by a layout, and unlocks it.

use super::joined::{Answer, By, Question};
use super::world::{Event, FILES, World};
use std::collections::BTreeMap;

/// A client of a joined server.
pub(super) struct Client {
    pub(super) server: usize,
    /// The locks that it believes to have, with their numbers.
    pub(super) held: BTreeMap<usize, u64>,
    /// The file and the number of its layout.
    pub(super) layout: Option<(usize, u64)>,
    /// Active writes to data servers.
    pub(super) writing: u32,
    /// It waits for an answer of its server.
    pub(super) waits: bool,
    /// Its server has no record of it any more, so it could not reclaim in a later run.
    is_struck: bool,
    /// The run of its server that it knows, and what it still has to reclaim there.
    knows: u64,
    reclaims: Vec<usize>,
}

impl Client {
    pub(super) fn new(server: usize) -> Client {
        Client {
            server,
            held: BTreeMap::new(),
            layout: None,
            writing: 0,
            waits: false,
            is_struck: false,
            knows: 0,
            reclaims: Vec::new(),
        }
    }

    /// It has lost a lock, and its layout.
    fn lose(&mut self, file: usize) {
        self.held.remove(&file);
        self.layout = self.layout.filter(|(of, _)| *of != file);
    }
}

impl World {
    /// A server removes records of its clients: of all, or of those that have not reclaimed everything in its present run.
    pub(super) fn strike(&mut self, server: usize, all: bool) {
        let run = self.servers[server].run;
        let of = |client: &&mut Client| client.server == server;
        for client in self.clients.iter_mut().filter(of) {
            client.is_struck |= all || client.knows != run || !client.reclaims.is_empty();
        }
    }

    pub(super) fn client(&mut self, place: usize) {
        let next = 20_000 + self.random.below(400_000);
        self.at(next, Event::Client(place));
        if self.clients[place].waits {
            return;
        }
        if self.random.chance(2) && self.write_past(place) {
            return;
        }
        let server = self.clients[place].server;
        let joined = &self.servers[server];
        if !joined.is_up || joined.still_until > self.now || joined.are_lost {
            return;
        }
        if self.clients[place].knows != joined.run {
            let (run, is_over) = (joined.run, joined.has_reclaimed);
            return self.come_again(place, run, is_over);
        }
        if let Some(file) = self.clients[place].reclaims.last().copied() {
            return self.reclaim(place, file);
        }
        self.go_on(place);
    }

    /// Writes by a layout, whatever state its server is in.
    fn write_past(&mut self, place: usize) -> bool {
        let client = &mut self.clients[place];
        let Some((file, number)) = client.layout else {
            return false;
        };
        let Some(grant) = client.held.get(&file).copied() else {
            return false;
        };
        client.writing += 1;
        let delay = self.pause();
        self.at(delay, Event::Lands(place, file, grant, number));
        true
    }

    fn come_again(&mut self, place: usize, run: u64, is_over: bool) {
        let client = &mut self.clients[place];
        client.knows = run;
        client.layout = None;
        if is_over || client.is_struck {
            client.held.clear();
        }
        client.is_struck = false;
        client.reclaims = client.held.keys().copied().collect();
    }

    fn reclaim(&mut self, place: usize, file: usize) {
        let client = &mut self.clients[place];
        let is_over = self.servers[client.server].has_reclaimed;
        let Some(grant) = client.held.get(&file).copied().filter(|_| !is_over) else {
            client.lose(file);
            client.reclaims.pop();
            return;
        };
        let question = match self.plan.rules.reclaims_proved {
            true => Question::Holds(file, place),
            false => Question::LockAgain(file, place, grant),
        };
        self.wants(place, question);
    }

    fn go_on(&mut self, place: usize) {
        let server = self.clients[place].server;
        let (file, grant) = match self.clients[place].held.first_key_value() {
            Some((file, grant)) => (*file, *grant),
            None => {
                let file = usize::try_from(self.random.below(FILES as u64)).unwrap_or(0);
                if self.servers[server].has_reclaimed {
                    self.wants(place, Question::Lock(file, place));
                }
                return;
            }
        };
        let is_held = self.servers[server].table.get(&(file, place)) == Some(&grant);
        if !is_held {
            // Its server has forgotten it.
            return self.clients[place].lose(file);
        }
        let (layout, is_quiet) = (self.clients[place].layout, self.clients[place].writing == 0);
        match (self.random.below(8), layout) {
            (0..=3, _) => self.wants(place, Question::Write(file, place, grant)),
            (4 | 5, None) => self.wants(place, Question::Layout(file, place)),
            (_, Some((_, number))) if is_quiet => self.wants(place, Question::EndLayout(number)),
            (_, None) if is_quiet => self.wants(place, Question::Unlock(file, place)),
            _ => {}
        }
    }

    /// Asks its server, which asks the home.
    fn wants(&mut self, place: usize, question: Question) {
        let server = self.clients[place].server;
        if question.is_holding() && !self.servers[server].has_told() {
            return;
        }
        if let Question::Unlock(file, _) = question {
            self.servers[server].table.remove(&(file, place));
            self.clients[place].lose(file);
        }
        self.clients[place].waits = true;
        self.ask(server, question, By::Client(place));
    }

    /// Takes the answer of its server.
    pub(super) fn is_told(&mut self, place: usize, question: Question, answer: Answer) {
        self.clients[place].waits = false;
        let server = self.clients[place].server;
        match (question, answer) {
            (Question::Lock(file, _), Answer::Granted(grant)) => {
                self.counts.locked += 1;
                self.servers[server].table.insert((file, place), grant);
                // It may be given up by now. Then the client does not use it.
                self.clients[place].held.insert(file, grant);
                self.clients[place].is_struck = false;
            }
            (Question::LockAgain(file, ..), Answer::Granted(grant)) => {
                self.counts.reclaimed += 1;
                self.servers[server].table.insert((file, place), grant);
                self.clients[place].reclaims.pop();
            }
            (Question::Holds(..), Answer::Holds(true)) if self.servers[server].has_reclaimed => {}
            (Question::Holds(file, _), Answer::Holds(true)) => {
                if let Some(grant) = self.clients[place].held.get(&file).copied() {
                    self.wants(place, Question::LockAgain(file, place, grant));
                }
            }
            (Question::Holds(file, _), Answer::Holds(false))
            | (Question::LockAgain(file, ..), Answer::Refused) => {
                self.clients[place].lose(file);
                self.clients[place].reclaims.pop();
            }
            (Question::Layout(file, _), Answer::Layout(number)) => {
                self.clients[place].layout = Some((file, number));
            }
            (Question::EndLayout(_), Answer::Done) => self.clients[place].layout = None,
            _ => {}
        }
    }
}

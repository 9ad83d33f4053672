//! A joined metadata server: it asks the home for its clients, and tells the home again what they hold.

use super::client::Client;
use super::home::{Step, Task};
use super::world::{Event, SERVERS, World};
use std::collections::BTreeMap;

/// A question of a joined server, by file, client and number of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Lock(usize, usize),
    LockAgain(usize, usize, u64),
    Holds(usize, usize),
    Unlock(usize, usize),
    Write(usize, usize, u64),
    Layout(usize, usize),
    EndLayout(u64),
    BeginAgain,
    EndReclaim,
    HasForgotten,
    Lease,
    /// Not a question: the home gives back what was given up.
    GiveBack,
}

impl Question {
    /// Whether it changes what clients hold.
    pub(super) fn is_holding(self) -> bool {
        use Question::{EndLayout, Layout, Lock, LockAgain, Unlock};
        matches!(
            self,
            Lock(..) | LockAgain(..) | Unlock(..) | Layout(..) | EndLayout(_)
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    Granted(u64),
    Refused,
    Holds(bool),
    Layout(u64),
    /// The question has to be asked again.
    Delay,
    GivenUp,
}

/// A question on its way to a run of the home.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) to: u64,
    pub(super) server: usize,
    pub(super) run: u64,
    pub(super) clients: u64,
    pub(super) number: u64,
    pub(super) question: Question,
}

/// A question that is not answered yet.
#[derive(Debug)]
pub(super) struct Ask {
    question: Question,
    /// How often clients had been forgotten.
    clients: u64,
    by: By,
    /// The run of the home that it was sent to.
    sent_to: u64,
    pub(super) since: u64,
}

/// The reason for a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Client(usize),
    /// It tells the home again what a client holds; these questions follow one another.
    Telling,
    Server,
}

/// Whether everything was told to the present run of the home.
#[derive(Debug, Default, PartialEq, Eq)]
enum Telling {
    #[default]
    Told,
    Wanted,
    /// The questions that are left to tell, the next one last.
    Goes(Vec<Question>),
}

/// A joined server.
#[derive(Debug, Default)]
pub(super) struct Joined {
    pub(super) run: u64,
    pub(super) is_up: bool,
    /// The run of the home that it has met. 0: none.
    met: u64,
    forgotten: u64,
    pub(super) are_lost: bool,
    pub(super) has_reclaimed: bool,
    pub(super) table: BTreeMap<(usize, usize), u64>,
    pub(super) asks: BTreeMap<u64, Ask>,
    asked: u64,
    telling: Telling,
    /// The run of the home when that began.
    told_to: u64,
    pub(super) cut_until: u64,
    pub(super) still_until: u64,
}

impl Joined {
    pub(super) fn has_told(&self) -> bool {
        self.telling == Telling::Told
    }

    fn asks(&self, what: Question) -> bool {
        self.asks.values().any(|ask| ask.question == what)
    }

    /// Whether a question is active during which nothing may be told.
    fn asks_beside(&self) -> bool {
        let mut asks = self.asks.values();
        asks.any(|ask| ask.question.is_holding() || ask.question == Question::EndReclaim)
    }
}

impl World {
    pub(super) fn start_server(&mut self, server: usize) {
        let joined = &mut self.servers[server];
        *joined = Joined {
            run: joined.run + 1,
            is_up: true,
            asked: joined.asked,
            cut_until: joined.cut_until,
            ..Joined::default()
        };
        let run = joined.run;
        let grace = 1_000_000 + self.random.below(5_000_000);
        self.at(grace, Event::GraceEnds(server, run));
        self.at(1_000_000, Event::Beat(server, run));
        self.at(10_000, Event::Connect(server));
    }

    pub(super) fn crash_server(&mut self, server: usize) {
        let joined = &mut self.servers[server];
        joined.is_up = false;
        joined.met = 0;
        joined.table.clear();
        self.give_up_asking(server);
    }

    /// Gives up all questions.
    fn give_up_asking(&mut self, server: usize) {
        self.servers[server].asks.clear();
        let of = |client: &&mut Client| client.server == server;
        for client in self.clients.iter_mut().filter(of) {
            client.waits = false;
        }
    }

    fn is_run(&self, server: usize, run: u64) -> bool {
        let joined = &self.servers[server];
        joined.is_up && joined.run == run
    }

    pub(super) fn home_is_gone(&mut self) {
        for joined in &mut self.servers {
            joined.met = 0;
        }
    }

    pub(super) fn home_is_there(&mut self) {
        for server in 0..SERVERS {
            let delay = 1_000 + self.random.below(200_000);
            self.at(delay, Event::Connect(server));
        }
    }

    pub(super) fn connect(&mut self, server: usize) {
        let joined = &mut self.servers[server];
        let until = joined.cut_until.max(joined.still_until);
        if !joined.is_up || !self.home.is_up || joined.met == self.home.run {
            return;
        }
        if until > self.now {
            let long = until - self.now;
            return self.at(long, Event::Connect(server));
        }
        joined.met = self.home.run;
        if !matches!(joined.telling, Telling::Goes(_)) {
            joined.telling = Telling::Wanted;
        }
        let run = joined.run;
        let numbers: Vec<u64> = joined.asks.keys().copied().collect();
        self.is_met(server, run);
        for number in numbers {
            let delay = self.pause();
            self.at(delay, Event::Leaves(server, run, number));
        }
        self.at(500, Event::HandOver(server, run));
    }

    pub(super) fn ask(&mut self, server: usize, question: Question, by: By) {
        let since = self.now;
        let joined = &mut self.servers[server];
        joined.asked += 1;
        let (run, number) = (joined.run, joined.asked);
        let ask = Ask {
            question,
            clients: joined.forgotten,
            by,
            sent_to: 0,
            since,
        };
        joined.asks.insert(number, ask);
        let delay = self.pause();
        self.at(delay, Event::Leaves(server, run, number));
    }

    pub(super) fn leaves(&mut self, server: usize, run: u64, number: u64) {
        if !self.is_run(server, run) {
            return;
        }
        let joined = &mut self.servers[server];
        let to = joined.met;
        let Some(ask) = joined.asks.get_mut(&number) else {
            return;
        };
        // It is sent only once in one session.
        if to == 0 || ask.sent_to == to {
            return;
        }
        ask.sent_to = to;
        let asked = Asked {
            to,
            server,
            run,
            clients: ask.clients,
            number,
            question: ask.question,
        };
        self.post(server, Event::Arrives(asked));
    }

    pub(super) fn arrives(&mut self, asked: Asked) {
        self.step(Task {
            asked,
            step: Step::Hears,
            id: 0,
        });
    }

    pub(super) fn answered(
        &mut self,
        server: usize,
        (run, home, number): (u64, u64, u64),
        answer: Answer,
    ) {
        if !self.is_run(server, run) || self.servers[server].met != home {
            return;
        }
        let Some(ask) = self.servers[server].asks.remove(&number) else {
            return;
        };
        let question = ask.question;
        if answer == Answer::GivenUp {
            return self.lose_clients(server);
        }
        match ask.by {
            By::Client(client) => return self.is_told(client, question, answer),
            By::Telling => return self.is_taken(server, answer),
            By::Server => {}
        }
        match question {
            Question::HasForgotten if answer == Answer::Done => {
                self.servers[server].are_lost = false;
            }
            Question::HasForgotten => self.ask(server, question, By::Server),
            // If the home does not accept this, it is told when everything is told again.
            _ => {}
        }
    }

    /// The home has accepted or refused one thing that it was told.
    fn is_taken(&mut self, server: usize, answer: Answer) {
        let run = self.servers[server].run;
        match answer {
            Answer::Done | Answer::Granted(_) => self.tell_next(server),
            Answer::Refused => self.lose_clients(server),
            _ => {
                self.servers[server].telling = Telling::Wanted;
                self.at(50_000, Event::HandOver(server, run));
            }
        }
    }

    fn tell_next(&mut self, server: usize) {
        let Telling::Goes(rest) = &mut self.servers[server].telling else {
            return;
        };
        match rest.pop() {
            Some(next) => self.ask(server, next, By::Telling),
            None => self.all_is_told(server),
        }
    }

    fn all_is_told(&mut self, server: usize) {
        let joined = &mut self.servers[server];
        let (is_so, run) = (joined.told_to == joined.met, joined.run);
        joined.telling = match is_so {
            true => Telling::Told,
            false => Telling::Wanted,
        };
        if !is_so {
            self.at(1_000, Event::HandOver(server, run));
        }
    }

    /// Tells all that clients hold, unless questions about it are active.
    pub(super) fn hand_over(&mut self, server: usize, run: u64) {
        let joined = &mut self.servers[server];
        if !joined.is_up || joined.run != run || joined.telling == Telling::Told {
            return;
        }
        if matches!(joined.telling, Telling::Goes(_)) {
            return;
        }
        if joined.are_lost || joined.met == 0 || joined.asks_beside() {
            return self.at(5_000, Event::HandOver(server, run));
        }
        joined.told_to = joined.met;
        let ending = joined.has_reclaimed.then_some(Question::EndReclaim);
        let held = joined.table.iter();
        let held = held.map(|((file, client), grant)| Question::LockAgain(*file, *client, *grant));
        let all = ending.into_iter().chain(held);
        joined.telling = Telling::Goes(all.chain([Question::BeginAgain]).collect());
        self.tell_next(server);
    }

    fn lose_clients(&mut self, server: usize) {
        let joined = &mut self.servers[server];
        if std::mem::replace(&mut joined.are_lost, true) {
            return;
        }
        joined.table.clear();
        let run = joined.run;
        if joined.telling != Telling::Told {
            joined.telling = Telling::Wanted;
            self.at(50_000, Event::HandOver(server, run));
        }
        self.give_up_asking(server);
        let long = 5_000 + self.random.below(2_000_000);
        self.at(long, Event::Forgotten(server, run));
    }

    pub(super) fn forgotten(&mut self, server: usize, run: u64) {
        if self.is_run(server, run) {
            self.strike(server, true);
            self.servers[server].forgotten += 1;
            self.ask(server, Question::HasForgotten, By::Server);
        }
    }

    /// The time for clients to reclaim is over.
    pub(super) fn grace_ends(&mut self, server: usize, run: u64) {
        if !self.is_run(server, run) {
            return;
        }
        if self.servers[server].are_lost || !self.servers[server].has_told() {
            return self.at(100_000, Event::GraceEnds(server, run));
        }
        if !self.servers[server].has_reclaimed {
            self.strike(server, false);
            self.servers[server].has_reclaimed = true;
        }
        // Active reclaims have to end before.
        if self.plan.rules.reclaims_first && self.servers[server].asks_beside() {
            return self.at(5_000, Event::GraceEnds(server, run));
        }
        self.ask(server, Question::EndReclaim, By::Server);
    }

    pub(super) fn beat(&mut self, server: usize, run: u64) {
        if !self.is_run(server, run) {
            return;
        }
        self.at(1_000_000, Event::Beat(server, run));
        let joined = &self.servers[server];
        let holds = !joined.table.is_empty();
        if holds && !joined.are_lost && !joined.asks(Question::Lease) {
            self.ask(server, Question::Lease, By::Server);
        }
    }
}

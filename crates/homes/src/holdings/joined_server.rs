//! Whether something is done that a joined metadata server asks for its clients.
//!
//! A question may stand still at the asker, on its way and at the home, until its client is forgotten and others have what it rests on.
//! So it says when it was asked, by two numbers that only grow, and that is looked at where it is begun.
//!
//! What must never enter: what is asked for.

/// For whom a metadata server asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Which of its runs asks; later ones have larger numbers.
    pub run: u64,
    /// So often it had forgotten all its clients in this run, when it admitted the one that it asks for.
    pub clients: u64,
}

/// One joined metadata server, as its home knows it.
#[derive(Clone, Debug, Default)]
pub struct JoinedServer {
    run: u64,
    clients: u64,
    is_given_up: bool,
    has_begun_telling: bool,
}

impl JoinedServer {
    /// A run has begun, or goes on. Whether it is a later one: then what is under way for earlier ones comes first, and what clients of theirs
    /// hold stays until they had time to claim it.
    pub fn meet(&mut self, run: u64) -> bool {
        let is_later = run > self.run;
        if is_later {
            *self = JoinedServer {
                run,
                ..JoinedServer::default()
            };
        }
        is_later
    }

    /// The present run has forgotten all its clients so often. Whether that is news: then what is under way for those comes first.
    pub fn has_forgotten(&mut self, clients: u64) -> bool {
        let is_later = clients > self.clients;
        self.clients = self.clients.max(clients);
        is_later
    }

    /// What its clients hold is given up, and they do not know it yet.
    pub fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// The clients that are meant have come after all that was given up.
    pub fn begin_anew(&mut self, asking: Asking) {
        if self.is_of(asking) {
            self.is_given_up = false;
        }
    }

    /// The present run has begun to tell this run of the home all that its clients hold.
    pub fn begin_telling(&mut self) {
        self.has_begun_telling = true;
    }

    /// Whether it has. Otherwise a run that says that it has told all has told it, or some of it, to an earlier run of the home.
    #[must_use]
    pub fn has_begun_telling(&self) -> bool {
        self.has_begun_telling
    }

    /// Its present run. 0: none was heard of.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Whether what its clients hold is given up, and they do not know it yet.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Whether the present clients of the present run are meant.
    #[must_use]
    pub fn is_of(&self, asking: Asking) -> bool {
        self.run == asking.run && self.clients == asking.clients
    }

    /// Whether that is done which is asked. To be looked at under the lock under which it begins.
    #[must_use]
    pub fn admits(&self, asking: Asking) -> bool {
        self.is_of(asking) && !self.is_given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_done_for_earlier_runs_for_forgotten_clients_and_for_what_was_given_up() {
        let asking = |run, clients| Asking { run, clients };
        let mut joined = JoinedServer::default();
        assert!(joined.meet(3) && !joined.meet(3));
        assert!(joined.admits(asking(3, 0)));
        joined.give_up();
        assert!(!joined.admits(asking(3, 0)));
        joined.begin_anew(asking(2, 0));
        assert!(joined.is_given_up());
        assert!(joined.has_forgotten(1) && !joined.has_forgotten(1));
        joined.begin_anew(asking(3, 1));
        assert!(joined.admits(asking(3, 1)) && !joined.admits(asking(3, 0)));
        assert!(!joined.has_forgotten(0));
        joined.begin_telling();
        // A later run has all clients before it, and has told nothing.
        assert!(joined.meet(4) && !joined.has_begun_telling());
        assert!(joined.admits(asking(4, 0)) && !joined.admits(asking(3, 1)));
        assert!(!joined.meet(3));
        assert_eq!(joined.run(), 4);
    }
}

//! Whether the home carries out a request of a joined metadata server for its clients.
//!
//! A request may be delayed at the sender, on its way and at the home. Meanwhile its client may be forgotten, and other clients may have what the
//! request needs. So the request says when it was sent, by two numbers that only grow. The home checks them when it begins the request.
//!
//! What must never enter: what is requested.

/// The clients for which a metadata server asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// The run that asks; later runs have larger numbers.
    pub run: u64,
    /// How often this run had forgotten all its clients before it admitted the client that it asks for.
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
    /// A run has begun or goes on. Whether it is a later run: then active requests of earlier runs have to end first, and what their clients
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

    /// How often the present run has forgotten all its clients. Whether this is news: then active requests for those clients have to end first.
    pub fn has_forgotten(&mut self, clients: u64) -> bool {
        let is_later = clients > self.clients;
        self.clients = self.clients.max(clients);
        is_later
    }

    /// What its clients hold is given up. They do not know it yet.
    pub fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// These clients came after the last giving up.
    pub fn begin_anew(&mut self, asking: Asking) {
        if self.is_of(asking) {
            self.is_given_up = false;
        }
    }

    /// The present run has begun to tell this run of the home all that its clients hold.
    pub fn begin_telling(&mut self) {
        self.has_begun_telling = true;
    }

    /// Whether it has begun to tell. If not, a run that says that it is done has told only an earlier run of the home.
    #[must_use]
    pub fn has_begun_telling(&self) -> bool {
        self.has_begun_telling
    }

    /// Its present run. 0: unknown.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Whether what its clients hold is given up while they do not know it yet.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Whether the request is for the present clients of the present run.
    #[must_use]
    pub fn is_of(&self, asking: Asking) -> bool {
        self.run == asking.run && self.clients == asking.clients
    }

    /// Whether the request is carried out. To be checked under the lock under which it begins.
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
        // A later run starts with no clients forgotten, and has told nothing.
        assert!(joined.meet(4) && !joined.has_begun_telling());
        assert!(joined.admits(asking(4, 0)) && !joined.admits(asking(3, 1)));
        assert!(!joined.meet(3));
        assert_eq!(joined.run(), 4);
    }
}

//! Which servers' clients may hold something from before the home's start that the home does not know yet.
//!
//! Until all servers have told theirs, or the lease of a client has passed, no client gets what another client may have (rule 16). A client that
//! claims later has lost it. No client gets it either while a data server may still accept writes of a joined server's client under an old layout:
//! the home cannot tell any more which client that is.
//!
//! What must never enter: what is told.

use std::collections::BTreeSet;

use control::Moment;
use vfs::ReplicaSlot;

/// What one run of the home knows of this.
#[derive(Clone, Debug)]
pub struct Claims {
    layouts_until: Moment,
    until: Moment,
    expected: BTreeSet<ReplicaSlot>,
    late: BTreeSet<ReplicaSlot>,
    is_over_here: bool,
}

impl Claims {
    /// Begins with a run of the home that has heard nothing yet from these servers. What clients of some of them held was given up before.
    /// Layouts of earlier runs may count until `layouts_until`, and the servers have time until `until`.
    #[must_use]
    pub fn new(
        (layouts_until, until): (Moment, Moment),
        servers: impl IntoIterator<Item = ReplicaSlot>,
        given_up: &BTreeSet<ReplicaSlot>,
    ) -> Claims {
        let servers = servers.into_iter();
        let (late, expected): (BTreeSet<_>, BTreeSet<_>) =
            servers.partition(|server| given_up.contains(server));
        let is_alone = late.is_empty() && expected.is_empty();
        Claims {
            layouts_until: if is_alone {
                Moment::default()
            } else {
                layouts_until
            },
            until,
            expected,
            late,
            is_over_here: false,
        }
    }

    /// Servers whose time is over. The home still waits for them until [`Claims::give_up`].
    #[must_use]
    pub fn overdue(&self, now: Moment) -> BTreeSet<ReplicaSlot> {
        match now >= self.until {
            true => self.expected.clone(),
            false => BTreeSet::new(),
        }
    }

    /// The home stops waiting for a server. Whether it was waiting.
    pub fn give_up(&mut self, server: ReplicaSlot) -> bool {
        let was_expected = self.expected.remove(&server);
        if was_expected {
            self.late.insert(server);
        }
        was_expected
    }

    /// A server has told everything that it has, or has left the pool.
    pub fn has_told(&mut self, server: ReplicaSlot) {
        self.expected.remove(&server);
        self.late.remove(&server);
    }

    /// Whether clients of a server may have what the home does not know.
    #[must_use]
    pub fn expects(&self, server: ReplicaSlot) -> bool {
        self.expected.contains(&server)
    }

    /// Whether a server comes too late; answered with true once.
    pub fn take_late(&mut self, server: ReplicaSlot) -> bool {
        self.late.remove(&server)
    }

    /// Whether clients of any server may have what the home does not know.
    #[must_use]
    pub fn are_open(&self, now: Moment) -> bool {
        !self.expected.is_empty() || now < self.layouts_until
    }

    /// Whether clients of other servers may get something new.
    #[must_use]
    pub fn are_over(&self, now: Moment) -> bool {
        self.is_over_here && !self.are_open(now)
    }

    /// Clients of the home itself have nothing left to reclaim.
    pub fn end_here(&mut self) {
        self.is_over_here = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_new_is_given_before_all_have_told_and_no_layout_counts() {
        let [one, two] = [ReplicaSlot(2), ReplicaSlot(3)];
        let at = Moment;
        let mut claims = Claims::new((at(10), at(20)), [one, two], &BTreeSet::from([two]));
        claims.end_here();
        assert!(claims.expects(one) && !claims.expects(two));
        assert!(claims.take_late(two) && !claims.take_late(two));
        claims.has_told(one);
        assert!(claims.are_open(at(9)) && claims.are_over(at(10)));
        let mut claims = Claims::new((at(10), at(20)), [one], &BTreeSet::new());
        assert!(claims.are_open(at(19)) && claims.overdue(at(19)).is_empty());
        // The home waits for an overdue server until that is noted.
        assert!(claims.are_open(at(20)));
        assert_eq!(claims.overdue(at(20)), BTreeSet::from([one]));
        assert!(claims.give_up(one) && !claims.give_up(one));
        assert!(!claims.are_open(at(20)) && !claims.are_over(at(20)));
        assert!(claims.take_late(one));
        // If no server has joined, the home waits for none.
        let alone = Claims::new((at(10), at(20)), [], &BTreeSet::new());
        assert!(!alone.are_open(at(0)));
    }
}

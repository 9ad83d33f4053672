//! Metadata servers of which the home hears nothing any more, or that leave the pool: what their clients held is given up.
//!
//! What must never enter: how it is given back.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::Duration;

use vfs::{ReplicaSlot, Result};

use crate::home::{Account, Home};

/// Between two looks for lost servers; if it is longer, nobody was heard meanwhile.
const PAUSE_MAX: Duration = Duration::from_secs(10);

impl Home {
    /// What clients of other servers hold through this one is given up, but for that of one server: another home has given up what came
    /// to it from here.
    pub async fn give_up_others(&self, but: ReplicaSlot) {
        let servers: Vec<ReplicaSlot> = self.accounts().keys().copied().collect();
        let servers = servers.into_iter().filter(|server| *server != but);
        let servers: BTreeSet<ReplicaSlot> = servers.collect();
        let noted = self.note_given_up(|noted| noted.extend(&servers));
        if let Err(error) = noted.await {
            tracing::warn!(%error, "it is not noted that what clients of other metadata servers hold is given up");
        }
        for server in servers {
            self.give_up(server, true).await;
        }
    }

    /// Gives up what clients of servers hold of which nothing was heard for so long that the lease of a client has passed as
    /// well, or that have not told it to a home that was started anew. To be called about once a second.
    pub async fn give_up_lost(&self) {
        let overdue = self.holders.claims.overdue();
        let lost = self.lost();
        if overdue.is_empty() && lost.is_empty() {
            return;
        }
        // Before anybody else can get it: a home that is started anew goes by that.
        let noted = self.note_given_up(|noted| noted.extend(overdue.iter().chain(&lost)));
        if let Err(error) = noted.await {
            return tracing::warn!(%error, "what clients of a lost metadata server held is given up when that can be noted");
        }
        for server in overdue.union(&lost) {
            let is_late = overdue.contains(server) && self.holders.claims.expects(*server);
            let is_given_up = self.give_up(*server, is_late).await;
            if is_late {
                self.end_claim(*server);
            }
            if !is_given_up {
                // It was heard of meanwhile. Were this not noted, it would lose what it has with the next run.
                let _ = self
                    .note_given_up(|noted| {
                        noted.remove(server);
                    })
                    .await;
            }
        }
    }

    /// Gives up what clients of a server hold that is late, or else unless it was heard of a moment ago. Whether it has.
    async fn give_up(&self, server: ReplicaSlot, is_late: bool) -> bool {
        {
            let mut accounts = self.accounts();
            let account = accounts.entry(server).or_default();
            if !is_late && !self.is_silent(account) {
                return false;
            }
            account.give_up();
        }
        tracing::warn!(
            number = server.0,
            "a metadata server is away: what its clients had open and locked is given up"
        );
        // A run that has begun meanwhile says itself what is left.
        self.give_back_all(server, |account| account.joined.is_given_up())
            .await;
        true
    }

    /// Changes stably whose clients' state was given up.
    pub(crate) async fn note_given_up(
        &self,
        change: impl FnOnce(&mut BTreeSet<ReplicaSlot>),
    ) -> Result<()> {
        let mut noted = self.given_up.lock().await;
        let mut next = noted.clone();
        change(&mut next);
        if next != *noted {
            self.memory.keep(next.clone()).await?;
            *noted = next;
        }
        Ok(())
    }

    /// Whether nothing was heard of a server for so long that what its clients hold is given up.
    pub(crate) fn is_silent(&self, account: &Account) -> bool {
        self.holders.state_stands_until(account.heard) <= self.holders.now()
    }

    fn lost(&self) -> BTreeSet<ReplicaSlot> {
        let now = self.holders.now();
        let looked = {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *looked, now)
        };
        // This server has stood still, and heard nobody.
        let has_paused = looked.after(PAUSE_MAX) < now;
        let mut lost = BTreeSet::new();
        for (server, account) in self.accounts().iter_mut() {
            if has_paused {
                account.heard = now;
            }
            let is_lost = self.is_silent(account);
            let has_something = !account.held.is_empty() || !account.layouts.is_empty();
            if is_lost && !account.joined.is_given_up() && has_something {
                lost.insert(*server);
            }
        }
        lost
    }

    /// A metadata server is about to leave the pool. Returns when it answers from no copies; it gets none any more.
    pub async fn expect_parting(&self, server: ReplicaSlot) {
        self.holders.expect_parting(server).await;
    }

    /// It stays in the pool after all.
    pub fn stays(&self, server: ReplicaSlot) {
        self.holders.stays(server);
    }

    /// It has left the pool: what its clients had open is closed.
    pub async fn part(&self, server: ReplicaSlot) {
        self.holders.part(server);
        self.holders.claims.has_told(server);
        {
            let mut accounts = self.accounts();
            let account = accounts.entry(server).or_default();
            // What it has asked for and is not begun yet is not done: there is no such run.
            account.meet(u64::MAX);
            account.give_up();
        }
        self.give_back_all(server, |_| true).await;
        // Its number is never used again, so that nothing follows from it.
        let _ = self
            .note_given_up(|noted| {
                noted.remove(&server);
            })
            .await;
    }
}

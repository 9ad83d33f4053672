//! Metadata servers that are silent for too long or leave the pool: the home gives up their clients' state.
//!
//! What must never enter: how state is released.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::Duration;

use vfs::{ReplicaSlot, Result};

use crate::home::{Account, Home};

/// Longest time between two searches for lost servers. After a longer pause, this server has itself heard nothing.
const PAUSE_MAX: Duration = Duration::from_secs(10);

impl Home {
    /// Gives up what clients of other servers hold through this one, except the clients of server `but`: another home has given up what
    /// reached it through this server.
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

    /// Gives up the clients' state of servers that were silent until the clients' lease expired as well, or that have not reported to a
    /// restarted home in time. Call it about once a second.
    pub async fn give_up_lost(&self) {
        let overdue = self.holders.claims.overdue();
        let lost = self.lost();
        if overdue.is_empty() && lost.is_empty() {
            return;
        }
        // Noted before others can get the state: a restarted home relies on the note.
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
                // The server was heard meanwhile. If the note stayed, its clients would lose their state at the next run.
                let _ = self
                    .note_given_up(|noted| {
                        noted.remove(server);
                    })
                    .await;
            }
        }
    }

    /// Gives up the clients' state of a server if `is_late` or the server is silent. Returns whether it did.
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
        // A run that has begun meanwhile reports what is left.
        self.give_back_all(server, |account| account.joined.is_given_up())
            .await;
        true
    }

    /// Changes the stable note of servers whose clients' state was given up.
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

    /// Whether a server was silent for so long that its clients' state is given up.
    pub(crate) fn is_silent(&self, account: &Account) -> bool {
        self.holders.state_stands_until(account.heard) <= self.holders.now()
    }

    fn lost(&self) -> BTreeSet<ReplicaSlot> {
        let now = self.holders.now();
        let looked = {
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *looked, now)
        };
        // This server has stood still and heard nothing.
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

    /// A metadata server is about to leave the pool and gets no more copies. Returns when it answers from none.
    pub async fn expect_parting(&self, server: ReplicaSlot) {
        self.holders.expect_parting(server).await;
    }

    /// It stays in the pool after all.
    pub fn stays(&self, server: ReplicaSlot) {
        self.holders.stays(server);
    }

    /// A server has left the pool: releases what its clients had open.
    pub async fn part(&self, server: ReplicaSlot) {
        self.holders.part(server);
        self.holders.claims.has_told(server);
        {
            let mut accounts = self.accounts();
            let account = accounts.entry(server).or_default();
            // Requests that it sent and that have not begun are not carried out: no current run matches them.
            account.meet(u64::MAX);
            account.give_up();
        }
        self.give_back_all(server, |_| true).await;
        // Its number is never used again, so a stale note has no effect.
        let _ = self
            .note_given_up(|noted| {
                noted.remove(&server);
            })
            .await;
    }
}

//! Whether a request of a client may be carried out.

use super::{Command, DataServer, HomeSide, Shelf};
use crate::handle::{Access, Capability, Refused};
use crate::keys::HandleKeys;
use crate::numbers::{Generation, HomeNumber, IssueNumber, KeyNumber};
use control::Moment;
use std::time::Duration;

/// A read or write that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// Why a request is not carried out. Clients get the same error in every case: the handle is stale (rule 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotServed {
    /// The handle gives no right at all.
    #[error(transparent)]
    Handle(#[from] Refused),
    /// This data server has no lease of the home now.
    #[error("there is no lease of the file's home")]
    NoLease,
    /// The home gave the handle out before it fenced all its handles.
    #[error("the handle is of another issue number")]
    OtherIssue,
    /// The contents were fenced or are about to be fenced, or the handle is newer than the generation known here.
    #[error("the handle is of another generation")]
    OtherGeneration,
    /// The contents are gone.
    #[error("the contents were removed")]
    Removed,
    /// The handle gives only the right to read.
    #[error("the handle gives no right to write")]
    ReadOnly,
}

impl DataServer {
    pub(super) fn take_lease(
        &mut self,
        now: Moment,
        home: HomeNumber,
        (asked, clients): (Moment, Duration),
        (issue, keys): (IssueNumber, HandleKeys),
    ) -> Vec<Command> {
        let believed = self
            .asked
            .get(&home)
            .is_some_and(|all| all.contains(&asked));
        let lease_until = self.lease.relied_upon_until(asked);
        if !believed || lease_until <= now {
            return Vec::new();
        }
        let clients = clients.min(self.lease.length);
        let clients_until = self.lease.counted_from(asked, clients);
        let known = self.homes.get_mut(&home);
        let gap = known.as_ref().is_none_or(|side| side.lease_until < now);
        let has_begun = self.begun.values().any(|(of, ..)| *of == home);
        if gap && has_begun && self.rules.gap_waits() {
            // Requests admitted under an earlier lease must not run together with requests under this one. The next lease will do.
            return Vec::new();
        }
        let before = known.as_ref().map(|side| side.keys.oldest());
        let oldest = keys.oldest();
        match known {
            Some(side) if side.issue > issue => return Vec::new(),
            Some(side) if side.issue == issue => {
                side.keys = keys;
                side.lease_until = lease_until.max(side.lease_until);
                side.clients_until = clients_until.max(side.clients_until);
                if gap {
                    side.leased_since = now;
                }
            }
            _ => {
                // The issue number already refuses requests under other issues.
                let since = known.filter(|_| !gap).map(|side| side.leased_since);
                let side = HomeSide {
                    issue,
                    keys,
                    leased_since: since.unwrap_or(now),
                    lease_until,
                    clients_until,
                };
                self.homes.insert(home, side);
            }
        }
        let drops = gap && self.rules.gap_drops_requests();
        let drops = drops.then_some(Command::DropConnections);
        // The first lease of a run repeats this: the earlier run may not have done it.
        let forgets = (before != Some(oldest)).then(|| self.forget(home, oldest));
        drops.into_iter().chain(forgets).collect()
    }

    fn forget(&self, home: HomeNumber, oldest: KeyNumber) -> Command {
        match self.rules.tombstones_outlive_keys() {
            true => Command::Forget(home, oldest),
            false => Command::Forget(home, KeyNumber(u32::MAX)),
        }
    }

    /// A client wants to read or write with a handle. If it may, the read or write happens at once, and the caller calls [`DataServer::finish`]
    /// afterwards. `connected` is the time when the client made the connection of the request. If that was before a gap between two leases, the
    /// request is refused, even if the connection is not closed yet.
    ///
    /// # Errors
    /// When the handle is not valid here and now.
    pub fn begin(
        &mut self,
        (now, connected): (Moment, Moment),
        shelf: &impl Shelf,
        handle: &[u8],
        wanted: Access,
    ) -> Result<(Ticket, Capability), NotServed> {
        let keys = |home| self.homes.get(&home).map(|side: &HomeSide| &side.keys);
        let capability = Capability::open(handle, self.number, keys)?;
        let contents = capability.contents();
        if !capability.home.may_speak_of(contents.object) {
            return Err(Refused::OtherHome.into());
        }
        self.check_lease((now, connected), capability.home, capability.access)?;
        let issue = self.homes.get(&capability.home).map(|side| side.issue);
        if issue != Some(capability.issue) && self.rules.issue_checked() {
            return Err(NotServed::OtherIssue);
        }
        let fenced = shelf.fenced(contents);
        let fenced = fenced.filter(|fenced| !fenced.removed || self.rules.tombstones());
        if fenced.is_some_and(|fenced| fenced.removed) {
            return Err(NotServed::Removed);
        }
        let generation = fenced.map_or(Generation::FIRST, |fenced| fenced.generation);
        let other = capability.generation != generation || self.is_being_fenced(contents);
        if other && self.rules.generation_checked() {
            return Err(NotServed::OtherGeneration);
        }
        if wanted > capability.access {
            return Err(NotServed::ReadOnly);
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let of = (capability.home, contents, capability.access);
        self.begun.insert(ticket, of);
        Ok((ticket, capability))
    }

    /// A read or write that had begun has happened, or failed.
    ///
    /// # Errors
    /// When the client must not get the result because the lease has run out meanwhile.
    pub fn finish(
        &mut self,
        now: Moment,
        shelf: &impl Shelf,
        ticket: Ticket,
    ) -> (Result<(), NotServed>, Vec<Command>) {
        let Some((home, _, access)) = self.begun.remove(&ticket) else {
            return (Err(NotServed::NoLease), Vec::new());
        };
        let answered = match self.rules.lease_checked_before_reply() {
            // The connection was checked when it began.
            true => self.check_lease((now, now), home, access),
            false => Ok(()),
        };
        (answered, self.go_on(shelf, Some(ticket)))
    }

    fn check_lease(
        &self,
        (now, connected): (Moment, Moment),
        home: HomeNumber,
        access: Access,
    ) -> Result<(), NotServed> {
        let is_leased = self.homes.get(&home).is_some_and(|side| {
            let since = side.leased_since;
            let until = match access {
                Access::Home => side.lease_until,
                Access::Read | Access::ReadWrite => side.clients_until,
            };
            now < until && (since <= connected || !self.rules.gap_drops_requests())
        });
        if is_leased || !self.rules.lease_checked() {
            Ok(())
        } else {
            Err(NotServed::NoLease)
        }
    }
}

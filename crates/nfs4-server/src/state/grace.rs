//! The grace period after a start, and which clients may reclaim in it (RFC 8881, section 8.4.2.1).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs4::NfsStat4;

use super::client::{ClientId, ClientIdentity};
use super::{Departure, Limits, State};
use crate::records::{ClientRecord, KnownBy};

/// Whether an OPEN or LOCK asserts something held before the restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// It reclaims.
    Yes,
    /// It is new.
    No,
}

/// While a client is reclaiming, the grace period ends only after a pause of this part of a lease.
const PAUSE_OF_LEASE: u32 = 10;

#[derive(Debug)]
pub(super) struct Grace {
    ends: Option<Instant>,
    /// The latest end, even if clients continue to reclaim.
    latest: Instant,
    /// Whether the end was reported, or that there is no grace period. From then on nothing is reclaimed. Nothing new is granted before the records of
    /// clients that did not come back are removed: after a crash they would reclaim it (RFC 8881, section 8.4.3).
    end_told: bool,
    /// Owners of clients that held state before the restart, and how each is recognised.
    may_reclaim: HashMap<Arc<[u8]>, Option<KnownBy>>,
    /// Those of them that have not said RECLAIM_COMPLETE.
    expected: HashSet<Arc<[u8]>>,
    /// The number of running reclaims under the grace period.
    reclaims: usize,
}

/// A client whose record is being written, because it says that it has reclaimed everything.
#[derive(Debug)]
pub struct Recording {
    /// What is to be recorded.
    pub record: ClientRecord,
    /// Whether it has an earlier record, which is removed with others if the grace period ends meanwhile.
    is_expected: bool,
}

impl Grace {
    pub(super) fn new(
        may_reclaim: impl IntoIterator<Item = ClientRecord>,
        now: Instant,
        limits: &Limits,
    ) -> Grace {
        let records = may_reclaim.into_iter();
        let may_reclaim: HashMap<_, _> = records
            .map(|record| (record.owner, record.known_by))
            .collect();
        // Without clients to wait for, new opens cannot conflict with anything.
        let end = now + limits.grace;
        let ends = (!may_reclaim.is_empty()).then_some(end);
        Grace {
            ends,
            latest: end + limits.lease,
            end_told: false,
            expected: may_reclaim.keys().cloned().collect(),
            may_reclaim,
            reclaims: 0,
        }
    }

    pub(super) fn may_reclaim(&self, owner: &[u8]) -> bool {
        self.ends.is_some() && self.may_reclaim.contains_key(owner)
    }

    /// Whether a client is expected back under this name, and the sender does not know its verifier. The sender can be
    /// the restarted client only at the client's address.
    pub(super) fn expects_another(&self, identity: &ClientIdentity) -> bool {
        let known_by = self.may_reclaim.get(&identity.owner).copied().flatten();
        let is_another = known_by.is_some_and(|known| {
            let by = identity.known_by();
            known.verifier != by.verifier && (known.network, known.user) != (by.network, by.user)
        });
        is_another && self.expected.contains(&identity.owner)
    }

    /// Postpones the end for a client in the middle of reclaiming, by at most one lease in total (RFC 8881, section 8.4.2.1).
    fn go_on(&mut self, now: Instant, pause: Duration) {
        if let Some(ends) = &mut self.ends {
            *ends = (*ends).max((now + pause).min(self.latest));
        }
    }
}

impl State {
    /// Whether only reclaims are accepted now.
    #[must_use]
    pub fn in_grace(&self) -> bool {
        self.grace.ends.is_some()
    }

    fn may_be_reclaimed(&self) -> bool {
        self.in_grace() && !self.grace.end_told
    }

    /// Decides whether an OPEN or LOCK may continue. An admitted reclaim postpones the end of the grace period, if it
    /// is near. Returns whether it reclaims under the grace period, so that [`State::reclaim_ended`] must follow; a
    /// newcomer's reclaim depends on the state under its name instead.
    ///
    /// # Errors
    /// `GRACE` for something new during grace or before the client's RECLAIM_COMPLETE, `NO_GRACE` for a late reclaim,
    /// `RECLAIM_BAD` for a reclaim by a client that had no state.
    pub fn admit(
        &mut self,
        client: ClientId,
        reclaim: Reclaim,
        now: Instant,
    ) -> Result<bool, NfsStat4> {
        self.may_go_on(client, reclaim)?;
        if reclaim == Reclaim::No {
            return Ok(false);
        }
        self.grace.go_on(now, self.limits.lease / PAUSE_OF_LEASE);
        let by_grace = self.may_be_reclaimed() && !self.must_prove(client);
        self.grace.reclaims += usize::from(by_grace);
        Ok(by_grace)
    }

    /// A reclaim under the grace period has completed.
    pub fn reclaim_ended(&mut self) {
        self.grace.reclaims = self.grace.reclaims.saturating_sub(1);
    }

    /// Whether reclaims under the grace period are running. Others get nothing before they have ended.
    #[must_use]
    pub fn is_reclaiming(&self) -> bool {
        self.grace.reclaims > 0
    }

    fn may_go_on(&self, client: ClientId, reclaim: Reclaim) -> Result<(), NfsStat4> {
        let client = self.confirmed(client)?;
        match reclaim {
            Reclaim::No if self.in_grace() || !client.reclaim_complete => Err(NfsStat4::Grace),
            Reclaim::Yes if client.newcomer.may_reclaim() => Ok(()),
            Reclaim::Yes if !self.may_be_reclaimed() || client.reclaim_complete => {
                Err(NfsStat4::NoGrace)
            }
            Reclaim::Yes if !client.may_reclaim => Err(NfsStat4::ReclaimBad),
            _ => Ok(()),
        }
    }

    /// The record of a client that has not yet said that it has reclaimed everything. It must be on stable storage
    /// before the client may say so.
    ///
    /// # Errors
    /// `STALE_CLIENTID` when there is no such client, `DELAY` while an earlier record of it is being removed.
    pub fn owner_to_record(&self, id: ClientId) -> Result<Option<Recording>, NfsStat4> {
        let client = self.clients.get(&id).ok_or(NfsStat4::StaleClientid)?;
        if client.reclaim_complete {
            return Ok(None);
        }
        if self.departures.is_departing(&client.owner) {
            return Err(NfsStat4::Delay);
        }
        Ok(Some(Recording {
            record: client.record(),
            is_expected: self.grace.expected.contains(&client.owner),
        }))
    }

    /// Accepts that a client has reclaimed everything (RFC 8881, section 18.51), after that is recorded.
    ///
    /// # Errors
    /// `COMPLETE_ALREADY` when it said so before, `DELAY` when the grace period ended while it was recorded, because
    /// its record may have been removed with others.
    pub fn reclaim_complete(
        &mut self,
        id: ClientId,
        recorded: Option<&Recording>,
    ) -> Result<(), NfsStat4> {
        let client = self.clients.get_mut(&id).ok_or(NfsStat4::StaleClientid)?;
        if client.reclaim_complete {
            self.newcomer_is_done(id);
            return Err(NfsStat4::CompleteAlready);
        }
        if recorded.is_none_or(|recorded| recorded.is_expected && self.grace.end_told) {
            return Err(NfsStat4::Delay);
        }
        client.reclaim_complete = true;
        client.recorded = true;
        let owner = client.owner.clone();
        self.grace.expected.remove(&owner);
        self.newcomer_is_done(id);
        Ok(())
    }

    /// Ends the grace period when its time is over or there is no client to wait for. At the end, returns once the
    /// records of clients that did not come back; without a grace period, at the first call. When these are removed,
    /// and no reclaim is running, call [`State::grace_has_ended`].
    pub fn end_grace_if_due(&mut self, now: Instant) -> Option<Vec<Departure>> {
        let goes_on = self.grace.ends.is_some_and(|ends| now < ends);
        if self.grace.end_told || (goes_on && !self.grace.expected.is_empty()) {
            return None;
        }
        self.grace.end_told = true;
        self.grace.may_reclaim.clear();
        for client in self.clients.values_mut() {
            client.may_reclaim = false;
        }
        let lost = std::mem::take(&mut self.grace.expected);
        // A client that came back late keeps its record: it is alive and may have new state soon.
        let complete: HashSet<&Arc<[u8]>> = self
            .clients
            .values()
            .filter(|client| client.reclaim_complete)
            .map(|client| &client.owner)
            .collect();
        let forgotten: Vec<_> = (lost.into_iter())
            .filter(|owner| !complete.contains(owner))
            .collect();
        let departures = forgotten.into_iter();
        Some(
            departures
                .filter_map(|owner| self.depart_from_record(owner))
                .collect(),
        )
    }

    /// From now on no client can reclaim state that others get.
    pub fn grace_has_ended(&mut self) {
        self.grace.ends = None;
    }
}

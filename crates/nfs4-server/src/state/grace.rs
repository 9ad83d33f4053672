//! The grace period after a start, and who may reclaim in it (RFC 8881, section 8.4.2.1).

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

/// While a client is reclaiming, the grace period does not end before it has paused for this part of a lease.
const PAUSE_OF_LEASE: u32 = 10;

#[derive(Debug)]
pub(super) struct Grace {
    ends: Option<Instant>,
    /// When it ends in any case, though clients go on reclaiming.
    latest: Instant,
    /// Whether the end, or that there is no grace at all, was told. From then on nothing is reclaimed, and nothing new given before the
    /// records are gone of those who did not come back: after a crash they would reclaim it (RFC 8881, section 8.4.3).
    end_told: bool,
    /// Owners of clients that held state before the restart, and by what each is known again.
    may_reclaim: HashMap<Arc<[u8]>, Option<KnownBy>>,
    /// Those of them that have not said RECLAIM_COMPLETE.
    expected: HashSet<Arc<[u8]>>,
    /// Reclaims by the grace period that are under way.
    reclaims: usize,
}

/// A client whose record is being written, because it says that it has reclaimed everything.
#[derive(Debug)]
pub struct Recording {
    /// What is to be recorded.
    pub record: ClientRecord,
    /// Whether the records of those who had not said so were gone, or going, by then.
    after_grace: bool,
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
        // Without anybody to wait for there is nothing that new opens could conflict with.
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

    /// Whether a client is expected back under this name, and this is somebody else, who does not know its verifier: it may be the client,
    /// restarted, at its address only.
    pub(super) fn expects_another(&self, identity: &ClientIdentity) -> bool {
        let known_by = self.may_reclaim.get(&identity.owner).copied().flatten();
        let is_another = known_by.is_some_and(|known| {
            let by = identity.known_by();
            known.verifier != by.verifier && (known.network, known.user) != (by.network, by.user)
        });
        is_another && self.expected.contains(&identity.owner)
    }

    /// Puts the end off for a client in the middle of reclaiming, by one lease in all (RFC 8881, section 8.4.2.1).
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

    /// Decides whether an OPEN or LOCK may go on. A reclaim that may puts the end of the grace period off, if it is
    /// near. Whether it reclaims by the grace period, so that [`State::reclaim_ended`] must follow; a newcomer's rests on what stands under
    /// its name.
    ///
    /// # Errors
    /// `GRACE` for something new during grace or before the client's RECLAIM_COMPLETE, `NO_GRACE` for a
    /// reclaim out of time, `RECLAIM_BAD` for one by a client that had nothing.
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

    /// A reclaim by the grace period has done what it does.
    pub fn reclaim_ended(&mut self) {
        self.grace.reclaims = self.grace.reclaims.saturating_sub(1);
    }

    /// Whether reclaims by the grace period are under way. Others are given nothing before they have ended.
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

    /// What is to be recorded of a client that has not said yet that it has reclaimed everything: it must be on stable storage before it
    /// may.
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
            after_grace: self.grace.end_told,
        }))
    }

    /// Takes a client's word that it has reclaimed everything (RFC 8881, section 18.51), once that is recorded.
    ///
    /// # Errors
    /// `COMPLETE_ALREADY` when it said so before, `DELAY` when the grace period ended while it was recorded, and its record may have
    /// gone with those of others.
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
        if recorded.is_none_or(|recorded| recorded.after_grace != self.grace.end_told) {
            return Err(NfsStat4::Delay);
        }
        client.reclaim_complete = true;
        let owner = client.owner.clone();
        self.grace.expected.remove(&owner);
        self.newcomer_is_done(id);
        Ok(())
    }

    /// Ends the grace period when its time is up or nobody is left to wait for. Returns the records of
    /// those that did not come back, once, when it ends; without a grace period, at the first call. When they have gone, and no reclaim
    /// is under way, [`State::grace_has_ended`] is to be called.
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
        // A client that came back late keeps its record: it is alive and may hold new state soon.
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

    /// Nobody can reclaim any more what is given to others from here on.
    pub fn grace_has_ended(&mut self) {
        self.grace.ends = None;
    }
}

//! A metadata server: it admits data servers to the pool, and knows how they are.
//!
//! What must never enter: who gets handles, which the home decides.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use peer::set::Member;
use peer::{
    Endpoint, Incarnation, Incoming, Lane, Message, MessageHandler, Refusal, Sender, TurnedAway,
};
use pool::{DataServerNumber, Holding};
use vfs::ReplicaSlot;

use super::connection::{self, FromDataServer};
use crate::pools::{self, PoolPlace};
use crate::serve::ServeError;
use crate::status::{PoolServerStatus, PoolStatus};
use crate::transport::Listener;

/// A running metadata server.
pub(in crate::serve) struct MetadataServer {
    place: PoolPlace,
    endpoint: Endpoint,
    known: Arc<Known>,
}

/// What data servers have said.
struct Known {
    place: PoolPlace,
    /// What each of them keeps, by what it said last in its present session.
    holdings: Mutex<BTreeMap<ReplicaSlot, Holding>>,
}

impl MetadataServer {
    /// Listens for data servers.
    ///
    /// # Errors
    /// [`ServeError`] says what to do next.
    pub(super) fn start(
        place: PoolPlace,
        listener: Listener,
        incarnation: u32,
    ) -> Result<MetadataServer, ServeError> {
        let identity = place.directory.identity();
        let identity = identity.map_err(pools::PoolPlaceError::from)?;
        // Nobody else signs the list.
        place.directory.note_current();
        let known = Arc::new(Known {
            place: place.clone(),
            holdings: Mutex::default(),
        });
        let endpoint = Endpoint::start(
            &identity,
            Incarnation(incarnation.into()),
            connection::settings(),
            known.clone(),
            listener.into_socket(),
            Some(place.directory.clone()),
        )?;
        Ok(MetadataServer {
            place,
            endpoint,
            known,
        })
    }

    /// Makes no connections any more.
    pub(super) fn close(&self) {
        self.endpoint.close();
    }

    /// Removes a data server that holds no files, for ever.
    ///
    /// # Errors
    /// Why it stays, and what to do next.
    pub(in crate::serve) fn remove(&self, number: u16) -> Result<(), String> {
        let slot = ReplicaSlot(number);
        let Some(member) = self.place.member(slot) else {
            return Err(pools::PoolError::NoSuchDataServer(number).to_string());
        };
        if slot == self.place.keeper {
            return Err(pools::PoolError::MetadataServer(number).to_string());
        }
        if !member.revoked {
            let holding = self.known.holdings().get(&slot).copied();
            may_go(number, holding.filter(|_| self.is_connected(slot)))?;
            let removed = pools::revoke(&self.place.directory, DataServerNumber(number));
            removed.map_err(|error| error.to_string())?;
            tracing::warn!(number, "a data server was removed from the pool");
        }
        self.endpoint.revoke(slot);
        Ok(())
    }

    fn is_connected(&self, slot: ReplicaSlot) -> bool {
        let session = self
            .endpoint
            .peer(slot)
            .and_then(|peer| peer.session().ok());
        session.is_some_and(|session| session.is_connected(Lane::Control))
    }

    /// How the pool is.
    pub(super) fn status(&self) -> PoolStatus {
        let members = self.place.directory.members().unwrap_or_default();
        let data_servers = members
            .iter()
            .filter(|member| !member.revoked && ReplicaSlot(member.slot) != self.place.keeper);
        PoolStatus {
            pool: self.place.pool.to_string(),
            role: "metadata server".to_owned(),
            number: self.place.slot.0,
            stripe_unit_bytes: self.place.stripe_unit.bytes(),
            servers: data_servers.map(|member| self.status_of(member)).collect(),
            holding: None,
        }
    }

    fn status_of(&self, member: &Member) -> PoolServerStatus {
        let slot = ReplicaSlot(member.slot);
        let connected = self.is_connected(slot);
        let holding = self.known.holdings().get(&slot).copied();
        let met = self.endpoint.peer(slot).map(|peer| peer.status());
        PoolServerStatus {
            number: member.slot,
            name: member.name.clone(),
            role: "data server".to_owned(),
            addresses: member.addresses.clone(),
            connected,
            trouble: met.and_then(|met| met.last_error).filter(|_| !connected),
            holding: holding.map(Into::into),
        }
    }
}

/// Why a data server cannot be removed; what it holds is not known while it is away.
fn may_go(number: u16, holding: Option<Holding>) -> Result<(), String> {
    match holding {
        None => Err(format!(
            "data server {number} is away, so nobody knows whether files lie on it; start it, wait until `meridian status` shows it, and try \
             again"
        )),
        Some(Holding { contents: 0, .. }) => Ok(()),
        Some(Holding { contents, .. }) => Err(format!(
            "parts of {contents} files lie on data server {number}, and would be lost; remove these files, or copy them to another tree, \
             and try again"
        )),
    }
}

impl Known {
    fn holdings(&self) -> MutexGuard<'_, BTreeMap<ReplicaSlot, Holding>> {
        self.holdings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl MessageHandler for Known {
    fn admit_session(&self, peer: Sender) -> Result<(), TurnedAway> {
        connection::meet_at_metadata_server(&self.place, peer)
    }

    fn admit_message(&self, from: Sender, kind: u32) -> Result<(), Refusal> {
        connection::admit_at_metadata_server(&self.place, from.slot, kind)
    }

    async fn receive(&self, incoming: Incoming) {
        let from = incoming.from.slot;
        match FromDataServer::decode(&incoming.release()) {
            Some(FromDataServer::Holding(holding)) => {
                self.holdings().insert(from, holding);
            }
            Some(FromDataServer::ToHome(_)) => {}
            None => tracing::warn!(
                data_server = from.0,
                "a message is not understood, and dropped"
            ),
        }
    }

    async fn answer(&self, _incoming: Incoming) -> Result<Message, Refusal> {
        Err(Refusal(
            "servers of a pool ask no such questions".to_owned(),
        ))
    }

    fn session_began(&self, peer: Sender) {
        tracing::info!(data_server = peer.slot.0, "a data server is there");
    }

    fn session_ended(&self, peer: Sender) {
        self.holdings().remove(&peer.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_data_server_that_says_that_it_holds_nothing_may_go() {
        let holding = |contents| Holding {
            contents,
            ..Holding::default()
        };
        assert_eq!(may_go(2, Some(holding(0))), Ok(()));
        for (holding, says) in [(None, "is away"), (Some(holding(7)), "parts of 7 files")] {
            let refused = may_go(2, holding).unwrap_err();
            assert!(
                refused.contains(says) && refused.contains("try"),
                "{refused}"
            );
        }
    }
}

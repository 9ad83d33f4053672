//! What joined metadata servers are told of the pool, so that they stripe files over it as the first server does. Also the questions to
//! these homes before a data server is removed.
//!
//! What must never enter: how a home uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use peer::set::Member;
use peer::{Lane, Message, Session};
use pool::{DataServerNumber, HomeNumber};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use vfs::ReplicaSlot;

use super::super::connection::{self, HeardPool, Survey, Surveyed, ToldPool, ToldServer};
use super::{LOOK, MetadataServer};
use crate::pools::PoolRole;

/// How long a home may take to acknowledge the state of the pool, before it is told again.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a home may take to answer a question that it answers without a search, or be without a connection.
const ANSWER_PATIENCE: Duration = Duration::from_secs(20);
/// How long a home may take to search everything that lives there.
const SEARCH_PATIENCE: Duration = Duration::from_mins(10);

/// The reports sent so far.
#[derive(Default)]
pub(super) struct Telling(Mutex<Told>);

#[derive(Default)]
struct Told {
    /// The number of reports.
    number: u64,
    /// Homes that have answered in this run, with their last answer.
    heard: BTreeMap<ReplicaSlot, HeardPool>,
}

impl Telling {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MetadataServer {
    /// Homes besides this one that may have files on data servers: those with directories, and those that may make some.
    fn homes_that_stripe(&self) -> BTreeSet<ReplicaSlot> {
        let mut homes = self.keeping().book.homes.clone();
        {
            let told = self.telling.told();
            let heard = told.heard.iter();
            homes.extend(
                heard
                    .filter(|(_, heard)| heard.stripes)
                    .map(|(slot, _)| *slot),
            );
        }
        let members = self.place.directory.members().ok();
        homes.retain(|home| may_be_member(*home, members.as_deref()));
        homes
    }

    /// The current state of the pool. `None` while the list of members cannot be read.
    fn told_now(&self) -> Option<ToldPool> {
        let members = self.place.directory.members().ok()?;
        let all = members.iter();
        let all =
            all.filter(|member| PoolRole::of(member, self.place.keeper) == PoolRole::DataServer);
        let (removed, present): (Vec<_>, Vec<_>) = all.partition(|member| member.revoked);
        let addresses = self.known.addresses().clone();
        let servers = present.iter().map(|member| ToldServer {
            number: member.slot,
            address: addresses.get(&DataServerNumber(member.slot)).copied(),
            holding: self.holding(ReplicaSlot(member.slot)),
        });
        let servers = servers.collect();
        let removed = removed.iter().map(|member| member.slot).collect();
        let mut told = self.telling.told();
        // A later number means a later read.
        let book = self.keeping().book.told();
        told.number += 1;
        Some(ToldPool {
            number: told.number,
            book,
            servers,
            removed,
        })
    }

    async fn ask_home(
        &self,
        home: ReplicaSlot,
        question: Message,
        patience: Duration,
    ) -> Option<Message> {
        let session = self.known.homes.session(home)?;
        let until = Instant::now() + patience;
        tokio::select! {
            answer = session.request(Lane::Data, question, until) => answer.ok(),
            () = until_gone(&session) => None,
        }
    }

    /// Tells a home the state of the pool. `None` if it has not acknowledged.
    pub(in crate::serve::pool) async fn tell(&self, home: ReplicaSlot) -> Option<HeardPool> {
        let told = connection::encode_pool(&self.told_now()?);
        let answer = self.ask_home(home, told, PATIENCE).await?;
        let heard = connection::decode_heard_pool(&answer)?;
        self.telling.told().heard.insert(home, heard.clone());
        Some(heard)
    }

    /// Has every home use the current book. Returns when no file is being made under an earlier one.
    ///
    /// # Errors
    /// Which home is away, and what to do next.
    pub(super) async fn tell_homes(&self) -> Result<(), String> {
        for home in self.homes_that_stripe() {
            if self.tell(home).await.is_none() {
                return Err(away(home));
            }
        }
        Ok(())
    }

    /// Asks a home about what lives there.
    ///
    /// # Errors
    /// That the home is away, and what to do next.
    pub(super) async fn survey_at(
        &self,
        home: ReplicaSlot,
        survey: Survey,
    ) -> Result<Surveyed, String> {
        let question = connection::encode_survey(&survey);
        let patience = match survey {
            Survey::ToMove | Survey::Server(_) => SEARCH_PATIENCE,
            Survey::File(_) | Survey::Readmit(_) => ANSWER_PATIENCE,
        };
        let answer = self.ask_home(home, question, patience).await;
        let surveyed = answer.and_then(|answer| connection::decode_surveyed(&answer));
        surveyed.ok_or_else(|| away(home))
    }

    /// The answers of all homes.
    ///
    /// # Errors
    /// Which home is away, and what to do next.
    pub(super) async fn survey(
        &self,
        survey: Survey,
    ) -> Result<BTreeMap<ReplicaSlot, Surveyed>, String> {
        let mut all = BTreeMap::new();
        for home in self.homes_that_stripe() {
            all.insert(home, self.survey_at(home, survey).await?);
        }
        Ok(all)
    }

    /// A home that refuses a data server, by its last answer.
    pub(super) fn refused_at(&self, server: DataServerNumber) -> Option<ReplicaSlot> {
        let told = self.telling.told();
        let mut heard = told.heard.iter();
        let refuses = heard.find(|(_, heard)| heard.refused.contains(&server.0));
        refuses.map(|(home, _)| *home)
    }

    /// Has homes use the contents of a data server again, as an administrator wants. Returns whether a home had refused them.
    ///
    /// # Errors
    /// Which home is away, and what to do next.
    pub(super) async fn readmit_at_homes(&self, number: u16) -> Result<bool, String> {
        let homes = self.survey(Survey::Readmit(number)).await?;
        Ok(homes.values().any(|home| home.readmitted))
    }

    /// Checks that homes have nothing left to move under the current book.
    ///
    /// # Errors
    /// Which home has, or is away.
    pub(super) async fn have_homes_moved_all(&self) -> Result<(), String> {
        for home in self.homes_that_stripe() {
            if !self.tell(home).await.is_some_and(|heard| heard.moved) {
                return Err(format!(
                    "files of directories that live at metadata server {} are still to be moved by it, or it does not answer",
                    home.0
                ));
            }
        }
        Ok(())
    }

    /// Tells all connected servers.
    async fn tell_all(self: &Arc<Self>) {
        let members = self.place.directory.members().unwrap_or_default();
        let homes = self.homes_that_stripe().into_iter();
        let homes = connection::encode_homes(&homes.map(|home| HomeNumber(home.0)).collect());
        for server in super::data_servers(&self.place, &members) {
            if let Some(session) = self.known.homes.session(ReplicaSlot(server.slot)) {
                // It is repeated.
                let _ = session.try_send(Lane::Control, homes.clone());
            }
        }
        let mut telling = JoinSet::new();
        for home in super::metadata_servers(&self.place, &members) {
            let this = self.clone();
            telling.spawn(async move { this.tell(home).await });
        }
        telling.join_all().await;
    }
}

/// Whether a server is a member, as far as is known: `None` if the list cannot be read.
fn may_be_member(slot: ReplicaSlot, members: Option<&[Member]>) -> bool {
    members.is_none_or(|members| {
        let mut members = members.iter();
        members.any(|member| member.slot == slot.0 && !member.revoked)
    })
}

/// Returns when a home has been without a connection for long. Its session stays, and what was asked in it may wait for the end of the patience.
async fn until_gone(session: &Session) {
    let mut heard = Instant::now();
    while heard.elapsed() < ANSWER_PATIENCE {
        if session.is_connected(Lane::Data) {
            heard = Instant::now();
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn away(home: ReplicaSlot) -> String {
    format!(
        "metadata server {0} does not answer, and files of directories that live there may lie on any data server; start it, and try again; if it \
         is lost for good, `meridian pool forget {0}` gives up what lived there",
        home.0
    )
}

/// Tells all servers the state of the pool, while this server runs.
pub(super) async fn run(server: Weak<MetadataServer>) {
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(server) = server.upgrade() else {
            return;
        };
        server.tell_all().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Such a server counted as none, and a data server with its files could be removed.
    #[test]
    fn a_home_counts_while_the_list_of_members_cannot_be_read() {
        let member = |slot, revoked| Member {
            slot,
            addresses: Vec::new(),
            client_addresses: Vec::new(),
            revoked,
            witness: false,
            metadata_server: true,
            name: String::new(),
        };
        let list = [member(2, false), member(3, true)];
        let counts = |slot, list| may_be_member(ReplicaSlot(slot), list);
        assert!(counts(2, Some(&list)) && counts(3, None));
        assert!(!counts(3, Some(&list)) && !counts(4, Some(&list)));
    }
}

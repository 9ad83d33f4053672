//! Members, the links between them, and their storages, which outlive a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use vfs::ReplicaSlot;

use crate::bytes::encode;
use crate::raft::credible::Limit;
use crate::raft::wire::{Answer, Request};
use crate::{
    Change, Decision, DecisionKind, Kind, Outcome, Settings, StableStorage, StableStorageError,
    Transport, TransportError, ViewError, ViewState, Views, Warrant,
};

/// The shorthand of these tests.
pub(super) fn slot(number: u16) -> ReplicaSlot {
    ReplicaSlot(number)
}

/// Which members run, and which links carry nothing.
#[derive(Default)]
struct Links {
    running: Mutex<BTreeMap<ReplicaSlot, Arc<Views>>>,
    cut: Mutex<BTreeSet<(ReplicaSlot, ReplicaSlot)>>,
    liars: Mutex<BTreeMap<ReplicaSlot, Lie>>,
}

/// What a hostile member answers; nothing where it is silent.
pub(super) type Lie = fn(&Request) -> Option<Answer>;

impl Links {
    fn is_cut(&self, from: ReplicaSlot, to: ReplicaSlot) -> bool {
        self.cut.lock().unwrap().contains(&(from, to))
    }
}

struct Carrier {
    from: ReplicaSlot,
    links: Arc<Links>,
}

#[async_trait]
impl Transport for Carrier {
    async fn ask(
        &self,
        to: ReplicaSlot,
        request: Bytes,
        limit: Duration,
    ) -> Result<Bytes, TransportError> {
        let lost = async || {
            tokio::time::sleep(limit).await;
            Err(TransportError::TimedOut)
        };
        assert!(request.len() <= crate::MESSAGE_BYTES_MAX, "too long");
        if self.links.is_cut(self.from, to) {
            return lost().await;
        }
        let lie = self.links.liars.lock().unwrap().get(&to).copied();
        if let Some(lie) = lie {
            let limit = Limit::at(std::time::SystemTime::now());
            let asked = Request::decode(self.from, &request, limit);
            let answer = lie(&asked.map_err(TransportError::Failed)?);
            let answer = answer.ok_or(TransportError::Unreachable)?;
            return Ok(encode(&answer).map_err(TransportError::Failed)?.into());
        }
        let there = self.links.running.lock().unwrap().get(&to).cloned();
        let there = there.ok_or(TransportError::Unreachable)?;
        let answer = there.answer(self.from, request).await;
        if self.links.is_cut(to, self.from) {
            return lost().await;
        }
        answer.map_err(|error| TransportError::Failed(error.to_string()))
    }
}

/// Stable storage in memory, which fails once it is told to.
#[derive(Default)]
pub(super) struct Memory(
    pub(super) Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    pub(super) AtomicBool,
);

#[async_trait]
impl StableStorage for Memory {
    async fn write(&self, changes: Vec<Change>) -> Result<(), StableStorageError> {
        if self.1.load(Ordering::Relaxed) {
            return Err(StableStorageError("the disk has failed".to_owned()));
        }
        let mut rows = self.0.lock().unwrap();
        for (key, value) in changes {
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        }
        Ok(())
    }

    async fn read(
        &self,
        from: &[u8],
        to: &[u8],
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StableStorageError> {
        let rows = self.0.lock().unwrap();
        let rows = rows.range(from.to_vec()..to.to_vec());
        Ok(rows
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }
}

/// Nobody wants these configured or removed.
#[derive(Default)]
pub(super) struct Unwarranted(Mutex<BTreeSet<ReplicaSlot>>);

impl Warrant for Unwarranted {
    fn check(&self, decision: &Decision) -> Result<(), String> {
        let unwanted = self.0.lock().unwrap();
        match &decision.kind {
            DecisionKind::Configure { slot, .. } | DecisionKind::Remove { slot }
                if unwanted.contains(slot) =>
            {
                Err("nobody has signed that".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// A set under test.
#[derive(Default)]
pub(super) struct Set {
    links: Arc<Links>,
    unwarranted: Arc<Unwarranted>,
    storages: BTreeMap<ReplicaSlot, Arc<Memory>>,
}

/// Waits until `is_so`, or fails after a minute.
pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("waited in vain until {what}");
}

impl Set {
    /// Founds a set with members 1 to `count`, all running.
    pub(super) async fn found(count: u16) -> Set {
        let mut set = Set::default();
        for number in 1..=count {
            set.start(number).await;
        }
        let founders = (1..=count).map(|number| (slot(number), Kind::Data));
        let founders: BTreeMap<ReplicaSlot, Kind> = founders.collect();
        while set.state(1).epoch == 0 {
            let founded = set.at(1).initialise(founders.clone()).await;
            assert!(is_temporary(&founded) || matches!(founded, Ok(Outcome::Applied)));
        }
        for number in 1..=count {
            until("all know the set", || set.state(number).epoch == 1).await;
        }
        set
    }

    /// Starts a member on its storage.
    pub(super) async fn start(&mut self, number: u16) {
        let transport = Arc::new(Carrier {
            from: slot(number),
            links: Arc::clone(&self.links),
        });
        let settings = Settings {
            heartbeat: Duration::from_millis(100),
            election_min: Duration::from_millis(300),
            election_max: Duration::from_millis(700),
            decision_limit: Duration::from_secs(3),
            newcomer_limit: Duration::from_secs(3),
        };
        let storage = Arc::clone(self.storages.entry(slot(number)).or_default());
        let warrant = Arc::clone(&self.unwarranted);
        let views = Views::start(slot(number), settings, transport, storage, warrant).await;
        let mut running = self.links.running.lock().unwrap();
        running.insert(slot(number), views.unwrap());
    }

    /// From now on nobody wants this one configured or removed.
    pub(super) fn refuse(&self, number: u16) {
        let mut unwanted = self.unwarranted.0.lock().unwrap();
        unwanted.insert(slot(number));
    }

    /// Stops a member.
    pub(super) async fn stop(&self, number: u16) {
        let gone = self.links.running.lock().unwrap().remove(&slot(number));
        gone.unwrap().stop().await;
    }

    /// Puts a liar in the place of a member that does not run.
    pub(super) fn lie(&self, number: u16, lie: Lie) {
        self.links.liars.lock().unwrap().insert(slot(number), lie);
    }

    /// The storage of a member, running or not.
    pub(super) fn storage(&self, number: u16) -> Arc<Memory> {
        Arc::clone(&self.storages[&slot(number)])
    }

    /// A running member.
    pub(super) fn at(&self, number: u16) -> Arc<Views> {
        Arc::clone(&self.links.running.lock().unwrap()[&slot(number)])
    }

    /// What a running member has applied.
    pub(super) fn state(&self, number: u16) -> Arc<ViewState> {
        Arc::clone(&self.at(number).state().borrow())
    }

    /// Cuts or heals all links between two groups.
    pub(super) fn cut(&self, some: &[u16], others: &[u16], is_cut: bool) {
        let mut cut = self.links.cut.lock().unwrap();
        for (one, other) in some
            .iter()
            .flat_map(|one| others.iter().map(move |o| (*one, *o)))
        {
            for link in [(slot(one), slot(other)), (slot(other), slot(one))] {
                if is_cut {
                    cut.insert(link);
                } else {
                    cut.remove(&link);
                }
            }
        }
    }

    /// Cuts the links to one member; what it says still arrives everywhere.
    pub(super) fn deafen(&self, number: u16) {
        let others = self
            .links
            .running
            .lock()
            .unwrap()
            .keys()
            .copied()
            .collect::<Vec<_>>();
        let others = others.into_iter().filter(|other| *other != slot(number));
        let mut cut = self.links.cut.lock().unwrap();
        cut.extend(others.map(|other| (other, slot(number))));
    }

    /// The number of the leader that `at` and the leader itself agree on.
    pub(super) async fn leader(&self, at: u16) -> u16 {
        let known = || {
            let leader = self.at(at).leader()?;
            let there = self.links.running.lock().unwrap().get(&leader).cloned()?;
            (there.leader() == Some(leader)).then_some(leader.0)
        };
        until("there is a leader", || known().is_some()).await;
        known().unwrap_or(at)
    }

    /// Has something decided at a member, as often as it takes until `is_done` there.
    pub(super) async fn decide(
        &self,
        at: u16,
        decision: impl Fn(u64) -> Decision,
        is_done: impl Fn(&ViewState) -> bool,
    ) {
        for _ in 0..3000 {
            let state = self.state(at);
            if is_done(&state) {
                return;
            }
            let decided = self.at(at).decide(decision(state.epoch)).await;
            // Otherwise it is decided, and applied here in a moment.
            let pause = if is_temporary(&decided) { 100 } else { 1 };
            assert!(pause == 100 || decided.is_ok(), "{decided:?}");
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        panic!("not decided; the state is {:?}", self.state(at));
    }

    /// Has a member admitted in a new incarnation, through `at`.
    pub(super) async fn admit(&self, at: u16, number: u16, incarnation: u64) {
        let decision = |seen_epoch| Decision {
            by: slot(at),
            at_unix_s: 1,
            seen_epoch,
            kind: DecisionKind::Admit {
                slot: slot(number),
                incarnation,
            },
        };
        let member = |state: &ViewState| state.members.get(&slot(number)).cloned();
        self.decide(at, decision, |state| {
            member(state).is_some_and(|member| member.active && member.incarnation == incarnation)
        })
        .await;
    }

    /// Has a member excluded, through `at`.
    pub(super) async fn exclude(&self, at: u16, number: u16) {
        let decision = |seen_epoch| Decision {
            by: slot(at),
            at_unix_s: 1,
            seen_epoch,
            kind: DecisionKind::Exclude {
                slot: slot(number),
                reason: "it does not answer".to_owned(),
            },
        };
        self.decide(at, decision, |state| !state.is_active(slot(number)))
            .await;
    }
}

/// Whether trying again may help.
pub(super) fn is_temporary(outcome: &Result<Outcome, ViewError>) -> bool {
    matches!(
        outcome,
        Err(ViewError::NoLeader | ViewError::OutcomeUnknown | ViewError::LeaderUnreachable { .. })
    )
}

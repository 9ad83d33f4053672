//! Whether the data directories of this replica and of the others continue from where they were last met.
//!
//! A directory that was restored from an older copy (a snapshot of its machine, a backup of one server, a journal that lost its end) has forgotten
//! what its server had promised: votes and entries of the agreed log, controls, updates. No session begins with it, so it votes, acknowledges and
//! answers nothing (decision 0013). `branch` detects such a directory, `meeting` checks whenever two replicas connect, and `faults` describes the
//! result.
//!
//! What must never enter: how a copy is replaced, and what the set decides about a member that is away.

mod branch;
mod faults;
mod mac;
mod meeting;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use store::Store;
use tokio::time::Instant;
use vfs::{Error, ReplicaSlot, Result};

use crate::state::copies::trimmed_before;
use crate::state::encoding::{decode, encode};
use crate::state::locks::{Table, TableGuard};
pub(crate) use branch::{Branch, Met, Start};
pub(crate) use faults::{Contradiction, Fault};
pub(crate) use mac::{Attested, Key, Mac};
pub(crate) use meeting::{Evidence, Introduction};

/// Facts of this module.
const FACTS: &[u8] = b"lineage/";
const STARTS: &[u8] = b"lineage/starts";
const MARK: &[u8] = b"lineage/mark";
const FAULT: &[u8] = b"lineage/fault";
/// Prefix, before the slot of a peer: what was met of it.
const MET: &[u8] = b"lineage/met/";
/// Prefix, before the slot of a peer: how far its updates were applied here, as attested by it.
const APPLIED: &[u8] = b"lineage/applied/";

/// Rows of the store that only this copy keeps.
type Rows = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// What this replica knows of its own past and of the others' pasts.
pub(crate) struct Lineage {
    store: Arc<Store>,
    slot: ReplicaSlot,
    key: Key,
    /// The last update of this replica that was there at the start.
    last_update: u64,
    /// Until then this replica waits for all members that it has not met.
    patience: Instant,
    state: Table<State>,
    /// Held while a mark is written, so that marks are written in order.
    writing: tokio::sync::Mutex<()>,
}

struct State {
    own: Branch,
    /// The mark with the last vote or entry of the agreed log.
    agreed_mark: u64,
    /// How many batches of the store the mark covers.
    covered: u64,
    known: Known,
    /// The part of `known` that is on stable storage.
    kept: Known,
    /// The members that must still find nothing wrong since the start; `None` once this replica waits for no member.
    awaited: Option<BTreeSet<ReplicaSlot>>,
    fault: Option<Fault>,
    /// Members found since the start whose directories were restored from older copies.
    rolled_back: BTreeMap<ReplicaSlot, Fault>,
}

/// What the others have said about themselves.
#[derive(Clone, Default, PartialEq, Eq)]
struct Known {
    met: BTreeMap<ReplicaSlot, Met>,
    /// How far their updates were applied here, as attested by them.
    applied: BTreeMap<ReplicaSlot, Attested>,
}

impl Known {
    /// The rows that differ from those written before.
    fn news(&self, before: &Known) -> Rows {
        let met = self.met.iter().map(|(slot, met)| {
            let is_news = before.met.get(slot) != Some(met);
            (MET, slot, is_news.then(|| encode(met)))
        });
        let applied = self.applied.iter().map(|(slot, applied)| {
            let is_news = before.applied.get(slot) != Some(applied);
            (APPLIED, slot, is_news.then(|| encode(applied)))
        });
        let rows = met.chain(applied);
        rows.filter_map(|(key, slot, row)| row.map(|row| (about(key, *slot), Some(row))))
            .collect()
    }
}

/// Decodes bytes as facts about starts and meetings, for `decode_as_anything` of this crate.
pub(crate) fn decode_facts_as_anything(bytes: &[u8]) {
    drop(decode::<Vec<Start>>(bytes));
    drop(decode::<Fault>(bytes));
    drop(decode::<Met>(bytes));
}

/// Whether a store says that it is, or was, a member's copy of the tree of a set.
///
/// # Errors
/// [`vfs::Error::Io`] if it cannot be read.
pub fn is_members_copy(store: &Store) -> Result<bool> {
    Ok(!store.facts(FACTS)?.is_empty() || !store.facts(b"view/")?.is_empty())
}

/// Whether an earlier start found that this copy was restored from an older one.
pub(crate) fn is_rolled_back(store: &Store) -> Result<bool> {
    Ok(read::<Fault>(store, FAULT)?.is_some())
}

/// Forgets that this copy is behind what others knew of it: an administrator has declared that it alone is the set now.
pub(crate) async fn forgive(store: &Store) -> Result<()> {
    let ticket = store.put_facts(vec![(FAULT.to_vec(), None)]).await?;
    store.wait_stable(ticket).await
}

impl Lineage {
    /// Notes this start, stably. `others` are the other members; this replica waits for them for at most `patience`.
    pub(crate) async fn begin(
        store: Arc<Store>,
        key: Key,
        incarnation: u64,
        others: BTreeSet<ReplicaSlot>,
        patience: Duration,
    ) -> Result<Lineage> {
        let starts: Vec<Start> = read(&store, STARTS)?.unwrap_or_default();
        let mark: u64 = read(&store, MARK)?.unwrap_or_default();
        let (slot, fault) = (store.slot(), read(&store, FAULT)?);
        let position = *store.stable_position().borrow();
        // Nothing is lacking of updates that are no longer kept.
        let last_update = last_update(&store, position)?.max(trimmed_before(&store)?);
        // Before its first start it had promised nothing.
        let awaited = (!starts.is_empty()).then_some(others);
        let own = Branch::begin(
            starts,
            Start {
                incarnation,
                nonce: getrandom::u64().map_err(|error| Error::Io(error.to_string()))?,
                mark,
                position,
            },
        );
        let known = Known {
            met: about_others(&store, MET)?,
            applied: about_others(&store, APPLIED)?,
        };
        let rows = vec![(STARTS.to_vec(), Some(encode(&own.starts)))];
        let ticket = store.put_facts(rows).await?;
        store.wait_stable(ticket).await?;
        let covered = store.statistics().batches;
        Ok(Lineage {
            store,
            slot,
            key,
            last_update,
            patience: Instant::now() + patience,
            state: Table::new(State {
                own,
                agreed_mark: mark,
                covered,
                kept: known.clone(),
                known,
                awaited,
                fault,
                rolled_back: BTreeMap::new(),
            }),
            writing: tokio::sync::Mutex::new(()),
        })
    }

    fn state(&self) -> TableGuard<'_, State> {
        self.state.lock()
    }

    /// The mark that covers everything that was stable when it was last written; others are told of it.
    pub(crate) fn mark(&self) -> Attested {
        let state = self.state();
        self.attest(&state, state.own.mark)
    }

    /// The mark with this replica's last vote or entry of the agreed log.
    pub(crate) fn agreed_mark(&self) -> Attested {
        let state = self.state();
        self.attest(&state, state.agreed_mark)
    }

    /// Attests how far this replica's stream goes, for replicas that apply it.
    pub(crate) fn attest_updates(&self, through: u64) -> Mac {
        self.key.updates(self.slot, through).mac
    }

    /// Attests a mark of the present start.
    fn attest(&self, state: &State, mark: u64) -> Attested {
        // Invariant: the line of a directory in use ends with the present start.
        let present = state.own.starts.last();
        let start = present.map_or((0, 0), |start| (start.incarnation, start.nonce));
        self.key.mark(self.slot, start, mark)
    }

    /// A peer has told its mark.
    pub(crate) fn note(&self, of: ReplicaSlot, incarnation: u64, mark: Attested) {
        let mut state = self.state();
        let met = state.known.met.get_mut(&of);
        let met = met.filter(|met| met.incarnation == incarnation && met.mark < mark.number);
        if let Some(met) = met {
            (met.mark, met.mac) = (mark.number, mark.mac);
        }
    }

    /// The updates of a peer are applied here, stably, up to the place that it stated.
    pub(crate) fn note_applied(&self, of: ReplicaSlot, through: Attested) {
        let mut state = self.state();
        let known = state.known.applied.entry(of).or_insert(through);
        if known.number < through.number {
            *known = through;
        }
    }

    /// The same, and returns when it is on stable storage, because this replica relies on it afterwards.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] if storage fails.
    pub(crate) async fn note_stably(
        self: &Arc<Self>,
        of: ReplicaSlot,
        incarnation: u64,
        mark: Attested,
    ) -> Result<()> {
        self.note(of, incarnation, mark);
        let is_kept = {
            let state = self.state();
            let kept = state.kept.met.get(&of);
            kept.is_some_and(|kept| kept.incarnation == incarnation && kept.mark >= mark.number)
        };
        match is_kept {
            true => Ok(()),
            false => self.keep().await,
        }
    }

    /// Writes the next mark if anything has become stable since the last one, and what was met of others. Runs to its end even if the caller stops
    /// waiting.
    ///
    /// # Errors
    /// [`vfs::Error::Io`] if storage fails.
    pub(crate) async fn keep(self: &Arc<Self>) -> Result<()> {
        let lineage = self.clone();
        to_its_end(async move { lineage.write_known().await }).await
    }

    async fn write_known(&self) -> Result<()> {
        let _in_order = self.writing.lock().await;
        let batches = self.store.statistics().batches;
        let (known, news, mark) = {
            let state = self.state();
            let moved = batches > state.covered;
            if !moved && state.known == state.kept {
                return Ok(());
            }
            let news = state.known.news(&state.kept);
            let mark = state.own.mark + u64::from(moved);
            (state.known.clone(), news, mark)
        };
        let mut rows = vec![(MARK.to_vec(), Some(encode(&mark)))];
        rows.extend(news);
        let ticket = self.store.put_facts(rows).await?;
        self.store.wait_stable(ticket).await?;
        let mut state = self.state();
        state.own.mark = mark;
        state.kept = known;
        // This also covers what came between; then there is one mark more than needed.
        state.covered = batches + 1;
        Ok(())
    }

    /// Writes rows of the agreed log together with the next mark, stably. Runs to its end even if the caller stops waiting.
    ///
    /// # Errors
    /// As [`OpenStore::put_facts`].
    pub(crate) async fn write_agreed(self: &Arc<Self>, rows: Rows) -> Result<()> {
        let lineage = self.clone();
        to_its_end(async move { lineage.write_with_mark(rows).await }).await
    }

    async fn write_with_mark(&self, mut rows: Rows) -> Result<()> {
        let _in_order = self.writing.lock().await;
        let mark = self.state().own.mark + 1;
        rows.push((MARK.to_vec(), Some(encode(&mark))));
        let ticket = self.store.put_facts(rows).await?;
        self.store.wait_stable(ticket).await?;
        let mut state = self.state();
        (state.own.mark, state.agreed_mark) = (mark, mark);
        Ok(())
    }

    /// The proof that this directory was restored from an older copy.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.state().fault
    }

    /// The same for another member's directory.
    pub(crate) fn fault_of(&self, member: ReplicaSlot) -> Option<Fault> {
        self.state().rolled_back.get(&member).copied()
    }

    /// Notes it for this directory, in memory first. `false`: it was known.
    pub(crate) fn accept(&self, fault: Fault) -> bool {
        self.state().fault.replace(fault).is_none()
    }

    pub(crate) async fn keep_fault(&self, fault: Fault) -> Result<()> {
        let rows = vec![(FAULT.to_vec(), Some(encode(&fault)))];
        let ticket = self.store.put_facts(rows).await?;
        self.store.wait_stable(ticket).await
    }
}

/// Runs work that must not stop half-way, even if the caller stops waiting. Otherwise a mark that was written and not counted here would be used
/// again, and a copy from before it could not be told from one after it.
async fn to_its_end(work: impl Future<Output = Result<()>> + Send + 'static) -> Result<()> {
    let ended = tokio::spawn(work).await;
    ended.unwrap_or_else(|error| Err(Error::Io(format!("the server stops: {error}"))))
}

/// The key of a row about another replica.
fn about(what: &[u8], slot: ReplicaSlot) -> Vec<u8> {
    [what, &slot.0.to_be_bytes()].concat()
}

/// A fact, if it is there. An invalid one was not written by this program.
fn read<T: DeserializeOwned>(store: &Store, key: &[u8]) -> Result<Option<T>> {
    let facts = store.facts(key)?;
    let value = facts.iter().find(|(found, _)| found[..] == *key);
    let value = value.map(|(_, value)| decode(value)).transpose();
    value.map_err(|error| Error::Io(error.to_string()))
}

fn about_others<T: DeserializeOwned>(
    store: &Store,
    what: &[u8],
) -> Result<BTreeMap<ReplicaSlot, T>> {
    let mut known = BTreeMap::new();
    for (key, value) in store.facts(what)? {
        let slot = key[what.len()..].first_chunk::<2>();
        let slot = slot.ok_or(Error::Invalid("a fact about no replica"))?;
        let of = decode(&value).map_err(|_| {
            let why = "what was met of other servers is of another version of this program; a set of earlier versions has to be made anew";
            Error::Io(why.to_owned())
        })?;
        known.insert(ReplicaSlot(u16::from_be_bytes(*slot)), of);
    }
    Ok(known)
}

/// The position of the last update of this replica that is kept, at most `through`; 0 for none.
fn last_update(store: &Store, through: u64) -> Result<u64> {
    // Invariant: an update lies at or behind `last`, unless that is 0; none lies at or behind `none`.
    let (mut last, mut none) = (0, through + 1);
    while last + 1 < none {
        let middle = last + (none - last) / 2;
        match store.updates(middle, 1)?.first() {
            Some(found) => last = found.position,
            None => none = middle,
        }
    }
    Ok(last)
}

//! What administrators see of views and lost replicas, and what they decide.
//!
//! What must never enter: how it is shown, and anything that replicas decide by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use control::Depth;
use serde::{Deserialize, Serialize};
use vfs::{ObjectId, ReplicaSlot};
use view::{AuditEntry, DecisionKind, Kind, Outcome, SettledBy, ViewState};

use crate::driver::local_replica::LocalReplica;
use crate::driver::tree::{LocalTree, Parents};
use crate::handle::Replica;
use crate::membership::authority;
use crate::membership::losses;
use crate::membership::views;
use crate::shown::{self, MemberNames, claimed, is_deep};
use crate::state::members::REMOVED;

/// At most this many objects of each kind are named in the account of what a thaw gives up.
const NAMED: usize = 4;

/// At most this many controls of lost replicas are listed.
const FROZEN_TOLD: usize = 100;

/// At most this many files at a time are checked for coverage: all operations wait for the core meanwhile.
const FILES_AT_ONCE: usize = 32;

/// How long a record in the set may take.
const ON_RECORD: Duration = Duration::from_secs(2);

/// What a replica knows of the view. Older servers leave out fields with a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewStatus {
    /// The number of the view in force here; 0 when this replica has heard of none yet.
    pub epoch: u64,
    /// The leader of the agreement on views, if known.
    pub leader: Option<u16>,
    /// This replica is in the view.
    pub takes_part: bool,
    /// It has everything made without it that its clients may ask for.
    pub up_to_date: bool,
    /// What keeps it outside, for people.
    pub obstacle: Option<String>,
    /// How long it may answer clients without another grant, in milliseconds; `None`: for ever.
    pub lease_ms: Option<u64>,
    /// The names of the members.
    #[serde(default)]
    pub names: MemberNames,
    /// The voters of the agreement on views. A removed member counts until the others have agreed on its removal.
    #[serde(default)]
    pub voters: BTreeSet<u64>,
    /// The voters are changing: until this is done, a majority of the old voters and a majority of the new voters are needed.
    #[serde(default)]
    pub voters_change: bool,
    /// The members, by slot.
    pub members: Vec<MemberView>,
    /// Replicas that left the view with controls that may still be in force, and are not back.
    pub losses: Vec<LossView>,
    /// The last decisions, oldest first; only on request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audit: Vec<AuditEntry>,
}

impl ViewStatus {
    /// Controls that keep objects frozen.
    #[must_use]
    pub fn frozen_controls(&self) -> u64 {
        self.losses.iter().map(|loss| loss.frozen_controls).sum()
    }

    /// Whether the set has exactly two members, witness included: neither can go on without the other.
    #[must_use]
    pub fn has_two_voters(&self) -> bool {
        self.members.len() == 2
    }
}

/// One member of the set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberView {
    /// Its place in the set.
    pub slot: u16,
    /// `data` or `witness`.
    pub kind: String,
    /// It is in the view.
    pub active: bool,
    /// The view since which this holds.
    pub since_epoch: u64,
    /// When it left, in seconds since 1970.
    pub excluded_at_unix_s: Option<u64>,
    /// The member that asked for that.
    pub excluded_by: Option<u16>,
    /// The reason.
    pub reason: Option<String>,
    /// It keeps contents, and lacks nothing acknowledged without it, as far as the asked server knows.
    #[serde(default)]
    pub complete: bool,
}

/// A lost replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossView {
    /// Its place in the set.
    pub slot: u16,
    /// Since when, in seconds since 1970.
    pub since_unix_s: u64,
    /// How many of its controls are frozen.
    pub frozen_controls: u64,
    /// It alone may have something: then its removal waits for an administrator.
    #[serde(default)]
    pub leaves_something: bool,
    /// The set has decided that its controls end.
    pub settled: bool,
    /// All survivors have the same of it, so that this can be decided.
    pub ready_to_settle: bool,
    /// What this still waits for, for people.
    pub waits_for: Option<String>,
}

/// A control of a lost replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenView {
    /// The lost replica.
    pub slot: u16,
    /// Since when it is lost, in seconds since 1970.
    pub since_unix_s: u64,
    /// The control's name.
    pub name: String,
    /// What it covers: paths where they are known, else object identifiers.
    pub paths: Vec<String>,
    /// Whether it reaches below its objects.
    pub deep: bool,
    /// What giving it up would lose, for people.
    pub open_questions: String,
}

impl Replica {
    /// Moves the set's authority to another member. Returns whether that member has confirmed this. If not, it takes over once it learns of it,
    /// and this replica signs nothing meanwhile.
    ///
    /// # Errors
    /// Why not, for people, with what to do next. The authority is kept here then.
    pub async fn move_authority(&self, to: u16) -> Result<bool, String> {
        let replica = self.local();
        authority::hand_over(replica, ReplicaSlot(to)).await?;
        self.put_on_record(format!("moved the set's authority to replica {to}"))
            .await;
        Ok(authority::is_taken(replica).await)
    }

    /// Compares the copies now, or as soon as this replica is active and up to date.
    pub fn scrub(&self) {
        self.local()
            .state
            .scrub
            .asked
            .send_modify(|count| *count += 1);
    }

    /// The view as it is known here.
    #[must_use]
    pub fn view_status(&self) -> ViewStatus {
        let replica = self.local();
        let removed = replica.state.members.is_removed();
        // A removed replica knows only the past of the set.
        let state = replica
            .view_state()
            .filter(|_| !removed)
            .unwrap_or_default();
        let leader = replica.views.get().and_then(|views| views.leader());
        let leader = leader.filter(|_| !removed);
        let voters = replica.views.get().filter(|_| !removed);
        let voters = voters.map(|views| views.voters()).unwrap_or_default();
        let left = replica.lease.left_micros();
        ViewStatus {
            epoch: replica.lease.view().epoch.0,
            leader: leader.map(|slot| slot.0),
            takes_part: replica.takes_part() && !removed,
            up_to_date: replica.lease.is_up_to_date(),
            obstacle: match removed {
                true => Some(REMOVED.to_owned()),
                false => replica.state.obstacle.lock().clone(),
            },
            lease_ms: left.map(|micros| micros / 1000),
            names: shown::names(replica),
            voters_change: voters.len() > 1,
            voters: voters.into_iter().flatten().collect(),
            members: members(replica, &state),
            losses: self.losses(&state),
            audit: state.audit.iter().cloned().collect(),
        }
    }

    fn losses(&self, state: &ViewState) -> Vec<LossView> {
        let replica = self.local();
        let lost = state.losses.iter();
        let lost = lost.map(|(slot, loss)| (*slot, loss, replica.engine.frozen_count(*slot)));
        lost.map(|(slot, loss, frozen_controls)| {
            let waits_for = losses::waits_for(replica, slot);
            LossView {
                slot: slot.0,
                since_unix_s: loss.since_unix_s,
                frozen_controls: frozen_controls as u64,
                leaves_something: views::leaves_something(replica, slot),
                settled: !loss.settled.is_empty(),
                ready_to_settle: waits_for.is_none(),
                waits_for,
            }
        })
        .collect()
    }

    /// The controls of lost replicas, which block all others, and how many more there are than listed. If one of them freezes a directory with
    /// everything below, only the directory is listed. Reads the store, so other work must not wait for the calling thread.
    #[must_use]
    pub fn frozen(&self) -> (Vec<FrozenView>, usize) {
        let replica = self.local();
        let state = replica.view_state().unwrap_or_default();
        let frozen = replica.engine.frozen();
        // Without holding the core, for which all operations wait: deep trees take long.
        let parents = Parents::default();
        let tree = LocalTree {
            store: &replica.store,
            parents: &parents,
        };
        let frozen = topmost(frozen, |object| control::ancestors(&tree, object));
        let more = frozen.len().saturating_sub(FROZEN_TOLD);
        let mut at_stake = BTreeMap::new();
        let views = frozen.into_iter().take(FROZEN_TOLD).map(|control| {
            let slot = control.name.holder;
            let loss = state.losses.get(&slot);
            let files = at_stake
                .entry(slot)
                .or_insert_with(|| losses::at_stake(replica, slot));
            FrozenView {
                slot: slot.0,
                since_unix_s: loss.map_or(0, |loss| loss.since_unix_s),
                name: control.name.to_string(),
                paths: claimed(replica, &control),
                deep: is_deep(&control),
                open_questions: open_questions(replica, slot, &control, files),
            }
        });
        (views.collect(), more)
    }

    /// Lets the set record what a person does here. If that takes too long, only the log has it.
    pub async fn put_on_record(&self, what: String) {
        tracing::info!(what, "done by an administrator");
        let Some(views) = self.local().views.get() else {
            return;
        };
        let note = self.local().decision(DecisionKind::Note { what });
        let why = match tokio::time::timeout(ON_RECORD, views.decide(note)).await {
            Ok(Ok(Outcome::Applied)) => return,
            Ok(Ok(Outcome::Refused(why))) => why,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", ON_RECORD.as_secs()),
        };
        tracing::warn!(why, "what was done may not be on record");
    }

    /// Decides to give up what only a lost replica had, so that the others can go on with what is left. When the lost replica returns, its
    /// versions are put aside there.
    ///
    /// # Errors
    /// Why not, for people, with what to do next.
    pub async fn thaw(&self, lost: u16, reason: &str) -> Result<(), String> {
        let replica = self.local();
        let slot = ReplicaSlot(lost);
        let state = replica.view_state().unwrap_or_default();
        if state.is_active(slot) {
            return Err(format!(
                "replica {lost} takes part; nothing of it is frozen"
            ));
        }
        if !state.losses.contains_key(&slot) {
            return Err(format!(
                "no replica {lost} is lost; `meridian view` shows who is"
            ));
        }
        if let Some(missing) = losses::waits_for(replica, slot) {
            return Err(format!("not yet: {missing}; try again in a few seconds"));
        }
        let by = SettledBy::Administrator {
            reason: reason.to_owned(),
        };
        losses::close_everywhere(replica, slot).await?;
        losses::settle(replica, slot, by).await
    }
}

/// Controls without the claims that are below a deep one of the same holder, or that repeat one. Controls without any claim left are omitted.
fn topmost(
    controls: Vec<control::Proposal>,
    above: impl Fn(ObjectId) -> BTreeSet<ObjectId>,
) -> Vec<control::Proposal> {
    let claims = || {
        controls
            .iter()
            .flat_map(|one| one.claims.iter().map(move |claim| (one.name.holder, claim)))
    };
    let is_deep = |claim: &control::Claim| claim.depth == Depth::Deep;
    let deep: BTreeSet<_> = claims()
        .filter(|(_, claim)| is_deep(claim))
        .map(|(holder, claim)| (holder, claim.object))
        .collect();
    let mut told = BTreeSet::new();
    let mut left = Vec::new();
    for mut one in controls {
        let holder = one.name.holder;
        one.claims.retain(|claim| {
            let place = (holder, claim.object);
            let below = above(claim.object)
                .iter()
                .any(|object| deep.contains(&(holder, *object)));
            let covered = below || (deep.contains(&place) && !is_deep(claim));
            !covered && told.insert(place)
        });
        if !one.claims.is_empty() {
            left.push(one);
        }
    }
    left
}

/// What a thaw gives up of the objects that a control covers, for people.
fn open_questions(
    replica: &LocalReplica,
    slot: ReplicaSlot,
    control: &control::Proposal,
    at_stake: &[(ObjectId, Option<u64>)],
) -> String {
    let place = slot.0;
    let mut words = format!(
        "whatever replica {place} answered its clients there and had not sent; nobody else knows how much that is"
    );
    let mut covered = Vec::new();
    for some in at_stake.chunks(FILES_AT_ONCE) {
        covered.extend(replica.engine.covered(control, some, |(file, _)| file));
    }
    let of = |before: bool| {
        let files = covered.iter();
        let files = files.filter(move |(_, whole)| whole.is_some() == before);
        files.map(|(file, _)| *file).collect::<Vec<_>>()
    };
    let (before, torn) = (of(true), of(false));
    if !before.is_empty() {
        let named = named(replica, &before);
        words.push_str(&format!(
            "; and the last version, of which nothing had come, of {named}"
        ));
    }
    if !torn.is_empty() {
        let named = named(replica, &torn);
        words.push_str(&format!(
            "; and all of {named}: only parts of the contents had come, so no version is whole"
        ));
    }
    words
}

/// Paths of the first files, and the number of the others.
fn named(replica: &LocalReplica, files: &[vfs::ObjectId]) -> String {
    let first = files.iter().take(NAMED);
    let paths: Vec<String> = first.map(|file| shown::named(replica, *file)).collect();
    let more = files.len() - paths.len();
    match more {
        0 => paths.join(", "),
        _ => format!("{} and {more} more", paths.join(", ")),
    }
}

fn members(replica: &LocalReplica, state: &ViewState) -> Vec<MemberView> {
    let members = state.members.iter();
    members
        .map(|(slot, member)| {
            let excluded = member.excluded.as_ref().filter(|_| !member.active);
            MemberView {
                slot: slot.0,
                kind: String::from(match member.kind {
                    Kind::Data => "data",
                    Kind::Witness => "witness",
                }),
                active: member.active,
                since_epoch: member.since_epoch,
                excluded_at_unix_s: excluded.map(|by| by.at_unix_s),
                excluded_by: excluded.map(|by| by.by.0),
                reason: excluded.map(|by| by.reason.clone()),
                complete: member.kind == Kind::Data && member.active && replica.has_complete(*slot),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use control::{Claim, ControlName, Incarnation, Proposal};

    use super::*;

    const ROOT: u64 = 1;
    const DIRECTORY: u64 = 2;
    const BELOW: u64 = 3;
    const FILE: u64 = 4;
    const ELSEWHERE: u64 = 5;

    /// `/DIRECTORY/BELOW/FILE` and `/ELSEWHERE`.
    fn above(object: ObjectId) -> BTreeSet<ObjectId> {
        let path: &[u64] = match object.as_u64() {
            ROOT => &[],
            BELOW => &[ROOT, DIRECTORY],
            FILE => &[ROOT, DIRECTORY, BELOW],
            _ => &[ROOT],
        };
        path.iter().copied().map(ObjectId::from_u64).collect()
    }

    fn control(holder: u16, number: u64, claims: &[(u64, Depth)]) -> Proposal {
        let claims = claims.iter().map(|(object, depth)| Claim {
            object: ObjectId::from_u64(*object),
            depth: *depth,
            ancestors: Vec::new(),
        });
        Proposal {
            name: ControlName {
                holder: ReplicaSlot(holder),
                incarnation: Incarnation(1),
                number,
            },
            claims: claims.collect(),
            downgradable: false,
            behind: Vec::new(),
        }
    }

    fn told(controls: Vec<Proposal>) -> Vec<(u64, Vec<u64>)> {
        let left = topmost(controls, above).into_iter();
        left.map(|one| {
            let objects = one.claims.iter().map(|claim| claim.object.as_u64());
            (one.name.number, objects.collect())
        })
        .collect()
    }

    /// A lost replica had unpacked an archive: its directory was frozen with everything below, and every file in it was listed.
    #[test]
    fn of_a_directory_that_is_frozen_as_a_whole_nothing_below_is_told() {
        let controls = vec![
            control(3, 1, &[(FILE, Depth::Shallow), (ELSEWHERE, Depth::Shallow)]),
            control(3, 2, &[(BELOW, Depth::Deep)]),
            control(3, 3, &[(DIRECTORY, Depth::Deep)]),
            control(3, 4, &[(DIRECTORY, Depth::Shallow), (FILE, Depth::Shallow)]),
            control(3, 5, &[(ELSEWHERE, Depth::Shallow)]),
        ];
        let told = told(controls);
        assert_eq!(told, [(1, vec![ELSEWHERE]), (3, vec![DIRECTORY])]);
    }

    #[test]
    fn what_another_lost_replica_froze_or_only_a_directory_itself_hides_nothing() {
        let controls = vec![
            control(3, 1, &[(DIRECTORY, Depth::Deep)]),
            control(4, 2, &[(FILE, Depth::Shallow)]),
            control(4, 3, &[(BELOW, Depth::Shallow)]),
        ];
        let told = told(controls);
        let all = [(1, vec![DIRECTORY]), (2, vec![FILE]), (3, vec![BELOW])];
        assert_eq!(told, all);
    }
}

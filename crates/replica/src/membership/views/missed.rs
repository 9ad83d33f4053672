//! Settlements that the set decided while this replica was outside the view.
//!
//! An active member lives through a settlement: all members then have, or had when it was judged, the same of the lost replica's stream. A
//! member that received more in between takes a whole copy. A replica outside may have received more from the lost replica directly, or lack
//! contents that the members had: the lost replica was to send them, and no member knows that they are missing here. The set remembers what was
//! kept only until the lost replica is admitted again. So each replica notes the last settlement that its copy respects. A replica that can no
//! longer tell takes a whole copy.
//!
//! What must never enter: what a settlement ends (`losses`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vfs::ReplicaSlot;
use view::{StreamEnd, ViewState};

use crate::driver::local_replica::LocalReplica;
use crate::replication::base;
use crate::replication::settled;
use crate::state::copies::Held;

/// Why a member with more than was kept leaves, for people.
const AFTER_ITS_WORD: &str = "more of a lost replica's updates arrived here than the others kept";
/// Why a member leaves that was admitted after a settlement.
const LACKS_CONTENTS: &str =
    "it lacks contents of a lost replica that the others had when they went on without it";

/// Goes through recent decisions, as a member of the view or outside.
pub(crate) async fn go_through(replica: &Arc<LocalReplica>, state: &ViewState) -> vfs::Result<()> {
    let own = replica.slot();
    let away = !state.is_active(own);
    if *replica.state.held.borrow() == Held::Nothing {
        // The copy that is on its way brings the note.
        return Ok(());
    }
    // A copy from before such notes counts as right; a newcomer gets the note with its copy.
    let known = settled::known(replica)?.unwrap_or(state.settlements);
    if known < state.settlements {
        let applied = |slot| replica.store.applied(slot);
        let verdict = judge(
            state,
            own,
            known,
            (applied, |slot| lacks_contents(replica, slot)),
        )?;
        if verdict != Verdict::Same {
            // New versions made here must differ from those that a lost replica may have shown.
            replica.store.abandon(own, state.settlements).await?;
        }
        if away && verdict != Verdict::Same {
            if !replica.state.needs_copy.swap(true, Ordering::AcqRel) {
                tracing::warn!(
                    "the others went on without a lost replica while this one was away; a whole copy is needed"
                );
            }
            return Ok(());
        }
        let why = match verdict {
            Verdict::More => Some(AFTER_ITS_WORD),
            Verdict::Less => Some(LACKS_CONTENTS),
            Verdict::Same | Verdict::Unknown => None,
        };
        if let Some(why) = why.filter(|_| !replica.state.is_witness) {
            if !replica.state.needs_copy.load(Ordering::Acquire) {
                base::take_copy_anew(replica, why).await;
                // Too few members may be left without it; then it gets the copy as a member.
                replica.lease.leave(why);
            }
            return Ok(());
        }
        if verdict == Verdict::Unknown {
            // A lost replica is back, and with it the only report of what it was to send.
            for slot in replica.state.members.others() {
                base::ask_for_lacking(replica, slot);
            }
        }
    }
    for (lost, end) in state.settled_streams() {
        // Before the note: a copy that others get from here says how far it has come. Mostly it was done as soon as the settlement was known.
        if lost != own && !lacks_what_others_had(replica, state, (lost, end.settlement)) {
            replica.store.abandon(lost, end.settlement).await?;
        }
    }
    settled::note(replica, state.settlements).await
}

/// Whether contents of a lost replica are missing here that the members may have had at a settlement. To give up what is missing is right only where
/// all lack it: the new version that a file gets then replaces all copies (counterexample 95).
pub(crate) fn lacks_what_others_had(
    replica: &LocalReplica,
    state: &ViewState,
    (lost, settlement): (ReplicaSlot, u64),
) -> bool {
    may_lack_more(state, replica.slot(), settlement) && lacks_contents(replica, lost)
}

fn lacks_contents(replica: &LocalReplica, of: ReplicaSlot) -> bool {
    // A witness has no contents. A store that has failed ends the server elsewhere.
    let lacks = || {
        replica
            .store
            .incomplete_files(of)
            .is_ok_and(|files| !files.is_empty())
    };
    !replica.state.is_witness && lacks()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// This copy has no more of any lost replica's stream than the others kept.
    Same,
    /// It has more.
    More,
    /// It lacks contents that the others had.
    Less,
    /// Unknown: the lost replica takes part again.
    Unknown,
}

/// Whether this replica, which lacks contents of a lost one, was not among those that lacked the same when they went on without it.
fn may_lack_more(state: &ViewState, own: ReplicaSlot, settlement: u64) -> bool {
    !state.was_active_at(own, settlement)
}

/// Judges the settlements after the first `known`, except those of this replica's own stream, by the place up to which a stream is applied here and
/// whether contents of its maker are missing.
fn judge(
    state: &ViewState,
    own: ReplicaSlot,
    known: u64,
    (applied, lacks): (
        impl Fn(ReplicaSlot) -> vfs::Result<u64>,
        impl Fn(ReplicaSlot) -> bool,
    ),
) -> vfs::Result<Verdict> {
    let all: Vec<(ReplicaSlot, StreamEnd)> = state.settled_streams().collect();
    for id in known + 1..=state.settlements {
        let Some((lost, end)) = all.iter().find(|(_, end)| end.settlement == id) else {
            return Ok(Verdict::Unknown);
        };
        if *lost != own && applied(*lost)? > end.through {
            return Ok(Verdict::More);
        }
        if *lost != own && may_lack_more(state, own, id) && lacks(*lost) {
            return Ok(Verdict::Less);
        }
    }
    Ok(Verdict::Same)
}

#[cfg(test)]
mod tests {
    use view::{Kind, Loss, MemberState, SettledBy, Settlement};

    use super::*;

    const OWN: ReplicaSlot = ReplicaSlot(1);
    const LOST: ReplicaSlot = ReplicaSlot(3);

    /// One settlement, the first, of a lost replica: the others kept its stream up to place 40.
    fn settled() -> ViewState {
        let settlement = Settlement {
            through: 40,
            incarnation_below: 2,
            names: None,
            by: SettledBy::Takeover,
            at_unix_s: 0,
            id: 1,
        };
        let loss = Loss {
            slot: LOST,
            incarnation: 1,
            since_unix_s: 0,
            settled: vec![settlement],
        };
        ViewState {
            losses: [(LOST, loss)].into(),
            settlements: 1,
            ..ViewState::default()
        }
    }

    fn judged(state: &ViewState, known: u64, applied: u64) -> Verdict {
        judge(state, OWN, known, (|_| Ok(applied), |_| false)).unwrap()
    }

    /// The others had all contents when they went on; this replica was away, or came into the view after that.
    #[test]
    fn counterexample_95_contents_may_be_missing_only_where_all_members_lacked_them() {
        let mut state = settled();
        let judged = |state: &ViewState, lacks| {
            let here = (|_| Ok(40), |_| lacks);
            judge(state, OWN, 0, here).unwrap()
        };
        assert_eq!(judged(&state, false), Verdict::Same);
        assert_eq!(judged(&state, true), Verdict::Less);
        let member = MemberState {
            kind: Kind::Data,
            active: true,
            since_epoch: 7,
            incarnation: 3,
            was_active: true,
            excluded: None,
        };
        state.members.insert(OWN, member);
        assert_eq!(judged(&state, true), Verdict::Same, "it lived through it");
        state.settled_before.insert(OWN, 1);
        assert_eq!(judged(&state, true), Verdict::Less, "it came after it");
    }

    #[test]
    fn who_was_away_may_have_more_than_the_others_kept() {
        let state = settled();
        assert_eq!(judged(&state, 0, 40), Verdict::Same);
        assert_eq!(judged(&state, 0, 41), Verdict::More);
        assert_eq!(judged(&state, 1, 41), Verdict::Same, "it was dealt with");
    }

    #[test]
    fn when_the_lost_one_takes_part_again_nobody_can_tell() {
        let mut state = settled();
        state.losses.clear();
        assert_eq!(judged(&state, 0, 0), Verdict::Unknown);
        assert_eq!(judged(&state, 1, 41), Verdict::Same);
    }

    #[test]
    fn what_was_kept_of_a_removed_replica_is_remembered() {
        let mut state = settled();
        state.losses.clear();
        let end = StreamEnd {
            through: 40,
            settlement: 1,
        };
        state.stream_ends.insert(LOST, end);
        assert_eq!(judged(&state, 0, 40), Verdict::Same);
        assert_eq!(judged(&state, 0, 41), Verdict::More);
    }

    #[test]
    fn what_was_decided_about_the_own_stream_is_another_matter() {
        let mut state = settled();
        let loss = state.losses.remove(&LOST).unwrap();
        state.losses.insert(OWN, loss);
        assert_eq!(judged(&state, 0, 41), Verdict::Same);
    }
}

//! Settlements from the point of view of this copy: up to which settlement it is right, and whether updates made after a settlement may be applied.
//!
//! What must never enter: what a settlement ends, and how it is decided.

use view::Settlement;

use crate::driver::local_replica::LocalReplica;

/// The fact that says which settlement of this replica's own controls has been dealt with.
pub(crate) const DEALT_WITH: &[u8] = b"settlement";

/// The settlement of this replica's controls that the others decided while it was away, and that it has not dealt with.
pub(crate) fn undealt(replica: &LocalReplica) -> vfs::Result<Option<Settlement>> {
    let state = replica.view_state();
    let loss = state
        .as_ref()
        .and_then(|state| state.losses.get(&replica.slot()));
    let Some(last) = loss.and_then(|loss| loss.settled.last()) else {
        return Ok(None);
    };
    let facts = replica.store.facts(DEALT_WITH)?;
    let noted = facts
        .first()
        .and_then(|(_, value)| value.first_chunk::<8>());
    let noted = noted.map_or(0, |noted| u64::from_be_bytes(*noted));
    Ok((last.id > noted).then(|| last.clone()))
}

/// How many settlements are known here.
pub(crate) fn settlements(replica: &LocalReplica) -> u64 {
    replica.view_state().map_or(0, |state| state.settlements)
}

/// Whether a replica outside the view may apply what a sender that knows `known_there` settlements sends. What was made after a settlement may
/// replace changes made here that the settlement has given up; these must be put aside first. It also builds on what the others kept of a lost
/// replica, of which this copy may have more.
pub(crate) fn may_follow(replica: &LocalReplica, known_there: u64) -> bool {
    let dealt_with = || matches!(undealt(replica), Ok(None));
    let gone_through = || known(replica).ok().flatten();
    replica.takes_part()
        || (is_right_for(settlements(replica), known_there, gone_through) && dealt_with())
}

/// Whether a sender that knows `known_there` settlements builds on the state of this copy. The copy has gone through `gone_through` of the
/// `known_here` settlements that are known here.
fn is_right_for(known_here: u64, known_there: u64, gone_through: impl Fn() -> Option<u64>) -> bool {
    known_here >= known_there && gone_through().is_some_and(|through| through >= known_here)
}

/// The fact that says how many settlements this copy has gone through.
const KNOWN: &[u8] = b"gone-through";

/// This copy has gone through this many settlements.
pub(crate) async fn note(replica: &LocalReplica, settlements: u64) -> vfs::Result<()> {
    if known(replica)? == Some(settlements) {
        return Ok(());
    }
    let rows = vec![(KNOWN.to_vec(), Some(settlements.to_be_bytes().to_vec()))];
    let ticket = replica.store.put_facts(rows).await?;
    replica.store.wait_stable(ticket).await
}

pub(crate) fn known(replica: &LocalReplica) -> vfs::Result<Option<u64>> {
    let facts = replica.store.facts(KNOWN)?;
    let noted = facts
        .first()
        .and_then(|(_, value)| value.first_chunk::<8>());
    Ok(noted.map(|noted| u64::from_be_bytes(*noted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lost replica had sent its last update only to a server outside the view. The others gave it up, and continued. Their later updates were
    /// applied to the copy that had more.
    #[test]
    fn counterexample_54_a_copy_that_has_not_gone_through_a_settlement_follows_nobody_who_knows_of_it()
     {
        let follows = |here, there, through| is_right_for(here, there, || through);
        assert!(follows(1, 1, Some(1)));
        assert!(follows(0, 0, Some(0)));
        assert!(follows(2, 1, Some(2)));
        assert!(!follows(0, 1, Some(0)), "it has not heard of it");
        assert!(!follows(1, 1, Some(0)), "it may have more than was kept");
        assert!(!follows(1, 1, None), "nobody has looked yet");
        assert!(!follows(2, 1, Some(1)), "nor of the second one");
    }
}

//! The members of the set by its signed list and by agreement: the replicas that this one talks to, or no longer talks to.
//!
//! What must never enter: messages to a member (`sessions`), and decisions about members (`views`).

use std::collections::BTreeSet;
use std::sync::Arc;

use peer::Lane;
use peer::set::{Learned, MemberList, SetError};
use vfs::ReplicaSlot;

use crate::driver::local_replica::LocalReplica;
use crate::membership::sessions::began;
use crate::replication::streams;
use crate::state::wire;

/// Logged once; repeats are logged as sums.
const READING_MEMBERS: &str = "the list of members cannot be read";

/// Takes over a peer's list of members, if the set's authority has signed it and it ranks higher than ours.
pub(crate) fn learn_members(replica: &Arc<LocalReplica>, from: ReplicaSlot, list: &MemberList) {
    match replica.set.learn(list) {
        Ok(Learned::Nothing) => {}
        Ok(Learned::News) => look_for_members(replica),
        // Its keeper adds what we know and signs again; until then ours counts.
        Ok(Learned::NotAll) => {
            let message = wire::body(wire::Kind::Members, &replica.state.members.list());
            let keeper = ReplicaSlot(list.keeper);
            replica.state.outbound.send(keeper, Lane::Control, message);
        }
        Err(error @ SetError::Forged(_)) => {
            if replica.state.members.note_forger(from) {
                tracing::error!(peer = from.0, %error, "a peer shows a list of members that does not count; look at its server");
            }
        }
        Err(error) => tracing::error!(%error, "the list of members cannot be stored"),
    }
}

/// Loads the list of members from the files, where a command or a joining server may have changed it.
pub(crate) fn look_for_members(replica: &Arc<LocalReplica>) {
    match replica.set.member_list() {
        Ok(list) if list != replica.state.members.list() => adopt_members(replica, list),
        Ok(_) => {}
        Err(error) => {
            if let Some(sum) = replica
                .state
                .repeats
                .is_to_tell(READING_MEMBERS, replica.slot())
            {
                tracing::error!(%error, %sum, "the list of members cannot be read");
            }
        }
    }
}

/// Talks to exactly the members of a list from now on. Replicas that the set removed are excepted: a list may still name them where they were
/// given up with the majority.
pub(crate) fn adopt_members(replica: &Arc<LocalReplica>, list: MemberList) {
    let state = replica.view_state();
    let is_gone = |slot| state.as_ref().is_some_and(|state| state.is_gone(slot));
    let members = list.members.iter().filter(|member| !member.revoked);
    let current: BTreeSet<ReplicaSlot> = members
        .map(|member| ReplicaSlot(member.slot))
        .filter(|slot| !is_gone(*slot))
        .collect();
    replica.state.members.set(current.clone(), list.clone());
    let others: Vec<_> = current
        .iter()
        .filter(|slot| **slot != replica.slot())
        .copied()
        .collect();
    let accounts: Vec<(ReplicaSlot, bool)> = others
        .iter()
        .map(|slot| (*slot, list.is_witness(slot.0)))
        .collect();
    replica.engine.open_accounts(&accounts);
    let removed = replica.state.members.is_removed();
    replica.engine.set_alone(others.is_empty() && !removed);
    disconnect_removed(replica);
    if removed {
        return;
    }
    for slot in &others {
        let member = list
            .members
            .iter()
            .find(|member| ReplicaSlot(member.slot) == *slot);
        let addresses = member.map_or_else(Vec::new, |member| member.addresses.clone());
        meet(replica, *slot, addresses);
        let peer = replica.endpoint.get().and_then(|all| all.peer(*slot));
        if let Some(Ok(session)) = peer.map(|peer| peer.session())
            && !replica.state.conversations.contains(*slot)
        {
            began(replica, session.peer());
        }
    }
    let message = wire::body(wire::Kind::Members, &list);
    for slot in others {
        replica
            .state
            .outbound
            .send(slot, Lane::Control, message.clone());
    }
}

/// The set has agreed to remove these members.
pub(crate) fn agreed_removals(replica: &Arc<LocalReplica>, removed: &BTreeSet<ReplicaSlot>) {
    if replica.state.members.note_removed(removed) {
        disconnect_removed(replica);
    }
}

/// Ends all connections with removed members for ever; or all connections, if this replica is removed.
fn disconnect_removed(replica: &Arc<LocalReplica>) {
    if replica.state.members.is_removed() {
        return replica.end_as_removed();
    }
    for slot in replica.state.members.removed() {
        if let Some(endpoint) = replica.endpoint.get() {
            endpoint.revoke(slot);
        }
        if replica.state.outbound.is_in_session(slot) {
            tracing::info!(peer = slot.0, "a member was removed; its connections end");
            replica.end_conversation(slot);
        }
        replica.forget(slot);
    }
}

/// Keeps connections to a peer, and an inbox for its messages. A repeated call updates its addresses.
fn meet(replica: &Arc<LocalReplica>, slot: ReplicaSlot, addresses: Vec<String>) {
    streams::follow(replica, slot);
    if let Some(endpoint) = replica.endpoint.get() {
        endpoint.connect(slot, addresses);
    }
}

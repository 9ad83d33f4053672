//! Members, controls and objects, as people see them.
//!
//! What must never enter: statements about them (`status`, `administration`).

use std::collections::BTreeMap;

use control::{Depth, Proposal};
use vfs::ObjectId;

use crate::driver::local_replica::LocalReplica;

/// At most this many objects of a control are named.
const CLAIMS_NAMED: usize = 8;

/// The names of members, by slot. Some have none.
pub type MemberNames = BTreeMap<u16, String>;

/// The names of the members.
pub(crate) fn names(replica: &LocalReplica) -> MemberNames {
    let members = replica.state.members.list().members.into_iter();
    let named = members.filter(|member| !member.name.is_empty());
    named.map(|member| (member.slot, member.name)).collect()
}

/// Whether a control reaches below its objects.
pub(crate) fn is_deep(control: &Proposal) -> bool {
    let mut claims = control.claims.iter();
    claims.any(|claim| claim.depth == Depth::Deep)
}

/// What a control covers, for people: some objects by name, and the number of the others.
pub(crate) fn claimed(replica: &LocalReplica, control: &Proposal) -> Vec<String> {
    let claims = control.claims.iter().take(CLAIMS_NAMED);
    let mut paths: Vec<_> = claims.map(|claim| named(replica, claim.object)).collect();
    let more = control.claims.len() - paths.len();
    if more > 0 {
        paths.push(format!("and {more} more"));
    }
    paths
}

/// An object for people: its path, or its number where it has none.
pub(crate) fn named(replica: &LocalReplica, object: ObjectId) -> String {
    let path = replica.store.path_of(object);
    path.unwrap_or_else(|_| format!("object {object}"))
}

//! Who is in the set, who was, and what each of them is to this replica.
//!
//! What must never enter: how lists of members travel, and what follows when one changes (`membership::members`).

use std::collections::BTreeSet;

use peer::set::MemberList;
use vfs::ReplicaSlot;

/// What people are told of a replica that was removed.
pub(crate) const REMOVED: &str = "this server was removed from the set and serves nobody; what only it has is still in its data directory. To return, let it join with a new invitation and a new data directory";

/// Who is in the set.
#[derive(Default)]
pub(crate) struct Membership {
    pub(crate) current: BTreeSet<ReplicaSlot>,
    pub(crate) list: MemberList,
    /// Who was in it, by the list or by what was agreed. Nobody ever comes back.
    pub(crate) removed: BTreeSet<ReplicaSlot>,
    /// Who has shown its list since this replica started.
    pub(crate) greeted: BTreeSet<ReplicaSlot>,
    /// Who has shown one that the authority did not sign.
    pub(crate) forgers: BTreeSet<ReplicaSlot>,
}

/// What the sender of a message is, as far as the receiver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// A member that keeps contents and takes part in the receiver's view.
    InView,
    /// A member that keeps contents and takes no part in it, or has never taken part.
    Outside,
    /// A member that votes and keeps no contents, in the view or outside it.
    Witness,
    /// It was a member.
    Removed,
    /// It has a certificate of the set, and the receiver has not heard of it.
    Stranger,
}

/// What the receiver of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hearer {
    /// It takes part in its view.
    InView,
    /// It takes no part.
    Outside,
    /// It is a witness, in the view or outside it.
    Witness,
    /// It knows that it was removed.
    Removed,
}

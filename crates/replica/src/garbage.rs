//! Every decoder for messages of other replicas, and for the facts that a replica keeps, for fuzzing.
//!
//! What must never enter: what a message means.

use crate::state::wire::{
    Applied, BasePage, CaughtUp, Completed, Greeting, Grounds, HeldOpen, Incomplete, Joined,
    LeaseGrant, LeaseRequest, Note, PieceDone, PieceHead, Records, Relayed, ScrubAnswer,
    ScrubQuestion, Taken, Wanted, decode,
};

/// Decodes arbitrary bytes as every kind of message and fact, for fuzzing, and drops the result.
#[doc(hidden)]
pub fn decode_as_anything(bytes: &[u8]) {
    drop(decode::<control::Envelope>(bytes));
    drop(decode::<control::Proposal>(bytes));
    drop(decode::<Greeting>(bytes));
    drop(decode::<Grounds>(bytes));
    drop(decode::<crate::state::lineage::Introduction>(bytes));
    drop(decode::<crate::state::lineage::Evidence>(bytes));
    drop(decode::<crate::state::lineage::Attested>(bytes));
    crate::state::lineage::decode_facts_as_anything(bytes);
    drop(decode::<Records>(bytes));
    drop(decode::<Note>(bytes));
    drop(decode::<Applied>(bytes));
    drop(decode::<HeldOpen>(bytes));
    drop(decode::<PieceHead>(bytes));
    drop(decode::<PieceDone>(bytes));
    drop(decode::<peer::set::MemberList>(bytes));
    drop(decode::<peer::set::Handover>(bytes));
    drop(decode::<BasePage>(bytes));
    drop(decode::<LeaseRequest>(bytes));
    drop(decode::<LeaseGrant>(bytes));
    drop(decode::<Joined>(bytes));
    drop(decode::<CaughtUp>(bytes));
    drop(decode::<Relayed>(bytes));
    drop(decode::<Incomplete>(bytes));
    drop(decode::<Completed>(bytes));
    drop(decode::<Wanted>(bytes));
    drop(decode::<crate::state::rejoins::Remainder>(bytes));
    drop(decode::<ScrubQuestion>(bytes));
    drop(decode::<ScrubAnswer>(bytes));
    drop(decode::<crate::replication::scrub::Progress>(bytes));
    drop(decode::<(u16, Taken)>(bytes));
    drop(decode::<crate::state::forward::Forwarded>(bytes));
    drop(decode::<crate::state::forward::Answer>(bytes));
    drop(decode::<crate::state::clients::ClientsAsked>(bytes));
    drop(decode::<crate::state::clients::ClientsAbsent>(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused_or_understood(bytes: Vec<u8>) {
            decode_as_anything(&bytes);
        }
    }
}

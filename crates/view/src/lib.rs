//! Views: which replicas are configured, which are active, agreed by a majority of all configured ones.
//!
//! Every member of a replication set runs [`Views`]. Its state is a [`ViewState`], changed by [`Decision`]s
//! only, in one order at all members; the Raft library behind it lives in `raft` and is named nowhere else.
//! Read on in `state` (pure: what each decision does, and when it is refused), [`Transport`] and [`StableStorage`]
//! (what the owner provides), [`Views`] (what the owner calls) and [`force`] (when the majority is gone for
//! ever).
//!
//! What must never enter: who has failed (the member that finds that out proposes
//! [`DecisionKind::Exclude`]), site leases, replication control, sockets and disks.

mod audit;
mod bytes;
mod decision;
mod encoded;
mod error;
mod raft;
mod recovery;
mod settings;
mod stable_storage;
mod state;
#[cfg(test)]
mod tests;
mod transport;
mod views;
mod warrant;

/// Takes arbitrary bytes apart as what is said about views and stands in their log, for fuzzing; nothing comes of it.
#[doc(hidden)]
pub fn decode_as_anything(message: &[u8]) {
    raft::decode_as_anything(message);
    drop(bytes::decode::<Command>(message));
    drop(bytes::decode::<ViewState>(message));
}

use decision::Command;

pub use audit::{AUDIT_ENTRIES_MAX, AuditEntry, REASON_BYTES_MAX};
pub use decision::{
    Decision, DecisionKind, JUNCTION_BYTES_MAX, JUNCTIONS_MAX, Outcome, Referral,
    SETTLEMENT_NAMES_MAX, SettledBy, Settlement,
};
pub use error::ViewError;
pub use recovery::{force, last_known};
pub use settings::Settings;
pub use stable_storage::{Change, StableStorage, StableStorageError};
pub use state::{Exclusion, Kind, Loss, MEMBERS_MAX, MemberState, StreamEnd, ViewState};
pub use transport::{MESSAGE_BYTES_MAX, Transport, TransportError};
pub use views::Views;
pub use warrant::Warrant;

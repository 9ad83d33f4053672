//! Views: which replicas are configured and which are active, as agreed by a majority of the configured replicas.
//!
//! Every member of a replication set runs [`Views`]. Its state is a [`ViewState`]. Only [`Decision`]s change it, in the
//! same order at all members. The Raft library is used only in `raft`. Read on in `state` (pure: the effect of each
//! decision, and when it is refused), [`Transport`] and [`StableStorage`] (which the owner provides), [`Views`] (which
//! the owner calls) and [`force`] (for when the majority is gone for ever).
//!
//! What must never enter: failure detection (the member that detects a failure proposes [`DecisionKind::Exclude`]),
//! site leases, replication control, sockets and disks.

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

/// Decodes arbitrary bytes as messages about views and as entries of their log, for fuzzing. The result is discarded.
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

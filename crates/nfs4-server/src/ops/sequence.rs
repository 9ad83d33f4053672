//! The result of SEQUENCE (RFC 8881, section 18.46). The request was accepted before.

use nfs4::{SequenceArgs, SequenceResOk, seq4_status};

use crate::state::{BackChannelHealth, SessionChannel};

/// The state of a client that every SEQUENCE reports.
pub(crate) struct SessionHealth {
    /// Which back channels are broken.
    pub(crate) back: BackChannelHealth,
    /// Whether it has to reclaim its state from another server.
    pub(crate) reclaim_needed: bool,
    /// Whether a tree with state of the client has moved to other servers.
    pub(crate) lease_moved: bool,
}

pub(crate) fn sequence_result(
    args: &SequenceArgs,
    channel: &SessionChannel,
    health: SessionHealth,
) -> SequenceResOk {
    let back = health.back;
    let highest = channel.slots - 1;
    SequenceResOk {
        sessionid: args.sessionid,
        sequenceid: args.sequenceid,
        slotid: args.slotid,
        highest_slotid: highest,
        target_highest_slotid: highest,
        status_flags: flag(back.session_down, seq4_status::CB_PATH_DOWN_SESSION)
            | flag(back.client_down, seq4_status::CB_PATH_DOWN)
            | flag(health.reclaim_needed, seq4_status::RESTART_RECLAIM_NEEDED)
            | flag(health.lease_moved, seq4_status::LEASE_MOVED),
    }
}

fn flag(is_set: bool, bit: u32) -> u32 {
    if is_set { bit } else { 0 }
}

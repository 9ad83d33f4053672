//! The result of SEQUENCE (RFC 8881, section 18.46). Whether it is accepted was decided before.

use nfs4::{SequenceArgs, SequenceResOk, seq4_status};

use crate::state::{BackChannelHealth, SessionChannel};

pub(crate) fn sequence_result(
    args: &SequenceArgs,
    channel: &SessionChannel,
    back: BackChannelHealth,
) -> SequenceResOk {
    let highest = channel.slots - 1;
    SequenceResOk {
        sessionid: args.sessionid,
        sequenceid: args.sequenceid,
        slotid: args.slotid,
        highest_slotid: highest,
        target_highest_slotid: highest,
        status_flags: flag(back.session_down, seq4_status::CB_PATH_DOWN_SESSION)
            | flag(back.client_down, seq4_status::CB_PATH_DOWN),
    }
}

fn flag(is_set: bool, bit: u32) -> u32 {
    if is_set { bit } else { 0 }
}

//! The result of SEQUENCE (RFC 8881, section 18.46). Whether it is accepted was decided before.

use nfs4::{SequenceArgs, SequenceResOk, seq4_status};

use crate::state::SessionChannel;

pub(crate) fn sequence_result(
    args: &SequenceArgs,
    channel: &SessionChannel,
    callback_path_down: bool,
) -> SequenceResOk {
    let highest = channel.slots - 1;
    SequenceResOk {
        sessionid: args.sessionid,
        sequenceid: args.sequenceid,
        slotid: args.slotid,
        highest_slotid: highest,
        target_highest_slotid: highest,
        status_flags: if callback_path_down {
            seq4_status::CB_PATH_DOWN
        } else {
            0
        },
    }
}

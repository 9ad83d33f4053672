//! The answer to a client or a file with the maximum number of opens or locks. The operations have no status for this
//! (RFC 8881, section 15.2), and a client that is told to wait would wait for its own state.
//!
//! What must never enter: the maximum numbers.

use std::net::SocketAddr;
use std::time::Instant;

use nfs4::NfsStat4;
use throttle::Throttle;

/// One for the whole process, like the log itself.
static TOO_MANY: Throttle = Throttle::new();
const RANGES: throttle::Subject = ("too many locked ranges", 0);
const OPENS: throttle::Subject = ("too many opens", 0);

/// The status when no further range can be locked or unlocked.
pub(super) fn too_many_ranges(peer: SocketAddr) -> NfsStat4 {
    if let Some(sum) = TOO_MANY.failed(RANGES, Instant::now()) {
        tracing::warn!(
            %peer, %sum,
            "too many locked ranges, of the client or of the file: it gets no more, and an error"
        );
    }
    NfsStat4::ServerFault
}

/// The status when no further open or lock owner is possible.
pub(super) fn too_many_opens(peer: SocketAddr) -> NfsStat4 {
    if let Some(sum) = TOO_MANY.failed(OPENS, Instant::now()) {
        tracing::warn!(
            %peer, %sum,
            "too many opens or lock states, of the client or of the file: it gets no more, and an error"
        );
    }
    NfsStat4::ServerFault
}

/// The status for a client when the tables have no space.
pub(super) fn no_more_states(status: NfsStat4, peer: SocketAddr) -> NfsStat4 {
    match status {
        NfsStat4::ServerFault => too_many_opens(peer),
        status => status,
    }
}

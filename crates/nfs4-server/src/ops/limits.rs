//! What is said to a client that has as many opens or locks as it may have, or whose file has. No status of theirs says that (RFC
//! 8881, section 15.2), and who was told to wait would wait for what it holds itself.
//!
//! What must never enter: how many there may be.

use std::net::SocketAddr;
use std::time::Instant;

use nfs4::NfsStat4;
use throttle::Throttle;

/// Like the log itself, one for the whole process.
static TOO_MANY: Throttle = Throttle::new();
const RANGES: throttle::Subject = ("too many locked ranges", 0);
const OPENS: throttle::Subject = ("too many opens", 0);

/// One more range cannot be locked, or unlocked.
pub(super) fn too_many_ranges(peer: SocketAddr) -> NfsStat4 {
    if let Some(sum) = TOO_MANY.failed(RANGES, Instant::now()) {
        tracing::warn!(
            %peer, %sum,
            "too many locked ranges, of the client or of the file: it gets no more, and an error"
        );
    }
    NfsStat4::ServerFault
}

/// One more open, or one more owner of locks, cannot be had.
pub(super) fn too_many_opens(peer: SocketAddr) -> NfsStat4 {
    if let Some(sum) = TOO_MANY.failed(OPENS, Instant::now()) {
        tracing::warn!(
            %peer, %sum,
            "too many opens or lock states, of the client or of the file: it gets no more, and an error"
        );
    }
    NfsStat4::ServerFault
}

/// What is said to a client for which there is no space in the tables.
pub(super) fn no_more_states(status: NfsStat4, peer: SocketAddr) -> NfsStat4 {
    match status {
        NfsStat4::ServerFault => too_many_opens(peer),
        status => status,
    }
}

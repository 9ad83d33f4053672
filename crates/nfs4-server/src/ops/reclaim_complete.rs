//! RECLAIM_COMPLETE: a client has finished reclaiming, or had nothing to reclaim (RFC 8881, section 18.51).

use nfs4::{NfsStat4, ReclaimCompleteArgs};
use throttle::Throttle;

use crate::compound::Compound;

/// Logs clients that cannot be recorded once, and later with a count.
static UNRECORDED: Throttle = Throttle::new();
const UNWRITTEN: throttle::Subject = ("a client record cannot be written", 0);

pub(crate) async fn reclaim_complete(
    compound: &mut Compound<'_>,
    args: ReclaimCompleteArgs,
) -> Result<(), NfsStat4> {
    let session = compound.session()?;
    if args.one_fs {
        // No file system of this server was moved from another server, so there is nothing to end.
        compound.current()?;
        return Ok(());
    }
    let service = compound.service;
    let given_up = service
        .state()
        .is_being_given_up(session.client, service.now());
    if let Some(name) = given_up {
        let mut exports = service.namespace.exports().iter();
        let holds = |held: vfs::Holdings| !held.of(std::slice::from_ref(&name)).is_empty();
        if exports.any(|export| holds(export.file_system.holdings())) {
            // State that it gets from here on must not be mistaken for its old state.
            return Err(NfsStat4::Delay);
        }
    }
    let recording = service.state().owner_to_record(session.client)?;
    if let Some(recording) = &recording {
        // After this the client may have state, so the next incarnation must know the client. Without the record, a
        // restart would lose the state. So the client waits: a full disk will not stay full for ever.
        if let Err(error) = service.records.add(recording.record.clone()).await {
            if let Some(sum) = UNRECORDED.failed(UNWRITTEN, service.now()) {
                tracing::error!(%error, %sum, "a client cannot be recorded, and waits");
            }
            return Err(NfsStat4::Delay);
        }
        // It may have been evicted in the meantime. No client can come under its name before this request ends.
        let is_gone = service.state().client_name(session.client).is_none();
        if is_gone && let Err(error) = service.records.remove(recording.record.owner.clone()).await
        {
            tracing::error!(%error, "cannot remove a client record");
        }
    }
    let mut state = service.state();
    state.reclaim_complete(session.client, recording.as_ref())
}

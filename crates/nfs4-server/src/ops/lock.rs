//! LOCK (RFC 8881, section 18.10).

use std::net::SocketAddr;

use nfs4::{
    Lock4Denied, LockArgs, LockRes, LockResOk, Locker4, NfsLockType4, NfsStat4, StateOwner4,
};
use vfs::{ByteRange, LockConflict, LockKind};
use xdr::Bytes;

use super::limits::{no_more_states, too_many_ranges};
use super::space::Space;
use crate::callback::LockWaiter;
use crate::compound::Compound;
use crate::handle::ObjectHandle;
use crate::service::Service;
use crate::state::{ClientId, FileKey, LockGrant, Reclaim, State, StateKind};
use crate::status::{OrStatus, status_of};

pub(crate) async fn lock(compound: &mut Compound<'_>, args: LockArgs) -> LockRes {
    match attempt(compound, &args).await {
        Ok(Ok(granted)) => LockRes::Ok(granted),
        Ok(Err(denied)) => LockRes::Denied(denied),
        Err(status) => LockRes::Err(status),
    }
}

async fn attempt(
    compound: &mut Compound<'_>,
    args: &LockArgs,
) -> Result<Result<LockResOk, Lock4Denied>, NfsStat4> {
    let session = compound.session()?;
    let service = compound.service;
    let object = compound.current_object(NfsStat4::IsDir)?;
    let range = byte_range(args.offset, args.length)?;
    let kind = kind_of(args.locktype);
    let reclaim = if args.reclaim {
        Reclaim::Yes
    } else {
        Reclaim::No
    };
    let file = object.key();

    let _gate = service.gates.pass(session.client, file).await;
    let admitted = service.admit(session.client, reclaim)?;
    if reclaim == Reclaim::No && object.export.file_system.others_reclaim() {
        return Err(NfsStat4::Grace);
    }
    let grant = find(compound, &object, &args.locker)?;
    let space = space_for(compound, &grant, file)?;
    let allowed = match kind {
        LockKind::Read => grant.share.read,
        LockKind::Write => grant.share.write,
    };
    if !allowed {
        return Err(NfsStat4::OpenMode);
    }
    let went_on = || object.export.file_system.others_went_on(object.id);
    if reclaim == Reclaim::Yes && (!admitted.is_by_grace() || went_on()) {
        prove(&object, &grant, range, kind).await?;
    }
    let peer = compound.connection.peer();
    let refused = |error: vfs::Error| refusal(&error, peer);
    let mut outcome = try_lock(&object, &grant, range, kind)
        .await
        .map_err(refused)?;
    if outcome.is_err() && reclaim == Reclaim::Yes {
        return Err(NfsStat4::ReclaimConflict);
    }
    if outcome.is_err() && args.locktype.is_waiting() {
        let waiter = LockWaiter {
            client: session.client,
            owner: Bytes::copy_from_slice(&grant.owner.owner),
            handle: object.file_handle().encode(),
        };
        service.callbacks.wait(file, waiter);
        // The lock may have been released before the waiter was recorded.
        outcome = try_lock(&object, &grant, range, kind)
            .await
            .map_err(refused)?;
    }
    if let Err(conflict) = outcome {
        return Ok(Err(denied(service, session.client, &conflict)));
    }
    let recorded = record(compound, &object, &grant, (range, kind), space).await;
    recorded.map(Ok)
}

/// Records a lock that the file system has granted in the state tables.
async fn record(
    compound: &mut Compound<'_>,
    object: &ObjectHandle,
    grant: &LockGrant,
    (range, kind): (ByteRange, LockKind),
    space: Option<Space<'_>>,
) -> Result<LockResOk, NfsStat4> {
    let (service, file) = (compound.service, object.key());
    let client = compound.session()?.client;
    let enter = |state: &mut State| state.record_lock(client, grant, file);
    let recorded = match space {
        Some(space) => space.enter(enter),
        None => enter(&mut service.state()),
    };
    match recorded {
        Ok(stateid) => {
            if kind == LockKind::Read {
                // It may have replaced a write lock, so readers may get the lock now.
                service.locks_changed(file);
            }
            compound.current_stateid = Some(stateid);
            Ok(LockResOk {
                lock_stateid: stateid,
            })
        }
        Err(status) => {
            // The client has expired in the meantime: otherwise the lock would never be released.
            object
                .export
                .file_system
                .unlock(object.id, &grant.owner, range)
                .await
                .or_status()?;
            Err(status)
        }
    }
}

/// The lock state of a request: existing, or to be created under an open.
fn find(
    compound: &Compound<'_>,
    object: &ObjectHandle,
    locker: &Locker4,
) -> Result<LockGrant, NfsStat4> {
    let client = compound.session()?.client;
    let state = compound.service.state();
    match locker {
        Locker4::OpenOwner(new) => {
            let stateid = compound.substitute(new.open_stateid)?;
            state.first_lock(client, &stateid, &new.lock_owner.owner, object.key())
        }
        Locker4::LockOwner(known) => {
            let stateid = compound.substitute(known.lock_stateid)?;
            state.known_lock(client, &stateid, object.key())
        }
    }
}

/// Reserves space for a lock state, if the owner has none for this file.
fn space_for<'a>(
    compound: &Compound<'a>,
    grant: &'a LockGrant,
    file: FileKey,
) -> Result<Option<Space<'a>>, NfsStat4> {
    let (service, client) = (compound.service, compound.session()?.client);
    if service.state().has_lock_state(client, grant, file) {
        return Ok(None);
    }
    let kept = Space::keep(service, client, &grant.owner.owner, StateKind::Lock);
    let space = kept.map_err(|status| no_more_states(status, compound.connection.peer()))?;
    Ok(Some(space))
}

/// Fails unless the owner still has state for the file. If it does not, its locks were given up, and another owner may
/// have had them in between. Then the owner must not believe that it had them all the time.
async fn prove(
    object: &ObjectHandle,
    grant: &LockGrant,
    range: ByteRange,
    kind: LockKind,
) -> Result<(), NfsStat4> {
    let (file_system, owner) = (&object.export.file_system, &grant.owner);
    if file_system.holds_lock(object.id, owner).await.or_status()? {
        return Ok(());
    }
    let conflict = file_system.test_lock(object.id, owner, range, kind).await;
    Err(match conflict.or_status()? {
        Some(_) => NfsStat4::ReclaimConflict,
        None => NfsStat4::ReclaimBad,
    })
}

async fn try_lock(
    object: &ObjectHandle,
    grant: &LockGrant,
    range: ByteRange,
    kind: LockKind,
) -> vfs::Result<Result<(), Box<LockConflict>>> {
    match object
        .export
        .file_system
        .lock(object.id, &grant.owner, range, kind)
        .await
    {
        Ok(()) => Ok(Ok(())),
        Err(vfs::Error::Locked(conflict)) => Ok(Err(conflict)),
        Err(error) => Err(error),
    }
}

/// The status of LOCK or LOCKU when the file system refuses.
pub(super) fn refusal(error: &vfs::Error, peer: SocketAddr) -> NfsStat4 {
    match error {
        vfs::Error::NoSpace => too_many_ranges(peer),
        error => status_of(error),
    }
}

/// The byte range of a LOCK, LOCKT or LOCKU.
pub(super) fn byte_range(offset: u64, length: u64) -> Result<ByteRange, NfsStat4> {
    ByteRange::from_offset_and_length(offset, length).ok_or(NfsStat4::Inval)
}

pub(super) fn kind_of(locktype: NfsLockType4) -> LockKind {
    if locktype.is_write() {
        LockKind::Write
    } else {
        LockKind::Read
    }
}

/// Describes the conflicting lock to a client. If the holder is another client, or a client of another server, the
/// clientid is 0: a host that knows the clientid of another client can create sessions in its name.
pub(super) fn denied(service: &Service, client: ClientId, conflict: &LockConflict) -> Lock4Denied {
    let holder = service.state().client_named(&conflict.owner.client);
    let holder = holder.filter(|holder| *holder == client);
    Lock4Denied {
        offset: conflict.range.start(),
        length: conflict.range.length(),
        locktype: match conflict.kind {
            LockKind::Read => NfsLockType4::Read,
            LockKind::Write => NfsLockType4::Write,
        },
        owner: StateOwner4 {
            clientid: holder.map_or(0, |client| client.0),
            owner: Bytes::copy_from_slice(&conflict.owner.owner),
        },
    }
}

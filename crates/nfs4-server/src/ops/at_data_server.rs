//! The operations of a data server (RFC 8881, section 13.6): the usual sessions, and READ, WRITE and COMMIT as far as the handle allows. GETATTR has few
//! attributes, for clients that send it in the same COMPOUND. Nothing else is supported.

use std::sync::Arc;

use nfs4::attributes::fh_expire;
use nfs4::{
    ArgOp4, Attr, Attributes4, Bitmap4, CommitArgs, CommitResOk, GetattrArgs, GetattrResOk,
    NfsFtype4, NfsStat4, PutfhArgs, ReadArgs, ReadResOk, ResOp4, Verifier4, WriteArgs, WriteResOk,
};
use xdr::Bytes;

use super::io::{IO_BYTES_MAX, stability, write_result};
use super::{
    bind_conn_to_session, create_session, destroy_clientid, destroy_session, exchange_id,
    reclaim_complete, refuse, status,
};
use crate::attributes::check_readable;
use crate::compound::Compound;
use crate::data_server::{DataServer, NotServed, Shown};
use crate::reply;

/// The attributes of GETATTR.
const READABLE: Bitmap4 = Bitmap4::of(&[
    Attr::SupportedAttrs,
    Attr::Type,
    Attr::FhExpireType,
    Attr::Size,
    Attr::LeaseTime,
    Attr::Maxread,
    Attr::Maxwrite,
    Attr::SpaceUsed,
]);

/// Executes one operation.
#[rustfmt::skip]
pub(super) async fn execute(
    c: &mut Compound<'_>,
    server: &Arc<dyn DataServer>,
    operation: ArgOp4,
) -> ResOp4 {
    use ArgOp4 as Arg;
    use ResOp4 as Res;
    match operation {
        Arg::BindConnToSession(a) =>
            Res::BindConnToSession(bind_conn_to_session::bind_conn_to_session(c, a).await),
        Arg::Commit(a) => Res::Commit(commit(c, &**server, a).await),
        Arg::CreateSession(a) => Res::CreateSession(create_session::create_session(c, a).await),
        Arg::DestroyClientid(a) =>
            Res::DestroyClientid(status(destroy_clientid::destroy_clientid(c, a).await)),
        Arg::DestroySession(a) =>
            Res::DestroySession(status(destroy_session::destroy_session(c, a).await)),
        Arg::ExchangeId(a) => Res::ExchangeId(exchange_id::exchange_id(c, a).await),
        Arg::Getattr(a) => Res::Getattr(getattr(c, &**server, a).await),
        Arg::Putfh(a) => Res::Putfh(status(putfh(c, &**server, a).await)),
        Arg::Read(a) => Res::Read(read(c, &**server, a).await),
        Arg::ReclaimComplete(a) =>
            Res::ReclaimComplete(status(reclaim_complete::reclaim_complete(c, a).await)),
        Arg::Write(a) => Res::Write(write(c, &**server, a).await),
        refused => refuse(c, &refused),
    }
}

fn status_of(reason: NotServed) -> NfsStat4 {
    match reason {
        NotServed::Stale => NfsStat4::Stale,
        NotServed::Hole => NfsStat4::PnfsIoHole,
        NotServed::Failed(error) => crate::status::status_of(&error),
    }
}

/// The handle from PUTFH.
fn current(compound: &Compound<'_>) -> Result<Bytes, NfsStat4> {
    compound.contents.clone().ok_or(NfsStat4::NoFileHandle)
}

/// The handle with the identification of the connection.
fn shown<'h>(compound: &Compound<'_>, handle: &'h Bytes) -> Result<Shown<'h>, NfsStat4> {
    let connected = compound.service.connected(compound.connection.id());
    Ok(Shown {
        handle,
        connected: connected.ok_or(NfsStat4::Stale)?,
    })
}

async fn putfh(
    compound: &mut Compound<'_>,
    server: &dyn DataServer,
    args: PutfhArgs,
) -> Result<(), NfsStat4> {
    let shown = shown(compound, &args.object.0)?;
    server.check(shown).await.map_err(status_of)?;
    compound.contents = Some(args.object.0);
    Ok(())
}

async fn read(
    compound: &Compound<'_>,
    server: &dyn DataServer,
    args: ReadArgs,
) -> Result<ReadResOk, NfsStat4> {
    let handle = current(compound)?;
    let space = u32::try_from(compound.payload_space()).unwrap_or(u32::MAX);
    if space == 0 && args.count > 0 {
        return Err(reply::too_big(compound));
    }
    let count = args.count.min(IO_BYTES_MAX).min(space);
    let data = server
        .read(shown(compound, &handle)?, args.offset, count)
        .await;
    let data = data.map_err(status_of)?;
    compound.service.observer.bytes_read(data.len() as u64);
    // Only the metadata server knows where the file ends.
    Ok(ReadResOk { eof: false, data })
}

async fn write(
    compound: &Compound<'_>,
    server: &dyn DataServer,
    args: WriteArgs,
) -> Result<WriteResOk, NfsStat4> {
    let handle = current(compound)?;
    let mut data = args.data;
    data.truncate(IO_BYTES_MAX as usize);
    let stability = stability(args.stable);
    let written = server
        .write(shown(compound, &handle)?, args.offset, data, stability)
        .await;
    let written = written.map_err(status_of)?;
    let observer = &compound.service.observer;
    observer.bytes_written(u64::from(written.count));
    Ok(write_result(&written))
}

async fn commit(
    compound: &Compound<'_>,
    server: &dyn DataServer,
    args: CommitArgs,
) -> Result<CommitResOk, NfsStat4> {
    let handle = current(compound)?;
    if args.offset.checked_add(u64::from(args.count)).is_none() {
        return Err(NfsStat4::Inval);
    }
    let done = server
        .commit(shown(compound, &handle)?)
        .await
        .map_err(status_of)?;
    Ok(CommitResOk {
        writeverf: Verifier4(done.verifier.0),
    })
}

async fn getattr(
    compound: &Compound<'_>,
    server: &dyn DataServer,
    args: GetattrArgs,
) -> Result<GetattrResOk, NfsStat4> {
    let handle = current(compound)?;
    check_readable(&args.attr_request)?;
    let extent = server
        .extent(shown(compound, &handle)?)
        .await
        .map_err(status_of)?;
    let lease = compound.service.state().limits().lease.as_secs();
    let values = Attributes4 {
        supported_attrs: Some(READABLE),
        type_: Some(NfsFtype4::Reg),
        fh_expire_type: Some(fh_expire::VOLATILE_ANY),
        size: Some(extent.end),
        lease_time: Some(u32::try_from(lease).unwrap_or(u32::MAX)),
        maxread: Some(IO_BYTES_MAX.into()),
        maxwrite: Some(IO_BYTES_MAX.into()),
        space_used: Some(extent.space_used),
        ..Attributes4::default()
    };
    Ok(GetattrResOk {
        obj_attributes: values.encode(&(args.attr_request & READABLE)),
    })
}

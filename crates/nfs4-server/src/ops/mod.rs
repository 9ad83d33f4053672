//! The operations, one per file, and the table that dispatches to them.
//!
//! An operation gets its COMPOUND and its arguments, and returns its result. It uses file systems through
//! [`vfs::FileSystem`] and the state tables; it never sees a socket.

mod access;
mod allocate;
mod at_data_server;
mod backchannel_ctl;
mod bind_conn_to_session;
mod close;
mod commit;
mod create;
mod create_session;
mod deallocate;
mod destroy_clientid;
mod destroy_session;
mod directory;
mod exchange_id;
mod free_stateid;
mod getattr;
mod getdeviceinfo;
mod getdevicelist;
mod getfh;
mod getxattr;
mod io;
mod io_advise;
mod layoutcommit;
mod layoutget;
mod layoutreturn;
mod limits;
mod link;
mod listxattrs;
mod lock;
mod lockt;
mod locku;
mod lookup;
mod lookupp;
mod nverify;
mod open;
mod open_downgrade;
mod openattr;
mod putfh;
mod putpubfh;
mod putrootfh;
mod read;
mod readdir;
mod readlink;
mod reclaim_complete;
mod remove;
mod removexattr;
mod rename;
mod restorefh;
mod savefh;
mod secinfo;
mod secinfo_no_name;
mod seek;
mod sequence;
mod setattr;
mod setxattr;
mod space;
mod test_stateid;
mod verify;
mod write;

use std::pin::pin;

use nfs4::{ArgOp4, NfsStat4, Opnum, ResOp4};

use crate::compound::Compound;
use crate::panics;

pub(crate) use io::IO_BYTES_MAX;
pub(crate) use open::repeated as repeated_open;
pub(crate) use sequence::{SessionHealth, sequence_result};

/// The status of an operation without further results.
fn status(outcome: Result<(), NfsStat4>) -> NfsStat4 {
    outcome.err().unwrap_or(NfsStat4::Ok)
}

/// Executes one operation. If it panics, only this operation fails: the reply has the results before it, and is cached like any other.
pub(crate) async fn execute(compound: &mut Compound<'_>, operation: ArgOp4) -> ResOp4 {
    let number = operation.opnum();
    let name = || Opnum::try_from(number).map_or_else(|_| number.to_string(), |op| op.to_string());
    let dispatched = pin!(dispatch(compound, operation));
    let result = panics::caught(name, dispatched).await;
    result.unwrap_or(ResOp4::Failed(number, NfsStat4::ServerFault))
}

#[rustfmt::skip]
async fn dispatch(c: &mut Compound<'_>, operation: ArgOp4) -> ResOp4 {
    use ArgOp4 as Arg;
    use ResOp4 as Res;
    if let Some(server) = &c.service.data_server {
        return at_data_server::execute(c, server, operation).await;
    }
    match operation {
        Arg::Access(a) => Res::Access(access::access(c, a).await),
        Arg::Allocate(a) => Res::Allocate(status(allocate::allocate(c, a).await)),
        Arg::BackchannelCtl(a) =>
            Res::BackchannelCtl(status(backchannel_ctl::backchannel_ctl(c, a).await)),
        Arg::BindConnToSession(a) =>
            Res::BindConnToSession(bind_conn_to_session::bind_conn_to_session(c, a).await),
        Arg::Close(a) => Res::Close(close::close(c, a).await),
        Arg::Commit(a) => Res::Commit(commit::commit(c, a).await),
        Arg::Create(a) => Res::Create(create::create(c, a).await),
        Arg::CreateSession(a) => Res::CreateSession(create_session::create_session(c, a).await),
        Arg::Deallocate(a) => Res::Deallocate(status(deallocate::deallocate(c, a).await)),
        Arg::DestroyClientid(a) =>
            Res::DestroyClientid(status(destroy_clientid::destroy_clientid(c, a).await)),
        Arg::DestroySession(a) =>
            Res::DestroySession(status(destroy_session::destroy_session(c, a).await)),
        Arg::ExchangeId(a) => Res::ExchangeId(exchange_id::exchange_id(c, a).await),
        Arg::FreeStateid(a) => Res::FreeStateid(status(free_stateid::free_stateid(c, a).await)),
        Arg::Getattr(a) => Res::Getattr(getattr::getattr(c, a).await),
        Arg::Getdeviceinfo(a) if c.service.offers_layouts() =>
            Res::Getdeviceinfo(getdeviceinfo::getdeviceinfo(c, a).await),
        Arg::Getdevicelist(a) if c.service.offers_layouts() =>
            Res::Getdevicelist(getdevicelist::getdevicelist(c, a).await),
        Arg::Getfh => Res::Getfh(getfh::getfh(c).await),
        Arg::Getxattr(a) => Res::Getxattr(getxattr::getxattr(c, a).await),
        Arg::IoAdvise(a) => Res::IoAdvise(io_advise::io_advise(c, a).await),
        Arg::Layoutcommit(a) if c.service.offers_layouts() =>
            Res::Layoutcommit(layoutcommit::layoutcommit(c, a).await),
        Arg::Layoutget(a) if c.service.offers_layouts() =>
            Res::Layoutget(layoutget::layoutget(c, a).await),
        Arg::Layoutreturn(a) if c.service.offers_layouts() =>
            Res::Layoutreturn(layoutreturn::layoutreturn(c, a).await),
        Arg::Link(a) => Res::Link(link::link(c, a).await),
        Arg::Listxattrs(a) => Res::Listxattrs(listxattrs::listxattrs(c, a).await),
        Arg::Lock(a) => Res::Lock(lock::lock(c, a).await),
        Arg::Lockt(a) => Res::Lockt(lockt::lockt(c, a).await),
        Arg::Locku(a) => Res::Locku(locku::locku(c, a).await),
        Arg::Lookup(a) => Res::Lookup(status(lookup::lookup(c, a).await)),
        Arg::Lookupp => Res::Lookupp(status(lookupp::lookupp(c).await)),
        Arg::Nverify(a) => Res::Nverify(status(nverify::nverify(c, a).await)),
        Arg::Open(a) => Res::Open(open::open(c, a).await),
        Arg::OpenDowngrade(a) => Res::OpenDowngrade(open_downgrade::open_downgrade(c, a).await),
        Arg::Openattr(a) => Res::Openattr(status(openattr::openattr(c, a).await)),
        Arg::Putfh(a) => Res::Putfh(status(putfh::putfh(c, a).await)),
        Arg::Putpubfh => Res::Putpubfh(status(putpubfh::putpubfh(c).await)),
        Arg::Putrootfh => Res::Putrootfh(status(putrootfh::putrootfh(c).await)),
        Arg::Read(a) => Res::Read(read::read(c, a).await),
        Arg::Readdir(a) => Res::Readdir(readdir::readdir(c, a).await),
        Arg::Readlink => Res::Readlink(readlink::readlink(c).await),
        Arg::ReclaimComplete(a) =>
            Res::ReclaimComplete(status(reclaim_complete::reclaim_complete(c, a).await)),
        Arg::Remove(a) => Res::Remove(remove::remove(c, a).await),
        Arg::Removexattr(a) => Res::Removexattr(removexattr::removexattr(c, a).await),
        Arg::Rename(a) => Res::Rename(rename::rename(c, a).await),
        Arg::Restorefh => Res::Restorefh(status(restorefh::restorefh(c).await)),
        Arg::Savefh => Res::Savefh(status(savefh::savefh(c).await)),
        Arg::Secinfo(a) => Res::Secinfo(secinfo::secinfo(c, a).await),
        Arg::SecinfoNoName(a) => Res::SecinfoNoName(secinfo_no_name::secinfo_no_name(c, a).await),
        Arg::Seek(a) => Res::Seek(seek::seek(c, a).await),
        Arg::Setattr(a) => Res::Setattr(setattr::setattr(c, a).await),
        Arg::Setxattr(a) => Res::Setxattr(setxattr::setxattr(c, a).await),
        Arg::TestStateid(a) => Res::TestStateid(test_stateid::test_stateid(c, a).await),
        Arg::Verify(a) => Res::Verify(status(verify::verify(c, a).await)),
        Arg::Write(a) => Res::Write(write::write(c, a).await),
        refused => refuse(c, &refused),
    }
}

/// Operations that this server knows but does not support (RFC 8881, section 17).
fn refuse(compound: &Compound<'_>, operation: &ArgOp4) -> ResOp4 {
    let status = match operation {
        ArgOp4::Illegal(_) => NfsStat4::OpIllegal,
        ArgOp4::Sequence(_) => NfsStat4::SequencePos,
        // No delegation was ever granted, so no stateid is valid for one.
        ArgOp4::Delegreturn(_) => compound.current().err().unwrap_or(NfsStat4::BadStateid),
        // There is no SSV without SP4_SSV (RFC 8881, section 18.47.3).
        ArgOp4::SetSsv(_) => NfsStat4::Inval,
        _ => NfsStat4::NotSupp,
    };
    ResOp4::Failed(operation.opnum(), status)
}

//! Short forms of operations, for requests composed by hand: [`crate::Client::compound`].
//!
//! What must never enter: operations with many arguments; their structures in `nfs4`
//! are as readable.

use bytes::Bytes;
use nfs4::{
    AccessArgs, ArgOp4, Bitmap4, CloseArgs, CommitArgs, Component4, CreateArgs, CreateType4,
    Fattr4, GetattrArgs, LayoutIomode4, Layoutreturn4, LayoutreturnArgs, LinkArgs, LookupArgs,
    NfsFh4, Opnum, PutfhArgs, ReadArgs, ReaddirArgs, RemoveArgs, RenameArgs, SetattrArgs,
    StableHow4, Stateid4, Verifier4, WriteArgs, layout_type,
};

/// PUTROOTFH: the root of the pseudo file system.
pub fn putrootfh() -> ArgOp4 {
    ArgOp4::Putrootfh
}

/// PUTFH.
pub fn putfh(object: &NfsFh4) -> ArgOp4 {
    ArgOp4::Putfh(PutfhArgs {
        object: object.clone(),
    })
}

/// GETFH.
pub fn getfh() -> ArgOp4 {
    ArgOp4::Getfh
}

/// SAVEFH.
pub fn savefh() -> ArgOp4 {
    ArgOp4::Savefh
}

/// LOOKUP.
pub fn lookup(name: impl Into<Component4>) -> ArgOp4 {
    ArgOp4::Lookup(LookupArgs {
        objname: name.into(),
    })
}

/// GETATTR.
pub fn getattr(wanted: Bitmap4) -> ArgOp4 {
    ArgOp4::Getattr(GetattrArgs {
        attr_request: wanted,
    })
}

/// SETATTR.
pub fn setattr(stateid: Stateid4, obj_attributes: Fattr4) -> ArgOp4 {
    ArgOp4::Setattr(SetattrArgs {
        stateid,
        obj_attributes,
    })
}

/// ACCESS, with bits of [`nfs4::access`].
pub fn access(access: u32) -> ArgOp4 {
    ArgOp4::Access(AccessArgs { access })
}

/// CREATE: anything but a regular file.
pub fn create(objtype: CreateType4, name: impl Into<Component4>, createattrs: Fattr4) -> ArgOp4 {
    ArgOp4::Create(CreateArgs {
        objtype,
        objname: name.into(),
        createattrs,
    })
}

/// REMOVE.
pub fn remove(name: impl Into<Component4>) -> ArgOp4 {
    ArgOp4::Remove(RemoveArgs {
        target: name.into(),
    })
}

/// RENAME, from the saved into the current directory.
pub fn rename(old: impl Into<Component4>, new: impl Into<Component4>) -> ArgOp4 {
    ArgOp4::Rename(RenameArgs {
        oldname: old.into(),
        newname: new.into(),
    })
}

/// LINK, of the saved object into the current directory.
pub fn link(name: impl Into<Component4>) -> ArgOp4 {
    ArgOp4::Link(LinkArgs {
        newname: name.into(),
    })
}

/// READLINK.
pub fn readlink() -> ArgOp4 {
    ArgOp4::Readlink
}

/// READDIR of one page. Of `maxcount` bytes in the reply, `dircount` hints at how many may be
/// names and cookies; equal values leave it to the server.
pub fn readdir(cookie: u64, cookieverf: Verifier4, maxcount: u32, wanted: Bitmap4) -> ArgOp4 {
    ArgOp4::Readdir(ReaddirArgs {
        cookie,
        cookieverf,
        dircount: maxcount,
        maxcount,
        attr_request: wanted,
    })
}

/// READ.
pub fn read(stateid: Stateid4, offset: u64, count: u32) -> ArgOp4 {
    ArgOp4::Read(ReadArgs {
        stateid,
        offset,
        count,
    })
}

/// WRITE.
pub fn write(stateid: Stateid4, offset: u64, stable: StableHow4, data: Bytes) -> ArgOp4 {
    ArgOp4::Write(WriteArgs {
        stateid,
        offset,
        stable,
        data,
    })
}

/// COMMIT; a count of zero means "to the end of the file".
pub fn commit(offset: u64, count: u32) -> ArgOp4 {
    ArgOp4::Commit(CommitArgs { offset, count })
}

/// LAYOUTRETURN, of layouts of files, for reading and for writing.
pub fn layoutreturn(which: Layoutreturn4) -> ArgOp4 {
    ArgOp4::Layoutreturn(LayoutreturnArgs {
        reclaim: false,
        layout_type: layout_type::NFSV4_1_FILES,
        iomode: LayoutIomode4::Any,
        which,
    })
}

/// CLOSE.
pub fn close(open_stateid: Stateid4) -> ArgOp4 {
    ArgOp4::Close(CloseArgs {
        seqid: 0,
        open_stateid,
    })
}

/// True unless executing the operation twice is as good as once. The server must keep replies to requests with such
/// operations until the client has seen them.
pub(crate) fn needs_kept_reply(op: &ArgOp4) -> bool {
    let harmless = [
        Opnum::Access,
        Opnum::Commit,
        Opnum::Getattr,
        Opnum::Getdeviceinfo,
        Opnum::Getdevicelist,
        Opnum::Getfh,
        Opnum::Lockt,
        Opnum::Lookup,
        Opnum::Lookupp,
        Opnum::Nverify,
        Opnum::Putfh,
        Opnum::Putpubfh,
        Opnum::Putrootfh,
        Opnum::Read,
        Opnum::Readdir,
        Opnum::Readlink,
        Opnum::Restorefh,
        Opnum::Savefh,
        Opnum::Secinfo,
        Opnum::SecinfoNoName,
        Opnum::Verify,
        Opnum::TestStateid,
        Opnum::IoAdvise,
        Opnum::Seek,
        Opnum::Getxattr,
        Opnum::Listxattrs,
    ];
    !harmless.iter().any(|&known| known as u32 == op.opnum())
}

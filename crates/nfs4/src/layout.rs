//! Layouts and devices as they travel: GETDEVICEINFO, GETDEVICELIST, LAYOUTCOMMIT, LAYOUTGET and LAYOUTRETURN (RFC 8881,
//! sections 3.3 and 18.40 to 18.44). What stands in the body of a layout of files is in [`crate::FileLayout4`].

use xdr::{
    Bytes, DecodeError, Encode, Reader, Writer, xdr_enum, xdr_newtype, xdr_struct, xdr_union,
};

use crate::outcome::{Outcome, failure};
use crate::{Bitmap4, Cookie4, Count4, Length4, NfsStat4, Nfstime4, Offset4, Stateid4, Verifier4};

/// The longest body of a layout, an address, an update or a hint that is decoded, in bytes.
pub const LAYOUT_BODY_MAX: usize = 64 * 1024;
/// The most layouts in one LAYOUTGET, and devices in one GETDEVICELIST, that are decoded.
pub const LAYOUTS_MAX: usize = 1024;

/// Numbers of kinds of layouts, `layouttype4` (RFC 8881, section 3.3.13; RFC 8435, section 3). Others may be met: what a
/// server does not have it refuses by a status of its own.
pub mod layout_type {
    /// LAYOUT4_NFSV4_1_FILES: data servers speak NFSv4.1 (RFC 8881, chapter 13).
    pub const NFSV4_1_FILES: u32 = 1;
    /// LAYOUT4_OSD2_OBJECTS: object stores (RFC 5664).
    pub const OSD2_OBJECTS: u32 = 2;
    /// LAYOUT4_BLOCK_VOLUME: disks (RFC 5663).
    pub const BLOCK_VOLUME: u32 = 3;
    /// LAYOUT4_FLEX_FILES: data servers speak any version of NFS (RFC 8435).
    pub const FLEX_FILES: u32 = 4;
    /// LAYOUT4_SCSI: SCSI disks (RFC 8154).
    pub const SCSI: u32 = 5;
}

xdr_newtype! {
    /// Names where data lies, `deviceid4`: the same for all layouts that lie there.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
    pub struct Deviceid4(pub [u8; 16]);
}

xdr_enum! {
    /// The purpose of a layout, `layoutiomode4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum LayoutIomode4 {
        /// Reading.
        Read = 1,
        /// Reading and writing.
        ReadWrite = 2,
        /// Either, only in returns and recalls.
        Any = 3,
    }
}

xdr_struct! {
    /// A layout, `layout4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Layout4 {
        /// The first byte of the file that it is for.
        pub offset: Offset4,
        /// The number of bytes; all ones for all that follow.
        pub length: Length4,
        /// The I/O mode.
        pub iomode: LayoutIomode4,
        /// Where they lie.
        pub content: LayoutContent4,
    }
}

xdr_struct! {
    /// Where bytes lie, in the words of a kind of layout, `layout_content4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LayoutContent4 {
        /// The kind, of [`layout_type`].
        pub layout_type: u32,
        /// The body for this kind.
        pub body: Bytes [<= LAYOUT_BODY_MAX],
    }
}

xdr_struct! {
    /// GETDEVICEINFO: asks for the address of a device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct GetdeviceinfoArgs {
        /// The device.
        pub device_id: Deviceid4,
        /// The kind of layout.
        pub layout_type: u32,
        /// The maximum number of bytes of the address; 0 to get only notifications of changes.
        pub maxcount: Count4,
        /// The notifications that the client wants, bits of [`crate::callback::NotifyDeviceidType4`].
        pub notify_types: Bitmap4,
    }
}

xdr_struct! {
    /// The successful result of GETDEVICEINFO.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetdeviceinfoResOk {
        /// Where the device is.
        pub device_addr: DeviceAddr4,
        /// The notifications that the client will get.
        pub notification: Bitmap4,
    }
}

xdr_struct! {
    /// Where a device is, in the words of a kind of layout, `device_addr4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DeviceAddr4 {
        /// The kind, of [`layout_type`].
        pub layout_type: u32,
        /// The body for this kind.
        pub body: Bytes [<= LAYOUT_BODY_MAX],
    }
}

/// The result of GETDEVICEINFO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GetdeviceinfoRes {
    /// The device is known.
    Ok(GetdeviceinfoResOk),
    /// NFS4ERR_TOOSMALL: the address takes this many bytes.
    TooSmall(Count4),
    /// Any other failure.
    Err(NfsStat4),
}

impl Outcome for GetdeviceinfoRes {
    fn status(&self) -> NfsStat4 {
        match self {
            GetdeviceinfoRes::Ok(_) => NfsStat4::Ok,
            GetdeviceinfoRes::TooSmall(_) => NfsStat4::TooSmall,
            GetdeviceinfoRes::Err(status) => bodiless(*status, NfsStat4::TooSmall),
        }
    }

    fn encode_outcome(&self, w: &mut Writer) {
        self.status().encode(w);
        match self {
            GetdeviceinfoRes::Ok(body) => body.encode(w),
            GetdeviceinfoRes::TooSmall(count) => w.u32(*count),
            GetdeviceinfoRes::Err(_) => {}
        }
    }

    fn decode_outcome(r: &mut Reader) -> Result<Self, DecodeError> {
        match r.read()? {
            NfsStat4::Ok => r.read().map(GetdeviceinfoRes::Ok),
            NfsStat4::TooSmall => r.u32().map(GetdeviceinfoRes::TooSmall),
            status => Ok(GetdeviceinfoRes::Err(status)),
        }
    }
}

xdr_struct! {
    /// GETDEVICELIST: asks for all devices of a file system. RFC 8881, section 18.41, tells clients to do without.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct GetdevicelistArgs {
        /// The kind of layout.
        pub layout_type: u32,
        /// The maximum number of devices.
        pub maxdevices: Count4,
        /// The place to continue; 0 at the beginning.
        pub cookie: Cookie4,
        /// The verifier that came with the cookie.
        pub cookieverf: Verifier4,
    }
}

xdr_struct! {
    /// The successful result of GETDEVICELIST.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetdevicelistResOk {
        /// The place to continue.
        pub cookie: Cookie4,
        /// To be sent with the cookie.
        pub cookieverf: Verifier4,
        /// The devices.
        pub deviceid_list: Vec<Deviceid4> [<= LAYOUTS_MAX],
        /// Whether these are the last ones.
        pub eof: bool,
    }
}

xdr_struct! {
    /// LAYOUTCOMMIT: reports data written directly to data servers.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LayoutcommitArgs {
        /// The first byte that may have been written.
        pub offset: Offset4,
        /// The number of bytes; all ones for all that follow.
        pub length: Length4,
        /// Whether it was written before the server restarted.
        pub reclaim: bool,
        /// The layout.
        pub stateid: Stateid4,
        /// The offset of the last byte that was written, if any was.
        pub last_write_offset: Option<Offset4>,
        /// The new modification time, unless the server knows a better one.
        pub time_modify: Option<Nfstime4>,
        /// Additional data for the kind of layout.
        pub layoutupdate: Layoutupdate4,
    }
}

xdr_struct! {
    /// The changes in the form of a kind of layout, `layoutupdate4`. For files it is empty.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Layoutupdate4 {
        /// The kind, of [`layout_type`].
        pub layout_type: u32,
        /// The body for this kind.
        pub body: Bytes [<= LAYOUT_BODY_MAX],
    }
}

xdr_struct! {
    /// The successful result of LAYOUTCOMMIT.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LayoutcommitResOk {
        /// The size of the file, if it changed.
        pub newsize: Option<Length4>,
    }
}

xdr_struct! {
    /// LAYOUTGET: asks for a layout of the current file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LayoutgetArgs {
        /// Whether the client wants a callback once a layout is available.
        pub signal_layout_avail: bool,
        /// The kind, of [`layout_type`].
        pub layout_type: u32,
        /// The I/O mode.
        pub iomode: LayoutIomode4,
        /// The first byte.
        pub offset: Offset4,
        /// The wanted number of bytes; all ones for all that follow.
        pub length: Length4,
        /// The minimum number of bytes that it has to cover.
        pub minlength: Length4,
        /// The layout that the client has, or else an open, lock or delegation.
        pub stateid: Stateid4,
        /// The maximum number of bytes of the layouts.
        pub maxcount: Count4,
    }
}

xdr_struct! {
    /// The successful result of LAYOUTGET.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LayoutgetResOk {
        /// Whether the layout ends with the last CLOSE.
        pub return_on_close: bool,
        /// The new stateid of the layouts of this file and client.
        pub stateid: Stateid4,
        /// The layouts.
        pub layouts: Vec<Layout4> [<= LAYOUTS_MAX],
    }
}

/// The result of LAYOUTGET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayoutgetRes {
    /// There is one.
    Ok(LayoutgetResOk),
    /// NFS4ERR_LAYOUTTRYLATER: not now. True when the client will be called.
    TryLater(bool),
    /// Any other failure.
    Err(NfsStat4),
}

impl Outcome for LayoutgetRes {
    fn status(&self) -> NfsStat4 {
        match self {
            LayoutgetRes::Ok(_) => NfsStat4::Ok,
            LayoutgetRes::TryLater(_) => NfsStat4::LayoutTryLater,
            LayoutgetRes::Err(status) => bodiless(*status, NfsStat4::LayoutTryLater),
        }
    }

    fn encode_outcome(&self, w: &mut Writer) {
        self.status().encode(w);
        match self {
            LayoutgetRes::Ok(body) => body.encode(w),
            LayoutgetRes::TryLater(signal) => signal.encode(w),
            LayoutgetRes::Err(_) => {}
        }
    }

    fn decode_outcome(r: &mut Reader) -> Result<Self, DecodeError> {
        match r.read()? {
            NfsStat4::Ok => r.read().map(LayoutgetRes::Ok),
            NfsStat4::LayoutTryLater => r.read().map(LayoutgetRes::TryLater),
            status => Ok(LayoutgetRes::Err(status)),
        }
    }
}

xdr_struct! {
    /// LAYOUTRETURN: gives layouts back.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LayoutreturnArgs {
        /// Whether they are from before a restart of the server.
        pub reclaim: bool,
        /// The kind, of [`layout_type`].
        pub layout_type: u32,
        /// The I/O mode of the layouts.
        pub iomode: LayoutIomode4,
        /// The layouts that it concerns.
        pub which: Layoutreturn4,
    }
}

xdr_union! {
    /// The returned layouts, `layoutreturn4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum Layoutreturn4 {
        /// LAYOUTRETURN4_FILE: of the current file.
        1 => File(LayoutreturnFile4),
        /// LAYOUTRETURN4_FSID: of the current file system.
        2 => Fsid,
        /// LAYOUTRETURN4_ALL: of the client.
        3 => All,
    }
}

xdr_struct! {
    /// The returned part of one file, `layoutreturn_file4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LayoutreturnFile4 {
        /// The first byte.
        pub offset: Offset4,
        /// The number of bytes; all ones for all that follow.
        pub length: Length4,
        /// The layouts.
        pub stateid: Stateid4,
        /// Additional data for the kind of layout. For files it is empty.
        pub body: Bytes [<= LAYOUT_BODY_MAX],
    }
}

xdr_struct! {
    /// The successful result of LAYOUTRETURN.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LayoutreturnResOk {
        /// The stateid of the client's layouts of the file, if it has more.
        pub stateid: Option<Stateid4>,
    }
}

/// A failure that needs a body cannot be sent without it.
pub(crate) fn bodiless(status: NfsStat4, needs_body: NfsStat4) -> NfsStat4 {
    match failure(status) {
        status if status == needs_body => NfsStat4::ServerFault,
        status => status,
    }
}

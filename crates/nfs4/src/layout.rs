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
    /// What a layout is for, `layoutiomode4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum LayoutIomode4 {
        /// Reading.
        Read = 1,
        /// Reading and writing.
        ReadWrite = 2,
        /// Either, in returns and recalls alone.
        Any = 3,
    }
}

xdr_struct! {
    /// A layout, `layout4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Layout4 {
        /// The first byte of the file that it is for.
        pub offset: Offset4,
        /// How many bytes; all ones for all that follow.
        pub length: Length4,
        /// What for.
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
        /// What the kind says.
        pub body: Bytes [<= LAYOUT_BODY_MAX],
    }
}

xdr_struct! {
    /// GETDEVICEINFO: asks where a device is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct GetdeviceinfoArgs {
        /// The device.
        pub device_id: Deviceid4,
        /// Of which kind of layout.
        pub layout_type: u32,
        /// How many bytes the address may take; 0 to be told of changes alone.
        pub maxcount: Count4,
        /// Of what the client would like to be told, bits of [`crate::callback::NotifyDeviceidType4`].
        pub notify_types: Bitmap4,
    }
}

xdr_struct! {
    /// The successful result of GETDEVICEINFO.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetdeviceinfoResOk {
        /// Where the device is.
        pub device_addr: DeviceAddr4,
        /// Of what the client will be told.
        pub notification: Bitmap4,
    }
}

xdr_struct! {
    /// Where a device is, in the words of a kind of layout, `device_addr4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DeviceAddr4 {
        /// The kind, of [`layout_type`].
        pub layout_type: u32,
        /// What the kind says.
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
        /// Of which kind of layout.
        pub layout_type: u32,
        /// How many at most.
        pub maxdevices: Count4,
        /// Where to go on; 0 at the beginning.
        pub cookie: Cookie4,
        /// What came with the cookie.
        pub cookieverf: Verifier4,
    }
}

xdr_struct! {
    /// The successful result of GETDEVICELIST.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetdevicelistResOk {
        /// Where to go on.
        pub cookie: Cookie4,
        /// To be sent with the cookie.
        pub cookieverf: Verifier4,
        /// The devices.
        pub deviceid_list: Vec<Deviceid4> [<= LAYOUTS_MAX],
        /// Whether there are no more.
        pub eof: bool,
    }
}

xdr_struct! {
    /// LAYOUTCOMMIT: says what was written past the metadata server.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LayoutcommitArgs {
        /// The first byte that may have been written.
        pub offset: Offset4,
        /// How many bytes; all ones for all that follow.
        pub length: Length4,
        /// Whether it was written before the server restarted.
        pub reclaim: bool,
        /// The layout.
        pub stateid: Stateid4,
        /// The offset of the last byte that was written, if any was.
        pub last_write_offset: Option<Offset4>,
        /// What the time of modification should become, unless the server knows better.
        pub time_modify: Option<Nfstime4>,
        /// What the kind of layout says besides.
        pub layoutupdate: Layoutupdate4,
    }
}

xdr_struct! {
    /// What changed, in the words of a kind of layout, `layoutupdate4`. That of files is empty.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Layoutupdate4 {
        /// The kind, of [`layout_type`].
        pub layout_type: u32,
        /// What the kind says.
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
        /// Whether the client wants to be called once there is one.
        pub signal_layout_avail: bool,
        /// Of which kind, of [`layout_type`].
        pub layout_type: u32,
        /// What for.
        pub iomode: LayoutIomode4,
        /// The first byte.
        pub offset: Offset4,
        /// How many bytes would be good; all ones for all that follow.
        pub length: Length4,
        /// How many bytes it has to be for, at least.
        pub minlength: Length4,
        /// The layout that the client has, or else an open, lock or delegation.
        pub stateid: Stateid4,
        /// How many bytes the layouts may take.
        pub maxcount: Count4,
    }
}

xdr_struct! {
    /// The successful result of LAYOUTGET.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LayoutgetResOk {
        /// Whether the layout ends with the last CLOSE.
        pub return_on_close: bool,
        /// What the layouts of this file and client go by from now on.
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
        /// Whether they are of before the server restarted.
        pub reclaim: bool,
        /// Of which kind, of [`layout_type`].
        pub layout_type: u32,
        /// Those for what.
        pub iomode: LayoutIomode4,
        /// Which of them.
        pub which: Layoutreturn4,
    }
}

xdr_union! {
    /// Which layouts are given back, `layoutreturn4`.
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
    /// What is given back of one file, `layoutreturn_file4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LayoutreturnFile4 {
        /// The first byte.
        pub offset: Offset4,
        /// How many bytes; all ones for all that follow.
        pub length: Length4,
        /// The layouts.
        pub stateid: Stateid4,
        /// What the kind of layout says besides. That of files is empty.
        pub body: Bytes [<= LAYOUT_BODY_MAX],
    }
}

xdr_struct! {
    /// The successful result of LAYOUTRETURN.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LayoutreturnResOk {
        /// What the client's layouts of the file go by, if it has more.
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

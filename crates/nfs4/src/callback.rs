//! The back channel: requests of the server to the client, CB_COMPOUND and its
//! operations (RFC 8881, section 20). Names are those of the RFC without `CB_`.
//!
//! Notifications of directories and callbacks about copies are known by number only.

use xdr::{Bytes, Decode, DecodeError, Encode, Reader, Writer, xdr_enum, xdr_struct, xdr_union};

use crate::compound::Operations;
use crate::operation::{ILLEGAL, OpArgs, OpResult, operations};
use crate::outcome::{Outcome, failure};
use crate::{
    Bitmap4, CompoundRes, Deviceid4, Fsid4, GetattrResOk, LayoutIomode4, Length4, NfsFh4, NfsStat4,
    Offset4, OpError, Sequenceid4, SessionId4, Slotid4, StateOwner4, Stateid4, TEXT_MAX,
};

/// The version of the callback program. RFC 5662 says 1 and implementations use
/// it, although the text of RFC 8881, section 18.36.3, says 4. The client
/// chooses the program number in CREATE_SESSION.
pub const VERSION: u32 = 1;
/// The procedure that does nothing.
pub const PROC_NULL: u32 = 0;
/// The procedure that carries operations.
pub const PROC_COMPOUND: u32 = 1;

/// The most sessions, or calls of one session, that a CB_SEQUENCE may refer to.
const REFERRING_MAX: usize = 1024;

xdr_enum! {
    /// The number of an operation, `nfs_cb_opnum4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum CbOpnum {
        /// CB_GETATTR (RFC 8881, section 20.1).
        Getattr = 3,
        /// CB_RECALL (RFC 8881, section 20.2).
        Recall = 4,
        /// CB_LAYOUTRECALL (RFC 8881, section 20.3).
        Layoutrecall = 5,
        /// CB_NOTIFY (RFC 8881, section 20.4).
        Notify = 6,
        /// CB_PUSH_DELEG (RFC 8881, section 20.5).
        PushDeleg = 7,
        /// CB_RECALL_ANY (RFC 8881, section 20.6).
        RecallAny = 8,
        /// CB_RECALLABLE_OBJ_AVAIL (RFC 8881, section 20.7).
        RecallableObjAvail = 9,
        /// CB_RECALL_SLOT (RFC 8881, section 20.8).
        RecallSlot = 10,
        /// CB_SEQUENCE (RFC 8881, section 20.9).
        Sequence = 11,
        /// CB_WANTS_CANCELLED (RFC 8881, section 20.10).
        WantsCancelled = 12,
        /// CB_NOTIFY_LOCK (RFC 8881, section 20.11).
        NotifyLock = 13,
        /// CB_NOTIFY_DEVICEID (RFC 8881, section 20.12).
        NotifyDeviceid = 14,
        /// CB_OFFLOAD (RFC 7862, section 16.1).
        Offload = 15,
        /// CB_ILLEGAL (RFC 8881, section 20.13).
        Illegal = 10044,
    }
}

xdr_struct! {
    /// CB_GETATTR: asks the holder of a write delegation for attributes.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CbGetattrArgs {
        /// The file.
        pub fh: NfsFh4,
        /// The attributes.
        pub attr_request: Bitmap4,
    }
}

xdr_struct! {
    /// CB_RECALL: asks for a delegation back.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CbRecallArgs {
        /// The delegation.
        pub stateid: Stateid4,
        /// True when the file is about to be truncated, so that writing back is
        /// of little use.
        pub truncate: bool,
        /// The file.
        pub fh: NfsFh4,
    }
}

xdr_struct! {
    /// CB_LAYOUTRECALL: asks for layouts back.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CbLayoutrecallArgs {
        /// The kind, of [`crate::layout_type`].
        pub layout_type: u32,
        /// The I/O mode of the layouts.
        pub iomode: LayoutIomode4,
        /// Whether the layout has changed, so that writing back by the old one is useless.
        pub changed: bool,
        /// The layouts that it concerns.
        pub recall: Layoutrecall4,
    }
}

xdr_union! {
    /// The recalled layouts, `layoutrecall4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum Layoutrecall4 {
        /// LAYOUTRECALL4_FILE: of a file.
        1 => File(LayoutrecallFile4),
        /// LAYOUTRECALL4_FSID: of a file system.
        2 => Fsid(Fsid4),
        /// LAYOUTRECALL4_ALL: all.
        3 => All,
    }
}

xdr_struct! {
    /// The recalled part of one file, `layoutrecall_file4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LayoutrecallFile4 {
        /// The file.
        pub fh: NfsFh4,
        /// The first byte.
        pub offset: Offset4,
        /// The number of bytes; all ones for all that follow.
        pub length: Length4,
        /// The client's layouts of the file, with the sequence number of this recall.
        pub stateid: Stateid4,
    }
}

xdr_struct! {
    /// CB_NOTIFY_DEVICEID: devices have changed, or are gone.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CbNotifyDeviceidArgs {
        /// What happened.
        pub changes: Vec<Notify4> [<= REFERRING_MAX],
    }
}

xdr_struct! {
    /// Events of one kind, `notify4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Notify4 {
        /// The kind, one bit of [`NotifyDeviceidType4`].
        pub mask: Bitmap4,
        /// The body for this kind: [`NotifyDeviceidDelete4`] or [`NotifyDeviceidChange4`].
        pub values: Bytes [<= NOTIFY_MAX],
    }
}

/// The longest event that is decoded, in bytes.
const NOTIFY_MAX: usize = 4096;

xdr_enum! {
    /// The change of a device, `notify_deviceid_type4`; also the bits of the masks for it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum NotifyDeviceidType4 {
        /// NOTIFY_DEVICEID4_CHANGE: it is somewhere else.
        Change = 1,
        /// NOTIFY_DEVICEID4_DELETE: it is no more.
        Delete = 2,
    }
}

xdr_struct! {
    /// A device was deleted, `notify_deviceid_delete4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct NotifyDeviceidDelete4 {
        /// The kind of layout.
        pub layout_type: u32,
        /// The device.
        pub deviceid: Deviceid4,
    }
}

xdr_struct! {
    /// A device has another address, `notify_deviceid_change4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct NotifyDeviceidChange4 {
        /// The kind of layout.
        pub layout_type: u32,
        /// The device.
        pub deviceid: Deviceid4,
        /// Whether the client must not use its old information any more.
        pub immediate: bool,
    }
}

xdr_struct! {
    /// CB_RECALL_ANY: asks for delegations back until few enough are held.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CbRecallAnyArgs {
        /// The number that may be kept.
        pub objects_to_keep: u32,
        /// The kinds, bits of `RCA4_TYPE_MASK`.
        pub type_mask: Bitmap4,
    }
}

xdr_struct! {
    /// CB_RECALL_SLOT: asks to use fewer slots.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CbRecallSlotArgs {
        /// The highest slot to use.
        pub target_highest_slotid: Slotid4,
    }
}

xdr_struct! {
    /// CB_SEQUENCE: gives the session and the slot of a request.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CbSequenceArgs {
        /// The session.
        pub sessionid: SessionId4,
        /// The sequence number of the slot.
        pub sequenceid: Sequenceid4,
        /// The slot of the back channel.
        pub slotid: Slotid4,
        /// The highest slot with an outstanding request of the server.
        pub highest_slotid: Slotid4,
        /// True when the reply must be kept.
        pub cachethis: bool,
        /// Requests of the client; it should wait for their replies first.
        pub referring_call_lists: Vec<ReferringCallList4> [<= REFERRING_MAX],
    }
}

xdr_struct! {
    /// Requests of one session, `referring_call_list4`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReferringCallList4 {
        /// The session.
        pub sessionid: SessionId4,
        /// The requests.
        pub referring_calls: Vec<ReferringCall4> [<= REFERRING_MAX],
    }
}

xdr_struct! {
    /// One request of a client, `referring_call4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ReferringCall4 {
        /// Its sequence number.
        pub sequenceid: Sequenceid4,
        /// Its slot.
        pub slotid: Slotid4,
    }
}

xdr_struct! {
    /// The successful result of CB_SEQUENCE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CbSequenceResOk {
        /// The session.
        pub sessionid: SessionId4,
        /// The sequence number of the slot.
        pub sequenceid: Sequenceid4,
        /// The slot of the back channel.
        pub slotid: Slotid4,
        /// The highest slot that the client keeps.
        pub highest_slotid: Slotid4,
        /// The highest slot that the client wants to be used.
        pub target_highest_slotid: Slotid4,
    }
}

xdr_struct! {
    /// CB_NOTIFY_LOCK: a lock that was denied may be available now.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CbNotifyLockArgs {
        /// The file.
        pub fh: NfsFh4,
        /// The owner that wanted the lock.
        pub lock_owner: StateOwner4,
    }
}

operations! {
    /// One operation of a callback, `nfs_cb_argop4`.
    args CbArgOp4;
    /// The result of one operation of a callback, `nfs_cb_resop4`.
    results CbResOp4;
    numbers CbOpnum;
    failures status_of_failure, body_of_failure;

    Getattr(CbGetattrArgs) -> Result<GetattrResOk, NfsStat4>,
    Recall(CbRecallArgs) -> NfsStat4,
    Layoutrecall(CbLayoutrecallArgs) -> NfsStat4,
    RecallAny(CbRecallAnyArgs) -> NfsStat4,
    RecallSlot(CbRecallSlotArgs) -> NfsStat4,
    Sequence(CbSequenceArgs) -> Result<CbSequenceResOk, NfsStat4>,
    NotifyLock(CbNotifyLockArgs) -> NfsStat4,
    NotifyDeviceid(CbNotifyDeviceidArgs) -> NfsStat4,
}

fn status_of_failure(_number: u32, status: NfsStat4) -> NfsStat4 {
    failure(status)
}

/// No callback has a body when it fails.
fn body_of_failure(_number: u32, _w: &mut Writer) {}

/// A received callback, `CB_COMPOUND4args`.
#[derive(Debug, Clone)]
pub struct CbCompoundArgs {
    /// A comment of the server, which the reply repeats.
    pub tag: Bytes,
    /// The minor version that the operations belong to.
    pub minorversion: u32,
    /// From NFSv4.0; ignored since then.
    pub callback_ident: u32,
    /// The announced number of operations.
    pub count: u32,
    /// The operations.
    pub ops: Operations<CbArgOp4>,
}

impl CbCompoundArgs {
    /// Decodes the head of a callback.
    pub fn parse(mut r: Reader) -> Result<Self, DecodeError> {
        let tag = r.opaque(TEXT_MAX)?;
        let (minorversion, callback_ident, count) = (r.u32()?, r.u32()?, r.u32()?);
        Ok(Self {
            tag,
            minorversion,
            callback_ident,
            count,
            ops: Operations::new(count, r),
        })
    }

    /// Decodes the next operation. `None` at the end of the callback.
    pub fn next_op(&mut self) -> Option<Result<CbArgOp4, OpError>> {
        self.ops.next()
    }
}

/// A callback to be sent, `CB_COMPOUND4args`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CbCompoundCall {
    /// A comment, which the reply repeats.
    pub tag: Bytes,
    /// The minor version that the operations belong to.
    pub minorversion: u32,
    /// The operations.
    pub ops: Vec<CbArgOp4>,
}

impl Encode for CbCompoundCall {
    fn encode(&self, w: &mut Writer) {
        w.write(&self.tag);
        w.u32(self.minorversion);
        let callback_ident = 0;
        w.u32(callback_ident);
        w.write(&self.ops);
    }
}

/// The reply to a callback, `CB_COMPOUND4res`. Clients can write one with
/// [`crate::CompoundReply`], too.
pub type CbCompoundRes = CompoundRes<CbResOp4>;

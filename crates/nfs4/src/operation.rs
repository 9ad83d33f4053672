//! Every operation once, with the types of its arguments and its result, from
//! which [`ArgOp4`] and [`ResOp4`] follow. No operation is executed here.

use thiserror::Error;
use xdr::{Decode, DecodeError, Encode, Reader, Writer};

use crate::layout::bodiless;
use crate::lock::refusal;
use crate::outcome::{Outcome, failure};
use crate::{
    AccessArgs, AccessResOk, AllocateArgs, BackchannelCtlArgs, BindConnToSessionArgs,
    BindConnToSessionResOk, Bitmap4, CloneArgs, CloseArgs, CloseResOk, CommitArgs, CommitResOk,
    CreateArgs, CreateResOk, CreateSessionArgs, CreateSessionResOk, DeallocateArgs, DelegpurgeArgs,
    DelegreturnArgs, DestroyClientidArgs, DestroySessionArgs, ExchangeIdArgs, ExchangeIdResOk,
    FreeStateidArgs, GetDirDelegationArgs, GetDirDelegationResOk, GetattrArgs, GetattrResOk,
    GetdeviceinfoArgs, GetdeviceinfoRes, GetdevicelistArgs, GetdevicelistResOk, GetfhResOk,
    GetxattrArgs, GetxattrResOk, IoAdviseArgs, IoAdviseResOk, LayoutcommitArgs, LayoutcommitResOk,
    LayoutgetArgs, LayoutgetRes, LayoutreturnArgs, LayoutreturnResOk, LinkArgs, LinkResOk,
    ListxattrsArgs, ListxattrsResOk, LockArgs, LockRes, LocktArgs, LocktRes, LockuArgs, LockuResOk,
    LookupArgs, NfsStat4, NverifyArgs, OpenArgs, OpenDelegation4, OpenDowngradeArgs,
    OpenDowngradeResOk, OpenResOk, OpenattrArgs, Opnum, PutfhArgs, ReadArgs, ReadResOk,
    ReaddirArgs, ReaddirResOk, ReadlinkResOk, ReclaimCompleteArgs, RemoveArgs, RemoveResOk,
    RemovexattrArgs, RemovexattrResOk, RenameArgs, RenameResOk, SecinfoArgs, SecinfoNoNameArgs,
    SecinfoResOk, SeekArgs, SeekResOk, SequenceArgs, SequenceResOk, SetSsvArgs, SetSsvResOk,
    SetattrArgs, SetattrRes, SetxattrArgs, SetxattrResOk, TestStateidArgs, TestStateidResOk,
    VerifyArgs, WantDelegationArgs, WriteArgs, WriteResOk,
};

/// The number of an operation that does not exist; results carry it in answer to
/// any unknown number (RFC 8881, section 18.52.3).
pub(crate) const ILLEGAL: u32 = 10_044;

/// An operation whose arguments are malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the arguments of operation {opnum} are malformed: {cause}")]
pub struct OpError {
    /// The number that the result must carry, as in [`ArgOp4::opnum`].
    pub opnum: u32,
    /// The error.
    pub cause: DecodeError,
}

/// An operation of some table, with its arguments.
pub trait OpArgs: Sized + Encode {
    /// Consumes the number of an operation and its arguments.
    fn decode_op(r: &mut Reader) -> Result<Self, OpError>;

    /// The number that the result must carry.
    fn opnum(&self) -> u32;

    /// False when the arguments were not decoded, so that the operations after
    /// this one cannot be found.
    fn is_decoded(&self) -> bool;
}

/// An operation of some table, with its result.
pub trait OpResult: Encode + Decode {
    /// The number of the operation.
    fn opnum(&self) -> u32;

    /// How it ended.
    fn status(&self) -> NfsStat4;
}

/// Writes the two enumerations of a table of operations, in both directions.
macro_rules! operations {
    (
        $(#[$arg_meta:meta])* args $arg:ident;
        $(#[$res_meta:meta])* results $res:ident;
        numbers $number:ident;
        failures $status_of_failure:path, $body_of_failure:path;
        $( $op:ident $(($args:ty))? -> $outcome:ty, )*
    ) => {
        $(#[$arg_meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $arg {
            $(
                #[doc = concat!("See [`", stringify!($number), "::", stringify!($op), "`].")]
                $op $(($args))?,
            )*
            /// An operation whose arguments are not decoded here. Nothing that
            /// follows it can be decoded either.
            Unsupported($number),
            /// A number that is no operation, as received.
            Illegal(u32),
        }

        impl $arg {
            /// The number that the result must carry: that of the operation, or
            /// that of ILLEGAL for unknown numbers.
            pub fn opnum(&self) -> u32 {
                match self {
                    $( $arg::$op { .. } => $number::$op as u32, )*
                    $arg::Unsupported(number) => *number as u32,
                    $arg::Illegal(_) => ILLEGAL,
                }
            }

            fn decode_arguments(number: u32, r: &mut Reader) -> Result<Self, DecodeError> {
                match $number::try_from(number) {
                    $( Ok($number::$op) => Ok($arg::$op $((r.read::<$args>()?))?), )*
                    Ok($number::Illegal) | Err(_) => Ok($arg::Illegal(number)),
                    Ok(number) => Ok($arg::Unsupported(number)),
                }
            }
        }

        impl OpArgs for $arg {
            fn decode_op(r: &mut Reader) -> Result<Self, OpError> {
                let number = r.u32().map_err(|cause| OpError { opnum: ILLEGAL, cause })?;
                Self::decode_arguments(number, r)
                    .map_err(|cause| OpError { opnum: number, cause })
            }

            fn opnum(&self) -> u32 {
                $arg::opnum(self)
            }

            fn is_decoded(&self) -> bool {
                !matches!(self, $arg::Unsupported(_) | $arg::Illegal(_))
            }
        }

        /// Operations that are not decoded are written without arguments, which is
        /// of use to see how a server takes it.
        impl Encode for $arg {
            fn encode(&self, w: &mut Writer) {
                match self {
                    $( xdr::xdr_arm!($arg, $op, args $(: $args)?) => {
                        w.u32($number::$op as u32);
                        xdr::xdr_encode_body!(w, args $(: $args)?);
                    } )*
                    $arg::Unsupported(number) => w.write(number),
                    $arg::Illegal(number) => w.u32(*number),
                }
            }
        }

        $(#[$res_meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $res {
            $(
                #[doc = concat!("See [`", stringify!($number), "::", stringify!($op), "`].")]
                $op($outcome),
            )*
            /// Any operation that failed before it was executed: its number and
            /// its status, which must not be success.
            Failed(u32, NfsStat4),
        }

        impl $res {
            /// The number of the operation.
            pub fn opnum(&self) -> u32 {
                match self {
                    $( $res::$op(_) => $number::$op as u32, )*
                    $res::Failed(number, _) => *number,
                }
            }

            /// How the operation ended.
            pub fn status(&self) -> NfsStat4 {
                match self {
                    $( $res::$op(outcome) => outcome.status(), )*
                    $res::Failed(number, status) => $status_of_failure(*number, *status),
                }
            }
        }

        impl OpResult for $res {
            fn opnum(&self) -> u32 {
                $res::opnum(self)
            }

            fn status(&self) -> NfsStat4 {
                $res::status(self)
            }
        }

        impl Encode for $res {
            fn encode(&self, w: &mut Writer) {
                w.u32(self.opnum());
                match self {
                    $( $res::$op(outcome) => outcome.encode_outcome(w), )*
                    $res::Failed(number, _) => {
                        w.write(&self.status());
                        $body_of_failure(*number, w);
                    }
                }
            }
        }

        impl Decode for $res {
            fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
                let value = r.u32()?;
                match $number::try_from(value)? {
                    $( $number::$op => {
                        <$outcome as Outcome>::decode_outcome(r).map($res::$op)
                    } )*
                    _ => match NfsStat4::decode(r)? {
                        NfsStat4::Ok => {
                            Err(DecodeError::UnknownValue { kind: stringify!($res), value })
                        }
                        status => Ok($res::Failed(value, status)),
                    },
                }
            }
        }
    };
}
pub(crate) use operations;

operations! {
    /// One operation of a request, `nfs_argop4`.
    args ArgOp4;
    /// The result of one operation, `nfs_resop4`.
    results ResOp4;
    numbers Opnum;
    failures status_of_failure, body_of_failure;

    Access(AccessArgs) -> Result<AccessResOk, NfsStat4>,
    Close(CloseArgs) -> Result<CloseResOk, NfsStat4>,
    Commit(CommitArgs) -> Result<CommitResOk, NfsStat4>,
    Create(CreateArgs) -> Result<CreateResOk, NfsStat4>,
    Delegpurge(DelegpurgeArgs) -> NfsStat4,
    Delegreturn(DelegreturnArgs) -> NfsStat4,
    Getattr(GetattrArgs) -> Result<GetattrResOk, NfsStat4>,
    Getfh -> Result<GetfhResOk, NfsStat4>,
    Link(LinkArgs) -> Result<LinkResOk, NfsStat4>,
    Lock(LockArgs) -> LockRes,
    Lockt(LocktArgs) -> LocktRes,
    Locku(LockuArgs) -> Result<LockuResOk, NfsStat4>,
    Lookup(LookupArgs) -> NfsStat4,
    Lookupp -> NfsStat4,
    Nverify(NverifyArgs) -> NfsStat4,
    Open(OpenArgs) -> Result<OpenResOk, NfsStat4>,
    Openattr(OpenattrArgs) -> NfsStat4,
    OpenDowngrade(OpenDowngradeArgs) -> Result<OpenDowngradeResOk, NfsStat4>,
    Putfh(PutfhArgs) -> NfsStat4,
    Putpubfh -> NfsStat4,
    Putrootfh -> NfsStat4,
    Read(ReadArgs) -> Result<ReadResOk, NfsStat4>,
    Readdir(ReaddirArgs) -> Result<ReaddirResOk, NfsStat4>,
    Readlink -> Result<ReadlinkResOk, NfsStat4>,
    Remove(RemoveArgs) -> Result<RemoveResOk, NfsStat4>,
    Rename(RenameArgs) -> Result<RenameResOk, NfsStat4>,
    Restorefh -> NfsStat4,
    Savefh -> NfsStat4,
    Secinfo(SecinfoArgs) -> Result<SecinfoResOk, NfsStat4>,
    Setattr(SetattrArgs) -> SetattrRes,
    Verify(VerifyArgs) -> NfsStat4,
    Write(WriteArgs) -> Result<WriteResOk, NfsStat4>,
    BackchannelCtl(BackchannelCtlArgs) -> NfsStat4,
    BindConnToSession(BindConnToSessionArgs) -> Result<BindConnToSessionResOk, NfsStat4>,
    ExchangeId(ExchangeIdArgs) -> Result<ExchangeIdResOk, NfsStat4>,
    CreateSession(CreateSessionArgs) -> Result<CreateSessionResOk, NfsStat4>,
    DestroySession(DestroySessionArgs) -> NfsStat4,
    FreeStateid(FreeStateidArgs) -> NfsStat4,
    GetDirDelegation(GetDirDelegationArgs) -> Result<GetDirDelegationResOk, NfsStat4>,
    Getdeviceinfo(GetdeviceinfoArgs) -> GetdeviceinfoRes,
    Getdevicelist(GetdevicelistArgs) -> Result<GetdevicelistResOk, NfsStat4>,
    Layoutcommit(LayoutcommitArgs) -> Result<LayoutcommitResOk, NfsStat4>,
    Layoutget(LayoutgetArgs) -> LayoutgetRes,
    Layoutreturn(LayoutreturnArgs) -> Result<LayoutreturnResOk, NfsStat4>,
    SecinfoNoName(SecinfoNoNameArgs) -> Result<SecinfoResOk, NfsStat4>,
    Sequence(SequenceArgs) -> Result<SequenceResOk, NfsStat4>,
    SetSsv(SetSsvArgs) -> Result<SetSsvResOk, NfsStat4>,
    TestStateid(TestStateidArgs) -> Result<TestStateidResOk, NfsStat4>,
    WantDelegation(WantDelegationArgs) -> Result<OpenDelegation4, NfsStat4>,
    DestroyClientid(DestroyClientidArgs) -> NfsStat4,
    ReclaimComplete(ReclaimCompleteArgs) -> NfsStat4,
    Allocate(AllocateArgs) -> NfsStat4,
    Deallocate(DeallocateArgs) -> NfsStat4,
    IoAdvise(IoAdviseArgs) -> Result<IoAdviseResOk, NfsStat4>,
    Seek(SeekArgs) -> Result<SeekResOk, NfsStat4>,
    Clone(CloneArgs) -> NfsStat4,
    Getxattr(GetxattrArgs) -> Result<GetxattrResOk, NfsStat4>,
    Setxattr(SetxattrArgs) -> Result<SetxattrResOk, NfsStat4>,
    Listxattrs(ListxattrsArgs) -> Result<ListxattrsResOk, NfsStat4>,
    Removexattr(RemovexattrArgs) -> Result<RemovexattrResOk, NfsStat4>,
}

/// The status that can be sent for an operation that was not executed.
fn status_of_failure(number: u32, status: NfsStat4) -> NfsStat4 {
    match Opnum::try_from(number) {
        Ok(Opnum::Lock | Opnum::Lockt) => refusal(status),
        Ok(Opnum::Getdeviceinfo) => bodiless(status, NfsStat4::TooSmall),
        Ok(Opnum::Layoutget) => bodiless(status, NfsStat4::LayoutTryLater),
        _ => failure(status),
    }
}

/// Writes what follows the status of an operation that was not executed: SETATTR
/// tells in every case which attributes were set (RFC 8881, section 18.30.2).
fn body_of_failure(number: u32, w: &mut Writer) {
    if number == u32::from(Opnum::Setattr) {
        w.write(&Bitmap4::EMPTY);
    }
}

//! Data: READ, WRITE, COMMIT (RFC 8881, section 18), ALLOCATE, DEALLOCATE,
//! IO_ADVISE, SEEK, CLONE (RFC 7862, section 15) as they travel. Data is never
//! copied: it is a slice of the request, or becomes a segment of the reply.

use xdr::{Bytes, xdr_enum, xdr_struct};

use crate::{Bitmap4, Count4, Length4, Offset4, Stateid4, Verifier4};

/// The most data that one READ or WRITE may carry here, in bytes. Sessions set
/// the limit that counts; this one merely keeps lengths sane.
pub const IO_MAX: usize = 64 * 1024 * 1024;

xdr_struct! {
    /// READ: reads from the current file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ReadArgs {
        /// The open, lock or delegation that allows it.
        pub stateid: Stateid4,
        /// The first byte.
        pub offset: Offset4,
        /// How many bytes.
        pub count: Count4,
    }
}

xdr_struct! {
    /// The successful result of READ.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReadResOk {
        /// True when the data ends where the file ends.
        pub eof: bool,
        /// The data.
        pub data: Bytes [<= IO_MAX],
    }
}

xdr_enum! {
    /// How stable written data must be or is, `stable_how4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum StableHow4 {
        /// UNSTABLE4: it may be lost until a COMMIT.
        Unstable = 0,
        /// DATA_SYNC4: the data and everything needed to read it survive.
        DataSync = 1,
        /// FILE_SYNC4: the data and all attributes survive.
        FileSync = 2,
    }
}

xdr_struct! {
    /// WRITE: writes to the current file.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WriteArgs {
        /// The open, lock or delegation that allows it.
        pub stateid: Stateid4,
        /// The first byte.
        pub offset: Offset4,
        /// How stable the data must be before the reply.
        pub stable: StableHow4,
        /// The data.
        pub data: Bytes [<= IO_MAX],
    }
}

xdr_struct! {
    /// The successful result of WRITE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct WriteResOk {
        /// How many bytes were written.
        pub count: Count4,
        /// How stable they are.
        pub committed: StableHow4,
        /// Changes when unstable data may have been lost.
        pub writeverf: Verifier4,
    }
}

xdr_struct! {
    /// COMMIT: makes written data stable.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CommitArgs {
        /// The first byte.
        pub offset: Offset4,
        /// How many bytes; zero for all that follow.
        pub count: Count4,
    }
}

xdr_struct! {
    /// The successful result of COMMIT.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CommitResOk {
        /// Changes when unstable data may have been lost.
        pub writeverf: Verifier4,
    }
}

xdr_struct! {
    /// ALLOCATE: reserves space for a range of the current file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct AllocateArgs {
        /// The open that allows it.
        pub stateid: Stateid4,
        /// The first byte.
        pub offset: Offset4,
        /// How many bytes.
        pub length: Length4,
    }
}

xdr_struct! {
    /// DEALLOCATE: turns a range of the current file into a hole.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct DeallocateArgs {
        /// The open that allows it.
        pub stateid: Stateid4,
        /// The first byte.
        pub offset: Offset4,
        /// How many bytes.
        pub length: Length4,
    }
}

xdr_struct! {
    /// IO_ADVISE: tells how a range of the current file will be used.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct IoAdviseArgs {
        /// The open.
        pub stateid: Stateid4,
        /// The first byte.
        pub offset: Offset4,
        /// How many bytes; zero for all that follow.
        pub count: Length4,
        /// The advice, bits of `IO_ADVISE_type4`.
        pub hints: Bitmap4,
    }
}

xdr_struct! {
    /// The successful result of IO_ADVISE.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct IoAdviseResOk {
        /// The advice that will be followed.
        pub hints: Bitmap4,
    }
}

xdr_enum! {
    /// The target of SEEK, `data_content4`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum DataContent4 {
        /// Data.
        Data = 0,
        /// A hole.
        Hole = 1,
    }
}

xdr_struct! {
    /// SEEK: finds the next data or hole of the current file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SeekArgs {
        /// The open that allows it.
        pub stateid: Stateid4,
        /// Where to begin.
        pub offset: Offset4,
        /// The target.
        pub what: DataContent4,
    }
}

xdr_struct! {
    /// The successful result of SEEK.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SeekResOk {
        /// True when the end of the file was met first.
        pub eof: bool,
        /// Where the data or hole begins.
        pub offset: Offset4,
    }
}

xdr_struct! {
    /// CLONE: makes a range of the current file share the data of a range of the
    /// saved one.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CloneArgs {
        /// The open of the saved file.
        pub src_stateid: Stateid4,
        /// The open of the current file.
        pub dst_stateid: Stateid4,
        /// The first byte in the saved file.
        pub src_offset: Offset4,
        /// The first byte in the current file.
        pub dst_offset: Offset4,
        /// How many bytes; zero for all that follow.
        pub count: Length4,
    }
}

//! Builds the reply to a COMPOUND, within its maximum size (RFC 8881, section 2.10.6.4).
//!
//! A reply never exceeds the session's limit. An operation whose result would exceed it fails. An operation that
//! changes something fails before it begins, because the client could not learn its result.

use nfs4::{
    ArgOp4, CompoundArgs, CompoundReply, CompoundRes, NfsStat4, Operations, PROC_NULL, ResOp4,
};
use oncrpc::OPAQUE_AUTH_MAX;
use xdr::{Bytes, DecodeError, Reader, Rope, Writer};

use crate::compound::Compound;

/// The size of an RPC reply before the COMPOUND's body, AUTH_NONE verifier included (RFC 5531, section 9).
const RPC_HEADER_BYTES: usize = 24;

/// The size of the result of SEQUENCE: number, status, session, and five words.
const SEQUENCE_BYTES: usize = 8 + 16 + 5 * 4;

/// The size of the largest unsuccessful result that is always sent completely: that of SETATTR, with number, status and
/// an empty bitmap.
const REFUSAL_BYTES: usize = 12;

/// The size of the result of a READ, READDIR or similar without its payload, padding included.
pub(crate) const PAYLOAD_FRAME_BYTES: usize = 32;

/// The size reserved for a result without data: for creating or destroying a session, for operations that lead to
/// objects, and for attributes.
const PLAIN_RESULT_BYTES: usize = 256;

/// The size reserved for attributes, with names of owners.
const ATTRIBUTES_BYTES: usize = 1024;

/// The maximum size of a symbolic link's target.
const TARGET_BYTES: usize = 4096;

/// The maximum size of the value of an extended attribute.
const XATTR_BYTES: usize = 64 << 10;

/// The approximate maximum size of the reply to a call, by its operations. It must be known before execution, to
/// reserve space. An invalid call has a small reply.
#[must_use]
pub fn largest_reply(record: &Bytes) -> usize {
    let operations = operations_of(Reader::new(record.clone())).ok().flatten();
    let operations = operations.into_iter().flatten();
    let results = operations.map_while(Result::ok).map(|operation| {
        let carried = match &operation {
            ArgOp4::Read(args) => args.count as usize,
            ArgOp4::Readdir(args) => args.maxcount as usize,
            ArgOp4::Listxattrs(args) => args.maxcount as usize,
            ArgOp4::Getxattr(_) => XATTR_BYTES,
            ArgOp4::Readlink => TARGET_BYTES,
            ArgOp4::Getattr(_) => ATTRIBUTES_BYTES,
            _ => 0,
        };
        carried.saturating_add(PLAIN_RESULT_BYTES)
    });
    results.fold(RPC_HEADER_BYTES, usize::saturating_add)
}

/// The operations of a call of COMPOUND (RFC 5531, section 9).
fn operations_of(mut call: Reader) -> Result<Option<Operations<ArgOp4>>, DecodeError> {
    /// Transaction, kind, and the versions of RPC and program.
    const WORDS_BEFORE_PROCEDURE: usize = 5;
    for _ in 0..WORDS_BEFORE_PROCEDURE {
        call.u32()?;
    }
    if call.u32()? == PROC_NULL {
        return Ok(None);
    }
    // Credentials and verifier.
    for _ in 0..2 {
        call.u32()?;
        call.opaque(OPAQUE_AUTH_MAX)?;
    }
    Ok(CompoundArgs::parse(call).ok().map(|args| args.ops))
}

/// The reply so far, encoded.
pub(crate) struct Reply {
    writer: Writer,
    reply: CompoundReply,
}

impl Reply {
    pub(crate) fn new(tag: &Bytes) -> Reply {
        let mut writer = Writer::new();
        let reply = CompoundReply::begin(&mut writer, tag);
        Reply { writer, reply }
    }

    /// The complete reply to a request that is refused before its first operation.
    pub(crate) fn refusal(tag: &Bytes, status: NfsStat4) -> Rope {
        let refusal = CompoundRes::<ResOp4> {
            status,
            tag: tag.clone(),
            results: Vec::new(),
        };
        let mut writer = Writer::new();
        writer.write(&refusal);
        writer.finish()
    }

    /// The minimum size of the reply, RPC header included, when SEQUENCE comes first.
    pub(crate) fn smallest(&self, compound: &Compound<'_>) -> usize {
        let rest = if compound.is_last_operation() {
            0
        } else {
            REFUSAL_BYTES
        };
        RPC_HEADER_BYTES + self.writer.position() + SEQUENCE_BYTES + rest
    }

    /// The remaining bytes for the body of the next successful result, whose number and status take eight bytes.
    pub(crate) fn space(&self, compound: &Compound<'_>) -> usize {
        limit_of_success(compound).saturating_sub(self.writer.position() + 8)
    }

    /// Adds a result, or the error that it is too big. Returns the status.
    pub(crate) fn push(&mut self, compound: &Compound<'_>, result: &ResOp4) -> NfsStat4 {
        let limit = if result.status().is_ok() {
            limit_of_success(compound)
        } else {
            limit(compound)
        };
        match self.reply.push_within(&mut self.writer, limit, result) {
            Ok(()) => result.status(),
            Err(_) => {
                let refusal = ResOp4::Failed(result.opnum(), too_big(compound));
                self.reply.push(&mut self.writer, &refusal);
                refusal.status()
            }
        }
    }

    pub(crate) fn finish(self) -> Rope {
        let Reply { mut writer, reply } = self;
        reply.finish(&mut writer);
        writer.finish()
    }
}

/// The size of the body of a successful result, for operations that change something. Zero for others, which may be
/// executed in vain.
pub(crate) fn needed_space(operation: &ArgOp4) -> usize {
    const STATEID: usize = 16;
    const CHANGE: usize = 20;
    const BITMAP: usize = 4 + 3 * 4;
    const CHANNEL: usize = 7 * 4;
    const NO_DELEGATION: usize = 3 * 4;
    match operation {
        ArgOp4::Close(_) | ArgOp4::Lock(_) | ArgOp4::Locku(_) | ArgOp4::OpenDowngrade(_) => STATEID,
        ArgOp4::Layoutcommit(_) => 4 + 8,
        ArgOp4::Layoutreturn(_) => 4 + STATEID,
        ArgOp4::Open(_) => STATEID + CHANGE + 4 + BITMAP + NO_DELEGATION,
        ArgOp4::Create(_) => CHANGE + BITMAP,
        ArgOp4::Link(_) | ArgOp4::Remove(_) => CHANGE,
        ArgOp4::Rename(_) => 2 * CHANGE,
        ArgOp4::Setxattr(_) | ArgOp4::Removexattr(_) => CHANGE,
        ArgOp4::Setattr(_) => BITMAP,
        ArgOp4::Write(_) => 4 + 4 + 8,
        ArgOp4::CreateSession(_) => 16 + 4 + 4 + 2 * CHANNEL,
        ArgOp4::BindConnToSession(_) => 16 + 4 + 4,
        _ => 0,
    }
}

/// Which of the session's two limits the reply exceeds.
pub(crate) fn too_big(compound: &Compound<'_>) -> NfsStat4 {
    match &compound.session {
        Some(session) => session.channel.too_big(session.cache),
        None => NfsStat4::RepTooBig,
    }
}

/// The limit of the reply after a successful result: the next result may be a refusal, which must still fit.
fn limit_of_success(compound: &Compound<'_>) -> usize {
    let reserve = if compound.is_last_operation() {
        0
    } else {
        REFUSAL_BYTES
    };
    limit(compound).saturating_sub(reserve)
}

/// The limit of the whole `COMPOUND4res`.
fn limit(compound: &Compound<'_>) -> usize {
    let limit = match &compound.session {
        Some(session) => session.channel.reply_bytes(session.cache),
        None => compound.service.state().limits().response_bytes,
    };
    (limit as usize).saturating_sub(RPC_HEADER_BYTES)
}

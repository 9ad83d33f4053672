//! One COMPOUND: its operations in order, until one fails (RFC 8881, section 2.10 and 16.2).
//!
//! Here stands what holds for all operations: current and saved filehandle, the session and its reply
//! slot, size limits. What a single operation does stands in [`crate::ops`].

use std::sync::Arc;
use std::time::Instant;

use nfs4::{
    ArgOp4, CompoundArgs, CompoundReply, CompoundRes, NfsStat4, Opnum, ResOp4, SequenceArgs,
    SequenceResOk, SessionId4, Stateid4,
};
use xdr::{Bytes, Rope, Writer};

use crate::connection::Connection;
use crate::handle::{Handle, ObjectHandle};
use crate::namespace::Caller;
use crate::ops;
use crate::service::Service;
use crate::state::{ClientId, Principal, ReplySlot, SequenceRequest, Sequenced, SessionChannel};

/// Room that an operation with a small result may need. An operation that changes something is not
/// begun with less, because its reply could not be sent.
const SMALL_RESULT_BYTES: usize = 512;

/// Bytes of an RPC reply before the COMPOUND's body, AUTH_NONE verifier included.
const RPC_REPLY_HEADER_BYTES: usize = 24;

/// The highest minor version that is spoken.
const MINOR_VERSION_MAX: u32 = 2;

/// The session that a COMPOUND runs in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionContext {
    /// Who owns the session.
    pub(crate) client: ClientId,
    /// The session.
    pub(crate) id: SessionId4,
    /// Its sizes.
    pub(crate) channel: SessionChannel,
    /// Where the reply is kept.
    pub(crate) slot: ReplySlot,
    /// Whether the client wants it kept.
    cache: bool,
}

/// What one operation of a COMPOUND hands to the next.
pub(crate) struct Compound<'a> {
    /// The server.
    pub(crate) service: &'a Service,
    /// Where the request came from.
    pub(crate) connection: &'a Arc<dyn Connection>,
    /// Who sent it.
    pub(crate) caller: Caller,
    /// The minor version in use, 1 or 2.
    pub(crate) minor_version: u32,
    /// Operations in the request.
    pub(crate) operation_count: u32,
    /// The place of the operation being executed, from 0.
    pub(crate) operation_index: u32,
    /// Size of the request in bytes.
    pub(crate) request_bytes: usize,
    /// The session, once SEQUENCE was executed.
    pub(crate) session: Option<SessionContext>,
    /// The current filehandle.
    pub(crate) current: Option<Handle>,
    /// The saved filehandle.
    pub(crate) saved: Option<Handle>,
    /// The current stateid (RFC 8881, section 16.2.3.1.2).
    pub(crate) current_stateid: Option<Stateid4>,
    /// The saved stateid.
    pub(crate) saved_stateid: Option<Stateid4>,
    /// Bytes that the result of the operation being executed may take.
    pub(crate) result_room: usize,
}

impl Compound<'_> {
    /// The current filehandle, wherever it points.
    pub(crate) fn current(&self) -> Result<&Handle, NfsStat4> {
        self.current.as_ref().ok_or(NfsStat4::NoFileHandle)
    }

    /// The current filehandle, which must be of an exported tree.
    ///
    /// # Errors
    /// `pseudo` is returned for a directory of the pseudo file system.
    pub(crate) fn current_object(&self, pseudo: NfsStat4) -> Result<ObjectHandle, NfsStat4> {
        match self.current()? {
            Handle::Object(object) => Ok(object.clone()),
            Handle::Pseudo(_) => Err(pseudo),
        }
    }

    /// The current filehandle, which must be of an exported tree that the caller may change.
    ///
    /// # Errors
    /// `ROFS` for the pseudo file system and for read-only exports.
    pub(crate) fn current_writable(&self) -> Result<ObjectHandle, NfsStat4> {
        let object = self.current_object(NfsStat4::RoFs)?;
        if object.read_only {
            Err(NfsStat4::RoFs)
        } else {
            Ok(object)
        }
    }

    /// The saved filehandle, which must be of an exported tree.
    pub(crate) fn saved_object(&self, pseudo: NfsStat4) -> Result<ObjectHandle, NfsStat4> {
        match self.saved.as_ref().ok_or(NfsStat4::NoFileHandle)? {
            Handle::Object(object) => Ok(object.clone()),
            Handle::Pseudo(_) => Err(pseudo),
        }
    }

    /// Makes another object current. The current stateid belongs to the old one and goes.
    pub(crate) fn set_current(&mut self, handle: Handle) {
        self.current = Some(handle);
        self.current_stateid = None;
    }

    /// The session, which every operation but those that make one runs in.
    pub(crate) fn session(&self) -> Result<SessionContext, NfsStat4> {
        self.session.ok_or(NfsStat4::OpNotInSession)
    }

    /// Replaces the special stateid that stands for "the current one".
    pub(crate) fn substitute(&self, stateid: Stateid4) -> Result<Stateid4, NfsStat4> {
        if stateid == Stateid4::CURRENT {
            self.current_stateid.ok_or(NfsStat4::BadStateid)
        } else {
            Ok(stateid)
        }
    }

    /// Whether no operation follows the one being executed.
    pub(crate) fn is_last_operation(&self) -> bool {
        self.operation_index + 1 == self.operation_count
    }

    /// Under whose credentials the request came, as far as client records are concerned.
    pub(crate) fn principal(&self) -> Principal {
        match &self.caller.credentials {
            oncrpc::Credentials::Sys(sys) => Principal::User(sys.uid),
            _ => Principal::Nobody,
        }
    }

    /// The most bytes that a READ, READDIR or the like may return, so that the reply still fits.
    pub(crate) fn payload_room(&self) -> usize {
        self.result_room.saturating_sub(SMALL_RESULT_BYTES / 4)
    }
}

/// Executes a COMPOUND and returns the encoded `COMPOUND4res`.
pub(crate) async fn execute(
    service: &Service,
    connection: &Arc<dyn Connection>,
    caller: Caller,
    mut args: CompoundArgs,
    request_bytes: usize,
) -> Rope {
    if !(1..=MINOR_VERSION_MAX).contains(&args.minorversion) {
        let refusal = CompoundRes::<ResOp4> {
            status: NfsStat4::MinorVersMismatch,
            tag: args.tag,
            results: Vec::new(),
        };
        let mut writer = Writer::new();
        writer.write(&refusal);
        return writer.finish();
    }
    let mut compound = Compound {
        service,
        connection,
        caller,
        minor_version: args.minorversion,
        operation_count: args.count,
        operation_index: 0,
        request_bytes,
        session: None,
        current: None,
        saved: None,
        current_stateid: None,
        saved_stateid: None,
        result_room: service.state().limits().response_bytes as usize,
    };
    let mut results = Results::new(&args.tag);
    let mut status = NfsStat4::Ok;
    while status == NfsStat4::Ok
        && let Some(operation) = args.next_op()
    {
        let result = match operation {
            Err(error) => ResOp4::Failed(error.opnum, NfsStat4::BadXdr),
            Ok(operation) => match begin(&mut compound, &operation) {
                Begin::Replay(reply) => return reply,
                Begin::Refuse(status) => ResOp4::Failed(operation.opnum(), status),
                Begin::Sequenced(result) => ResOp4::Sequence(Ok(result)),
                Begin::Execute => {
                    compound.result_room = results.room(&compound);
                    run(&mut compound, operation).await
                }
            },
        };
        status = results.push(&compound, &result);
        compound.operation_index += 1;
    }
    let reply = results.finish();
    if let Some(session) = compound.session {
        let kept = session.cache.then(|| reply.clone());
        service
            .state()
            .finish_sequence(session.slot, kept, service.now());
    }
    reply
}

/// How an operation starts.
enum Begin {
    /// Execute it.
    Execute,
    /// It was SEQUENCE, with this result.
    Sequenced(SequenceResOk),
    /// The whole COMPOUND was executed before.
    Replay(Rope),
    /// It must not be executed.
    Refuse(NfsStat4),
}

/// Decides by its place in the COMPOUND whether an operation may be executed
/// (RFC 8881, section 2.10.2.2 and the descriptions of the operations named).
fn begin(compound: &mut Compound<'_>, operation: &ArgOp4) -> Begin {
    let alone_without_session = matches!(
        operation,
        ArgOp4::ExchangeId(_)
            | ArgOp4::CreateSession(_)
            | ArgOp4::DestroySession(_)
            | ArgOp4::DestroyClientid(_)
            | ArgOp4::BindConnToSession(_)
    );
    match (operation, compound.operation_index) {
        (ArgOp4::Sequence(args), 0) => sequence(compound, args),
        (ArgOp4::Sequence(_), _) => Begin::Refuse(NfsStat4::SequencePos),
        (ArgOp4::Illegal(_), _) => Begin::Refuse(NfsStat4::OpIllegal),
        (ArgOp4::BindConnToSession(_), _) if compound.operation_count > 1 => {
            Begin::Refuse(NfsStat4::NotOnlyOp)
        }
        (_, 0) if alone_without_session => {
            if compound.operation_count > 1 {
                Begin::Refuse(NfsStat4::NotOnlyOp)
            } else {
                Begin::Execute
            }
        }
        _ if compound.session.is_none() => Begin::Refuse(NfsStat4::OpNotInSession),
        _ if !is_of_minor_version(operation, compound.minor_version) => {
            Begin::Refuse(NfsStat4::OpIllegal)
        }
        _ => Begin::Execute,
    }
}

fn is_of_minor_version(operation: &ArgOp4, minor_version: u32) -> bool {
    Opnum::try_from(operation.opnum())
        .is_ok_and(|opnum| opnum.first_minor_version() <= minor_version)
}

/// Executes SEQUENCE (RFC 8881, section 18.46).
fn sequence(compound: &mut Compound<'_>, args: &SequenceArgs) -> Begin {
    let request = SequenceRequest {
        session: args.sessionid,
        sequence: args.sequenceid,
        slot: args.slotid,
        highest_slot: args.highest_slotid,
        cache: args.cachethis,
        request_bytes: compound.request_bytes,
        operations: compound.operation_count,
        principal: compound.principal(),
        connection: compound.connection.id(),
    };
    let outcome = compound
        .service
        .state()
        .sequence(&request, compound.service.now());
    match outcome {
        Err(status) => Begin::Refuse(status),
        Ok(Sequenced::Replay(reply)) => {
            compound.service.observer.replayed();
            Begin::Replay(reply)
        }
        Ok(Sequenced::Execute {
            client,
            channel,
            slot,
            callback_path_down,
        }) => {
            let cache = args.cachethis;
            compound.session = Some(SessionContext {
                client,
                id: args.sessionid,
                channel,
                slot,
                cache,
            });
            Begin::Sequenced(ops::sequence_result(args, &channel, callback_path_down))
        }
    }
}

/// Executes one operation and reports it.
async fn run(compound: &mut Compound<'_>, operation: ArgOp4) -> ResOp4 {
    if compound.result_room < SMALL_RESULT_BYTES {
        return ResOp4::Failed(operation.opnum(), too_big(compound));
    }
    let number = Opnum::try_from(operation.opnum()).unwrap_or(Opnum::Illegal);
    let started = Instant::now();
    let result = ops::execute(compound, operation).await;
    compound
        .service
        .observer
        .operation(number, result.status(), started.elapsed());
    result
}

/// The reply so far, encoded, and how large it may become.
struct Results {
    writer: Writer,
    reply: CompoundReply,
}

impl Results {
    fn new(tag: &Bytes) -> Results {
        let mut writer = Writer::new();
        let reply = CompoundReply::begin(&mut writer, tag);
        Results { writer, reply }
    }

    /// Bytes left for the body of the next result, whose number and status take eight.
    fn room(&self, compound: &Compound<'_>) -> usize {
        reply_limit(compound).saturating_sub(self.writer.position() + 8)
    }

    /// Adds a result, or the error that it is too big (RFC 8881, section 2.10.6.4). Returns the status.
    fn push(&mut self, compound: &Compound<'_>, result: &ResOp4) -> NfsStat4 {
        if result.status() != NfsStat4::Ok {
            self.reply.push(&mut self.writer, result);
            return result.status();
        }
        let limit = reply_limit(compound);
        match self.reply.push_within(&mut self.writer, limit, result) {
            Ok(()) => NfsStat4::Ok,
            Err(_) => {
                let refusal = ResOp4::Failed(result.opnum(), too_big(compound));
                self.reply.push(&mut self.writer, &refusal);
                refusal.status()
            }
        }
    }

    fn finish(self) -> Rope {
        let Results { mut writer, reply } = self;
        reply.finish(&mut writer);
        writer.finish()
    }
}

/// Bytes that the whole `COMPOUND4res` may take.
fn reply_limit(compound: &Compound<'_>) -> usize {
    let limit = match &compound.session {
        None => compound.service.state().limits().response_bytes,
        Some(session) if session.cache => session
            .channel
            .response_bytes
            .min(session.channel.cached_response_bytes),
        Some(session) => session.channel.response_bytes,
    };
    (limit as usize).saturating_sub(RPC_REPLY_HEADER_BYTES)
}

/// Which of the two limits a reply was too big for.
fn too_big(compound: &Compound<'_>) -> NfsStat4 {
    match &compound.session {
        Some(session)
            if session.cache
                && session.channel.cached_response_bytes < session.channel.response_bytes =>
        {
            NfsStat4::RepTooBigToCache
        }
        _ => NfsStat4::RepTooBig,
    }
}

//! One COMPOUND: its operations in order, until one fails (RFC 8881, section 2.10 and 16.2).
//!
//! Here stands what holds for all operations: current and saved filehandle, the session and its reply
//! slot, size limits. What a single operation does stands in [`crate::ops`].

use std::sync::Arc;
use std::time::Instant;

use nfs4::{ArgOp4, CompoundArgs, NfsStat4, Opnum, ResOp4, SequenceArgs, SessionId4, Stateid4};
use xdr::{Rope, Writer};

use crate::connection::Connection;
use crate::handle::{Handle, ObjectHandle};
use crate::namespace::Caller;
use crate::ops;
use crate::service::Service;
use crate::state::{
    ClientId, Principal, ReplySlot, SequenceRequest, Sequenced, SessionChannel,
};

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
        if object.read_only { Err(NfsStat4::RoFs) } else { Ok(object) }
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
        return Results::new().finish(&args.tag, NfsStat4::MinorVersMismatch);
    }
    let mut compound = Compound {
        service,
        connection,
        caller,
        minor_version: args.minorversion,
        operation_count: args.count,
        request_bytes,
        session: None,
        current: None,
        saved: None,
        current_stateid: None,
        saved_stateid: None,
        result_room: service.state().limits().response_bytes as usize,
    };
    let mut results = Results::new();
    let mut status = NfsStat4::Ok;
    let mut index = 0;
    while status == NfsStat4::Ok
        && let Some(operation) = args.next_op()
    {
        let result = match operation {
            Err(error) => ResOp4::Failed(error.opnum, NfsStat4::BadXdr),
            Ok(operation) => match begin(&mut compound, &operation, index) {
                Begin::Replay(reply) => return reply,
                Begin::Refuse(status) => ResOp4::Failed(operation.opnum(), status),
                Begin::Sequenced(result) => result,
                Begin::Execute => {
                    compound.result_room = results.room(&compound, args.tag.len());
                    run(&mut compound, operation).await
                }
            },
        };
        status = results.push(&compound, args.tag.len(), result);
        index += 1;
    }
    let reply = results.finish(&args.tag, status);
    if let Some(session) = compound.session {
        let kept = session.cache.then(|| reply.clone());
        service.state().finish_sequence(session.slot, kept, service.now());
    }
    reply
}

/// How an operation starts.
enum Begin {
    /// Execute it.
    Execute,
    /// It was SEQUENCE, with this result.
    Sequenced(ResOp4),
    /// The whole COMPOUND was executed before.
    Replay(Rope),
    /// It must not be executed.
    Refuse(NfsStat4),
}

/// Decides by its place in the COMPOUND whether an operation may be executed
/// (RFC 8881, section 2.10.2.2 and the descriptions of the operations named).
fn begin(compound: &mut Compound<'_>, operation: &ArgOp4, index: u32) -> Begin {
    let alone_without_session = matches!(
        operation,
        ArgOp4::ExchangeId(_)
            | ArgOp4::CreateSession(_)
            | ArgOp4::DestroySession(_)
            | ArgOp4::DestroyClientid(_)
            | ArgOp4::BindConnToSession(_)
    );
    match (operation, index) {
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
    let outcome = compound.service.state().sequence(&request, compound.service.now());
    match outcome {
        Err(status) => Begin::Refuse(status),
        Ok(Sequenced::Replay(reply)) => {
            compound.service.observer.replayed();
            Begin::Replay(reply)
        }
        Ok(Sequenced::Execute { client, channel, slot, callback_path_down }) => {
            let cache = args.cachethis;
            compound.session =
                Some(SessionContext { client, id: args.sessionid, channel, slot, cache });
            Begin::Sequenced(ops::sequence_result(args, &channel, callback_path_down))
        }
    }
}

/// Executes one operation and reports it.
async fn run(compound: &mut Compound<'_>, operation: ArgOp4) -> ResOp4 {
    if compound.result_room < SMALL_RESULT_BYTES {
        let wants_cache = compound.session.is_some_and(|session| session.cache);
        let status = if wants_cache { NfsStat4::RepTooBigToCache } else { NfsStat4::RepTooBig };
        return ResOp4::Failed(operation.opnum(), status);
    }
    let name = operation.name();
    let started = Instant::now();
    let result = ops::execute(compound, operation).await;
    compound.service.observer.operation(name, result.status(), started.elapsed());
    result
}

/// The results so far, encoded.
struct Results {
    writer: Writer,
    count: u32,
}

impl Results {
    fn new() -> Results {
        Results { writer: Writer::new(), count: 0 }
    }

    /// Bytes left in the reply for the next result.
    fn room(&self, compound: &Compound<'_>, tag_bytes: usize) -> usize {
        // Status, tag and count stand before the results; number and status of the next one follow.
        let used = RPC_REPLY_HEADER_BYTES + 12 + tag_bytes + 3 + self.writer.position() + 8;
        self.limit(compound).saturating_sub(used)
    }

    fn limit(&self, compound: &Compound<'_>) -> usize {
        match &compound.session {
            None => compound.service.state().limits().response_bytes as usize,
            Some(session) if session.cache => {
                session.channel.response_bytes.min(session.channel.cached_response_bytes) as usize
            }
            Some(session) => session.channel.response_bytes as usize,
        }
    }

    /// Adds a result, or the error that it is too big (RFC 8881, section 2.10.6.4). Returns the status.
    fn push(&mut self, compound: &Compound<'_>, tag_bytes: usize, result: ResOp4) -> NfsStat4 {
        let room = self.room(compound, tag_bytes) + 8;
        let mark = self.writer.mark();
        let mut status = result.status();
        self.writer.write(&result);
        if self.writer.written_since(mark) > room && status == NfsStat4::Ok {
            let is_sequence = self.count == 0 && compound.session.is_some();
            let fits_uncached = compound
                .session
                .is_some_and(|session| session.cache && !is_sequence);
            status =
                if fits_uncached { NfsStat4::RepTooBigToCache } else { NfsStat4::RepTooBig };
            self.writer.truncate_to(mark);
            self.writer.write(&ResOp4::Failed(result.opnum(), status));
        }
        self.count += 1;
        status
    }

    /// Puts status, tag and count in front.
    fn finish(self, tag: &[u8], status: NfsStat4) -> Rope {
        let mut whole = Writer::new();
        whole.write(&status);
        whole.opaque(tag);
        whole.u32(self.count);
        whole.rope(&self.writer.finish());
        whole.finish()
    }
}

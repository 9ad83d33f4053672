//! Executes one COMPOUND: its operations in order, until one fails (RFC 8881, sections 2.10 and 16.2).
//!
//! This module has the part that is common to all operations: current and saved filehandle, the session and its reply
//! slot, size limits. The single operations are in [`crate::ops`].

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use nfs4::{
    ArgOp4, CompoundArgs, NfsStat4, OpError, Opnum, ResOp4, SequenceArgs, SequenceResOk,
    SessionId4, Stateid4, Verifier4,
};
use vfs::{Attributes, RequestId};
use xdr::{Bytes, Rope};

use crate::connection::Connection;
use crate::handle::{Handle, ObjectHandle};
use crate::moving;
use crate::namespace::Caller;
use crate::ops::{self, SessionHealth};
use crate::panics;
use crate::repeats;
use crate::reply::{self, Reply};
use crate::service::Service;
use crate::state::{
    ClientId, Departure, FileKey, Principal, ReplySlot, SequenceRequest, Sequenced, SessionChannel,
};
use crate::status::{OrStatus, UNCERTAIN};

/// The highest supported minor version.
const MINOR_VERSION_MAX: u32 = 2;

/// The session that a COMPOUND runs in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionContext {
    /// The owner of the session.
    pub(crate) client: ClientId,
    /// The session.
    pub(crate) id: SessionId4,
    /// Its sizes.
    pub(crate) channel: SessionChannel,
    /// Where the reply is cached.
    pub(crate) slot: ReplySlot,
    /// The number of the request on this slot (see [`RequestId::number`]).
    pub(crate) number: u64,
    /// Whether the client wants the reply cached.
    pub(crate) cache: bool,
}

/// The state that one operation of a COMPOUND passes to the next.
pub(crate) struct Compound<'a> {
    /// The server.
    pub(crate) service: &'a Service,
    /// Where the request came from.
    pub(crate) connection: &'a Arc<dyn Connection>,
    /// The sender of the request.
    pub(crate) caller: Caller,
    /// The minor version in use, 1 or 2.
    pub(crate) minor_version: u32,
    /// Operations in the request.
    pub(crate) operation_count: u32,
    /// The index of the operation being executed, from 0.
    pub(crate) operation_index: u32,
    /// Size of the request in bytes.
    pub(crate) request_bytes: usize,
    /// The encoded operations after the first one. Clients may encode SEQUENCE differently when they repeat a request.
    asked: Bytes,
    /// Whether the session of the request is gone, so that only operations that were executed earlier are answered.
    pub(crate) is_repeat: bool,
    /// Whether a second execution of the operations so far would have the same effect.
    pub(crate) may_come_again: bool,
    /// Whether an earlier operation has verified attributes that the client expects.
    pub(crate) is_guarded: bool,
    /// The session, after SEQUENCE was executed.
    pub(crate) session: Option<SessionContext>,
    /// The current filehandle.
    pub(crate) current: Option<Handle>,
    /// Whether the client reached the current filehandle from the root of the name space, not with a filehandle that it already had.
    pub(crate) is_from_root: bool,
    /// The current filehandle where the service is a data server.
    pub(crate) contents: Option<Bytes>,
    /// The saved filehandle.
    pub(crate) saved: Option<Handle>,
    /// The current stateid (RFC 8881, section 16.2.3.1.2).
    pub(crate) current_stateid: Option<Stateid4>,
    /// The saved stateid.
    pub(crate) saved_stateid: Option<Stateid4>,
    /// The attributes of an object that an operation has read, for later operations.
    known: Option<(FileKey, Attributes)>,
    /// The maximum size of the result of the operation being executed.
    pub(crate) result_space: usize,
}

impl Compound<'_> {
    /// The current filehandle, of any kind.
    pub(crate) fn current(&self) -> Result<&Handle, NfsStat4> {
        self.current.as_ref().ok_or(NfsStat4::NoFileHandle)
    }

    /// The current filehandle, which must belong to an exported tree.
    ///
    /// # Errors
    /// `pseudo` for a directory of the pseudo file system.
    pub(crate) fn current_object(&self, pseudo: NfsStat4) -> Result<ObjectHandle, NfsStat4> {
        match self.current()? {
            Handle::Object(object) => Ok(object.clone()),
            Handle::Pseudo(_) => Err(pseudo),
            Handle::Absent(_) => Err(NfsStat4::Moved),
        }
    }

    /// The current filehandle, which must belong to an exported tree that the caller may change.
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

    /// The saved filehandle, which must belong to an exported tree.
    pub(crate) fn saved_object(&self, pseudo: NfsStat4) -> Result<ObjectHandle, NfsStat4> {
        match self.saved.as_ref().ok_or(NfsStat4::NoFileHandle)? {
            Handle::Object(object) => Ok(object.clone()),
            Handle::Pseudo(_) => Err(pseudo),
            Handle::Absent(_) => Err(NfsStat4::Moved),
        }
    }

    /// The attributes of an object, at some time after the request arrived and after its own changes. A file system
    /// that has to ask another site is asked only once for values that a request returns several times.
    pub(crate) async fn attributes(
        &mut self,
        object: &ObjectHandle,
    ) -> Result<Attributes, NfsStat4> {
        if let Some((known, attributes)) = &self.known
            && *known == object.key()
        {
            return Ok(attributes.clone());
        }
        let file_system = &object.export.file_system;
        let attributes = file_system.attributes(object.id).await.or_status()?;
        self.learn(object, attributes.clone());
        Ok(attributes)
    }

    /// Records the attributes of an object for later operations.
    pub(crate) fn learn(&mut self, object: &ObjectHandle, attributes: Attributes) {
        self.known = Some((object.key(), attributes));
    }

    /// Drops the known attributes before an operation that may change something.
    pub(crate) fn begin_operation(&mut self, operation: &ArgOp4) {
        if !only_tells(operation) {
            self.known = None;
        }
    }

    /// Makes another object current. The current stateid belongs to the old object and is dropped.
    pub(crate) fn set_current(&mut self, handle: Handle) {
        self.current = Some(handle);
        self.current_stateid = None;
    }

    /// The session. Every operation runs in one, except those that create a session.
    pub(crate) fn session(&self) -> Result<SessionContext, NfsStat4> {
        self.session.ok_or(NfsStat4::OpNotInSession)
    }

    /// Replaces the special stateid that means "the current one".
    pub(crate) fn substitute(&self, stateid: Stateid4) -> Result<Stateid4, NfsStat4> {
        if stateid == Stateid4::CURRENT {
            self.current_stateid.ok_or(NfsStat4::BadStateid)
        } else {
            Ok(stateid)
        }
    }

    /// Releases the state of clients that have gone because of this request. Waits until that is complete, except when
    /// a request of such a client runs this: then its own end may have to come first.
    pub(crate) async fn see_off(&self, departures: impl IntoIterator<Item = Departure>) {
        match self.session {
            None => self.service.see_off(departures).await,
            Some(_) => drop(self.service.begin_to_see_off(departures)),
        }
    }

    /// Whether no operation follows the one being executed.
    pub(crate) fn is_last_operation(&self) -> bool {
        self.operation_index + 1 == self.operation_count
    }

    /// The caller of an operation that must not be executed twice, with the identifier of the request.
    pub(crate) fn asking(&self, who: &vfs::Credentials) -> vfs::Credentials {
        who.with_request(self.session.map(|session| self.request_id(&session)))
    }

    fn request_id(&self, session: &SessionContext) -> RequestId {
        let mut series = [0; RequestId::SERIES_BYTES];
        series[..16].copy_from_slice(&session.id.0);
        series[16..].copy_from_slice(&session.slot.slot.to_be_bytes());
        // The user is part of the request.
        let digest = self.digest_for_principal(&[&self.asked]);
        RequestId {
            series,
            number: session.number,
            part: self.operation_index,
            digest: u64::from_be_bytes(digest),
            repeat_only: self.is_repeat,
        }
    }

    /// The verifier of an exclusive creation, made unique: another client, or another user of this client, with the
    /// same verifier does not mean the same file.
    pub(crate) fn own_verifier(&self, verifier: &Verifier4) -> [u8; 8] {
        let client = self.session.map(|session| session.client);
        let name = client.and_then(|client| self.service.state().client_name(client));
        self.digest_for_principal(&[&verifier.0, name.as_deref().unwrap_or_default()])
    }

    fn digest_for_principal(&self, parts: &[&[u8]]) -> [u8; 8] {
        let mut hasher = blake3::Hasher::new();
        match self.principal() {
            Principal::Nobody => hasher.update(&[0]),
            Principal::User(user) => hasher.update(&[1]).update(&user.to_be_bytes()),
        };
        for part in parts {
            hasher.update(part);
        }
        let mut digest = [0; 8];
        hasher.finalize_xof().fill(&mut digest);
        digest
    }

    /// The credentials of the request, for client records.
    pub(crate) fn principal(&self) -> Principal {
        match &self.caller.credentials {
            oncrpc::Credentials::Sys(sys) => Principal::User(sys.uid),
            _ => Principal::Nobody,
        }
    }

    /// The maximum number of bytes that a READ, READDIR or similar may return so that the reply still fits.
    pub(crate) fn payload_space(&self) -> usize {
        self.result_space.saturating_sub(reply::PAYLOAD_FRAME_BYTES)
    }
}

/// Executes a COMPOUND and returns the encoded `COMPOUND4res`.
pub(crate) async fn execute(
    service: &Service,
    connection: &Arc<dyn Connection>,
    caller: Caller,
    args: CompoundArgs,
    request_bytes: usize,
) -> Rope {
    if let Err(refusal) = check_header(&args) {
        return Reply::refusal(&args.tag, refusal);
    }
    let mut compound = Compound {
        service,
        connection,
        caller,
        minor_version: args.minorversion,
        operation_count: args.count,
        operation_index: 0,
        request_bytes,
        asked: Bytes::new(),
        is_repeat: false,
        may_come_again: true,
        is_guarded: false,
        session: None,
        current: None,
        is_from_root: false,
        contents: None,
        saved: None,
        current_stateid: None,
        saved_stateid: None,
        known: None,
        result_space: service.state().limits().response_bytes as usize,
    };
    let tag = args.tag.clone();
    let answered = {
        let answering = pin!(answer(&mut compound, args));
        panics::caught(|| "COMPOUND".to_owned(), answering).await
    };
    // A panic in an operation ends only that operation, so this panic was outside the operations.
    answered.unwrap_or_else(|| {
        let refusal = Reply::refusal(&tag, NfsStat4::ServerFault);
        finish(&compound, Some(&refusal));
        refusal
    })
}

async fn answer(compound: &mut Compound<'_>, mut args: CompoundArgs) -> Rope {
    let mut reply = Reply::new(&args.tag);
    let mut status = NfsStat4::Ok;
    while status == NfsStat4::Ok
        && let Some(operation) = args.next_op()
    {
        if compound.operation_index == 0 {
            compound.asked = args.ops.undecoded();
        }
        let result = match operation {
            Err(error) => malformed(&error, compound.minor_version),
            Ok(operation) => match begin(compound, &operation, &reply) {
                Begin::Replay(reply) => return reply,
                Begin::Unknown(sequence) => {
                    return repeats::answer(compound, &sequence, args).await;
                }
                Begin::Refuse(number, status) => ResOp4::Failed(number, status),
                Begin::Sequenced(result) => ResOp4::Sequence(Ok(result)),
                Begin::Execute => {
                    compound.result_space = reply.space(compound);
                    let result = run(compound, operation).await;
                    match result.status() {
                        UNCERTAIN => match repeats::put_off(compound, &args.tag) {
                            Some(reply) => return reply,
                            None => ResOp4::Failed(result.opnum(), NfsStat4::Delay),
                        },
                        _ => result,
                    }
                }
            },
        };
        status = reply.push(compound, &result);
        compound.operation_index += 1;
    }
    let reply = reply.finish();
    if let Some(session) = compound.session {
        // The reply to a single SEQUENCE is always cached: it is small, and clients send it alone to find out the
        // outcome of a request that they abandoned.
        let kept = session.cache || compound.operation_count == 1;
        finish(compound, kept.then_some(&reply));
    }
    reply
}

/// Frees the session's slot for the next request.
fn finish(compound: &Compound<'_>, kept: Option<&Rope>) {
    if let Some(session) = compound.session.filter(|_| !compound.is_repeat) {
        let (service, kept) = (compound.service, kept.cloned());
        let now = service.now();
        let is_waited_for = service.state().finish_sequence(session.slot, kept, now);
        if is_waited_for {
            service.request_has_ended();
        }
    }
}

/// Checks what can be refused before the first operation. The reply then has no results.
fn check_header(args: &CompoundArgs) -> Result<(), NfsStat4> {
    if !(1..=MINOR_VERSION_MAX).contains(&args.minorversion) {
        return Err(NfsStat4::MinorVersMismatch);
    }
    if is_text(&args.tag) {
        Ok(())
    } else {
        // RFC 8881, section 14.5.
        Err(NfsStat4::Inval)
    }
}

/// Whether bytes are UTF-8 text; U+FFFE and U+FFFF are never characters.
fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| !text.contains(['\u{fffe}', '\u{ffff}']))
}

/// The result of an operation that could not be decoded. A number that is not an operation of the minor version has no
/// arguments that could be malformed.
fn malformed(error: &OpError, minor_version: u32) -> ResOp4 {
    if is_of_minor_version(error.opnum, minor_version) {
        ResOp4::Failed(error.opnum, NfsStat4::BadXdr)
    } else {
        ResOp4::Failed(Opnum::Illegal.into(), NfsStat4::OpIllegal)
    }
}

/// How an operation starts.
enum Begin {
    /// Execute it.
    Execute,
    /// It was SEQUENCE, with this result.
    Sequenced(SequenceResOk),
    /// The whole COMPOUND was executed before.
    Replay(Rope),
    /// It was SEQUENCE, and its session does not exist any more.
    Unknown(SequenceArgs),
    /// It must not be executed; its result has this number and status.
    Refuse(u32, NfsStat4),
}

impl Begin {
    fn refuse(operation: &ArgOp4, status: NfsStat4) -> Begin {
        Begin::Refuse(operation.opnum(), status)
    }

    /// An unknown operation is answered under a special number (RFC 8881, section 16.2.3).
    fn illegal() -> Begin {
        Begin::Refuse(Opnum::Illegal.into(), NfsStat4::OpIllegal)
    }
}

/// Decides by its position in the COMPOUND whether an operation may be executed (RFC 8881, section 2.10.2.2 and the
/// descriptions of the named operations).
fn begin(compound: &mut Compound<'_>, operation: &ArgOp4, reply: &Reply) -> Begin {
    let needs_no_session = matches!(
        operation,
        ArgOp4::ExchangeId(_)
            | ArgOp4::CreateSession(_)
            | ArgOp4::DestroySession(_)
            | ArgOp4::DestroyClientid(_)
            | ArgOp4::BindConnToSession(_)
    );
    let must_be_alone = matches!(operation, ArgOp4::BindConnToSession(_))
        || (needs_no_session && compound.operation_index == 0);
    match operation {
        ArgOp4::Illegal(_) => Begin::illegal(),
        other if !is_of_minor_version(other.opnum(), compound.minor_version) => Begin::illegal(),
        ArgOp4::Sequence(args) if compound.operation_index == 0 => {
            sequence(compound, args, reply.smallest(compound))
        }
        ArgOp4::Sequence(_) => Begin::refuse(operation, NfsStat4::SequencePos),
        _ if must_be_alone && compound.operation_count > 1 => {
            Begin::refuse(operation, NfsStat4::NotOnlyOp)
        }
        _ if must_be_alone || compound.session.is_some() => Begin::Execute,
        _ => Begin::refuse(operation, NfsStat4::OpNotInSession),
    }
}

fn is_of_minor_version(opnum: u32, minor_version: u32) -> bool {
    Opnum::try_from(opnum).is_ok_and(|opnum| opnum.first_minor_version() <= minor_version)
}

/// Executes SEQUENCE (RFC 8881, section 18.46).
fn sequence(
    compound: &mut Compound<'_>,
    args: &SequenceArgs,
    smallest_reply_bytes: usize,
) -> Begin {
    let request = SequenceRequest {
        session: args.sessionid,
        sequence: args.sequenceid,
        slot: args.slotid,
        highest_slot: args.highest_slotid,
        cache: args.cachethis,
        request_bytes: compound.request_bytes,
        smallest_reply_bytes,
        operations: compound.operation_count,
        principal: compound.principal(),
        connection: compound.connection.id(),
    };
    let outcome = compound
        .service
        .state()
        .sequence(&request, compound.service.now());
    match outcome {
        Err(NfsStat4::BadSession) if compound.service.data_server.is_none() => {
            Begin::Unknown(*args)
        }
        Err(status) => Begin::Refuse(Opnum::Sequence.into(), status),
        Ok(Sequenced::Replay(reply)) => {
            compound.connection.session_used();
            compound.service.observer.replayed();
            Begin::Replay(reply)
        }
        Ok(Sequenced::Execute {
            client,
            channel,
            slot,
            number,
            back,
            reclaim_needed,
        }) => {
            compound.connection.session_used();
            let cache = args.cachethis;
            compound.session = Some(SessionContext {
                client,
                id: args.sessionid,
                channel,
                slot,
                number,
                cache,
            });
            let lease_moved = compound.service.lease_moved(client);
            Begin::Sequenced(ops::sequence_result(
                args,
                &channel,
                SessionHealth {
                    back,
                    reclaim_needed,
                    lease_moved,
                },
            ))
        }
    }
}

/// Whether an operation changes nothing and reads neither data nor names: attributes that were known before stay valid.
fn only_tells(operation: &ArgOp4) -> bool {
    matches!(
        operation,
        ArgOp4::Access(_)
            | ArgOp4::Getattr(_)
            | ArgOp4::Getfh
            | ArgOp4::Nverify(_)
            | ArgOp4::Verify(_)
    )
}

/// Executes one operation and reports it.
async fn run(compound: &mut Compound<'_>, mut operation: ArgOp4) -> ResOp4 {
    if compound.result_space < reply::needed_space(&operation) {
        return ResOp4::Failed(operation.opnum(), reply::too_big(compound));
    }
    let number = Opnum::try_from(operation.opnum()).unwrap_or(Opnum::Illegal);
    let may_come_again = repeats::may_come_again(&operation, compound.is_guarded);
    let started = Instant::now();
    let stateid = moving::stateid_of(&operation);
    compound.begin_operation(&operation);
    compound.is_guarded |= repeats::is_guard(&operation);
    let result = match moving::admit(compound, &mut operation) {
        Ok(()) => ops::execute(compound, operation).await,
        Err(status) => ResOp4::Failed(number.into(), status),
    };
    let result = match (result.status(), stateid, compound.session) {
        (NfsStat4::BadStateid, Some(stateid), Some(session)) => {
            let (mut state, now) = (compound.service.state(), compound.service.now());
            match state.unknown_stateid(session.client, &stateid, now) {
                NfsStat4::BadStateid => result,
                status => ResOp4::Failed(number.into(), status),
            }
        }
        _ => result,
    };
    compound.may_come_again &= may_come_again;
    compound
        .service
        .observer
        .operation(number, result.status(), started.elapsed());
    result
}

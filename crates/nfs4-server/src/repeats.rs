//! Requests that are repeated after their session has gone, usually because this server restarted.
//!
//! Requests that were executed before are answered from the records of the file systems (RFC 8881, section 2.10.6.5), so that a client does not get an error
//! because a directory that it has just made exists. Nothing is executed here: if a request had no effect, the client is told that its session is gone,
//! creates another one, and repeats the request there. Operations that lead to the changed objects, or read their attributes, are answered with the current
//! state.
//!
//! What must never enter: how file systems recognise a request.

use nfs4::{ArgOp4, CompoundArgs, NfsStat4, OpenFlag4, Opnum, ResOp4, SequenceArgs, SequenceResOk};
use xdr::{Bytes, Rope};

use crate::compound::{Compound, SessionContext};
use crate::ops;
use crate::reply::{self, Reply};
use crate::state::{ClientId, ReplySlot, SessionChannel};
use crate::status::UNCERTAIN;

/// The part of a lease after a start in which clients are asked to wait when the outcome is unknown. The rest of the
/// grace period must be long enough for reclaims.
const WAIT_OF_LEASE: u32 = 4;

/// Answers a request of an unknown session. If it was not executed, SEQUENCE reports that.
pub(crate) async fn answer(
    compound: &mut Compound<'_>,
    sequence: &SequenceArgs,
    args: CompoundArgs,
) -> Rope {
    let tag = args.tag.clone();
    let answered = match is_of_size(compound) && changes_something(&args) {
        true => repeated(compound, sequence, args).await,
        false => Err(NfsStat4::BadSession),
    };
    answered.unwrap_or_else(|status| {
        let mut refusal = Reply::new(&tag);
        refusal.push(compound, &ResOp4::Failed(Opnum::Sequence.into(), status));
        refusal.finish()
    })
}

/// Whether a session can have executed a request of this size. Checking a larger one would only take time.
fn is_of_size(compound: &Compound<'_>) -> bool {
    let state = compound.service.state();
    let limits = state.limits();
    compound.operation_count <= limits.operations
        && compound.request_bytes <= limits.request_bytes as usize
}

/// Delays a request with an unknown outcome (RFC 8881, sections 2.10.6.2 and 15.1.1.3): the client sends the same
/// request again, as if this one were still in progress. So the request keeps its identifier, even if this server
/// restarts meanwhile. `None` when it must not be executed again; then its operation is delayed instead.
pub(crate) fn put_off(compound: &Compound<'_>, tag: &Bytes) -> Option<Rope> {
    let session = compound.session.filter(|_| compound.may_come_again)?;
    let service = compound.service;
    let is_waited_for = service.state().put_off_sequence(session.slot);
    if is_waited_for {
        service.request_has_ended();
    }
    let mut reply = Reply::new(tag);
    let delayed = ResOp4::Failed(Opnum::Sequence.into(), NfsStat4::Delay);
    reply.push(compound, &delayed);
    Some(reply.finish())
}

/// Whether an operation has the same effect when its request is executed again.
pub(crate) fn may_come_again(operation: &ArgOp4, is_guarded: bool) -> bool {
    only_leads(operation) || is_change(operation, is_guarded)
}

/// The reply to a request that was executed.
///
/// # Errors
/// The status for SEQUENCE: `BADSESSION` if the request was not executed, `DELAY` if that is unknown now. A client
/// repeats a request with a delayed SEQUENCE unchanged (RFC 8881, section 15.1.1.3).
async fn repeated(
    compound: &mut Compound<'_>,
    sequence: &SequenceArgs,
    mut args: CompoundArgs,
) -> Result<Rope, NfsStat4> {
    compound.is_repeat = true;
    compound.session = Some(session_of(compound, sequence));
    let mut reply = Reply::new(&args.tag);
    let mut status = reply.push(compound, &ResOp4::Sequence(Ok(accepted(sequence))));
    let mut answered = false;
    while status == NfsStat4::Ok
        && let Some(operation) = args.next_op()
    {
        compound.operation_index += 1;
        let operation = operation.map_err(|_| NfsStat4::BadSession)?;
        compound.result_space = reply.space(compound);
        let changes = is_change(&operation, compound.is_guarded);
        let result = step(compound, operation, answered).await;
        status = match result.status() {
            NfsStat4::Delay | NfsStat4::Grace | UNCERTAIN => return Err(not_known(compound)),
            NfsStat4::Ok => {
                answered |= changes;
                reply.push(compound, &result)
            }
            _ if !answered => return Err(NfsStat4::BadSession),
            _ => reply.push(compound, &result),
        };
    }
    if !answered {
        return Err(NfsStat4::BadSession);
    }
    compound.service.observer.replayed();
    Ok(reply.finish())
}

/// The status of a request while its outcome is unknown. A client ends its session, and reclaims its state, only when
/// all its requests are answered. So it is asked to wait only for a short time after a start.
fn not_known(compound: &Compound<'_>) -> NfsStat4 {
    let service = compound.service;
    let patience = service.state().limits().lease / WAIT_OF_LEASE;
    match service.now().saturating_duration_since(service.started) < patience {
        true => NfsStat4::Delay,
        false => NfsStat4::BadSession,
    }
}

/// Processes one operation of a repeated request.
async fn step(compound: &mut Compound<'_>, operation: ArgOp4, answered: bool) -> ResOp4 {
    let number = operation.opnum();
    if compound.result_space < reply::needed_space(&operation) {
        return ResOp4::Failed(number, reply::too_big(compound));
    }
    compound.begin_operation(&operation);
    match operation {
        // It succeeded before, because otherwise no later operation would have been executed.
        ArgOp4::Verify(_) | ArgOp4::Nverify(_) if !answered => {
            compound.is_guarded = true;
            match number == u32::from(Opnum::Verify) {
                true => ResOp4::Verify(NfsStat4::Ok),
                false => ResOp4::Nverify(NfsStat4::Ok),
            }
        }
        ArgOp4::Open(args) if makes(&args.openhow) => {
            ResOp4::Open(ops::repeated_open(compound, args).await)
        }
        operation if is_change(&operation, compound.is_guarded) || only_leads(&operation) => {
            ops::execute(compound, operation).await
        }
        // What was not executed by then never will be (RFC 8881, section 15.1.11.5).
        _ => ResOp4::Failed(number, NfsStat4::DeadSession),
    }
}

/// The session, as far as the answer depends on it. Its number of slots is unknown.
fn session_of(compound: &Compound<'_>, sequence: &SequenceArgs) -> SessionContext {
    let state = compound.service.state();
    let limits = state.limits();
    SessionContext {
        client: ClientId(0),
        id: sequence.sessionid,
        channel: SessionChannel {
            request_bytes: limits.request_bytes,
            response_bytes: limits.response_bytes,
            cached_response_bytes: limits.cached_response_bytes,
            operations: limits.operations,
            slots: limits.slots,
        },
        slot: ReplySlot {
            session: sequence.sessionid,
            slot: sequence.slotid,
        },
        // The number of wraps of its slot's sequence number is unknown.
        number: u64::from(sequence.sequenceid),
        cache: sequence.cachethis,
    }
}

/// The result of SEQUENCE. The client's next request will show that the session is gone.
fn accepted(args: &SequenceArgs) -> SequenceResOk {
    let highest = args.slotid.max(args.highest_slotid);
    SequenceResOk {
        sessionid: args.sessionid,
        sequenceid: args.sequenceid,
        slotid: args.slotid,
        highest_slotid: highest,
        target_highest_slotid: highest,
        status_flags: 0,
    }
}

/// Whether a request contains an operation that file systems record.
fn changes_something(args: &CompoundArgs) -> bool {
    let mut is_guarded = false;
    let mut operations = args.ops.clone().map_while(Result::ok);
    operations.any(|operation| {
        is_guarded |= is_guard(&operation);
        is_change(&operation, is_guarded)
    })
}

/// Whether an operation verifies attributes that the client expects.
pub(crate) fn is_guard(operation: &ArgOp4) -> bool {
    matches!(operation, ArgOp4::Verify(_) | ArgOp4::Nverify(_))
}

/// Whether file systems record an operation. Setting attributes again changes nothing, unless it depends on their
/// earlier values.
fn is_change(operation: &ArgOp4, is_guarded: bool) -> bool {
    match operation {
        ArgOp4::Create(_)
        | ArgOp4::Link(_)
        | ArgOp4::Remove(_)
        | ArgOp4::Removexattr(_)
        | ArgOp4::Rename(_)
        | ArgOp4::Setxattr(_) => true,
        ArgOp4::Open(args) => makes(&args.openhow),
        ArgOp4::Setattr(_) => is_guarded,
        _ => false,
    }
}

fn makes(how: &OpenFlag4) -> bool {
    matches!(how, OpenFlag4::Create(_))
}

/// Whether an operation only leads to objects or reads their attributes.
fn only_leads(operation: &ArgOp4) -> bool {
    matches!(
        operation,
        ArgOp4::Access(_)
            | ArgOp4::Getattr(_)
            | ArgOp4::Getfh
            | ArgOp4::Lookup(_)
            | ArgOp4::Lookupp
            | ArgOp4::Nverify(_)
            | ArgOp4::Putfh(_)
            | ArgOp4::Putpubfh
            | ArgOp4::Putrootfh
            | ArgOp4::Restorefh
            | ArgOp4::Savefh
            | ArgOp4::Verify(_)
    )
}

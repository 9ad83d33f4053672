//! Requests that come again after their session has gone, usually because this server was started anew.
//!
//! What was carried out before is answered from what the file systems keep of it (RFC 8881, section 2.10.6.5), so that a
//! client is not told that a directory exists which it has just made. Nothing is carried out here: a client whose request
//! has done nothing is told that its session is gone, makes another one, and asks there. Operations that lead to what was
//! changed, or tell of it, are answered as things are now.
//!
//! What must never enter: how file systems recognise a request.

use nfs4::{ArgOp4, CompoundArgs, NfsStat4, OpenFlag4, Opnum, ResOp4, SequenceArgs, SequenceResOk};
use xdr::{Bytes, Rope};

use crate::compound::{Compound, SessionContext};
use crate::ops;
use crate::reply::{self, Reply};
use crate::state::{ClientId, ReplySlot, SessionChannel};
use crate::status::UNCERTAIN;

/// For this part of a lease after a start clients are asked to wait for what cannot be told yet. Reclaiming has to be possible
/// in what is left of the grace period.
const WAIT_OF_LEASE: u32 = 4;

/// Answers a request of a session that is not known. If it was not carried out, SEQUENCE says so.
pub(crate) async fn answer(
    compound: &mut Compound<'_>,
    sequence: &SequenceArgs,
    args: CompoundArgs,
) -> Rope {
    let tag = args.tag.clone();
    let answered = match changes_something(&args) {
        true => repeated(compound, sequence, args).await,
        false => Err(NfsStat4::BadSession),
    };
    answered.unwrap_or_else(|status| {
        let mut refusal = Reply::new(&tag);
        refusal.push(compound, &ResOp4::Failed(Opnum::Sequence.into(), status));
        refusal.finish()
    })
}

/// Puts a request off of which nobody knows yet whether it was carried out (RFC 8881, sections 2.10.6.2 and 15.1.1.3): the
/// client sends the same again, as if this one were still under way. So it stays known by its name, also if this server is
/// started anew meanwhile. `None` when it must not be executed once more; its operation is to be delayed then.
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

/// Whether an operation does the same when its request is executed once more.
pub(crate) fn may_come_again(operation: &ArgOp4, is_guarded: bool) -> bool {
    only_leads(operation) || is_change(operation, is_guarded)
}

/// The reply to a request that was carried out.
///
/// # Errors
/// What SEQUENCE is to say: `BADSESSION` if the request was not carried out, `DELAY` if that cannot be told now. A client
/// repeats a request whose SEQUENCE was delayed unchanged (RFC 8881, section 15.1.1.3).
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

/// What to say of a request while nobody can tell whether it was carried out. A client ends its session, and reclaims what it
/// held, only when all its requests are answered. So not for long after a start is it asked to wait.
fn not_known(compound: &Compound<'_>) -> NfsStat4 {
    let service = compound.service;
    let patience = service.state().limits().lease / WAIT_OF_LEASE;
    match service.now().saturating_duration_since(service.started) < patience {
        true => NfsStat4::Delay,
        false => NfsStat4::BadSession,
    }
}

/// One operation of a request that comes again.
async fn step(compound: &mut Compound<'_>, operation: ArgOp4, answered: bool) -> ResOp4 {
    let number = operation.opnum();
    if compound.result_space < reply::needed_space(&operation) {
        return ResOp4::Failed(number, reply::too_big(compound));
    }
    compound.begin_operation(&operation);
    match operation {
        // It held, or nothing behind it would have been carried out.
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
        // What was not carried out of it by then never will be (RFC 8881, section 15.1.11.5).
        _ => ResOp4::Failed(number, NfsStat4::DeadSession),
    }
}

/// The session as far as the answer depends on it. How many slots it had is not known any more.
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
        // How often the numbers of its slot had started again is not known any more.
        number: u64::from(sequence.sequenceid),
        cache: sequence.cachethis,
    }
}

/// The result of SEQUENCE. The client is to learn from its next request that the session is gone.
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

/// Whether a request asks for anything that file systems keep.
fn changes_something(args: &CompoundArgs) -> bool {
    let mut is_guarded = false;
    let mut operations = args.ops.clone().map_while(Result::ok);
    operations.any(|operation| {
        is_guarded |= is_guard(&operation);
        is_change(&operation, is_guarded)
    })
}

/// Whether an operation makes sure that attributes are what the client believes.
pub(crate) fn is_guard(operation: &ArgOp4) -> bool {
    matches!(operation, ArgOp4::Verify(_) | ArgOp4::Nverify(_))
}

/// Whether file systems keep what an operation does. Setting attributes once more changes nothing, unless it depends on
/// what they were.
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

/// Whether an operation does no more than lead to objects or tell of them.
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

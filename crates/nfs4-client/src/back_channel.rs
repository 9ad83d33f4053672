//! The back channel: the answers of a client to its server's calls (RFC 8881, section 20). Each
//! request is executed once even if it is repeated.
//!
//! What must never enter: the reaction to a recall or a free lock; that is for
//! [`Callbacks`].

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use nfs4::callback::{
    self, CbArgOp4, CbCompoundArgs, CbCompoundRes, CbLayoutrecallArgs, CbNotifyDeviceidArgs,
    CbNotifyLockArgs, CbRecallArgs, CbResOp4, CbSequenceArgs, CbSequenceResOk,
};
use nfs4::{ChannelAttrs4, CompoundRes, NfsStat4, SessionId4};
use oncrpc::{AcceptStat, CallHeader, RecordStart, ReplyHeader, VersionRange};
use xdr::{Bytes, Reader, Rope, Writer};

/// The program number of this client's callbacks. Any number works; this is the first of the
/// range that is never assigned (RFC 5531, section 13.1).
pub const CALLBACK_PROGRAM: u32 = 0x4000_0000;

/// The maximum number of outstanding callbacks in one session.
const SLOTS: usize = 8;

/// The most operations in a callback.
const OPERATIONS_MAX: u32 = 16;

/// The largest callback and the largest answer, in bytes.
const MESSAGE_MAX: u32 = 16 * 1024;

/// The reaction of a program to calls of its server. The calls come from the task that reads replies, so
/// they must not block; for longer work they send a message.
pub trait Callbacks: Send + Sync + fmt::Debug {
    /// The server recalls a delegation (RFC 8881, section 20.2). The default knows none.
    fn recall(&self, recall: &CbRecallArgs) -> NfsStat4 {
        let _ = recall;
        NfsStat4::BadStateid
    }

    /// The server recalls layouts (RFC 8881, section 20.3). The default has none.
    fn recall_layout(&self, recall: &CbLayoutrecallArgs) -> NfsStat4 {
        let _ = recall;
        NfsStat4::NoMatchingLayout
    }

    /// Devices have changed, or are gone (RFC 8881, section 20.12). The default knows none.
    fn notify_device(&self, devices: &CbNotifyDeviceidArgs) -> NfsStat4 {
        let _ = devices;
        NfsStat4::Ok
    }

    /// A lock that was denied may be available now (RFC 8881, section 20.11). It is a hint, and the
    /// default ignores it.
    fn notify_lock(&self, lock: &CbNotifyLockArgs) -> NfsStat4 {
        let _ = lock;
        NfsStat4::Ok
    }
}

/// Does nothing about any callback.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCallbacks;

impl Callbacks for NoCallbacks {}

/// The client's end of the back channel of one session.
#[derive(Debug)]
pub(crate) struct BackChannel {
    callbacks: Arc<dyn Callbacks>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` until the session is known; a server may call before its client has read the identifier.
    session: Option<SessionId4>,
    slots: Vec<BackSlot>,
}

#[derive(Debug, Clone, Default)]
struct BackSlot {
    sequence: u32,
    reply: Option<CbCompoundRes>,
}

impl BackChannel {
    pub(crate) fn new(callbacks: Arc<dyn Callbacks>) -> Self {
        Self {
            callbacks,
            state: Mutex::new(State {
                session: None,
                slots: vec![BackSlot::default(); SLOTS],
            }),
        }
    }

    /// The limits to ask for in CREATE_SESSION.
    pub(crate) fn limits() -> ChannelAttrs4 {
        ChannelAttrs4 {
            headerpadsize: 0,
            maxrequestsize: MESSAGE_MAX,
            maxresponsesize: MESSAGE_MAX,
            maxresponsesize_cached: MESSAGE_MAX,
            maxoperations: OPERATIONS_MAX,
            maxrequests: SLOTS as u32,
            rdma_ird: None,
        }
    }

    /// From now on only callbacks of this session are accepted.
    pub(crate) fn belongs_to(&self, session: SessionId4) {
        self.lock().session = Some(session);
    }

    /// The whole answer to a call, record mark included.
    pub(crate) fn answer(&self, header: &CallHeader, arguments: Reader) -> Rope {
        let mut w = Writer::new();
        let start = RecordStart::reserve(&mut w);
        match self.execute(header, arguments) {
            Ok(reply) => {
                w.write(&ReplyHeader::success(header.xid));
                if let Some(reply) = reply {
                    w.write(&reply);
                }
            }
            Err(refusal) => w.write(&ReplyHeader::accepted(header.xid, refusal)),
        }
        start
            .finish(w)
            .expect("an answer to a callback is far below the limit of a record")
    }

    fn execute(
        &self,
        header: &CallHeader,
        arguments: Reader,
    ) -> Result<Option<CbCompoundRes>, AcceptStat> {
        if header.program != CALLBACK_PROGRAM {
            return Err(AcceptStat::ProgramUnavailable);
        }
        if header.version != callback::VERSION {
            let (low, high) = (callback::VERSION, callback::VERSION);
            return Err(AcceptStat::ProgramMismatch(VersionRange { low, high }));
        }
        match header.procedure {
            callback::PROC_NULL => Ok(None),
            callback::PROC_COMPOUND => CbCompoundArgs::parse(arguments)
                .map(|request| Some(self.compound(request)))
                .map_err(|_| AcceptStat::GarbageArguments),
            _ => Err(AcceptStat::ProcedureUnavailable),
        }
    }

    fn compound(&self, mut request: CbCompoundArgs) -> CbCompoundRes {
        let tag = request.tag.clone();
        let first = match request.next_op() {
            Some(Ok(CbArgOp4::Sequence(first))) => first,
            Some(Ok(other)) => {
                let failure = CbResOp4::Failed(other.opnum(), NfsStat4::OpNotInSession);
                return reply(tag, vec![failure]);
            }
            Some(Err(error)) => {
                let failure = CbResOp4::Failed(error.opnum, NfsStat4::BadXdr);
                return reply(tag, vec![failure]);
            }
            None => return reply(tag, Vec::new()),
        };
        let mut state = self.lock();
        let slot = match state.slot(&first) {
            Ok(slot) => slot,
            Err(status) => return reply(tag, vec![CbResOp4::Sequence(Err(status))]),
        };
        if let (Some(kept), true) = (&slot.reply, slot.sequence == first.sequenceid) {
            return kept.clone();
        }
        let mut results = vec![CbResOp4::Sequence(Ok(accepted(&first)))];
        self.operations(&mut request, &mut results);
        *slot = BackSlot {
            sequence: first.sequenceid,
            reply: Some(reply(tag, results)),
        };
        slot.reply.clone().expect("it was filled in just now")
    }

    /// Executes the operations after CB_SEQUENCE, up to the first failure.
    fn operations(&self, request: &mut CbCompoundArgs, results: &mut Vec<CbResOp4>) {
        while let Some(op) = request.next_op() {
            let result = match op {
                Ok(op) => self.operation(&op),
                Err(error) => CbResOp4::Failed(error.opnum, NfsStat4::BadXdr),
            };
            let failed = !result.status().is_ok();
            results.push(result);
            if failed {
                return;
            }
        }
    }

    fn operation(&self, op: &CbArgOp4) -> CbResOp4 {
        match op {
            CbArgOp4::Recall(recall) => CbResOp4::Recall(self.callbacks.recall(recall)),
            CbArgOp4::NotifyLock(lock) => CbResOp4::NotifyLock(self.callbacks.notify_lock(lock)),
            CbArgOp4::Layoutrecall(recall) => {
                CbResOp4::Layoutrecall(self.callbacks.recall_layout(recall))
            }
            CbArgOp4::NotifyDeviceid(devices) => {
                CbResOp4::NotifyDeviceid(self.callbacks.notify_device(devices))
            }
            // No other recallable object is held, and SEQUENCE says which slots to use.
            CbArgOp4::RecallAny(_) => CbResOp4::RecallAny(NfsStat4::Ok),
            CbArgOp4::RecallSlot(_) => CbResOp4::RecallSlot(NfsStat4::Ok),
            CbArgOp4::Getattr(_) => CbResOp4::Getattr(Err(NfsStat4::BadHandle)),
            CbArgOp4::Sequence(_) => CbResOp4::Sequence(Err(NfsStat4::SequencePos)),
            CbArgOp4::Unsupported(_) => CbResOp4::Failed(op.opnum(), NfsStat4::NotSupp),
            CbArgOp4::Illegal(_) => CbResOp4::Failed(op.opnum(), NfsStat4::OpIllegal),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A slot is replaced as a whole, so a panic of a callback leaves the table intact.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The slot of a request that is either new, or the last one repeated (RFC 8881,
    /// section 2.10.6.1).
    fn slot(&mut self, request: &CbSequenceArgs) -> Result<&mut BackSlot, NfsStat4> {
        if self
            .session
            .is_some_and(|session| session != request.sessionid)
        {
            return Err(NfsStat4::BadSession);
        }
        let slot = self
            .slots
            .get_mut(request.slotid as usize)
            .ok_or(NfsStat4::BadSlot)?;
        let is_next = request.sequenceid == slot.sequence.wrapping_add(1);
        let is_repeated = request.sequenceid == slot.sequence && slot.reply.is_some();
        match is_next || is_repeated {
            true => Ok(slot),
            false => Err(NfsStat4::SeqMisordered),
        }
    }
}

fn accepted(request: &CbSequenceArgs) -> CbSequenceResOk {
    CbSequenceResOk {
        sessionid: request.sessionid,
        sequenceid: request.sequenceid,
        slotid: request.slotid,
        highest_slotid: SLOTS as u32 - 1,
        target_highest_slotid: SLOTS as u32 - 1,
    }
}

fn reply(tag: Bytes, results: Vec<CbResOp4>) -> CbCompoundRes {
    let status = results.last().map_or(NfsStat4::Ok, CbResOp4::status);
    CompoundRes {
        status,
        tag,
        results,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    use nfs4::callback::CbCompoundCall;
    use nfs4::{NfsFh4, StateOwner4};

    #[derive(Debug, Default)]
    struct Counting(AtomicU32);

    impl Callbacks for Counting {
        fn notify_lock(&self, _lock: &CbNotifyLockArgs) -> NfsStat4 {
            self.0.fetch_add(1, Ordering::Relaxed);
            NfsStat4::Ok
        }
    }

    fn sequence(sequenceid: u32, slotid: u32) -> CbArgOp4 {
        CbArgOp4::Sequence(CbSequenceArgs {
            sessionid: SessionId4([7; 16]),
            sequenceid,
            slotid,
            highest_slotid: slotid,
            cachethis: true,
            referring_call_lists: Vec::new(),
        })
    }

    fn notify() -> CbArgOp4 {
        CbArgOp4::NotifyLock(CbNotifyLockArgs {
            fh: NfsFh4::default(),
            lock_owner: StateOwner4 {
                clientid: 1,
                owner: Bytes::from_static(b"owner"),
            },
        })
    }

    fn call(channel: &BackChannel, ops: Vec<CbArgOp4>) -> CbCompoundRes {
        let mut w = Writer::new();
        w.write(&CbCompoundCall {
            tag: Bytes::from_static(b"tag"),
            minorversion: 1,
            ops,
        });
        let request = CbCompoundArgs::parse(Reader::new(w.finish().into_contiguous())).unwrap();
        channel.compound(request)
    }

    #[test]
    fn a_repeated_callback_is_answered_again_and_executed_once() {
        let counting = Arc::new(Counting::default());
        let channel = BackChannel::new(Arc::clone(&counting) as Arc<dyn Callbacks>);
        channel.belongs_to(SessionId4([7; 16]));
        let first = call(&channel, vec![sequence(1, 0), notify()]);
        assert_eq!((first.status, first.results.len()), (NfsStat4::Ok, 2));
        assert_eq!(call(&channel, vec![sequence(1, 0), notify()]), first);
        assert_eq!(counting.0.load(Ordering::Relaxed), 1);
        call(&channel, vec![sequence(2, 0), notify()]);
        assert_eq!(counting.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_callback_must_fit_session_slot_and_sequence() {
        let channel = BackChannel::new(Arc::new(NoCallbacks));
        let status = |ops| call(&channel, ops).status;
        assert_eq!(status(vec![sequence(0, 0)]), NfsStat4::SeqMisordered);
        assert_eq!(status(vec![sequence(2, 0)]), NfsStat4::SeqMisordered);
        assert_eq!(status(vec![sequence(1, 99)]), NfsStat4::BadSlot);
        assert_eq!(status(vec![notify()]), NfsStat4::OpNotInSession);
        channel.belongs_to(SessionId4([8; 16]));
        assert_eq!(status(vec![sequence(1, 0)]), NfsStat4::BadSession);
    }

    #[test]
    fn nothing_follows_a_failed_operation() {
        let channel = BackChannel::new(Arc::new(NoCallbacks));
        let reply = call(&channel, vec![sequence(1, 0), sequence(1, 0), notify()]);
        assert_eq!(
            (reply.status, reply.results.len()),
            (NfsStat4::SequencePos, 2)
        );
    }
}

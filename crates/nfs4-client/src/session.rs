//! A session: requests that are executed exactly once over connections that may break (RFC 8881,
//! section 2.10.6).
//!
//! A request keeps its slot and sequence number until a reply has arrived, over any number of
//! connections. The server recognises the repetition and answers it from its reply
//! cache.
//!
//! What must never enter: what requests mean, and the recovery of state that a server lost.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use nfs4::{
    ArgOp4, BindConnToSessionArgs, CallbackSecParms4, ChannelAttrs4, ChannelDirFromClient4,
    ClientOwner4, Clientid4, CompoundCall, CompoundRes, CreateSessionArgs, CreateSessionResOk,
    ExchangeIdArgs, ExchangeIdResOk, NfsStat4, Opnum, ResOp4, SequenceResOk, SessionId4,
    StateProtect4A, create_session, exchgid,
};
use oncrpc::Credentials;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use xdr::Bytes;

use crate::back_channel::{BackChannel, CALLBACK_PROGRAM};
use crate::connection::Connection;
use crate::error::Error;
use crate::ops::needs_kept_reply;
use crate::options::{HEADERS_MAX, Options};
use crate::slots::{Slot, Slots};

/// The largest reply that a server is asked to keep, in bytes. Replies to requests with changes
/// carry no data.
const KEPT_REPLY_MAX: u32 = 4096;

/// The most operations in a request.
const OPERATIONS_MAX: u32 = 64;

/// The first and the longest pause between two attempts.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A client's session with a server.
#[derive(Debug)]
pub struct Session {
    options: Options,
    clientid: Clientid4,
    id: SessionId4,
    limits: ChannelAttrs4,
    slots: Arc<Slots>,
    lines: Vec<Line>,
    back_channel: Arc<BackChannel>,
    status_flags: AtomicU32,
    times_put_off: AtomicU64,
}

/// The place of one connection, which is filled when it is first needed and again after a loss.
type Line = Mutex<Option<Arc<Connection>>>;

impl Session {
    /// Introduces the client and makes a session (RFC 8881, sections 18.35 and 18.36).
    pub(crate) async fn create(options: Options) -> Result<Arc<Self>, Error> {
        let back_channel = Arc::new(BackChannel::new(Arc::clone(&options.callbacks)));
        let first = Connection::open_with(&options, Arc::clone(&back_channel)).await?;
        let known = exchange_id(&first, &options).await?;
        let made = create_on(&first, &options, &known).await?;
        back_channel.belongs_to(made.sessionid);
        let mut lines = vec![Line::new(Some(Arc::new(first)))];
        lines.resize_with(options.connections.max(1), Line::default);
        let slots = Slots::new(made.sessionid, made.fore_chan_attrs.maxrequests);
        let session = Arc::new(Self {
            clientid: known.clientid,
            id: made.sessionid,
            limits: made.fore_chan_attrs,
            slots: Arc::new(slots),
            lines,
            back_channel,
            status_flags: AtomicU32::new(0),
            times_put_off: AtomicU64::new(0),
            options,
        });
        if let Some(interval) = session.options.renewal {
            tokio::spawn(renew(Arc::downgrade(&session), interval));
        }
        Ok(session)
    }

    /// The identifier of the session.
    pub fn id(&self) -> SessionId4 {
        self.id
    }

    /// The server's identifier of this client.
    pub fn clientid(&self) -> Clientid4 {
        self.clientid
    }

    /// The limits the server granted to requests.
    pub fn limits(&self) -> &ChannelAttrs4 {
        &self.limits
    }

    /// The options of the client.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The flags of the latest SEQUENCE, bits of [`nfs4::seq4_status`].
    pub fn status_flags(&self) -> u32 {
        self.status_flags.load(Ordering::Relaxed)
    }

    /// How often the server answered that a request has to be sent again later.
    pub fn times_put_off(&self) -> u64 {
        self.times_put_off.load(Ordering::Relaxed)
    }

    /// Counts one such answer.
    pub(crate) fn count_put_off(&self) {
        self.times_put_off.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a slot out of use by other calls, for a test that sends its own requests on it.
    ///
    /// # Errors
    /// When the server's state of every slot is not known.
    pub async fn take_slot(&self) -> Result<Slot, Error> {
        self.slots.take().await
    }

    /// One of the session's connections, by its number below [`Options::connections`]. It is made
    /// and bound to the session if it does not exist or broke.
    pub async fn connection(&self, number: usize) -> Result<Arc<Connection>, Error> {
        let number = number % self.lines.len();
        let mut line = self.lines[number].lock().await;
        if let Some(connection) = line.as_ref().filter(|known| !known.is_closed()) {
            return Ok(Arc::clone(connection));
        }
        let fresh = Connection::open_with(&self.options, Arc::clone(&self.back_channel)).await?;
        self.bind(&fresh, number).await?;
        Ok(Arc::clone(line.insert(Arc::new(fresh))))
    }

    /// Sends these operations after a SEQUENCE on a free slot, and returns their results without
    /// that of the SEQUENCE. Failed operations are no error here; a failed SEQUENCE
    /// is.
    ///
    /// A caller that gives up does not end the request: it is finished, and its slot is freed,
    /// in the background.
    pub async fn compound(
        self: &Arc<Self>,
        credentials: Arc<Credentials>,
        ops: Vec<ArgOp4>,
    ) -> Result<CompoundRes, Error> {
        let session = Arc::clone(self);
        let request = tokio::spawn(async move { session.execute(&credentials, ops).await });
        request
            .await
            .map_err(|stopped| Error::Transport(io::Error::other(stopped)))?
    }

    async fn execute(
        &self,
        credentials: &Credentials,
        ops: Vec<ArgOp4>,
    ) -> Result<CompoundRes, Error> {
        let mut slot = self.slots.take().await?;
        let must_keep = ops.iter().any(needs_kept_reply);
        let mut request = CompoundCall {
            tag: Bytes::new(),
            minorversion: self.options.minor_version,
            ops: Vec::with_capacity(ops.len() + 1),
        };
        let sequence = slot.sequence_args(must_keep);
        request.ops.push(ArgOp4::Sequence(sequence));
        request.ops.extend(ops);
        let mut pauses = Pauses::within(self.options.patience);
        loop {
            let outcome = self.attempt(&slot, credentials, &request).await;
            match self.judge(outcome, &mut slot, must_keep) {
                Verdict::Done(result) => return result,
                Verdict::Uncertain(error) => {
                    slot.abandon();
                    return Err(error);
                }
                Verdict::Retry(cause) => {
                    if !pauses.pause().await {
                        // Whether the server has seen the sequence number is not known.
                        slot.abandon();
                        return Err(cause);
                    }
                }
                Verdict::Anew => {
                    request.ops[0] = ArgOp4::Sequence(slot.sequence_args(must_keep));
                }
            }
        }
    }

    async fn attempt(
        &self,
        slot: &Slot,
        credentials: &Credentials,
        request: &CompoundCall,
    ) -> Result<CompoundRes, Error> {
        let connection = self.connection(slot.id() as usize).await?;
        connection.compound_call(credentials, request).await
    }

    /// Decides what an outcome means for the slot and for the request.
    fn judge(
        &self,
        outcome: Result<CompoundRes, Error>,
        slot: &mut Slot,
        must_keep: bool,
    ) -> Verdict {
        let reply = match outcome {
            Ok(reply) => reply,
            Err(error @ Error::Transport(_)) => return Verdict::Retry(error),
            Err(error @ (Error::Refused(_) | Error::Status { .. })) => {
                return Verdict::Done(Err(error));
            }
            Err(error) => return Verdict::Uncertain(error),
        };
        let (sequence, rest) = split(reply);
        match sequence {
            Ok(sequence) => {
                slot.advance();
                self.slots.follow_target(sequence.target_highest_slotid);
                self.status_flags
                    .store(sequence.status_flags, Ordering::Relaxed);
                Verdict::Done(Ok(rest))
            }
            Err(NfsStat4::RetryUncachedRep) => {
                slot.advance();
                match must_keep {
                    true => Verdict::Done(Err(sequence_error(NfsStat4::RetryUncachedRep))),
                    false => Verdict::Anew,
                }
            }
            Err(status @ NfsStat4::Delay) => {
                self.count_put_off();
                Verdict::Retry(sequence_error(status))
            }
            Err(status @ (NfsStat4::SeqMisordered | NfsStat4::SeqFalseRetry)) => {
                Verdict::Uncertain(sequence_error(status))
            }
            Err(status) => Verdict::Done(Err(sequence_error(status))),
        }
    }

    /// Uses a new connection for the session, the first of them also for callbacks (RFC 8881,
    /// section 18.34). One connection for callbacks is enough, and the server may choose another.
    async fn bind(&self, connection: &Connection, number: usize) -> Result<(), Error> {
        let dir = match number {
            0 => ChannelDirFromClient4::ForeOrBoth,
            _ => ChannelDirFromClient4::Fore,
        };
        let args = BindConnToSessionArgs {
            sessid: self.id,
            dir,
            use_conn_in_rdma_mode: false,
        };
        let ops = vec![ArgOp4::BindConnToSession(args)];
        match only(connection.compound(&self.options.credentials, ops).await?) {
            Ok(ResOp4::BindConnToSession(Ok(_))) => Ok(()),
            Ok(_) => Err(Error::Unexpected("BIND_CONN_TO_SESSION")),
            // A restarted server may still know its answers. All other requests get the answer that the session is
            // gone.
            Err(Error::Status {
                status: NfsStat4::BadSession,
                ..
            }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The reaction to an outcome.
enum Verdict {
    /// The request is over and the slot is in order.
    Done(Result<CompoundRes, Error>),
    /// The request is over; the server's state of the slot is not known.
    Uncertain(Error),
    /// The same request has to be sent again, with the same sequence number.
    Retry(Error),
    /// The request was executed, its reply is lost, and executing it again does no harm.
    Anew,
}

/// Pauses between attempts that double, until the time limit.
pub(crate) struct Pauses {
    deadline: Instant,
    next: Duration,
}

impl Pauses {
    pub(crate) fn within(patience: Duration) -> Self {
        Self {
            deadline: Instant::now() + patience,
            next: PAUSE_MIN,
        }
    }

    /// Pauses; false, at once, when the time is up.
    pub(crate) async fn pause(&mut self) -> bool {
        if Instant::now() + self.next > self.deadline {
            return false;
        }
        sleep(self.next).await;
        self.next = (self.next * 2).min(PAUSE_MAX);
        true
    }
}

fn sequence_error(status: NfsStat4) -> Error {
    let op = Opnum::Sequence as u32;
    Error::Status { op, status }
}

/// Takes the result of SEQUENCE from a reply. A request that was refused before its first operation has the
/// status of the whole reply.
fn split(mut reply: CompoundRes) -> (Result<SequenceResOk, NfsStat4>, CompoundRes) {
    if reply.results.is_empty() {
        return (Err(reply.status), reply);
    }
    let sequence = match reply.results.remove(0) {
        ResOp4::Sequence(result) => result,
        other => Err(other.status()),
    };
    (sequence, reply)
}

/// The result of a request of one operation, if it succeeded.
pub(crate) fn only(reply: CompoundRes) -> Result<ResOp4, Error> {
    match reply.results.into_iter().next() {
        Some(result) if result.status().is_ok() => Ok(result),
        Some(result) => Err(Error::Status {
            op: result.opnum(),
            status: result.status(),
        }),
        None => Err(sequence_error(reply.status)),
    }
}

async fn exchange_id(connection: &Connection, options: &Options) -> Result<ExchangeIdResOk, Error> {
    let args = ExchangeIdArgs {
        clientowner: ClientOwner4 {
            verifier: options.verifier,
            ownerid: options.owner.clone(),
        },
        flags: exchgid::USE_NON_PNFS,
        state_protect: StateProtect4A::None,
        client_impl_id: None,
    };
    let ops = vec![ArgOp4::ExchangeId(args)];
    match only(connection.compound(&options.credentials, ops).await?)? {
        ResOp4::ExchangeId(Ok(known)) => Ok(known),
        _ => Err(Error::Unexpected("EXCHANGE_ID")),
    }
}

async fn create_on(
    connection: &Connection,
    options: &Options,
    known: &ExchangeIdResOk,
) -> Result<CreateSessionResOk, Error> {
    let message_max = options.io_max.saturating_add(HEADERS_MAX);
    let security = match &options.credentials {
        Credentials::Sys(sys) => CallbackSecParms4::Sys(sys.clone()),
        _ => CallbackSecParms4::None,
    };
    let args = CreateSessionArgs {
        clientid: known.clientid,
        sequence: known.sequenceid,
        flags: create_session::CONN_BACK_CHAN | create_session::PERSIST,
        fore_chan_attrs: ChannelAttrs4 {
            headerpadsize: 0,
            maxrequestsize: message_max,
            maxresponsesize: message_max,
            maxresponsesize_cached: KEPT_REPLY_MAX,
            maxoperations: OPERATIONS_MAX,
            maxrequests: options.slots,
            rdma_ird: None,
        },
        back_chan_attrs: BackChannel::limits(),
        cb_program: CALLBACK_PROGRAM,
        sec_parms: vec![security],
    };
    let ops = vec![ArgOp4::CreateSession(args)];
    match only(connection.compound(&options.credentials, ops).await?)? {
        ResOp4::CreateSession(Ok(made)) => Ok(made),
        _ => Err(Error::Unexpected("CREATE_SESSION")),
    }
}

/// Renews the lease until the session is dropped or lost (RFC 8881, section 8.3).
async fn renew(session: Weak<Session>, interval: Duration) {
    loop {
        sleep(interval).await;
        let Some(session) = session.upgrade() else {
            return;
        };
        let credentials = Arc::new(session.options.credentials.clone());
        let renewed = session.compound(credentials, Vec::new()).await;
        if matches!(renewed, Err(Error::Status { .. })) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs4::GetfhResOk;

    fn reply(results: Vec<ResOp4>) -> CompoundRes {
        let status = results.last().map_or(NfsStat4::TooManyOps, ResOp4::status);
        CompoundRes {
            status,
            tag: Bytes::new(),
            results,
        }
    }

    #[test]
    fn the_result_of_sequence_is_taken_off() {
        let good = SequenceResOk {
            sessionid: SessionId4::default(),
            sequenceid: 1,
            slotid: 0,
            highest_slotid: 0,
            target_highest_slotid: 0,
            status_flags: 0,
        };
        let handle = ResOp4::Getfh(Ok(GetfhResOk {
            object: nfs4::NfsFh4::default(),
        }));
        let (sequence, rest) = split(reply(vec![ResOp4::Sequence(Ok(good)), handle.clone()]));
        assert_eq!((sequence, rest.results), (Ok(good), vec![handle]));
        let (sequence, _) = split(reply(vec![ResOp4::Sequence(Err(NfsStat4::BadSlot))]));
        assert_eq!(sequence, Err(NfsStat4::BadSlot));
        let (sequence, _) = split(reply(Vec::new()));
        assert_eq!(sequence, Err(NfsStat4::TooManyOps));
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_and_end() {
        let started = Instant::now();
        let mut pauses = Pauses::within(Duration::from_millis(75));
        let mut count = 0;
        while pauses.pause().await {
            count += 1;
        }
        assert_eq!((count, started.elapsed().as_millis()), (3, 70));
    }
}

//! One TCP connection: sends and receives records, matches replies to calls by their numbers, and hands callbacks
//! of the server to the back channel.
//!
//! What must never enter: sessions and slots. Tests use a bare connection to break the protocol's rules.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nfs4::{ArgOp4, CompoundCall, CompoundRes};
use oncrpc::{
    CallHeader, Credentials, Message, OpaqueAuth, RecordSplitter, RecordStart, ReplyHeader,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use xdr::{Bytes, Encode, Reader, Rope, Writer};

use crate::back_channel::BackChannel;
use crate::error::Error;
use crate::options::{HEADERS_MAX, Options};

/// A reply: its header, and its results still encoded.
type Answer = (ReplyHeader, Reader);

/// A connection to a server. Dropping it closes it.
#[derive(Debug)]
pub struct Connection {
    wire: Arc<Wire>,
    reader: AbortHandle,
    minor_version: u32,
}

/// What the reading task shares with callers.
#[derive(Debug)]
struct Wire {
    /// Taken out while a record is written: if a caller gives up in the middle of one,
    /// the connection is closed, and no partial record stays.
    writer: tokio::sync::Mutex<Option<OwnedWriteHalf>>,
    /// Calls without a reply, by number; `None` once the connection is gone.
    calls: Mutex<Option<HashMap<u32, oneshot::Sender<Answer>>>>,
    next_xid: AtomicU32,
}

impl Connection {
    /// Connects with `options`, and sends nothing yet. Callbacks that arrive here are answered
    /// by [`Options::callbacks`], for any session.
    pub async fn open(options: &Options) -> Result<Self, Error> {
        let back_channel = BackChannel::new(Arc::clone(&options.callbacks));
        Self::open_with(options, Arc::new(back_channel)).await
    }

    pub(crate) async fn open_with(
        options: &Options,
        back_channel: Arc<BackChannel>,
    ) -> Result<Self, Error> {
        let dial = Arc::clone(&options.dial);
        let stream = tokio::task::spawn_blocking(move || dial())
            .await
            .map_err(io::Error::other)??;
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream)?;
        stream.set_nodelay(true)?;
        let (receiver, sender) = stream.into_split();
        let wire = Arc::new(Wire {
            writer: tokio::sync::Mutex::new(Some(sender)),
            calls: Mutex::new(Some(HashMap::new())),
            next_xid: AtomicU32::new(1),
        });
        let record_max = options.io_max.saturating_add(HEADERS_MAX) as usize;
        let reading = read_until_closed(receiver, record_max, Arc::clone(&wire), back_channel);
        Ok(Self {
            wire,
            reader: tokio::spawn(reading).abort_handle(),
            minor_version: options.minor_version,
        })
    }

    /// True when no further call can succeed here.
    pub fn is_closed(&self) -> bool {
        self.wire.lock_calls().is_none()
    }

    /// Sends exactly these operations, without adding SEQUENCE, and returns the whole reply. Failed
    /// operations are no error here.
    pub async fn compound(
        &self,
        credentials: &Credentials,
        ops: Vec<ArgOp4>,
    ) -> Result<CompoundRes, Error> {
        let request = CompoundCall {
            tag: Bytes::new(),
            minorversion: self.minor_version,
            ops,
        };
        self.compound_call(credentials, &request).await
    }

    pub(crate) async fn compound_call(
        &self,
        credentials: &Credentials,
        request: &CompoundCall,
    ) -> Result<CompoundRes, Error> {
        let procedure = nfs4::PROC_COMPOUND;
        let mut results = self.call(credentials, procedure, request).await?;
        let reply = results.read()?;
        results.finish()?;
        Ok(reply)
    }

    /// Calls the procedure that does nothing.
    pub async fn null(&self) -> Result<(), Error> {
        let nothing: [u8; 0] = [];
        let results = self
            .call(&Credentials::None, nfs4::PROC_NULL, &nothing)
            .await?;
        Ok(results.finish()?)
    }

    /// Calls a procedure and returns its results, still encoded.
    pub async fn call(
        &self,
        credentials: &Credentials,
        procedure: u32,
        arguments: &impl Encode,
    ) -> Result<Reader, Error> {
        let header = CallHeader {
            xid: self.wire.next_xid.fetch_add(1, Ordering::Relaxed),
            program: nfs4::PROGRAM,
            version: nfs4::VERSION,
            procedure,
            credentials: credentials.clone(),
            verifier: OpaqueAuth::none(),
        };
        let (sender, receiver) = oneshot::channel();
        let _outstanding = self.wire.expect_reply(header.xid, sender)?;
        self.wire.send(record(&header, arguments)?).await?;
        match receiver.await {
            Ok((header, results)) if header.is_success() => Ok(results),
            Ok((header, _)) => Err(Error::Refused(header)),
            Err(_) => Err(Error::lost()),
        }
    }

    /// Closes the connection without a message, like a broken cable. Outstanding calls fail.
    pub fn sever(&self) {
        self.reader.abort();
        self.wire.close();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.sever();
    }
}

/// A call whose reply is awaited; it is forgotten when its caller gives up.
struct Outstanding<'a> {
    wire: &'a Wire,
    xid: u32,
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        if let Some(calls) = self.wire.lock_calls().as_mut() {
            calls.remove(&self.xid);
        }
    }
}

impl Wire {
    fn lock_calls(
        &self,
    ) -> std::sync::MutexGuard<'_, Option<HashMap<u32, oneshot::Sender<Answer>>>> {
        // Every change is a single insertion or removal, so a panic elsewhere does no harm.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn expect_reply(
        &self,
        xid: u32,
        sender: oneshot::Sender<Answer>,
    ) -> Result<Outstanding<'_>, Error> {
        let mut calls = self.lock_calls();
        calls.as_mut().ok_or_else(Error::lost)?.insert(xid, sender);
        drop(calls);
        Ok(Outstanding { wire: self, xid })
    }

    /// Writes a whole record.
    async fn send(&self, mut record: Rope) -> Result<(), Error> {
        let mut place = self.writer.lock().await;
        let mut writer = place.take().ok_or_else(Error::lost)?;
        writer.write_all_buf(&mut record).await?;
        *place = Some(writer);
        Ok(())
    }

    /// Fails all outstanding calls and all later ones.
    fn close(&self) {
        self.lock_calls().take();
        // A busy writer finds the peer gone, or is closed by the last owner of the wire.
        if let Ok(mut writer) = self.writer.try_lock() {
            writer.take();
        }
    }

    fn deliver(&self, header: ReplyHeader, results: Reader) {
        let waiting = self
            .lock_calls()
            .as_mut()
            .and_then(|calls| calls.remove(&header.xid()));
        // The caller may have given up.
        if let Some(waiting) = waiting {
            let _ = waiting.send((header, results));
        }
    }
}

/// The bytes of a call, record mark included.
fn record(header: &CallHeader, arguments: &impl Encode) -> Result<Rope, Error> {
    let mut w = Writer::with_capacity(512);
    let start = RecordStart::reserve(&mut w);
    w.write(header);
    w.write(arguments);
    start
        .finish(w)
        .map_err(|error| Error::Transport(io::Error::new(io::ErrorKind::InvalidInput, error)))
}

/// Returns records until the stream ends or its peer sends invalid data.
async fn read_until_closed(
    mut receiver: OwnedReadHalf,
    record_max: usize,
    wire: Arc<Wire>,
    back_channel: Arc<BackChannel>,
) {
    let mut splitter = RecordSplitter::new(record_max);
    'stream: while matches!(receiver.read_buf(splitter.read_buffer()).await, Ok(1..)) {
        loop {
            match splitter.next_record() {
                Ok(Some(record)) => accept(record, &wire, &back_channel),
                Ok(None) => break,
                Err(_) => break 'stream,
            }
        }
    }
    wire.close();
}

/// Passes a reply to its caller, and answers a callback. Anything else is dropped: its sender
/// would not understand an answer.
fn accept(record: Bytes, wire: &Arc<Wire>, back_channel: &BackChannel) {
    let mut reader = Reader::new(record);
    let answer = match Message::parse(&mut reader) {
        Ok(Message::Reply(header)) => return wire.deliver(header, reader),
        Ok(Message::Call(header)) => back_channel.answer(&header, reader),
        Err(_) => return,
    };
    // A separate task, because the server may read nothing until it has written its replies.
    let wire = Arc::clone(wire);
    tokio::spawn(async move { wire.send(answer).await });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces to send when a record has been received.
    type Answering = fn(Bytes) -> Vec<Vec<u8>>;

    /// A connection to a server that follows a script, one step for each record it receives.
    async fn scripted(answers: Vec<Answering>) -> Connection {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || serve(&listener, answers));
        Connection::open(&Options::at(address)).await.unwrap()
    }

    fn serve(listener: &std::net::TcpListener, answers: Vec<Answering>) {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let mut splitter = RecordSplitter::new(1 << 16);
        for answer in answers {
            let record = loop {
                if let Some(record) = splitter.next_record().unwrap() {
                    break record;
                }
                let mut bytes = [0; 4096];
                let count = stream.read(&mut bytes).unwrap();
                assert_ne!(count, 0, "the client closed the connection");
                splitter.read_buffer().extend_from_slice(&bytes[..count]);
            };
            for bytes in answer(record) {
                stream.write_all(&bytes).unwrap();
            }
        }
    }

    /// A reply to `xid` that accepts the call, with this word as its only result.
    fn reply(xid: u32, word: u32) -> Vec<u8> {
        let mut w = Writer::new();
        let start = RecordStart::reserve(&mut w);
        w.write(&ReplyHeader::success(xid));
        w.u32(word);
        start.finish(w).unwrap().into_contiguous().to_vec()
    }

    fn xid(record: &Bytes) -> u32 {
        Reader::new(record.clone()).u32().unwrap()
    }

    async fn call(connection: &Connection) -> Result<u32, Error> {
        let mut results = connection.call(&Credentials::None, 0, &7u32).await?;
        Ok(results.u32()?)
    }

    #[tokio::test]
    async fn replies_find_their_calls_in_any_order_and_any_split() {
        let connection = scripted(vec![|_| Vec::new(), |record| {
            let second = xid(&record);
            let bytes = [reply(second, 22), reply(second - 1, 11)].concat();
            bytes.chunks(5).map(<[u8]>::to_vec).collect()
        }])
        .await;
        let (first, second) = tokio::join!(call(&connection), call(&connection));
        assert_eq!((first.unwrap(), second.unwrap()), (11, 22));
    }

    #[tokio::test]
    async fn unknown_and_malformed_replies_disturb_nobody() {
        let connection = scripted(vec![|record| {
            let short = vec![0x80, 0, 0, 2, 1, 2];
            vec![short, reply(4711, 1), reply(xid(&record), 5)]
        }])
        .await;
        assert_eq!(call(&connection).await.unwrap(), 5);
    }

    #[tokio::test]
    async fn a_closed_connection_fails_the_call_and_later_ones() {
        let connection = scripted(vec![|_| Vec::new()]).await;
        assert!(matches!(call(&connection).await, Err(Error::Transport(_))));
        assert!(connection.is_closed());
        assert!(matches!(call(&connection).await, Err(Error::Transport(_))));
    }

    #[tokio::test]
    async fn an_oversized_record_closes_the_connection() {
        let connection = scripted(vec![|_| vec![vec![0xff; 64]]]).await;
        assert!(matches!(call(&connection).await, Err(Error::Transport(_))));
    }

    #[tokio::test]
    async fn a_refusal_of_the_rpc_layer_is_told_apart() {
        let connection = scripted(vec![|record| {
            let mut refusal = reply(xid(&record), 0);
            refusal[27] = 3; // PROC_UNAVAIL
            vec![refusal]
        }])
        .await;
        assert!(matches!(call(&connection).await, Err(Error::Refused(_))));
    }
}

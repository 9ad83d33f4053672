//! Connections as a client sees them: raw bytes over real sockets, a service without exports behind.

mod panics;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nfs4_server::{
    CallbackError, Connection, Export, Identity, Limits, Namespace, NoObserver, Service,
    ServiceOptions,
};
use oncrpc::{
    AuthSys, CallHeader, Credentials, Groups, Message, OpaqueAuth, RecordSplitter, RejectedReply,
    ReplyHeader,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use xdr::{Bytes, Reader, Rope, Writer};

use super::{Listener, Transport, accept};
use crate::configuration::{ListenAddress, TransportLimits};
use crate::data_directory::DataDirectory;

const RECORD_BYTES: usize = 64 << 10;

/// A server on a port of its own. Its files go with it.
struct Fixture {
    transport: Arc<Transport>,
    address: SocketAddr,
    _stop: watch::Sender<bool>,
    _files: TempDir,
}

fn serve(limits: TransportLimits) -> Fixture {
    serve_trees(Vec::new(), limits)
}

fn serve_trees(exports: Vec<Export>, limits: TransportLimits) -> Fixture {
    let files = tempfile::tempdir().unwrap();
    let records = DataDirectory::open_or_create(files.path())
        .unwrap()
        .client_records(Box::new(|| false))
        .unwrap();
    let options = ServiceOptions {
        identity: Identity {
            server: vec![1],
            scope: vec![2],
            incarnation: 3,
            key: [1; 32],
            place: None,
        },
        limits: Limits::default(),
        may_reclaim: Vec::new(),
        records: Arc::new(records),
        observer: Arc::new(NoObserver),
        clock: Instant::now,
    };
    let service = Service::new(Namespace::new(exports).unwrap(), options);
    let transport = Transport::new(service, limits, RECORD_BYTES);
    let any_port = ListenAddress(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let listener = Listener::bind(any_port).unwrap();
    let address = listener.address;
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(accept(listener, transport.clone(), stopping));
    Fixture {
        transport,
        address,
        _stop: stop,
        _files: files,
    }
}

const LIMITS: TransportLimits = TransportLimits {
    connections: 10,
    requests_per_connection: 16,
    buffer_bytes: 16 << 20,
};

/// A client that knows nothing but records.
struct Client {
    stream: TcpStream,
    splitter: RecordSplitter,
}

impl Client {
    async fn connect(fixture: &Fixture) -> Client {
        let stream = TcpStream::connect(fixture.address).await.unwrap();
        Client {
            stream,
            splitter: RecordSplitter::new(1 << 20),
        }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next record, or `None` when the server has closed the connection.
    async fn receive(&mut self) -> Option<Bytes> {
        loop {
            if let Some(record) = self.splitter.next_record().unwrap() {
                return Some(record);
            }
            match self.stream.read_buf(self.splitter.read_buffer()).await {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn receive_reply(&mut self) -> ReplyHeader {
        let record = self.receive().await.expect("the connection stays open");
        match Message::parse(&mut Reader::new(record)) {
            Ok(Message::Reply(header)) => header,
            other => panic!("no reply: {other:?}"),
        }
    }

    async fn receive_call(&mut self) -> (CallHeader, Bytes) {
        let mut reader = Reader::new(self.receive().await.unwrap());
        match Message::parse(&mut reader) {
            Ok(Message::Call(header)) => (header, reader.into_rest()),
            other => panic!("no call: {other:?}"),
        }
    }

    async fn is_served(&mut self) -> bool {
        self.stream.write_all(&null_call(1)).await.is_ok() && self.receive().await.is_some()
    }
}

fn framed(write: impl FnOnce(&mut Writer)) -> Bytes {
    let mut message = Writer::new();
    write(&mut message);
    oncrpc::frame(message.finish()).unwrap().into_contiguous()
}

fn null_call(xid: u32) -> Bytes {
    let header = CallHeader {
        xid,
        program: 100_003,
        version: 4,
        procedure: 0,
        credentials: Credentials::None,
        verifier: OpaqueAuth::none(),
    };
    framed(|message| message.write(&header))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_of_a_burst_is_answered_once() {
    let fixture = serve(LIMITS);
    let mut client = Client::connect(&fixture).await;
    let burst: Vec<u8> = (0..1000).flat_map(null_call).collect();
    client.send(&burst).await;
    let mut answered = Vec::new();
    for _ in 0..1000 {
        answered.push(client.receive_reply().await.xid());
    }
    answered.sort_unstable();
    assert_eq!(answered, (0..1000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_call_may_come_byte_by_byte() {
    let fixture = serve(LIMITS);
    let mut client = Client::connect(&fixture).await;
    for byte in null_call(7).chunks(1) {
        client.send(byte).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.receive_reply().await, ReplyHeader::success(7));
}

#[tokio::test]
async fn replies_arrive_after_the_client_said_its_last_word() {
    let fixture = serve(LIMITS);
    let mut client = Client::connect(&fixture).await;
    client.send(&null_call(7)).await;
    client.stream.shutdown().await.unwrap();
    assert_eq!(client.receive_reply().await, ReplyHeader::success(7));
    assert_eq!(client.receive().await, None);
}

#[tokio::test]
async fn what_is_no_call_closes_its_connection_and_no_other() {
    let fixture = serve(LIMITS);
    let mut innocent = Client::connect(&fixture).await;
    let too_large = (RECORD_BYTES as u32 + 1) | 1 << 31;
    let cases: [(&str, Bytes); 4] = [
        (
            "too large",
            Bytes::copy_from_slice(&too_large.to_be_bytes()),
        ),
        ("empty", framed(|_| {})),
        ("too short", framed(|message| message.u32(1))),
        (
            "neither call nor reply",
            framed(|message| message.opaque_fixed(&[9; 40])),
        ),
    ];
    for (name, bytes) in cases {
        let mut guilty = Client::connect(&fixture).await;
        guilty.send(&bytes).await;
        assert_eq!(guilty.receive().await, None, "{name}");
        assert!(innocent.is_served().await, "{name}");
    }
}

#[tokio::test]
async fn an_answer_nobody_waits_for_is_ignored() {
    let fixture = serve(LIMITS);
    let mut client = Client::connect(&fixture).await;
    client
        .send(&framed(|message| message.write(&ReplyHeader::success(99))))
        .await;
    assert!(client.is_served().await);
}

#[tokio::test]
async fn beyond_the_limit_the_oldest_that_has_no_session_goes_for_a_new_one() {
    let fixture = serve(TransportLimits {
        connections: 2,
        ..LIMITS
    });
    let mut first = Client::connect(&fixture).await;
    let mut second = Client::connect(&fixture).await;
    assert!(first.is_served().await && second.is_served().await);
    let mut third = Client::connect(&fixture).await;
    assert!(third.is_served().await);
    assert_eq!(first.receive().await, None);
    assert!(second.is_served().await && third.is_served().await);
    let refused = &fixture.transport.traffic().refused;
    assert_eq!(refused.load(Ordering::Relaxed), 1);

    drop(second);
    let mut open = fixture.transport.open_count.subscribe();
    open.wait_for(|open| *open == 1).await.unwrap();
    assert!(Client::connect(&fixture).await.is_served().await);
    assert!(third.is_served().await);
}

/// A client that sends and sends without reading must neither fill the server's memory nor lose a
/// reply once it reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_made_to_wait() {
    const PATIENCE: Duration = Duration::from_millis(300);
    const CALLS_MAX: u32 = 5_000_000;
    let fixture = serve(LIMITS);
    let mut client = Client::connect(&fixture).await;
    let (mut sent, mut rest) = (0, Bytes::new());
    while sent < CALLS_MAX {
        if rest.is_empty() {
            rest = null_call(sent);
            sent += 1;
        }
        let Ok(Ok(())) = tokio::time::timeout(PATIENCE, client.stream.writable()).await else {
            break;
        };
        if let Ok(count) = client.stream.try_write(&rest) {
            rest = rest.slice(count..);
        }
    }
    assert!(sent < CALLS_MAX, "the server took everything");
    let whole = if rest.is_empty() { sent } else { sent - 1 };
    for _ in 0..whole {
        client.receive_reply().await;
    }
}

#[tokio::test]
async fn a_client_can_be_called_back_while_it_calls() {
    let fixture = serve(LIMITS);
    let mut client = Client::connect(&fixture).await;
    assert!(client.is_served().await);
    let connection = only_connection(&fixture);
    let credentials = Credentials::Sys(AuthSys {
        stamp: 0,
        machinename: Bytes::from_static(b"here"),
        uid: 0,
        gid: 0,
        gids: Groups::default(),
    });
    let calling = tokio::spawn({
        let credentials = credentials.clone();
        let arguments = Rope::from(Bytes::from_static(b"args"));
        async move {
            connection
                .call_back(0x4000_0000, 1, &credentials, arguments)
                .await
        }
    });
    let (call, arguments) = client.receive_call().await;
    assert_eq!(
        (call.program, call.version, call.procedure),
        (0x4000_0000, 1, 1)
    );
    assert_eq!(call.credentials, credentials);
    assert_eq!(arguments, "args");
    assert!(client.is_served().await);
    let answer = framed(|message| {
        message.write(&ReplyHeader::success(call.xid));
        message.opaque_fixed(b"results!");
    });
    client.send(&answer).await;
    assert_eq!(calling.await.unwrap().unwrap(), "results!");
}

#[tokio::test]
async fn a_call_back_fails_when_the_client_refuses_or_goes() {
    let fixture = serve(LIMITS);
    let mut client = Client::connect(&fixture).await;
    assert!(client.is_served().await);
    let call = || {
        let connection = only_connection(&fixture);
        tokio::spawn(async move {
            connection
                .call_back(1, 0, &Credentials::None, Rope::default())
                .await
        })
    };
    let refused = call();
    let (header, _) = client.receive_call().await;
    assert_eq!(header.credentials, Credentials::None);
    let refusal = RejectedReply::AuthError(oncrpc::AuthStat::TooWeak);
    let refusal = ReplyHeader::rejected(header.xid, refusal);
    client
        .send(&framed(|message| message.write(&refusal)))
        .await;
    assert!(matches!(
        refused.await.unwrap(),
        Err(CallbackError::Refused(_))
    ));

    let unanswered = call();
    client.receive_call().await;
    drop(client);
    assert!(matches!(
        unanswered.await.unwrap(),
        Err(CallbackError::Closed)
    ));
}

fn only_connection(fixture: &Fixture) -> Arc<dyn Connection> {
    let open = fixture.transport.open();
    assert_eq!(open.connections.len(), 1);
    open.connections.values().next().unwrap().clone()
}

#[tokio::test]
async fn draining_closes_every_connection() {
    let fixture = serve(LIMITS);
    let mut idle = Client::connect(&fixture).await;
    let mut busy = Client::connect(&fixture).await;
    assert!(idle.is_served().await && busy.is_served().await);
    fixture.transport.drain(Duration::from_secs(60)).await;
    assert_eq!(fixture.transport.connections(), 0);
    assert_eq!(idle.receive().await, None);
    assert_eq!(busy.receive().await, None);
}

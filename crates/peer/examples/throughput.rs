//! Prints what two replicas on loopback reach: Gbit/s over the data lanes, and the latency of small
//! requests. Run it with `cargo run --release -p peer --example throughput [data lanes] [delay in ms]`; the
//! delay is put on each direction by a proxy that holds bytes back, so it needs no rights.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use peer::set::{Role, SetDirectory, SetError, join};
use peer::{Endpoint, Incarnation, Incoming, Lane, Message, MessageHandler, Refusal, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use vfs::ReplicaSlot;

const PAYLOAD_BYTES: usize = 1 << 20;
const PAYLOADS: u64 = 4096;
const REQUESTS: Duration = Duration::from_secs(2);

/// Counts bytes, answers with what it was asked.
#[derive(Default)]
struct Counter {
    bytes: AtomicU64,
}

#[async_trait]
impl MessageHandler for Counter {
    async fn receive(&self, incoming: Incoming) {
        let bytes = incoming.message.payload.len() as u64;
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    async fn answer(&self, incoming: Incoming) -> Result<Message, Refusal> {
        Ok(incoming.release())
    }
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let lanes = std::env::args()
        .nth(1)
        .map_or(Ok(4), |lanes| lanes.parse())?;
    let delay_ms = std::env::args()
        .nth(2)
        .map_or(Ok(0), |delay| delay.parse())?;
    let settings = Settings {
        data_lanes: lanes,
        compression: false,
        ..Settings::default()
    };
    let root = tempfile::tempdir()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let directory = SetDirectory::new(root.path().join("first"));
    let now = SystemTime::now();
    directory.create_for(b"", vec![address.clone()], now)?;
    directory.note_current();
    let counter = Arc::new(Counter::default());
    let start = |directory: &SetDirectory, handler, listener| -> Outcome<Endpoint> {
        let admitting = Some(directory.clone());
        let (identity, incarnation) = (directory.identity()?, Incarnation(1));
        let settings = settings.clone();
        Ok(Endpoint::start(
            &identity,
            incarnation,
            settings,
            handler,
            listener,
            admitting,
        )?)
    };
    let _first = start(&directory, counter.clone(), listener)?;
    let second = join_second(&directory, root.path().join("second")).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let second = start(&second, Arc::new(Counter::default()), listener)?;
    let address = delayed(address, Duration::from_millis(delay_ms)).await?;
    let session = second.connect(ReplicaSlot(1), vec![address]).ready().await;

    let payload = bytes::Bytes::from(vec![1; PAYLOAD_BYTES]);
    let began = Instant::now();
    for _ in 0..PAYLOADS {
        let message = Message::new(0, "").with_payload(payload.clone());
        session.send(Lane::Data, message).await?;
    }
    let total = PAYLOADS * PAYLOAD_BYTES as u64;
    while counter.bytes.load(Ordering::SeqCst) < total {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let gigabits = total as f64 * 8.0 / 1e9 / began.elapsed().as_secs_f64();
    println!(
        "{gigabits:.2} Gbit/s over {lanes} data lanes, {delay_ms} ms each way, both ends here"
    );

    let mut latencies = Vec::new();
    let until = Instant::now() + REQUESTS;
    while Instant::now() < until {
        let began = Instant::now();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        session
            .request(Lane::Control, Message::new(0, "small"), deadline)
            .await?;
        latencies.push(began.elapsed());
    }
    latencies.sort_unstable();
    let at = |percent: usize| latencies[latencies.len() * percent / 100];
    println!(
        "small requests: median {:?}, 99th percentile {:?}",
        at(50),
        at(99)
    );
    Ok(())
}

async fn join_second(
    first: &SetDirectory,
    path: std::path::PathBuf,
) -> Result<SetDirectory, SetError> {
    let token = first.invite_as(
        Role::Ordinary,
        "",
        Duration::from_secs(60),
        SystemTime::now(),
    )?;
    let second = SetDirectory::new(path);
    join(&token, &second, Vec::new(), SystemTime::now()).await?;
    Ok(second)
}

/// An address that leads to `target` with this delay in each direction.
async fn delayed(target: String, delay: Duration) -> Outcome<String> {
    if delay.is_zero() {
        return Ok(target);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            if let Ok(far) = TcpStream::connect(&target).await {
                let ((near_in, near_out), (far_in, far_out)) =
                    (near.into_split(), far.into_split());
                tokio::spawn(hold_back(near_in, far_out, delay));
                tokio::spawn(hold_back(far_in, near_out, delay));
            }
        }
    });
    Ok(address)
}

/// Copies, each piece so much later than it came.
async fn hold_back(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let (late, mut due) = tokio::sync::mpsc::unbounded_channel::<(Instant, bytes::BytesMut)>();
    tokio::spawn(async move {
        while let Some((at, piece)) = due.recv().await {
            tokio::time::sleep_until(at.into()).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    });
    loop {
        let mut piece = bytes::BytesMut::with_capacity(256 * 1024);
        match from.read_buf(&mut piece).await {
            Ok(1..) if late.send((Instant::now() + delay, piece)).is_ok() => {}
            _ => return,
        }
    }
}

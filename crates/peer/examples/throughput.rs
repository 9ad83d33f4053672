//! Prints what two replicas on loopback reach: Gbit/s over the data lanes, and the latency of small
//! requests. Run it with `cargo run --release -p peer --example throughput`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use peer::set::{SetDirectory, SetError, join};
use peer::{Endpoint, Incarnation, Incoming, Lane, Message, Owner, Refusal, Settings};
use tokio::net::TcpListener;
use vfs::ReplicaSlot;

const PAYLOAD_BYTES: usize = 1 << 20;
const PAYLOADS: u64 = 4096;
const REQUESTS: u32 = 5000;

/// Counts bytes, answers with what it was asked.
#[derive(Default)]
struct Counter {
    bytes: AtomicU64,
}

#[async_trait]
impl Owner for Counter {
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
    directory.create(vec![address.clone()], now)?;
    let counter = Arc::new(Counter::default());
    let start = |directory: &SetDirectory, owner, listener| -> Outcome<Endpoint> {
        let desk = directory.keeps_authority().then(|| directory.clone());
        let (identity, incarnation) = (directory.identity()?, Incarnation(1));
        let settings = settings.clone();
        Ok(Endpoint::start(
            &identity,
            incarnation,
            settings,
            owner,
            listener,
            desk,
        )?)
    };
    let _first = start(&directory, counter.clone(), listener)?;
    let second = join_second(&directory, root.path().join("second")).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let second = start(&second, Arc::new(Counter::default()), listener)?;
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
    println!("{gigabits:.2} Gbit/s over {lanes} data lanes, both ends on this machine");

    let mut latencies = Vec::new();
    for kind in 0..REQUESTS {
        let began = Instant::now();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        session
            .request(Lane::Control, Message::new(kind, "small"), deadline)
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
    let token = first.invite(Duration::from_secs(60), SystemTime::now())?;
    let second = SetDirectory::new(path);
    join(&token, &second, Vec::new(), SystemTime::now()).await?;
    Ok(second)
}

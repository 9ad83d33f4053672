//! A TCP proxy that cuts connections at random bytes; the seed decides where.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

pub(super) struct Proxy {
    pub address: String,
    pub cuts: Arc<AtomicU64>,
    calm: Arc<AtomicBool>,
}

impl Proxy {
    /// Each connection ends after at most `bytes_max` bytes in one of its directions.
    pub(super) async fn start(target: String, seed: u64, bytes_max: u64) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let cuts = Arc::new(AtomicU64::new(0));
        let calm = Arc::new(AtomicBool::new(false));
        let (counted, calmed) = (cuts.clone(), calm.clone());
        tokio::spawn(async move {
            let mut random = Rng::with_seed(seed);
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&target).await else {
                    continue;
                };
                let budgets = [random.u64(..bytes_max), random.u64(..bytes_max)];
                let (counted, calmed) = (counted.clone(), calmed.clone());
                tokio::spawn(async move {
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    tokio::select! {
                        () = copy(from_client, to_server, budgets[0], &calmed) => {}
                        () = copy(from_server, to_client, budgets[1], &calmed) => {}
                    }
                    counted.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        Proxy {
            address,
            cuts,
            calm,
        }
    }

    /// Cuts nothing from now on.
    pub(super) fn be_calm(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }
}

/// Copies until the budget is used up, to the byte.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut budget: u64, calm: &AtomicBool) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if calm.load(Ordering::Relaxed) {
            budget = u64::MAX;
        }
        let passed = usize::try_from(budget).unwrap_or(usize::MAX).min(read);
        if to.write_all(&buffer[..passed]).await.is_err() || passed < read {
            return;
        }
        budget -= passed as u64;
    }
}

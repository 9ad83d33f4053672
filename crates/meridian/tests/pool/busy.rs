//! More is asked of a joined metadata server than the way to the first one carries.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;

use super::*;

/// What one request reads, and how many are under way at once for each client; all of the file that a client reads.
const BLOCK: usize = 64 << 10;
const BLOCKS: usize = 48;
/// Bytes a second that the way carries to the joined server: what two clients read takes twelve seconds.
const RATE: usize = 512 << 10;

/// A way to a server that carries [`RATE`], whatever the number of connections.
struct Way {
    port: u16,
    /// Bytes that have gone from the server.
    carried: Arc<AtomicU64>,
}

impl Way {
    fn to(server: u16) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let carried = Arc::new(AtomicU64::new(0));
        let (counted, card) = (carried.clone(), Arc::new(Mutex::new(())));
        std::thread::spawn(move || {
            while let Ok((caller, _)) = listener.accept() {
                let Ok(called) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                let (from, to) = (caller.try_clone().unwrap(), called.try_clone().unwrap());
                std::thread::spawn(move || carry(from, to, |_| {}));
                let (counted, card) = (counted.clone(), card.clone());
                let passes = move |bytes: usize| {
                    let _one_at_a_time = card.lock().unwrap();
                    counted.fetch_add(bytes as u64, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_secs(1) * bytes as u32 / RATE as u32);
                };
                std::thread::spawn(move || carry(called, caller, passes));
            }
        });
        Way { port, carried }
    }
}

/// Carries bytes until one of the ends is closed.
fn carry(mut from: TcpStream, mut to: TcpStream, passes: impl Fn(usize)) {
    let mut buffer = vec![0; 8 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        passes(read);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Reads all blocks of a file at once. How often the server has told the client to ask again.
async fn read_at_once(server: &Running, name: &str) -> u64 {
    let options = Options {
        patience: PATIENCE,
        ..Options::at(server.address)
    };
    let client = Client::connect(options).await.unwrap();
    client.reclaim_complete().await.unwrap();
    let root = client.mount("/export").await.unwrap();
    let file = client.open(&root, name, &How::read()).await.unwrap();
    let mut reading = JoinSet::new();
    for block in 0..BLOCKS {
        let (client, file) = (client.clone(), file.clone());
        reading.spawn(async move {
            let offset = (block * BLOCK) as u64;
            let read = client.read(&file, offset, BLOCK as u32).await.unwrap();
            assert!(read.data.len() == BLOCK && read.data.iter().all(|byte| *byte == block as u8));
        });
    }
    while let Some(read) = reading.join_next().await {
        read.unwrap();
    }
    client.close(&file).await.unwrap();
    let put_off = client.session().times_put_off();
    client.leave().await.unwrap();
    put_off
}

#[test]
fn a_question_that_takes_long_is_asked_once() {
    let [first, second] = [(); 2].map(|()| Site::new());
    succeed(&pool(&first, &["create", "--address", &address(&first)]));
    let names = first.place.start();
    let way = Way::to(first.port);
    // Joined servers call there; the server itself listens where it did.
    let at = format!("127.0.0.1:{}", way.port);
    succeed(&pool(&first, &["address", "1", &at]));
    let token = succeed(&pool(&first, &["invite", "--metadata-server"]));
    succeed(&join(&second, token.trim_end()));
    let shown = start(&second);
    let bytes: Vec<u8> = (0..BLOCKS)
        .flat_map(|block| vec![block as u8; BLOCK])
        .collect();
    block_on(write(&names, "file", &bytes));

    let before = way.carried.load(Ordering::Relaxed);
    let put_off = block_on(async {
        let clients = (read_at_once(&shown, "file"), read_at_once(&shown, "file"));
        tokio::join!(clients.0, clients.1)
    });
    assert_eq!(put_off, (0, 0));
    let carried = way.carried.load(Ordering::Relaxed) - before;
    let wanted = 2 * bytes.len() as u64;
    assert!(
        carried < wanted + wanted / 10,
        "{carried} bytes for {wanted}"
    );
}

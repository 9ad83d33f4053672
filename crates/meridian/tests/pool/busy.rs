//! More is asked of a joined metadata server than the way to the first one carries.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::*;
use crate::pool::calls::{numbered_blocks, read_at_once};

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
    let bytes = numbered_blocks();
    block_on(write(&names, "file", &bytes));

    let before = way.carried.load(Ordering::Relaxed);
    let put_off = block_on(async {
        let clients = (
            read_at_once(shown.address, "file"),
            read_at_once(shown.address, "file"),
        );
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

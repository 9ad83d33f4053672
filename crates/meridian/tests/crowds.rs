//! A server at which many knock: hosts that make connections and say nothing, that make sessions and do nothing, and that ask and
//! do not take their replies, beside clients that work.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::site::block_on;
use crate::fixture::{Place, Running, complaint, http_get};
use nfs4::{NfsLockType4, NfsStat4, SetxattrOption4};
use nfs4_client::{Client, How, LockAnswer, OpenFile, Options, StableHow4};
use rustix::process::{Resource, Rlimit, prlimit};
use socket2::{Domain, Socket, Type};

/// Hosts that say nothing, and how many connections each makes.
const SILENT_HOSTS: u16 = 30;
const SILENT_EACH: usize = 12;

/// A connection from another address of this machine.
pub fn connect_from(host: u16, server: SocketAddr) -> io::Result<TcpStream> {
    let [high, low] = host.to_be_bytes();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, high, low), 0)).into())?;
    socket.connect(&server.into())?;
    Ok(socket.into())
}

fn crowd(server: SocketAddr) -> Vec<TcpStream> {
    let hosts = (0..SILENT_EACH).flat_map(|_| 2..2 + SILENT_HOSTS);
    hosts
        .map(|host| connect_from(host, server).unwrap())
        .collect()
}

/// A client with a lock on all of a file.
async fn with_a_lock(server: &Running) -> (Client, OpenFile) {
    let client = Client::connect(Options::at(server.address)).await.unwrap();
    let root = client.mount("/export").await.unwrap();
    let file = client
        .open(&root, "ledger", &How::create(0o666))
        .await
        .unwrap();
    let locked = client
        .lock(&file, "owner", NfsLockType4::Write, 0, 100)
        .await;
    assert!(matches!(locked, Ok(LockAnswer::Granted(_))));
    (client, file)
}

async fn comes_back_with_its_lock(client: &Client, file: &OpenFile, other: &Client) {
    client.session().connection(0).await.unwrap().sever();
    let entry = b"an entry".to_vec().into();
    client
        .write(file, 0, entry, StableHow4::FileSync)
        .await
        .unwrap();
    let asked = other
        .test_lock(&file.handle, "another", NfsLockType4::Write, 0, 1)
        .await;
    assert!(asked.unwrap().is_some(), "the lock is still held");
}

/// Any host could shut everybody out with as many silent connections as there may be: a newcomer was refused, and a
/// client that lost its connection lost its locks with its lease.
#[test]
fn silent_connections_shut_nobody_out() {
    let place = Place::new("[limits]\nconnections = 64\n");
    let server = place.start();
    block_on(async {
        let (client, file) = with_a_lock(&server).await;
        let _silent = crowd(server.address);
        let address = server.address;
        let newcomer = Options::dialling(move || connect_from(99, address));
        let newcomer = Client::connect(newcomer).await.unwrap();
        for _ in 0..3 {
            comes_back_with_its_lock(&client, &file, &newcomer).await;
            let more = crowd(server.address);
            comes_back_with_its_lock(&client, &file, &newcomer).await;
            drop(more);
        }
    });
    let traffic = place.status().traffic;
    assert!(traffic.refused > 64, "{traffic:?}");
    assert!(place.read_log().contains("too many connections"));
}

/// The same where the process may have no more files open: the server neither ends nor takes it for a failed disk.
#[test]
fn a_server_without_descriptors_goes_on() {
    let place = Place::new("");
    let server = place.start();
    block_on(async {
        let (client, file) = with_a_lock(&server).await;
        let other = Client::connect(Options::at(server.address)).await.unwrap();
        let root = client.mount("/export").await.unwrap();
        let open = fs::read_dir(format!("/proc/{}/fd", server.id()))
            .unwrap()
            .count() as u64;
        let limit = Rlimit {
            current: Some(open + 40),
            maximum: Some(open + 40),
        };
        prlimit(Some(server.pid()), Resource::Nofile, limit).unwrap();
        let _silent = crowd(server.address);
        comes_back_with_its_lock(&client, &file, &other).await;
        for number in 0..20 {
            let name = format!("file {number}");
            let made = client
                .open(&root, name.as_str(), &How::create(0o644))
                .await
                .unwrap();
            let data = vec![7; 100_000].into();
            client
                .write(&made, 0, data, StableHow4::FileSync)
                .await
                .unwrap();
        }
        comes_back_with_its_lock(&client, &file, &other).await;
    });
    assert!(!place.status().exports[0].store.failed);
    assert!(place.read_log().contains("raise the limit of open files"));
    server.stop();
}

/// Tables of metadata below a directory.
fn tables(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let below = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
        true => tables(&entry.path()),
        false => usize::from(directory.ends_with("tables")),
    });
    below.sum()
}

/// The store of metadata ended with the first table that it could not open, and the server with it.
#[test]
fn metadata_is_written_out_while_descriptors_are_lacking() {
    let place = Place::new("");
    let server = place.start();
    let meta = place.data().join("trees/default/meta");
    block_on(async {
        let (client, file) = with_a_lock(&server).await;
        let other = Client::connect(Options::at(server.address)).await.unwrap();
        let before = tables(&meta);
        let limit = Rlimit {
            current: Some(300),
            maximum: Some(300),
        };
        prlimit(Some(server.pid()), Resource::Nofile, limit).unwrap();
        let _silent = crowd(server.address);
        for number in 0..600 {
            let name = format!("note {number}");
            let value = bytes::Bytes::from(vec![7; 60_000]);
            let set = other.setxattr(&file.handle, &*name, value, SetxattrOption4::Either);
            set.await.unwrap();
            other.removexattr(&file.handle, &*name).await.unwrap();
        }
        assert!(tables(&meta) > before, "nothing is written out");
        comes_back_with_its_lock(&client, &file, &other).await;
    });
    assert!(!place.status().exports[0].store.failed);
    server.stop();
}

/// A port that nobody has.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Sets attributes that fill buffers of metadata, until the server does not answer.
async fn fill_buffers(server: SocketAddr) -> Result<(), nfs4_client::Error> {
    let client = Client::connect(Options::at(server)).await?;
    let root = client.mount("/export").await?;
    for number in 0..100 {
        let name = format!("note {}", number % 2);
        let value = bytes::Bytes::from(vec![7; 60_000]);
        let set = client.setxattr(&root, &*name, value, SetxattrOption4::Either);
        set.await?;
    }
    client.leave().await
}

/// The store of metadata ended when a limit was lowered into the low numbers while it wrote tables, the server with it, and nobody
/// started it again.
#[test]
fn a_server_whose_limit_of_open_files_is_lowered_below_what_is_open_goes_on() {
    let place = Place::new("[time]\ngrace_seconds = 0\n");
    let server = place.start_with(&["--listen", &format!("127.0.0.1:{}", free_port())]);
    let written: bytes::Bytes = vec![7; 100_000].into();
    block_on(async {
        let client = server.client().await;
        let root = client.mount("/export").await.unwrap();
        let file = client.open(&root, "file", &How::create(0o644)).await;
        let file = file.unwrap();
        client.write_all(&file, 0, &written).await.unwrap();
        client.commit(&file.handle, 0, 0).await.unwrap();
        client.close(&file).await.unwrap();
    });
    let address = server.address;
    let working = Arc::new(AtomicBool::new(true));
    let goes_on = Arc::clone(&working);
    let worker = thread::spawn(move || {
        while goes_on.load(Ordering::Relaxed) {
            let filling = async {
                let most = Duration::from_secs(5);
                let _ = tokio::time::timeout(most, fill_buffers(address)).await;
            };
            block_on(filling);
        }
    });
    let usual = prlimit_of(&server);
    for round in 0_u64.. {
        if place.read_log().contains("the server starts anew") {
            break;
        }
        let few = Rlimit {
            current: Some(20),
            ..usual
        };
        prlimit(Some(server.pid()), Resource::Nofile, few).unwrap();
        thread::sleep(Duration::from_millis(1500));
        prlimit(Some(server.pid()), Resource::Nofile, usual).unwrap();
        thread::sleep(Duration::from_millis(50 + round * 70 % 300));
    }
    working.store(false, Ordering::Relaxed);
    worker.join().unwrap();
    let found = block_on(async {
        let client = server.client().await;
        let root = client.mount("/export").await.unwrap();
        let file = client.open(&root, "file", &How::read()).await.unwrap();
        client.read_to_end(&file).await.unwrap()
    });
    assert_eq!(found, written);
    server.stop();
}

fn prlimit_of(server: &Running) -> Rlimit {
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let mut numbers = line.unwrap().split_whitespace().skip(3);
    let mut number = || numbers.next().unwrap().parse().ok();
    Rlimit {
        current: number(),
        maximum: number(),
    }
}

/// The server was killed by a signal, again and again, by any client that wrote far into a file.
#[test]
fn a_write_beyond_the_limit_of_file_sizes_is_refused_and_the_server_goes_on() {
    const MOST: u64 = 200 << 20;
    let place = Place::new("");
    let server = place.start();
    let limit = Rlimit {
        current: Some(MOST),
        maximum: Some(MOST),
    };
    prlimit(Some(server.pid()), Resource::Fsize, limit).unwrap();
    block_on(async {
        let client = server.client().await;
        let root = client.mount("/export").await.unwrap();
        let file = client.open(&root, "file", &How::create(0o644)).await;
        let file = file.unwrap();
        let put = |offset| {
            let data = bytes::Bytes::from_static(b"content");
            client.write(&file, offset, data, StableHow4::FileSync)
        };
        put(MOST - 7).await.unwrap();
        let refused = put(MOST).await.unwrap_err();
        assert_eq!(refused.status(), Some(NfsStat4::FBig));
        let refused = client.allocate(&file, MOST, 10).await.unwrap_err();
        assert_eq!(refused.status(), Some(NfsStat4::FBig));
        let found = client.read(&file, MOST - 7, 100).await.unwrap();
        assert_eq!(found.data, &b"content"[..]);
    });
    server.stop();
}

/// The server started, and any client could end it: it took its own journal, which had grown to the limit, for a failed disk.
#[test]
fn a_limit_of_file_sizes_that_is_too_low_for_the_server_itself_is_said_at_the_start() {
    let place = Place::new("");
    let program = place.serve();
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 20480; exec \"$@\"", "sh"]);
    limited.arg(program.get_program()).args(program.get_args());
    let refused = limited.output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let told = complaint(&refused);
    assert!(told.contains("LimitFSIZE"), "{told}");
    place.start().stop();
}

/// As many clients as there may be, unless configured otherwise, each at an address of its own.
const MANY: u16 = 10_000;
/// Of these at a time.
const AT_ONCE: usize = 50;

/// A client from an address of its own that makes a session, and is not heard of again.
async fn comes_and_goes(host: u16, server: SocketAddr) {
    let options = Options {
        renewal: None,
        reclaims: true,
        ..Options::dialling(move || connect_from(host, server))
    };
    Client::connect(options).await.unwrap();
}

/// A newcomer that comes again as long as it is told to.
async fn let_in(server: SocketAddr) -> Client {
    let began = Instant::now();
    loop {
        let options = Options::dialling(move || connect_from(99, server));
        match Client::connect(options).await {
            Ok(client) => return client,
            Err(error) if error.status() == Some(NfsStat4::Delay) => {}
            Err(error) => panic!("{error}"),
        }
        assert!(began.elapsed() < Duration::from_secs(60), "kept out");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The most memory that a process has had, in bytes.
fn peak_bytes(server: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() << 10
}

/// The table of clients filled up, and stayed full for a lease: one host that the rules admit could keep all others out.
#[test]
fn ten_thousand_clients_keep_nobody_out_and_stay_within_the_memory_for_clients() {
    // Nobody goes because he has been silent for too long, however slow the machine is.
    let place = Place::new("[limits]\nmemory = \"128 MiB\"\n[time]\nlease_seconds = 3600\n");
    let server = place.start();
    let before = peak_bytes(&server);
    block_on(async {
        let (client, file) = with_a_lock(&server).await;
        let address = server.address;
        // Together with the one that works they are as many as there may be.
        let hosts: Vec<u16> = (1000..1000 + MANY - 1).collect();
        for hosts in hosts.chunks(AT_ONCE) {
            let come = hosts
                .iter()
                .map(|host| tokio::spawn(comes_and_goes(*host, address)));
            for one in come.collect::<Vec<_>>() {
                one.await.unwrap();
            }
        }
        let status = place.status();
        assert!(status.clients <= u64::from(MANY), "{}", status.clients);
        assert!(
            status.clients > u64::from(MANY) * 9 / 10,
            "{}",
            status.clients
        );
        let newcomer = let_in(address).await;
        comes_back_with_its_lock(&client, &file, &newcomer).await;
    });
    let status = place.status();
    let taken = status.reply_bytes + status.state_bytes + status.buffer_bytes;
    assert!(taken <= status.memory_bytes, "{status:?}");
    let grown = peak_bytes(&server) - before;
    assert!(grown <= status.memory_bytes, "{} MiB", grown >> 20);
    assert!(place.read_log().contains("too many clients"));
}

/// A way to the server on which nothing comes back while it is held up.
fn way(server: SocketAddr, held_up: Arc<AtomicBool>) -> io::Result<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (near, _) = listener.accept()?;
    let far = TcpStream::connect(server)?;
    let (mut asks, mut asked) = (near.try_clone()?, far.try_clone()?);
    thread::spawn(move || io::copy(&mut asks, &mut asked));
    thread::spawn(move || pass_back(far, near, &held_up));
    Ok(client)
}

fn pass_back(mut from: TcpStream, mut to: TcpStream, held_up: &AtomicBool) -> io::Result<()> {
    let mut bytes = vec![0; 1 << 16];
    loop {
        while held_up.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(10));
        }
        match from.read(&mut bytes)? {
            0 => return to.shutdown(std::net::Shutdown::Both),
            count => to.write_all(&bytes[..count])?,
        }
    }
}

/// A server with little memory for clients, and a client that has just written a file of a mebibyte.
async fn with_little_memory(place: &Place) -> (Running, Client, OpenFile) {
    let server = place.start();
    let client = Client::connect(Options::at(server.address)).await.unwrap();
    let root = client.mount("/export").await.unwrap();
    let file = client.open(&root, "large", &How::create(0o666)).await;
    let file = file.unwrap();
    assert_is_served(&client, &file).await;
    (server, client, file)
}

async fn assert_is_served(client: &Client, file: &OpenFile) {
    let data = bytes::Bytes::from(vec![7; 1 << 20]);
    let written = client
        .write(file, 0, data.clone(), StableHow4::Unstable)
        .await;
    written.unwrap();
    assert_eq!(client.read(file, 0, 1 << 20).await.unwrap().data, data);
}

/// All buffers together had no bound: clients that asked for data and did not take it could use up all memory.
#[test]
fn who_takes_no_replies_cannot_use_up_the_memory_and_loses_nothing() {
    let place = Place::new("[limits]\nmemory = \"64 MiB\"\n");
    block_on(async {
        let (server, client, file) = with_little_memory(&place).await;
        let held_up = Arc::new(AtomicBool::new(false));
        let mut reads = Vec::new();
        for _ in 0..3 {
            let (address, held_up) = (server.address, held_up.clone());
            let options = Options {
                patience: Duration::from_secs(600),
                ..Options::dialling(move || way(address, held_up.clone()))
            };
            let greedy = Arc::new(Client::connect(options).await.unwrap());
            let root = greedy.mount("/export").await.unwrap();
            let own = greedy.open(&root, "large", &How::read()).await.unwrap();
            let own = Arc::new(own);
            for _ in 0..40 {
                let (greedy, own) = (greedy.clone(), own.clone());
                reads.push(async move { greedy.read(&own, 0, 1 << 20).await });
            }
        }
        held_up.store(true, Ordering::Relaxed);
        let reads: Vec<_> = reads.into_iter().map(tokio::spawn).collect();
        for _ in 0..5 {
            assert_is_served(&client, &file).await;
            let status = place.status();
            assert!(status.buffer_bytes <= status.memory_bytes / 4, "{status:?}");
        }
        let metrics = http_get(place.status().metrics.unwrap(), "/metrics");
        assert!(metrics.contains("meridian_client_buffer_bytes"));
        held_up.store(false, Ordering::Relaxed);
        for read in reads {
            assert_eq!(read.await.unwrap().unwrap().data, vec![7; 1 << 20]);
        }
    });
    assert!(place.read_log().contains("memory for requests and replies"));
}

/// The same with requests that are announced and do not come.
#[test]
fn who_announces_large_requests_and_sends_nothing_keeps_nobody_from_writing() {
    let place = Place::new("[limits]\nmemory = \"64 MiB\"\n");
    block_on(async {
        let (server, client, file) = with_little_memory(&place).await;
        let mark = (1_u32 << 31 | 1 << 20).to_be_bytes();
        let announced: Vec<_> = (0..40)
            .map(|host| {
                let mut stream = connect_from(100 + host, server.address).unwrap();
                stream.write_all(&mark).unwrap();
                stream.write_all(&[0; 100]).unwrap();
                stream
            })
            .collect();
        for _ in 0..5 {
            assert_is_served(&client, &file).await;
        }
        drop(announced);
    });
}

/// Each connection over which something else than calls came was a line in the log, with which any host could fill the disk.
#[test]
fn who_sends_garbage_does_not_fill_the_log() {
    /// A mark of more bytes than any record may have; and a record that begins like a call and ends there.
    const GARBAGE: [&[u8]; 2] = [&[0xff; 4], &[0x80, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0]];
    let place = Place::new("");
    let server = place.start();
    for number in 0..100 {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(GARBAGE[number % 2]).unwrap();
        // Until it is closed, in one way or another.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let log = place.read_log();
    let lines = log.matches("closing a connection").count();
    assert!((1..10).contains(&lines), "{log}");
}

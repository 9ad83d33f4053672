//! The real properties of a network between two sites: round trips and throughput, measured with plain sockets.
//!
//! What must never enter: judgements. Tests assert nothing about time; people and benchmarks read
//! the numbers.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::site::Site;

/// The time limit of one answer or one connection.
const PATIENCE: Duration = Duration::from_secs(20);

/// Pause between two round trips, so that each finds an idle network.
const PAUSE: Duration = Duration::from_millis(5);

/// Bytes of one write or read.
const BLOCK: usize = 256 * 1024;

/// Times of `count` round trips, one after another, of a small UDP packet from one site to `address`
/// of another and back; the shortest first.
///
/// # Errors
/// Fails when an answer is lost.
pub fn round_trips(from: &Site, to: &Site, address: IpAddr, count: u32) -> Result<Vec<Duration>> {
    let server = to.enter(|| UdpSocket::bind((address, 0)))??;
    let client = from.enter(|| UdpSocket::bind(("0.0.0.0", 0)))??;
    client.connect(server.local_addr()?)?;
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(PATIENCE))?;
    }
    std::thread::scope(|scope| {
        let echo = scope.spawn(move || -> Result<()> {
            let mut packet = [0; 64];
            for _ in 0..count {
                let (length, sender) = server.recv_from(&mut packet)?;
                server.send_to(&packet[..length], sender)?;
            }
            Ok(())
        });
        let times = (0..count).map(|number| one_round_trip(&client, number));
        let mut times: Vec<Duration> = times.collect::<Result<_>>()?;
        echo.join().expect("the echo does not panic")?;
        times.sort_unstable();
        Ok(times)
    })
}

fn one_round_trip(client: &UdpSocket, number: u32) -> Result<Duration> {
    std::thread::sleep(PAUSE);
    let began = Instant::now();
    client.send(&number.to_be_bytes())?;
    let mut answer = [0; 64];
    let length = client.recv(&mut answer).context("no answer came back")?;
    ensure!(answer[..length] == number.to_be_bytes(), "a strange answer");
    Ok(began.elapsed())
}

/// The total throughput of TCP connections, in bits of payload a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Over the whole time, including the start of the connections.
    pub whole: f64,
    /// Over the second half of the time.
    pub second_half: f64,
}

/// Sends for `time` over `flows` TCP connections from one site to `address` of another, as fast as
/// possible. The connections use the buffers that the sites' settings allow.
pub fn throughput(
    from: &Site,
    to: &Site,
    address: IpAddr,
    flows: usize,
    time: Duration,
) -> Result<Throughput> {
    let listener = to.enter(|| TcpListener::bind((address, 0)))??;
    let server = listener.local_addr()?;
    let received = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let began = Instant::now();
        for _ in 0..flows {
            let sending = from.enter(|| TcpStream::connect_timeout(&server, PATIENCE))??;
            let (receiving, _) = accept(&listener, &sending)?;
            let (received, is_over) = (&received, &is_over);
            scope.spawn(move || receive(receiving, received));
            scope.spawn(move || send(sending, is_over));
        }
        std::thread::sleep(time / 2);
        let (half_time, half) = (began.elapsed(), received.load(Ordering::Relaxed));
        std::thread::sleep(time / 2);
        let (whole_time, whole) = (began.elapsed(), received.load(Ordering::Relaxed));
        is_over.store(true, Ordering::Relaxed);
        let rate = |bytes: u64, time: Duration| bytes as f64 * 8.0 / time.as_secs_f64();
        Ok(Throughput {
            whole: rate(whole, whole_time),
            second_half: rate(whole - half, whole_time - half_time),
        })
    })
}

/// The other end of a connection that has just been made.
fn accept(listener: &TcpListener, client: &TcpStream) -> Result<(TcpStream, SocketAddr)> {
    let (stream, address) = listener.accept()?;
    ensure!(address == client.local_addr()?, "a stranger has connected");
    Ok((stream, address))
}

/// Counts received bytes until the connection ends for any reason.
fn receive(mut stream: TcpStream, received: &AtomicU64) {
    let mut block = vec![0; BLOCK];
    while let Ok(length @ 1..) = stream.read(&mut block) {
        received.fetch_add(length as u64, Ordering::Relaxed);
    }
}

/// Sends until the time is over. Does not wait for unsent bytes.
fn send(mut stream: TcpStream, is_over: &AtomicBool) {
    let block = vec![0x5a; BLOCK];
    // With a full window this thread must still notice the end.
    let patience = stream.set_write_timeout(Some(Duration::from_millis(100)));
    while patience.is_ok() && !is_over.load(Ordering::Relaxed) {
        match stream.write(&block) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    // Closing with unread data pending resets the connection, which ends the receiver too.
    let _ = stream.shutdown(Shutdown::Both);
}

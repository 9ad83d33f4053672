//! The same number of bytes over plain TCP connections between two sites, for comparison.
//!
//! What must never enter: NFS.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bench::processor::ProcessorTime;

use crate::sites::Sites;

/// Sends this number of bytes over plain connections from the first site to the second. Returns the seconds from the first
/// connection until the last byte has arrived, and processor seconds.
pub(super) fn send_all(sites: &Sites, flows: usize, size: u64) -> Result<(f64, f64)> {
    let [first, second] = sites.two_places()?;
    let before = ProcessorTime::own()?.total();
    let listener = second
        .site()
        .enter(|| TcpListener::bind((second.address(), 0)))??;
    let address = listener.local_addr()?;
    let began = Instant::now();
    std::thread::scope(|scope| {
        let mut receivers = Vec::new();
        for _ in 0..flows {
            let sending = first.site().enter(|| TcpStream::connect(address))??;
            let (receiving, _) = listener.accept()?;
            let share = size / flows as u64;
            scope.spawn(move || send(sending, share));
            receivers.push((share, scope.spawn(move || receive(receiving))));
        }
        for (share, receiver) in receivers {
            let received = receiver.join().ok().context("a receiver has died")??;
            ensure!(received == share, "{received} of {share} bytes came");
        }
        let cpu = ProcessorTime::own()?.total() - before;
        Ok((began.elapsed().as_secs_f64(), cpu.as_secs_f64()))
    })
}

fn send(mut stream: TcpStream, share: u64) -> std::io::Result<()> {
    let block = vec![0x5a; 256 << 10];
    let mut left = share;
    while left > 0 {
        let now = left.min(block.len() as u64) as usize;
        stream.write_all(&block[..now])?;
        left -= now as u64;
    }
    stream.shutdown(Shutdown::Write)
}

fn receive(mut stream: TcpStream) -> std::io::Result<u64> {
    let mut block = vec![0; 256 << 10];
    let mut received = 0;
    loop {
        match stream.read(&mut block)? {
            0 => return Ok(received),
            length => received += length as u64,
        }
    }
}

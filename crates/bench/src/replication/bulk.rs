//! One large file: from its first WRITE until the other site has all of it, beside the same bytes by
//! plain TCP; and what a `mkdir` by others takes meanwhile.
//!
//! What must never enter: how it is shown.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use nfs4::NfsFh4;
use nfs4_client::{Client, How, OpenFile, StableHow4};
use serde::Serialize;
use testbed::LinkSettings;
use tokio::task::JoinSet;

use crate::processor::ProcessorTime;
use crate::sites::Sites;
use crate::tally::Tally;
use crate::worker::Random;

/// The size of one request.
const BLOCK: usize = 1 << 20;

/// How many WRITE requests are under way at once.
const DEPTH: usize = 8;

/// How long the client of the other file pauses between two directories.
const PAUSE: Duration = Duration::from_millis(100);

/// What came out.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BulkFigures {
    /// The size of the file in bytes.
    pub(crate) size: u64,
    /// The link's bandwidth in bits a second.
    pub(crate) bandwidth: u64,
    /// The round trip asked for, in microseconds.
    pub(crate) distance_us: u64,
    /// From the first WRITE to the answer to COMMIT and CLOSE.
    pub(crate) written_s: f64,
    /// From the first WRITE until the other replica has everything.
    pub(crate) complete_s: f64,
    /// Bytes on the wire meanwhile, both ways.
    pub(crate) wire: u64,
    /// Bytes on the wire while the copy was read and compared at the other site.
    pub(crate) wire_reading: u64,
    /// Processor time of both servers, and of this program with clients and the WAN.
    pub(crate) servers_cpu_s: [f64; 2],
    /// See above.
    pub(crate) bench_cpu_s: f64,
    /// The same bytes over one TCP connection, and over four.
    pub(crate) tcp_s: [f64; 2],
    /// Processor time of this program meanwhile.
    pub(crate) tcp_cpu_s: [f64; 2],
    /// Making directories before the file, at the first site and at the second: median, 95 of 100,
    /// the longest, in microseconds.
    pub(crate) mkdir_before_us: [[u32; 3]; 2],
    /// The same while the file was on its way.
    pub(crate) mkdir_meanwhile_us: [[u32; 3]; 2],
}

/// Measures over links of this bandwidth.
pub(crate) async fn measure(
    sites: &Sites,
    distance: Duration,
    bandwidth: u64,
    size: u64,
) -> Result<BulkFigures> {
    let link = LinkSettings::round_trip(distance).bandwidth(bandwidth);
    sites.set(&link)?;
    let (client, root) = sites.replicas[0].target().client().await?;
    let home = client.create_directory(&root, "bulk", 0o755).await?;
    for name in ["by-first", "by-second"] {
        client.create_directory(&root, name, 0o777).await?;
    }
    let random = Arc::new(noise());
    let tcp = [1, 4].map(|flows| plain_tcp(sites, flows, size));
    let [one, four] = tcp;
    let (one, four) = (one?, four?);
    eprintln!("bench: plain TCP took {:.2} s, {:.2} s by 4", one.0, four.0);
    sites.wait_for_quiet()?;
    let before = neighbours(sites, "before", Work::For(Duration::from_secs(5))).await?;
    sites.wait_for_quiet()?;

    let (wire, cpu) = (sites.sent()?.wire, cpu(sites)?);
    let stop = Arc::new(AtomicBool::new(false));
    let meanwhile = neighbours(sites, "meanwhile", Work::Until(Arc::clone(&stop)));
    let transfer = transfer(sites, &client, &home, &random, size, &stop);
    let (meanwhile, times) = tokio::join!(meanwhile, transfer);
    let (written, complete) = times?;
    let (wire_after, cpu_after) = (sites.sent()?.wire, self::cpu(sites)?);
    eprintln!(
        "bench: {} MiB were written in {written:.2} s and complete after {complete:.2} s",
        size >> 20
    );
    let wire_reading = check_copy(sites, &random, size).await?;
    client.leave().await?;
    Ok(BulkFigures {
        size,
        bandwidth,
        distance_us: distance.as_micros() as u64,
        written_s: written,
        complete_s: complete,
        wire: wire_after - wire,
        wire_reading,
        servers_cpu_s: [cpu_after[0] - cpu[0], cpu_after[1] - cpu[1]],
        bench_cpu_s: cpu_after[2] - cpu[2],
        tcp_s: [one.0, four.0],
        tcp_cpu_s: [one.1, four.1],
        mkdir_before_us: before,
        mkdir_meanwhile_us: meanwhile?,
    })
}

/// Writes the file and waits until the other replica has it; both in seconds from the beginning.
async fn transfer(
    sites: &Sites,
    client: &Client,
    home: &NfsFh4,
    random: &Arc<Vec<u8>>,
    size: u64,
    stop: &AtomicBool,
) -> Result<(f64, f64)> {
    let outcome = async {
        let began = Instant::now();
        let file = client.open(home, "large", &How::create(0o644)).await?;
        write(client, &file, random, size).await?;
        client.commit(&file.handle, 0, 0).await?;
        client.close(&file).await?;
        let written = began.elapsed().as_secs_f64();
        // The directories made meanwhile keep lacking something for a moment, contents come last.
        while !sites.has_contents()? {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok((written, began.elapsed().as_secs_f64()))
    };
    let outcome = outcome.await;
    stop.store(true, Ordering::Relaxed);
    outcome
}

async fn write(client: &Client, file: &OpenFile, random: &Arc<Vec<u8>>, size: u64) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let mut writers = JoinSet::new();
    for _ in 0..DEPTH {
        let (client, file) = (client.clone(), file.clone());
        let (random, next) = (Arc::clone(random), Arc::clone(&next));
        writers.spawn(async move {
            loop {
                let offset = next.fetch_add(BLOCK as u64, Ordering::Relaxed);
                if offset >= size {
                    return Ok::<(), anyhow::Error>(());
                }
                let data = block(&random, offset);
                let written = client.write(&file, offset, data, StableHow4::Unstable);
                ensure!(written.await?.count as usize == BLOCK, "a WRITE fell short");
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done??;
    }
    Ok(())
}

/// Reads the file at the second replica once nothing is controlled, so that its own copy answers.
/// Returns what went over the WAN meanwhile, which proves that.
async fn check_copy(sites: &Sites, random: &[u8], size: u64) -> Result<u64> {
    sites.wait_for_quiet()?;
    let before = sites.sent()?.wire;
    let (client, root) = sites.replicas[1].target().client().await?;
    let home = client.lookup(&root, "bulk").await?;
    let file = client.open(&home, "large", &How::read()).await?;
    for offset in (0..size).step_by(BLOCK) {
        let part = client.read(&file, offset, BLOCK as u32).await?;
        ensure!(
            part.data == block(random, offset),
            "the copy at the second site differs near byte {offset}"
        );
    }
    client.close(&file).await?;
    client.leave().await?;
    let wire = sites.sent()?.wire - before;
    ensure!(
        wire < size / 10,
        "reading the copy moved {wire} bytes over the WAN, so there was none"
    );
    eprintln!("bench: the copy at the second site is the same");
    Ok(wire)
}

/// How long neighbours work.
#[derive(Clone)]
enum Work {
    For(Duration),
    Until(Arc<AtomicBool>),
}

/// Other clients at both sites who make directories: median, 95 of 100 and longest in microseconds.
async fn neighbours(sites: &Sites, name: &str, work: Work) -> Result<[[u32; 3]; 2]> {
    let mut makers = JoinSet::new();
    for (number, home) in ["by-first", "by-second"].into_iter().enumerate() {
        let (client, root) = sites.replicas[number].target().client().await?;
        let home = client.lookup(&root, home).await?;
        let place = client.create_directory(&home, name, 0o755).await?;
        let work = work.clone();
        makers.spawn(
            async move { Ok::<_, anyhow::Error>((number, make(client, place, work).await?)) },
        );
    }
    let mut figures = [[0; 3]; 2];
    while let Some(made) = makers.join_next().await {
        let (number, mut tally) = made??;
        figures[number] = [0.5, 0.95, 1.0].map(|share| tally.percentile(share));
    }
    Ok(figures)
}

async fn make(client: Client, place: NfsFh4, work: Work) -> Result<Tally> {
    let (began, mut tally) = (Instant::now(), Tally::default());
    let goes_on = || match &work {
        Work::For(time) => began.elapsed() < *time,
        Work::Until(stop) => !stop.load(Ordering::Relaxed),
    };
    let mut number = 0;
    while goes_on() {
        let name = format!("directory-{number}");
        let at = Instant::now();
        client.create_directory(&place, &*name, 0o755).await?;
        tally.add(at, 1);
        number += 1;
        tokio::time::sleep(PAUSE).await;
    }
    client.leave().await?;
    Ok(tally)
}

/// Processor seconds of both servers and of this program.
fn cpu(sites: &Sites) -> Result<[f64; 3]> {
    let own = ProcessorTime::own()?.total().as_secs_f64();
    let [first, second] = [0, 1].map(|number: usize| sites.replicas[number].processor_time());
    Ok([first?.as_secs_f64(), second?.as_secs_f64(), own])
}

/// Sends as many bytes over plain connections from the first site to the second. Returns seconds until
/// the last has arrived, from the first connection on, and processor seconds.
fn plain_tcp(sites: &Sites, flows: usize, size: u64) -> Result<(f64, f64)> {
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

/// Bytes that no compression makes smaller, more than a block.
fn noise() -> Vec<u8> {
    let mut random = Random::from_seed(7);
    let words = (0..BLOCK / 2).map(|_| random.below(1 << 32) as u32);
    words.flat_map(u32::to_be_bytes).collect()
}

/// The content of a block of the file: noise that begins elsewhere in every block, with its offset.
fn block(random: &[u8], offset: u64) -> Bytes {
    let start = (offset / BLOCK as u64 * 4099 % BLOCK as u64) as usize;
    let mut block = random[start..start + BLOCK].to_vec();
    block[..8].copy_from_slice(&offset.to_be_bytes());
    block.into()
}

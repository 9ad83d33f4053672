//! Large files: written, committed and read from beginning to end, and at random.
//!
//! Every page of a file has a label with its owner and place, so that any misplaced byte range shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bench::tally::{Span, Tally};
use bytes::Bytes;
use nfs4::Verifier4;
use nfs4_client::{Client, How, OpenFile, StableHow4};
use tokio::task::JoinSet;

use crate::worker::Worker;

/// The number of bytes in one request.
pub(crate) const BLOCK: u64 = 1 << 20;

/// The size of a random read, and of a labelled page, in bytes.
pub(crate) const PAGE: u64 = 4096;

/// The number of active requests of all clients together, and the minimum for each client.
const IN_FLIGHT: usize = 8;
const IN_FLIGHT_EACH_MIN: usize = 2;

/// The file's name in the directory of its worker.
const NAME: &str = "data";

const RESTARTED: &str = "the server restarted while a file was written";

/// One worker's part of the data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// The length of its file, in blocks.
    blocks: u64,
    /// The number of its active requests.
    depth: usize,
}

impl Share {
    /// An equal part of `total` bytes for each of `workers` workers, at least a block.
    pub(crate) fn of((total, workers): (u64, usize)) -> Self {
        Self {
            blocks: (total / BLOCK / workers as u64).max(1),
            depth: (IN_FLIGHT / workers).max(IN_FLIGHT_EACH_MIN),
        }
    }
}

/// The state that the tasks of one worker share.
struct Stream {
    client: Client,
    file: OpenFile,
    worker: usize,
    blocks: u64,
    next: AtomicU64,
}

impl Stream {
    /// The next free block.
    fn take(&self) -> Option<u64> {
        let block = self.next.fetch_add(1, Ordering::Relaxed);
        (block < self.blocks).then_some(block)
    }
}

/// Overwrites the file and commits it; the time of the COMMIT counts.
pub(crate) async fn write(worker: Worker, share: Share) -> Result<(Worker, Tally)> {
    let how = How::create(0o644).by("data");
    let stream = open(&worker, share, &how).await?;
    let mut writers = JoinSet::new();
    for _ in 0..share.depth {
        writers.spawn(write_blocks(Arc::clone(&stream)));
    }
    let (mut tally, mut verifiers) = (Tally::default(), Vec::new());
    while let Some(done) = writers.join_next().await {
        let (part, verifier) = done??;
        tally.absorb(&part);
        verifiers.extend(verifier);
    }
    let committed = worker.client.commit(&stream.file.handle, 0, 0).await?;
    ensure!(
        verifiers.iter().all(|verifier| *verifier == committed),
        RESTARTED
    );
    worker.client.close(&stream.file).await?;
    Ok((worker, tally))
}

async fn open(worker: &Worker, share: Share, how: &How) -> Result<Arc<Stream>> {
    let client = worker.client.clone();
    let file = client.open(&worker.directory, NAME, how).await?;
    Ok(Arc::new(Stream {
        client,
        file,
        worker: worker.number,
        blocks: share.blocks,
        next: AtomicU64::new(0),
    }))
}

async fn write_blocks(stream: Arc<Stream>) -> Result<(Tally, Option<Verifier4>)> {
    let mut tally = Tally::default();
    let mut verifier = None;
    while let Some(index) = stream.take() {
        let data = block(stream.worker, index);
        let began = Instant::now();
        let written = stream
            .client
            .write(&stream.file, index * BLOCK, data, StableHow4::Unstable)
            .await?;
        tally.add(began, BLOCK);
        ensure!(
            u64::from(written.count) == BLOCK,
            "a WRITE of {BLOCK} bytes took {}",
            written.count
        );
        ensure!(
            verifier.is_none_or(|known| known == written.writeverf),
            RESTARTED
        );
        verifier = Some(written.writeverf);
    }
    Ok((tally, verifier))
}

/// Reads the file from beginning to end.
pub(crate) async fn read(worker: Worker, share: Share) -> Result<(Worker, Tally)> {
    let stream = open(&worker, share, &How::read().by("data")).await?;
    let mut readers = JoinSet::new();
    for _ in 0..share.depth {
        readers.spawn(read_blocks(Arc::clone(&stream)));
    }
    let mut tally = Tally::default();
    while let Some(done) = readers.join_next().await {
        tally.absorb(&done??);
    }
    worker.client.close(&stream.file).await?;
    Ok((worker, tally))
}

async fn read_blocks(stream: Arc<Stream>) -> Result<Tally> {
    let mut tally = Tally::default();
    while let Some(index) = stream.take() {
        let began = Instant::now();
        let offset = index * BLOCK;
        let part = stream
            .client
            .read(&stream.file, offset, BLOCK as u32)
            .await?;
        tally.add(began, BLOCK);
        ensure!(
            part.data.len() as u64 == BLOCK,
            "a READ of {BLOCK} bytes brought {}",
            part.data.len()
        );
        // First and last page of every block; comparing all would cost the client more than the
        // server's work. `check` compares all, outside of the measurement.
        let last = part.data.len() - PAGE as usize;
        check_pages(&part.data[..PAGE as usize], stream.worker, offset)?;
        check_pages(&part.data[last..], stream.worker, offset + last as u64)?;
    }
    Ok(tally)
}

/// Reads pages anywhere in the file.
pub(crate) async fn read_randomly(
    mut worker: Worker,
    share: Share,
    span: Span,
) -> Result<(Worker, Tally)> {
    let stream = open(&worker, share, &How::read().by("data")).await?;
    let mut tally = Tally::default();
    while span.goes_on() {
        let offset = worker.random.u64(..share.blocks * BLOCK / PAGE) * PAGE;
        let began = Instant::now();
        let part = stream
            .client
            .read(&stream.file, offset, PAGE as u32)
            .await?;
        tally.add(began, 1);
        ensure!(
            part.data.len() as u64 == PAGE,
            "a READ of {PAGE} bytes brought {}",
            part.data.len()
        );
        check_pages(&part.data, worker.number, offset)?;
    }
    worker.client.close(&stream.file).await?;
    Ok((worker, tally))
}

/// Writes random pages of the file with the same content as before, and commits them; the time of the COMMIT counts.
pub(crate) async fn write_randomly(
    mut worker: Worker,
    share: Share,
    span: Span,
) -> Result<(Worker, Tally)> {
    let stream = open(&worker, share, &How::create(0o644).by("data")).await?;
    let mut tally = Tally::default();
    let mut verifier = None;
    while span.goes_on() {
        let offset = worker.random.u64(..share.blocks * BLOCK / PAGE) * PAGE;
        let data = page(worker.number, offset);
        let began = Instant::now();
        let written = stream
            .client
            .write(&stream.file, offset, data, StableHow4::Unstable)
            .await?;
        tally.add(began, 1);
        let count = written.count;
        ensure!(
            u64::from(count) == PAGE,
            "a WRITE of {PAGE} bytes took {count}"
        );
        let known = *verifier.get_or_insert(written.writeverf);
        ensure!(known == written.writeverf, RESTARTED);
    }
    let committed = worker.client.commit(&stream.file.handle, 0, 0).await?;
    ensure!(verifier.is_none_or(|known| known == committed), RESTARTED);
    worker.client.close(&stream.file).await?;
    Ok((worker, tally))
}

/// Compares every byte of the file, and removes it.
pub(crate) async fn check_and_remove(worker: Worker, share: Share) -> Result<(Worker, Tally)> {
    let stream = open(&worker, share, &How::read().by("data")).await?;
    for index in 0..share.blocks {
        let offset = index * BLOCK;
        let part = worker
            .client
            .read(&stream.file, offset, BLOCK as u32)
            .await?;
        ensure!(
            part.data == block(worker.number, index),
            "block {index} of a file is not what was written"
        );
    }
    worker.client.close(&stream.file).await?;
    worker.client.remove(&worker.directory, NAME).await?;
    Ok((worker, Tally::default()))
}

/// The content of a block.
fn block(worker: usize, index: u64) -> Bytes {
    labelled(worker, index * BLOCK, BLOCK)
}

/// The content of the page at this offset.
fn page(worker: usize, offset: u64) -> Bytes {
    labelled(worker, offset, PAGE)
}

fn labelled(worker: usize, offset: u64, length: u64) -> Bytes {
    let mut bytes: Vec<u8> = b"0123456789abcdef".repeat((length / 16) as usize);
    for (number, page) in bytes.chunks_exact_mut(PAGE as usize).enumerate() {
        let offset = offset + number as u64 * PAGE;
        page[..8].copy_from_slice(&label(worker, offset));
    }
    bytes.into()
}

/// The beginning of the page of a worker's file at this offset.
fn label(worker: usize, offset: u64) -> [u8; 8] {
    ((worker as u64) << 48 | offset).to_be_bytes()
}

/// Checks the labels of whole pages that begin at `offset`.
fn check_pages(data: &[u8], worker: usize, offset: u64) -> Result<()> {
    for (number, page) in data.chunks(PAGE as usize).enumerate() {
        let at = offset + number as u64 * PAGE;
        let found = page.first_chunk::<8>().context("a page is cut short")?;
        ensure!(
            *found == label(worker, at),
            "the page at {at} is not what was written"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_told_from_every_other() {
        let data = block(3, 2);
        assert_eq!(data.len() as u64, BLOCK);
        assert_eq!(
            page(3, 2 * BLOCK + PAGE),
            data[PAGE as usize..][..PAGE as usize]
        );
        check_pages(&data, 3, 2 * BLOCK).unwrap();
        assert!(check_pages(&data, 4, 2 * BLOCK).is_err());
        assert!(check_pages(&data, 3, 0).is_err());
        let second = &data[PAGE as usize..];
        assert!(check_pages(second, 3, 2 * BLOCK).is_err());
        check_pages(second, 3, 2 * BLOCK + PAGE).unwrap();
    }

    #[test]
    fn the_data_is_shared_out() {
        let share = Share::of((512 << 20, 16));
        assert_eq!((share.blocks, share.depth), (32, 2));
        let share = Share::of((1, 1));
        assert_eq!((share.blocks, share.depth), (1, 8));
    }
}

//! Small files: made, looked at, found by name, removed.

use std::time::Instant;

use anyhow::{Result, ensure};
use bench::tally::{Span, Tally};
use bytes::Bytes;
use nfs4_client::{How, STAT, StableHow4};

use crate::worker::{File, Worker};

/// The length of a small file in bytes.
pub(crate) const SIZE: usize = 4096;

/// The maximum number of files that one worker makes, to bound the time to remove them.
pub(crate) const FILES_MAX: usize = 50_000;

/// The number of files of each worker that are read back.
const CHECKED: usize = 100;

/// Makes files until the time is over: OPEN, WRITE and CLOSE, three requests each.
pub(crate) async fn create(
    mut worker: Worker,
    span: Span,
    stable: StableHow4,
) -> Result<(Worker, Tally)> {
    let mut tally = Tally::default();
    let how = How::create_new(0o644).by(format!("owner-{}", worker.number));
    let first = worker.files.len();
    while span.goes_on() && worker.files.len() - first < FILES_MAX {
        let index = worker.files.len();
        let name = format!("file-{index:06}");
        let began = Instant::now();
        let client = &worker.client;
        let file = client.open(&worker.directory, &*name, &how).await?;
        let written = client
            .write(&file, 0, content(worker.number, index), stable)
            .await?;
        client.close(&file).await?;
        tally.add(began, 1);
        ensure!(
            written.count as usize == SIZE && written.committed >= stable,
            "a WRITE of {SIZE} bytes took {written:?}"
        );
        worker.files.push(File {
            name,
            handle: file.handle,
        });
    }
    Ok((worker, tally))
}

/// The content of a file: different for every file, so that files cannot be confused.
fn content(worker: usize, index: usize) -> Bytes {
    let line = format!("worker {worker} file {index}\n");
    let whole: Vec<u8> = line.bytes().cycle().take(SIZE).collect();
    whole.into()
}

/// Checks that the directory holds the files that were made and nothing else, and reads some back.
pub(crate) async fn check(worker: Worker) -> Result<(Worker, Tally)> {
    let mut found: Vec<String> = worker
        .client
        .readdir(&worker.directory, nfs4::Bitmap4::EMPTY)
        .await?
        .iter()
        .map(|entry| String::from_utf8_lossy(&entry.name.0).into_owned())
        .collect();
    found.sort_unstable();
    let made = worker.files.iter().map(|file| file.name.as_str());
    ensure!(
        made.eq(found.iter().map(String::as_str)),
        "{} files were made and {} are there, or their names differ",
        worker.files.len(),
        found.len()
    );
    let step = worker.files.len().div_ceil(CHECKED).max(1);
    let how = How::read().by(format!("owner-{}", worker.number));
    for (index, made) in worker.files.iter().enumerate().step_by(step) {
        let file = worker.client.open_handle(&made.handle, &how).await?;
        let data = worker.client.read_to_end(&file).await?;
        worker.client.close(&file).await?;
        ensure!(
            data == content(worker.number, index),
            "{} does not hold what was written",
            made.name
        );
    }
    Ok((worker, Tally::default()))
}

/// Reads attributes of random files.
pub(crate) async fn getattr(mut worker: Worker, span: Span) -> Result<(Worker, Tally)> {
    let mut tally = Tally::default();
    ensure!(!worker.files.is_empty(), "there is no file to look at");
    while span.goes_on() {
        let file = &worker.files[worker.random.usize(..worker.files.len())];
        let began = Instant::now();
        let attributes = worker.client.getattr(&file.handle, STAT).await?;
        tally.add(began, 1);
        ensure!(
            attributes.size == Some(SIZE as u64),
            "{} has the size {:?}",
            file.name,
            attributes.size
        );
    }
    Ok((worker, tally))
}

/// Finds random files by name.
pub(crate) async fn lookup(mut worker: Worker, span: Span) -> Result<(Worker, Tally)> {
    let mut tally = Tally::default();
    ensure!(!worker.files.is_empty(), "there is no file to find");
    while span.goes_on() {
        let file = &worker.files[worker.random.usize(..worker.files.len())];
        let began = Instant::now();
        let found = worker.client.lookup(&worker.directory, &*file.name).await?;
        tally.add(began, 1);
        ensure!(found == file.handle, "{} is another file now", file.name);
    }
    Ok((worker, tally))
}

/// Removes all files and checks that nothing is left.
pub(crate) async fn remove(mut worker: Worker) -> Result<(Worker, Tally)> {
    let mut tally = Tally::default();
    for file in std::mem::take(&mut worker.files) {
        let began = Instant::now();
        worker.client.remove(&worker.directory, &*file.name).await?;
        tally.add(began, 1);
    }
    let left = worker
        .client
        .readdir(&worker.directory, nfs4::Bitmap4::EMPTY)
        .await?;
    ensure!(left.is_empty(), "{} files were not removed", left.len());
    Ok((worker, tally))
}

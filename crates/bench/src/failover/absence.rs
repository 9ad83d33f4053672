//! A server is away while others change as much as in an hour; then it comes back and catches up.
//!
//! The hour is compressed: as many files are made as would be at the stated rate, as fast as the servers take them.
//! Once they keep all updates for the one that is away, and once too few, so that its copy has to be compared
//! with another one. A client at a third site goes on writing all the while.
//!
//! What must never enter: a return that was not complete, every update and every content.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use nfs4::Bitmap4;
use nfs4_client::{How, StableHow4};
use serde::Serialize;
use tokio::runtime::Runtime;

use super::takeover::onlook;
use crate::sites::Sites;
use crate::worker::Target;

/// The size of each file, in bytes.
pub(super) const SIZE: usize = 4096;

/// How many clients make them.
const CLIENTS: usize = 8;

/// For so long the writer elsewhere is watched before the return, to know how it fares without one.
const BEFORE: Duration = Duration::from_secs(10);

/// A way to catch up: update after update.
pub(super) const BY_LOG: &str = "by log";
/// The other one: a whole copy, of which only what differs is fetched.
pub(super) const COMPARING: &str = "comparing";

/// What was measured.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Absence {
    /// How the server that was away caught up: `by log` or `comparing`.
    pub(crate) way: &'static str,
    /// How many files were made.
    pub(crate) files: usize,
    /// How long that took with one server away, in microseconds.
    pub(crate) made_us: u64,
    /// From the restart until the server had everything and took part again, in microseconds.
    pub(crate) returned_us: u64,
    /// The longest operation of a writer at a third site for a while before the return, in microseconds.
    pub(crate) stall_before_us: u64,
    /// The same during the return.
    pub(crate) stall_us: u64,
}

/// Has the last server miss `updates` files, and come back in the way that the servers' settings lead to.
pub(crate) fn measure(
    sites: &mut Sites,
    runtime: &Runtime,
    way: &'static str,
    updates: usize,
) -> Result<Absence> {
    sites.replicas[0].ask(&["durability", "/", "relaxed"])?;
    sites.wait_for_quiet()?;
    let last = sites.replicas.len() - 1;
    let (busy, away) = (sites.replicas[0].target(), sites.replicas[last].target());
    let writer = sites.replicas[1].target();
    let copies = copies_taken(sites, last)?;
    sites.replicas[last].kill()?;
    let began = Instant::now();
    let each = updates / CLIENTS;
    runtime.block_on(make_all(&busy, each))?;
    let made = began.elapsed();
    let before = watch(runtime, &writer, "before", || {
        std::thread::sleep(BEFORE);
        Ok(())
    })?;
    let mut returned = Duration::ZERO;
    let during = watch(runtime, &writer, "during", || {
        sites.replicas[last].restart()?;
        let restarted = Instant::now();
        sites.wait_for_all()?;
        returned = restarted.elapsed();
        Ok(())
    })?;
    sites.wait_for_copies()?;
    let compared = copies_taken(sites, last)? > copies;
    ensure!(
        compared == (way == COMPARING),
        "the server that was away was to catch up {way}, and did not"
    );
    runtime.block_on(verify(&away, each))?;
    Ok(Absence {
        way,
        files: each * CLIENTS,
        made_us: made.as_micros() as u64,
        returned_us: returned.as_micros() as u64,
        stall_before_us: before.as_micros() as u64,
        stall_us: during.as_micros() as u64,
    })
}

/// How often a server has said that it takes a whole copy.
fn copies_taken(sites: &Sites, at: usize) -> Result<usize> {
    let log = sites.replicas[at].log();
    let text = std::fs::read_to_string(log).context("a server's log cannot be read")?;
    Ok(text.matches("receiving the tree").count())
}

/// Has a client at work while something happens; returns the longest time that one of its operations took.
fn watch(
    runtime: &Runtime,
    at: &Target,
    name: &str,
    happens: impl FnOnce() -> Result<()>,
) -> Result<Duration> {
    let over = Arc::new(AtomicBool::new(false));
    let name = format!("writer-{name}");
    let writer = runtime.spawn(onlook(at.clone(), name, Arc::clone(&over)));
    let happened = happens();
    over.store(true, Ordering::Relaxed);
    let longest = runtime.block_on(writer)?;
    happened?;
    longest
}

fn directory(number: usize) -> String {
    format!("absence-{number}")
}

async fn make_all(target: &Target, each: usize) -> Result<()> {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(make(target.clone(), number, each)))
        .collect();
    for client in clients {
        client.await??;
    }
    Ok(())
}

async fn make(target: Target, number: usize, count: usize) -> Result<()> {
    let (client, root) = target
        .client_with(std::time::Duration::from_secs(120))
        .await?;
    let home = client
        .create_directory(&root, &*directory(number), 0o755)
        .await?;
    for file in 0..count {
        let how = How::create_new(0o644);
        let file = client.open(&home, &*format!("file-{file}"), &how).await?;
        let data = Bytes::from_static(&[4; SIZE]);
        client.write(&file, 0, data, StableHow4::FileSync).await?;
        client.close(&file).await?;
    }
    Ok(client.leave().await?)
}

/// Everything is there.
async fn verify(target: &Target, each: usize) -> Result<()> {
    let (client, root) = target.client().await?;
    for number in 0..CLIENTS {
        let home = client.lookup(&root, &*directory(number)).await?;
        let entries = client.readdir(&home, Bitmap4::EMPTY).await?;
        ensure!(
            entries.len() == each,
            "{} of {each} files are there after the return",
            entries.len()
        );
        for entry in entries {
            let file = client.open(&home, entry.name, &How::read()).await?;
            let content = client.read_to_end(&file).await?;
            ensure!(*content == [4; SIZE], "a file differs after the return");
            client.close(&file).await?;
        }
    }
    Ok(client.leave().await?)
}

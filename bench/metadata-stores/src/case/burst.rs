//! Many files created and changed on an empty store: by one client, and by sixteen at once.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Latencies, figure, rate};
use crate::group::with_clients;
use crate::process::processor_time;
use crate::rows::{ObjectId, Operation};
use crate::store::{Durability, Kind, Limits, Writing};

const CLIENTS: u64 = 16;
const SPAN: Duration = Duration::from_secs(1);

/// Directory of a client; its files' identifiers follow it.
fn home(client: u64) -> ObjectId {
    (client + 1) << 40
}

/// One measurement of many clients at work.
struct Together {
    /// Name of its figures.
    name: &'static str,
    durability: Durability,
    writing: Option<Writing>,
    operation: fn(u64, u64) -> Operation,
}

impl Together {
    const fn new(
        name: &'static str,
        durability: Durability,
        operation: fn(u64, u64) -> Operation,
    ) -> Self {
        Self {
            name,
            durability,
            writing: None,
            operation,
        }
    }
}

/// Measures creation in its three modes and, durable, writing.
pub fn run(kind: Kind, directory: &Path) -> Result<()> {
    alone(kind, &directory.join("alone"))?;
    let sync = directory.join("sync");
    together(
        kind,
        &sync,
        &Together::new("create_16_sync", Durability::Sync, create),
    )?;
    together(
        kind,
        &sync,
        &Together::new("write_16_sync", Durability::Sync, write),
    )?;
    let asynchronous = Together::new("create_16_async", Durability::Async, create);
    together(kind, &directory.join("async"), &asynchronous)?;
    if kind == Kind::Fjall {
        let appended = Together {
            writing: Some(Writing::Appended),
            ..Together::new("create_16_sync_appended", Durability::Sync, create)
        };
        together(kind, &directory.join("appended"), &appended)?;
    }
    Ok(())
}

fn create(client: u64, count: u64) -> Operation {
    Operation::create(home(client), home(client) + count, count)
}

fn write(client: u64, count: u64) -> Operation {
    // A thousand files a client: most writes meet a file that was written before.
    Operation::write(home(client) + 1 + count % 1000, count)
}

fn alone(kind: Kind, directory: &Path) -> Result<()> {
    let store = kind.open(directory, Durability::Sync, Limits::SMALL)?;
    let mut latencies = Latencies::default();
    let start = Instant::now();
    for count in 1.. {
        if start.elapsed() >= SPAN {
            break;
        }
        let operation = create(0, count);
        latencies.time(|| {
            store.commit(std::slice::from_ref(&operation))?;
            store.persist()
        })?;
        store.tend()?;
    }
    rate("create_1_sync", latencies.count(), start.elapsed());
    figure("create_1_sync_p99_ms", latencies.p99_ms());
    Ok(())
}

fn together(kind: Kind, directory: &Path, measurement: &Together) -> Result<()> {
    let Together {
        name,
        durability,
        operation,
        ..
    } = *measurement;
    let store = kind.open(directory, durability, Limits::SMALL)?;
    let writing = measurement.writing.unwrap_or(store.writing());
    let all = Mutex::new(Latencies::default());
    let (start, processor) = (Instant::now(), processor_time()?);
    with_clients(&*store, durability, writing, CLIENTS, |client, group| {
        let mut latencies = Latencies::default();
        for count in 1.. {
            if start.elapsed() >= SPAN {
                break;
            }
            latencies.time(|| group.execute(operation(client, count)))?;
        }
        all.lock()
            .expect("no client panics while it holds the lock")
            .extend(latencies);
        Ok(())
    })?;
    let elapsed = start.elapsed();
    let mut latencies = all
        .into_inner()
        .expect("no client panics while it holds the lock");
    rate(name, latencies.count(), elapsed);
    figure(&format!("{name}_p99_ms"), latencies.p99_ms());
    let used = (processor_time()? - processor).as_secs_f64();
    figure(
        &format!("{name}_cpu_us"),
        used * 1e6 / latencies.count() as f64,
    );
    Ok(())
}

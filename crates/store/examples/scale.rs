//! A store with a million objects: time and memory of each step.
//!
//! ```text
//! cargo run --release -p store --example scale -- [objects] [entries of one directory] [directory]
//! ```
//!
//! Prints a line for each step. Nothing here passes or fails; it is only for information.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use store::{CommitMode, NewStore, Store, StoreOptions};
use vfs::{
    AccessCheck, Cookie, Creation, Credentials, FileSystem, Name, NewObject, ObjectId, ObjectKind,
    SetAttributes, Stability,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const FILES_A_DIRECTORY: u64 = 1000;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| -> Result<u64> {
        arguments
            .next()
            .map_or(Ok(default), |text| Ok(text.parse()?))
    };
    let (objects, entries) = (number(1_000_000)?, number(100_000)?);
    let place = match arguments.next() {
        Some(place) => tempfile::tempdir_in(place)?,
        None => tempfile::tempdir()?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let mut options = StoreOptions::new(place.path().join("store"));
    runtime.block_on(durable_creations(&options))?;
    std::fs::remove_dir_all(&options.directory)?;
    options.commit = CommitMode::Async;
    runtime.block_on(many_objects(&options, objects, entries))?;
    let start = Instant::now();
    let report = Store::check(&options.directory, false)?;
    step("check", report.objects, start);
    println!("{report}");
    Ok(())
}

/// Prints how long a step took, and how much memory the process has now.
fn step(what: &str, count: u64, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = |key: &str| {
        let line = status
            .lines()
            .find(|line| line.starts_with(key))
            .unwrap_or_default();
        let kibibytes: u64 = line
            .split_whitespace()
            .nth(1)
            .unwrap_or("0")
            .parse()
            .unwrap_or(0);
        kibibytes / 1024
    };
    println!(
        "{what:<44} {count:>9} in {seconds:>8.2} s = {:>9.0}/s; memory {:>4} MiB, at most {:>4}",
        count as f64 / seconds,
        memory("VmRSS"),
        memory("VmHWM"),
    );
}

fn name(text: &str) -> Result<Name> {
    Ok(Name::new(text.as_bytes().to_vec())?)
}

async fn make(store: &Store, home: ObjectId, text: &str, new: NewObject) -> Result<ObjectId> {
    let set = SetAttributes::default();
    let made = store
        .create(&Credentials::root(), home, &name(text)?, new, &set)
        .await?;
    Ok(made.attributes.id)
}

fn file() -> NewObject {
    NewObject::File(Creation::Guarded)
}

/// Creations that are stable before they are answered, by one client and by many.
async fn durable_creations(options: &StoreOptions) -> Result<()> {
    let store = Arc::new(Store::create(options, &NewStore::default())?);
    for clients in [1, 4, 16, 64] {
        let start = Instant::now();
        let per_client = 4000 / clients.min(16);
        let tasks: Vec<_> = (0..clients)
            .map(|client| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let folder = NewObject::Plain(ObjectKind::Directory);
                    let home = format!("clients{clients}-{client}");
                    let home = make(&store, ObjectId::ROOT, &home, folder).await?;
                    for number in 0..per_client {
                        make(&store, home, &format!("file{number}"), file()).await?;
                    }
                    Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        step(
            &format!("durable creations, {clients} clients"),
            clients * per_client,
            start,
        );
    }
    store.sync().await?;
    Ok(())
}

async fn many_objects(options: &StoreOptions, objects: u64, entries: u64) -> Result<()> {
    let store = Arc::new(Store::create(options, &NewStore::default())?);
    store.end_reclaim().await?;
    let start = Instant::now();
    fill(&store, objects).await?;
    step("creations, not durable, 16 clients", objects, start);
    let start = Instant::now();
    let large = make(
        &store,
        ObjectId::ROOT,
        "large",
        NewObject::Plain(ObjectKind::Directory),
    )
    .await?;
    for number in 0..entries {
        make(
            &store,
            large,
            &format!("an-entry-with-a-usual-name-{number}"),
            file(),
        )
        .await?;
    }
    step("entries of one directory, 1 client", entries, start);
    let start = Instant::now();
    step(
        "listing it with attributes",
        list(&store, large).await?,
        start,
    );
    let start = Instant::now();
    let looked = look_up(&store, large, entries).await?;
    step("look-ups in it", looked, start);
    let start = Instant::now();
    let written = write_small_files(&store, 20_000).await?;
    step("small files made, written and committed", written, start);
    store.sync().await?;
    let start = Instant::now();
    let who = Credentials::root();
    for number in 0..entries {
        let text = name(&format!("an-entry-with-a-usual-name-{number}"))?;
        store.remove(&who, large, &text).await?;
    }
    step("removals", entries, start);
    let start = Instant::now();
    step(
        "listing what is empty now",
        list(&store, large).await?,
        start,
    );
    println!("{:#?}", store.statistics());
    drop(store);
    let start = Instant::now();
    let store = Store::open(options)?;
    step("opening again", 1, start);
    let start = Instant::now();
    let looked = look_up_cold(&store, objects).await?;
    step("look-ups all over the tree", looked, start);
    Ok(())
}

async fn fill(store: &Arc<Store>, objects: u64) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let directories = objects / FILES_A_DIRECTORY;
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (store, next) = (Arc::clone(store), Arc::clone(&next));
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= directories {
                        return Ok::<(), Box<dyn std::error::Error + Send + Sync>>(());
                    }
                    let folder = NewObject::Plain(ObjectKind::Directory);
                    let home = format!("directory{number}");
                    let home = make(&store, ObjectId::ROOT, &home, folder).await?;
                    for number in 0..FILES_A_DIRECTORY - 1 {
                        make(&store, home, &format!("file{number}"), file()).await?;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn list(store: &Store, directory: ObjectId) -> Result<u64> {
    let who = Credentials::root();
    let (mut after, mut count) = (Cookie::START, 0);
    loop {
        let page = store.read_directory(&who, directory, after, 128).await?;
        count += page.entries.len() as u64;
        if page.end {
            return Ok(count);
        }
        after = page.entries.last().map_or(after, |entry| entry.cookie);
    }
}

async fn look_up(store: &Store, directory: ObjectId, entries: u64) -> Result<u64> {
    let who = Credentials::root();
    for number in 0..entries {
        let text = format!("an-entry-with-a-usual-name-{}", (number * 7919) % entries);
        store.lookup(&who, directory, &name(&text)?).await?;
    }
    Ok(entries)
}

async fn look_up_cold(store: &Store, objects: u64) -> Result<u64> {
    let who = Credentials::root();
    let directories = objects / FILES_A_DIRECTORY;
    let count = 100_000;
    for number in 0..count {
        let home = name(&format!("directory{}", (number * 7919) % directories))?;
        let home = store.lookup(&who, ObjectId::ROOT, &home).await?.id;
        let file = name(&format!(
            "file{}",
            (number * 104_729) % (FILES_A_DIRECTORY - 1)
        ))?;
        store.lookup(&who, home, &file).await?;
    }
    Ok(2 * count)
}

async fn write_small_files(store: &Store, count: u64) -> Result<u64> {
    let who = Credentials::root();
    let folder = NewObject::Plain(ObjectKind::Directory);
    let home = make(store, ObjectId::ROOT, "small", folder).await?;
    for number in 0..count {
        let id = make(store, home, &format!("file{number}"), file()).await?;
        let data = Bytes::from(vec![7; 4096]);
        store
            .write(AccessCheck::Open(&who), id, 0, data, Stability::Unstable)
            .await?;
        if number % 10 == 0 {
            store.commit(id, 0, 0).await?;
        }
    }
    Ok(count)
}

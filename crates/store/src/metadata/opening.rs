//! Opens the rows after an examination of their files: for changes, or read-only in a copy.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

use fields::Fields;
use fjall::config::{BlockSizePolicy, HashRatioPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use plain_file::{descriptors, is_about_contents};
use tempfile::TempDir;

use super::error::os_error;
use super::examination::{self, Damage, OpenError, Sound};
use super::journal::Journals;
use super::mark::{Mark, Reached};
use super::{Metadata, MetadataError, number_key};
use crate::row_cache::RowCache;

/// A soft limit for the journal bytes to replay at start; the minimum of the embedded store.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Threads that write out full write buffers and merge tables.
const WORKER_THREADS: usize = 2;
const BLOCK_BYTES: u32 = 4096;

/// Settings of the embedded store.
#[derive(Clone, Copy)]
struct Settings {
    cache_bytes: u64,
    write_through: bool,
    worker_threads: usize,
}

/// For the repair that makes damaged rows usable again.
const REPAIRING: Settings = Settings {
    cache_bytes: 1 << 20,
    write_through: true,
    worker_threads: WORKER_THREADS,
};

impl Metadata {
    /// Opens or creates the rows in a directory. Half of `cache_bytes` is for rows, half for blocks of
    /// the embedded store. With `write_through` a batch reaches the operating
    /// system at once, so that it survives the end of the process even before [`Metadata::persist`].
    ///
    /// Changes nothing if the disk has damaged stable data.
    pub(crate) fn open(
        path: &Path,
        cache_bytes: u64,
        write_through: bool,
    ) -> Result<Metadata, OpenError> {
        let sound =
            if is_empty(path).map_err(|error| MetadataError::of("list the directory", &error))? {
                Sound::default()
            } else {
                examination::examine(path)?
            };
        let settings = Settings {
            cache_bytes,
            write_through,
            worker_threads: WORKER_THREADS,
        };
        open_examined(path, &sound, settings, None)
    }

    /// Opens the rows in a directory without changing anything there. Tables are read in
    /// place; journals, which the embedded store cuts, are copied, and the copy is removed with the value.
    pub(crate) fn open_unchanged(path: &Path, cache_bytes: u64) -> Result<Metadata, OpenError> {
        let sound = examination::examine(path)?;
        let copy = copy(path).map_err(|error| {
            let folder = std::env::temp_dir();
            let action = format!(
                "copy the journals to {} (TMPDIR names another place)",
                folder.display()
            );
            MetadataError::of(action, &error)
        })?;
        let inside = |(journal, end): (std::path::PathBuf, u64)| {
            let name = journal.file_name().unwrap_or_default().to_owned();
            (copy.path().join(name), end)
        };
        let sound = Sound {
            torn: sound.torn.map(inside),
            ..sound
        };
        let settings = Settings {
            cache_bytes,
            write_through: true,
            // No tables are written out or merged.
            worker_threads: 0,
        };
        let place = copy.path().to_owned();
        let opened = open_examined(&place, &sound, settings, Some(copy));
        opened.map_err(|error| error.seen_in(&place, path))
    }

    /// Cuts rows before the place that the disk has damaged, if that is possible. Copies of the whole files are kept on
    /// `shelf`. Returns what was lost.
    pub(crate) fn give_up_damaged(path: &Path, shelf: &Path) -> Result<Vec<String>, OpenError> {
        let mut lost = examination::give_up(path, shelf)?;
        // If a whole journal is gone, the files show no damage: only its rows are missing.
        let sound = examination::examine(path)?;
        match open_tables(path, REPAIRING).map(|(_, number)| number)? {
            number if number < sound.reached.batch => {
                lost.push(format!("{}: {}", path.display(), ending(number, &sound)));
                let newest = Journals::find(path).and_then(|journals| journals.sync(false));
                let noted = newest.and_then(|journal| {
                    let batch = number;
                    Mark::open(path, Reached { journal, batch })
                });
                noted.map_err(|error| MetadataError::of("note the loss", &error))?;
            }
            _ => {}
        }
        Ok(lost)
    }
}

/// Tables get half of the descriptors reserved for operations that must not fail; the other half is for writing files.
fn open_tables_max() -> usize {
    usize::try_from(descriptors::low() / 2).map_or(1, |count| count.max(1))
}

/// The message for rows that end too early.
fn ending(number: u64, sound: &Sound) -> String {
    let stable = sound.reached.batch;
    format!("the rows end with operation {number}, but all up to {stable} were stable")
}

/// The tables and journals of examined files, and the number of the last batch.
fn open_tables(
    path: &Path,
    settings: Settings,
) -> Result<((Database, [Keyspace; 3]), u64), OpenError> {
    // Damaged files may make the embedded store panic.
    let opened = catch_unwind(AssertUnwindSafe(|| open_database(path, settings)));
    let damaged = |what: String| OpenError::Damaged(Damage::of_tables(path, what));
    let refused = |action: &str, error: fjall::Error| match os_error(&error) {
        Some(refused) if !is_about_contents(refused) => MetadataError::of(action, refused).into(),
        Some(refused) => damaged(format!("cannot {action}: {refused}")),
        None => damaged(format!("cannot {action}: {error}")),
    };
    let opened = match opened {
        Ok(opened) => opened.map_err(|error| refused("open the tables", error))?,
        Err(_) => return Err(damaged("the tables cannot be opened".into())),
    };
    let [_, _, others] = &opened.1;
    let number = others
        .get(number_key())
        .map_err(|error| refused("read the number of the last operation", error))?;
    let number = number.and_then(|row| Fields::new(&row).u64().ok());
    Ok((opened, number.unwrap_or(0)))
}

fn open_examined(
    path: &Path,
    sound: &Sound,
    settings: Settings,
    copy: Option<TempDir>,
) -> Result<Metadata, OpenError> {
    if let Some((journal, end)) = &sound.torn {
        examination::cut_at(journal, *end)
            .map_err(|error| MetadataError::of("cut the journal", &error))?;
    }
    let ((database, [objects, entries, others]), number) = open_tables(path, settings)?;
    if number < sound.reached.batch {
        let what = ending(number, sound);
        return Err(OpenError::Damaged(Damage::of_end(path, what)));
    }
    let failed = |error: io::Error| MetadataError::of("find the journal", &error);
    let journals = Journals::find(path).map_err(failed)?;
    // Replayed batches may only be in the operating system's cache so far.
    let journal = journals.sync(false).map_err(failed)?;
    let reached = Reached {
        journal,
        batch: number,
    };
    let mark = Mark::open(path, reached)
        .map_err(|error| MetadataError::of("note what is stable", &error))?;
    Ok(Metadata {
        objects,
        entries,
        others,
        journals,
        mark,
        database,
        cache: RowCache::new(settings.cache_bytes / 2),
        committing: Mutex::default(),
        number: AtomicU64::new(number),
        unlooked_bytes: AtomicU64::new(0),
        is_stuck: AtomicBool::new(false),
        lacked_descriptors: Mutex::default(),
        journal_bytes: AtomicU64::new(0),
        _copy: copy,
    })
}

/// Creates the embedded store's own lock file. It is empty, so a user who copies files may leave it out. The lock of the whole
/// store is held.
fn make_lock(path: &Path) -> io::Result<()> {
    if is_empty(path)? {
        return Ok(());
    }
    let mut options = fs::File::options();
    let lock = options.write(true).create(true).truncate(false);
    lock.open(path.join("lock")).map(drop)
}

fn open_database(
    path: &Path,
    settings: Settings,
) -> Result<(Database, [Keyspace; 3]), fjall::Error> {
    make_lock(path)?;
    let database = Database::builder(path)
        .cache_size(settings.cache_bytes / 2)
        .max_journaling_size(JOURNAL_BYTES)
        .max_cached_files(Some(open_tables_max()))
        .worker_threads_unchecked(settings.worker_threads)
        .manual_journal_persist(!settings.write_through)
        .open()?;
    let options = || {
        KeyspaceCreateOptions::default()
            // Never automatically: fjall 3.1 lets its worker threads wait for each other when
            // they both start a new write buffer and write out the old one. `write_out_full` starts them.
            .max_memtable_size(u64::MAX)
            .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES))
    };
    // Objects are nearly always read by an identifier that exists.
    let point_reads = || {
        options()
            .expect_point_read_hits(true)
            .data_block_hash_ratio_policy(HashRatioPolicy::all(8.0))
    };
    // This order is fixed: `examination` knows the numbers of the keyspaces.
    let keyspaces = [
        database.keyspace("objects", point_reads)?,
        database.keyspace("entries", options)?,
        database.keyspace("others", options)?,
    ];
    Ok((database, keyspaces))
}

/// Whether a directory never held rows.
fn is_empty(path: &Path) -> io::Result<bool> {
    match fs::read_dir(path) {
        Ok(mut list) => Ok(list.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// A directory that the embedded store may change: tables are links to the originals, all other files
/// are copied.
fn copy(path: &Path) -> io::Result<TempDir> {
    let path = path.canonicalize()?;
    let copy = tempfile::Builder::new()
        .prefix("meridian-check-")
        .tempdir()?;
    copy_files(&path, copy.path())?;
    for keyspace in fs::read_dir(path.join("keyspaces"))? {
        let keyspace = keyspace?.path();
        let inside = keyspace.strip_prefix(&path).map_err(io::Error::other)?;
        let place = copy.path().join(inside);
        fs::create_dir_all(&place)?;
        if !keyspace.is_dir() {
            continue;
        }
        copy_files(&keyspace, &place)?;
        for folder in fs::read_dir(&keyspace)? {
            let folder = folder?;
            if !folder.file_type()?.is_dir() {
                continue;
            }
            let place = place.join(folder.file_name());
            fs::create_dir(&place)?;
            for table in fs::read_dir(folder.path())? {
                let table = table?;
                symlink(table.path(), place.join(table.file_name()))?;
            }
        }
    }
    Ok(copy)
}

/// Copies the files directly in a directory, without space allocated ahead.
fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    for found in fs::read_dir(from)? {
        let found = found?;
        let target = to.join(found.file_name());
        if !found.file_type()?.is_file() {
            continue;
        }
        if examination::is_journal(&found.path()) {
            fs::write(target, examination::read_journal_bytes(&found.path())?)?;
        } else {
            fs::copy(found.path(), target)?;
        }
    }
    Ok(())
}

//! Examines the files of the embedded store before they may be opened: were they torn by a crash, or damaged?
//!
//! A crash may tear the end of the newest journal, after all data that was reported as stable. Any other data that does not
//! read as written was damaged by the disk. The embedded store must not open such files: it would
//! silently drop the rest of a journal, and whole tables. This module changes no file, except in
//! [`give_up`], on request.
//!
//! The embedded store verifies tables block by block when it reads them; this module checks only the lists of tables.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use plain_file::{ReadError, is_about_contents};
use xxhash_rust::xxh3::xxh3_128;

use super::mark::{self, Mark, Noted, Reached};
use super::{MetadataError, framing};

/// Journals stay far below this size; a longer file is not a journal.
const MAX_JOURNAL_BYTES: u64 = 1 << 30;
/// No list of tables is longer than this.
const MAX_LIST_BYTES: u64 = 64 << 20;
const CHUNK_BYTES: usize = 1 << 20;
const SECTOR_BYTES: usize = 512;
const UNREADABLE: &str = "unreadable operation";
/// The embedded store's own table of keyspaces, and the store's three keyspaces.
const KEYSPACES: [&str; 4] = ["0", "1", "2", "3"];
const VERSION_HEADER: &[u8] = b"FJL\x03";

/// Damage that the disk has caused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// The file.
    pub(crate) path: PathBuf,
    /// What is known about it.
    pub(crate) what: String,
    /// The part of the journals that can be kept.
    keep: Option<Keep>,
    /// The rows are complete, but end before the last stable batch.
    ends_early: bool,
}

impl Damage {
    /// Damage outside of the journals.
    pub(super) fn of_tables(path: &Path, what: String) -> Damage {
        Damage {
            path: path.into(),
            what,
            keep: None,
            ends_early: false,
        }
    }

    /// The rows are complete, but end before the last stable batch: the file with the rest is gone.
    pub(super) fn of_end(path: &Path, what: String) -> Damage {
        Damage {
            ends_early: true,
            ..Damage::of_tables(path, what)
        }
    }

    /// The same damage, with the path of the original instead of the examined copy.
    fn seen_in(self, copy: &Path, original: &Path) -> Damage {
        let path = match self.path.strip_prefix(copy) {
            Ok(inside) if inside.as_os_str().is_empty() => original.to_owned(),
            Ok(inside) => original.join(inside),
            Err(_) => self.path,
        };
        Damage { path, ..self }
    }

    /// Whether [`super::Metadata::give_up_damaged`] can make these files usable.
    pub(crate) fn can_be_given_up(&self) -> bool {
        self.keep.is_some() || self.ends_early
    }
}

/// The part of the journals before some damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Keep {
    /// Journals before this one are complete.
    journal: u64,
    /// This many bytes of this journal are complete, too.
    bytes: u64,
    /// The last batch in the part that is kept.
    batch: u64,
}

/// The embedded store may open its files, after the torn end of the newest journal is cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sound {
    /// The journal that a crash has torn, and where to cut it.
    pub(super) torn: Option<(PathBuf, u64)>,
    /// The batch that the rows must reach once they are open.
    pub(super) reached: Reached,
}

/// Why files cannot be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The disk has damaged a file.
    Damaged(Damage),
    /// Something else went wrong.
    Failed(MetadataError),
}

impl OpenError {
    /// The same, with the paths of the originals instead of the examined copies.
    pub(super) fn seen_in(self, copy: &Path, original: &Path) -> OpenError {
        match self {
            OpenError::Damaged(damage) => OpenError::Damaged(damage.seen_in(copy, original)),
            failed @ OpenError::Failed(_) => failed,
        }
    }
}

impl From<MetadataError> for OpenError {
    fn from(error: MetadataError) -> Self {
        OpenError::Failed(error)
    }
}

/// The state of one journal.
struct Journal {
    number: u64,
    path: PathBuf,
    /// Complete batches end here.
    end: u64,
    /// The sequence of the last complete batch.
    sequence: u64,
    batch: u64,
    broken: Option<Break>,
}

struct Break {
    what: String,
    /// A crash can cause this.
    may_be_torn: bool,
    /// Complete batches after the break.
    behind: u64,
}

/// Examines all files that hold rows.
pub(super) fn examine(folder: &Path) -> Result<Sound, OpenError> {
    check_lists(folder)?;
    let noted =
        Mark::look(folder).map_err(|error| failed("read", &folder.join(mark::FILE), &error))?;
    let mut journals: Vec<Journal> = Vec::new();
    for (number, path) in journal_files(folder)? {
        let (sequence, batch) = journals
            .last()
            .map_or((0, 0), |last| (last.sequence, last.batch));
        if let Some(last) = journals.last()
            && let Some(damage) = unfit_before(last, number, &path)
        {
            return Err(OpenError::Damaged(damage));
        }
        journals.push(read_journal(number, path, sequence, batch)?);
    }
    let Some(newest) = journals.last() else {
        return Err(OpenError::Damaged(without_journal(folder, noted)));
    };
    judge(newest, noted).map_err(OpenError::Damaged)
}

/// Without any journal only the tables are left. The next journal gets a number that no journal had.
fn without_journal(folder: &Path, noted: Noted) -> Damage {
    let (known, journal) = match noted {
        Noted::Reached(reached) => {
            let known = format!(", and operations up to {} were stable", reached.batch);
            (known, reached.journal + 2)
        }
        Noted::Missing | Noted::Damaged => (String::new(), 0),
    };
    let keep = Keep {
        journal,
        bytes: 0,
        batch: 0,
    };
    Damage {
        keep: Some(keep),
        ..Damage::of_tables(folder, format!("there is no journal{known}"))
    }
}

/// The damage of a journal that another one follows. Such a journal was complete before the next one was created.
fn unfit_before(last: &Journal, next: u64, next_path: &Path) -> Option<Damage> {
    if let Some(broken) = &last.broken {
        return Some(last.damage(broken, "and another journal follows"));
    }
    let keep = Keep {
        journal: last.number,
        bytes: last.end,
        batch: last.batch,
    };
    (last.number + 1 != next).then(|| Damage {
        keep: Some(keep),
        ..Damage::of_tables(
            next_path,
            format!("journal {} before it is missing", next - 1),
        )
    })
}

/// Whether the newest journal ends as a crash may leave it.
fn judge(newest: &Journal, noted: Noted) -> Result<Sound, Damage> {
    let reached = match noted {
        Noted::Reached(reached) => reached,
        Noted::Missing | Noted::Damaged => Reached::default(),
    };
    if reached.journal > newest.number {
        let what = format!("journal {}, which was stable, is missing", reached.journal);
        return Err(newest.short(what));
    }
    // If no journal holds a batch, all earlier batches are in tables.
    let some = newest.batch > 0;
    if let Some(broken) = &newest.broken {
        let unknown = match noted {
            Noted::Reached(_) => !some && reached.journal == newest.number && reached.batch > 0,
            Noted::Damaged => true,
            // Rows of an older program: its batches have no numbers.
            Noted::Missing => some,
        };
        if unknown || !broken.may_be_torn {
            return Err(newest.damage(broken, "and nothing says that a crash did this"));
        }
        if some && newest.batch < reached.batch {
            let lost = format!(
                "operations {} to {} were stable",
                newest.batch + 1,
                reached.batch
            );
            return Err(newest.damage(broken, &lost));
        }
        return Ok(Sound {
            torn: Some((newest.path.clone(), newest.end)),
            reached,
        });
    }
    if some && newest.batch < reached.batch {
        let (last, stable) = (newest.batch, reached.batch);
        return Err(newest.short(format!(
            "it ends with operation {last}, but all up to {stable} were stable"
        )));
    }
    Ok(Sound {
        torn: None,
        reached,
    })
}

impl Journal {
    fn keep(&self) -> Option<Keep> {
        Some(Keep {
            journal: self.number,
            bytes: self.end,
            batch: self.batch,
        })
    }

    fn damage(&self, broken: &Break, known: &str) -> Damage {
        let Break { what, behind, .. } = broken;
        let end = self.end;
        self.short(format!(
            "{what} at byte {end}, {known}; {behind} whole operations lie behind"
        ))
    }

    fn short(&self, what: String) -> Damage {
        Damage {
            keep: self.keep(),
            ..Damage::of_tables(&self.path, what)
        }
    }
}

/// The journals in a folder, oldest first.
fn journal_files(folder: &Path) -> Result<Vec<(u64, PathBuf)>, MetadataError> {
    let wrong = |error: io::Error| failed("list", folder, &error);
    let mut journals = Vec::new();
    for found in fs::read_dir(folder).map_err(wrong)? {
        let path = found.map_err(wrong)?.path();
        if is_journal(&path) {
            let number = path
                .file_stem()
                .and_then(|name| name.to_str()?.parse().ok());
            let number = number.ok_or_else(|| {
                MetadataError::new(format!("{} is no journal; move it away", path.display()))
            })?;
            journals.push((number, path));
        }
    }
    journals.sort();
    Ok(journals)
}

/// Whether a file has the name of a journal.
pub(super) fn is_journal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jnl")
}

/// The bytes of a journal without the space allocated ahead.
pub(super) fn read_journal_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let wrong = |error| match error {
        OpenError::Damaged(damage) => io::Error::other(damage.what),
        OpenError::Failed(error) => error.os_error().unwrap_or_else(|| io::Error::other(error)),
    };
    match read_sectors(path).map_err(wrong)? {
        (bytes, None) => Ok(bytes),
        (_, Some(unreadable)) => Err(io::Error::other(unreadable)),
    }
}

/// Reads a journal. Its batches continue after `sequence` and `batch`.
fn read_journal(
    number: u64,
    path: PathBuf,
    mut sequence: u64,
    mut batch: u64,
) -> Result<Journal, OpenError> {
    let (bytes, unreadable) = read_sectors(&path)?;
    let key = super::number_key();
    let (mut end, mut broken) = (0, None);
    while end < bytes.len() {
        let rest = &bytes[end..];
        let what = match framing::batch(rest, &key) {
            Some(found) if found.sequence <= sequence && sequence > 0 => "operations out of order",
            Some(found)
                if found
                    .number
                    .is_some_and(|next| batch > 0 && next != batch + 1) =>
            {
                "operations are missing"
            }
            Some(found) => {
                sequence = found.sequence;
                batch = found.number.unwrap_or(batch);
                end += found.length;
                continue;
            }
            // The space allocated ahead.
            None if rest.iter().all(|byte| *byte == 0) => break,
            None => UNREADABLE,
        };
        let behind = framing::count_batches(rest, &key);
        broken = Some(Break {
            what: what.into(),
            // A crash does not put complete operations into the wrong order.
            may_be_torn: what == UNREADABLE && unreadable.is_none(),
            behind,
        });
        break;
    }
    // A crash does not make sectors unreadable.
    let broken = match unreadable {
        Some(what) => Some(Break {
            what,
            may_be_torn: false,
            behind: broken.map_or(0, |broken| broken.behind),
        }),
        None => broken,
    };
    Ok(Journal {
        number,
        path,
        end: end as u64,
        sequence,
        batch,
        broken,
    })
}

/// The bytes of a file without zeros at its end, up to the first byte that the disk cannot read; and the error at that byte.
fn read_sectors(path: &Path) -> Result<(Vec<u8>, Option<String>), OpenError> {
    let wrong = |error: io::Error| failed("read", path, &error);
    let file = match plain_file::open(path) {
        Ok(file) => file,
        Err(ReadError::Io(error)) => return Err(wrong(error).into()),
        Err(_) => return Err(damaged(path, "this is no journal")),
    };
    if file.metadata().map_err(wrong)?.len() > MAX_JOURNAL_BYTES {
        return Err(damaged(path, "this is no journal"));
    }
    read_while_readable(|buffer, at| file.read_at(buffer, at)).map_err(|error| wrong(error).into())
}

/// The same for any source that can be read at an offset.
fn read_while_readable(
    read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<(Vec<u8>, Option<String>)> {
    let (mut bytes, mut zeros) = (Vec::new(), 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    // If a large piece cannot be read, single sectors are tried.
    let mut length = CHUNK_BYTES;
    loop {
        let at = (bytes.len() + zeros) as u64;
        let count = match read(&mut chunk[..length], at) {
            Ok(0) => return Ok((bytes, None)),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if !is_about_contents(&error) => return Err(error),
            Err(_) if length > SECTOR_BYTES => {
                length = SECTOR_BYTES;
                continue;
            }
            Err(error) => {
                let what = format!("the disk cannot read byte {at}: {error}");
                return Ok((bytes, Some(what)));
            }
        };
        let used = chunk[..count].iter().rposition(|byte| *byte != 0);
        if let Some(last) = used {
            bytes.resize(bytes.len() + zeros, 0);
            bytes.extend_from_slice(&chunk[..=last]);
            zeros = 0;
        }
        zeros += count - used.map_or(0, |last| last + 1);
    }
}

/// Checks the lists of tables. The embedded store trusts them without verifying their checksum, and if one is missing it
/// removes the tables.
fn check_lists(folder: &Path) -> Result<(), OpenError> {
    let header = read(&folder.join("version"))?;
    if header != VERSION_HEADER {
        let what = "it does not say which program wrote the rows";
        return Err(damaged(&folder.join("version"), what));
    }
    for keyspace in KEYSPACES {
        let keyspace = folder.join("keyspaces").join(keyspace);
        check_kinds(&keyspace)?;
        check_kinds(&keyspace.join("tables"))?;
        let current = keyspace.join("current");
        let bytes = read(&current)?;
        let Ok(bytes) = <[u8; 25]>::try_from(bytes) else {
            return Err(damaged(&current, "it has the wrong length"));
        };
        // Number (8), XXH3-128 (16), kind of checksum (1), all little-endian.
        let (number, rest) = bytes.split_at(8);
        let number = number
            .iter()
            .rev()
            .fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
        let list = keyspace.join(format!("v{number}"));
        if rest[16] != 0 || xxh3_128(&read(&list)?).to_le_bytes() != rest[..16] {
            return Err(damaged(&list, "the list of tables has another checksum"));
        }
    }
    Ok(())
}

/// Checks that tables are regular files: the embedded store opens each, and would wait for ever at a FIFO.
fn check_kinds(folder: &Path) -> Result<(), OpenError> {
    let found = match fs::read_dir(folder) {
        // The code that needs the folder reports its absence.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| failed("list", folder, &error))?,
    };
    for entry in found {
        let path = entry
            .map_err(|error| failed("list", folder, &error))?
            .path();
        let kind = fs::metadata(&path).map_err(|error| failed("look at", &path, &error))?;
        if !kind.is_file() && !kind.is_dir() {
            return Err(damaged(&path, "it is not a regular file"));
        }
    }
    Ok(())
}

/// A small file that must exist.
fn read(path: &Path) -> Result<Vec<u8>, OpenError> {
    match plain_file::read(path, MAX_LIST_BYTES) {
        Ok(bytes) => Ok(bytes),
        Err(ReadError::Io(error)) if !is_about_contents(&error) => {
            Err(failed("read", path, &error).into())
        }
        Err(error) => Err(damaged(path, format!("it cannot be read: {error}"))),
    }
}

/// Cuts the journals where damage begins. Copies of the whole files are kept on `shelf`. Returns what was lost.
pub(super) fn give_up(folder: &Path, shelf: &Path) -> Result<Vec<String>, OpenError> {
    let mut lost = Vec::new();
    loop {
        let damage = match examine(folder) {
            Ok(_) => return Ok(lost),
            Err(OpenError::Damaged(damage)) => damage,
            Err(error) => return Err(error),
        };
        let Some(keep) = damage.keep.filter(|_| lost.len() < 3) else {
            return Err(OpenError::Damaged(damage));
        };
        let wrong = |error: io::Error| failed("cut", &damage.path, &error);
        cut(folder, shelf, keep).map_err(wrong)?;
        let reached = Reached {
            journal: keep.journal,
            batch: keep.batch,
        };
        Mark::open(folder, reached).map_err(wrong)?;
        lost.push(format!("{}: {}", damage.path.display(), damage.what));
    }
}

fn cut(folder: &Path, shelf: &Path, keep: Keep) -> io::Result<()> {
    fs::create_dir_all(shelf)?;
    let journals = journal_files(folder).map_err(|error| io::Error::other(error.to_string()))?;
    if journals.is_empty() {
        let path = folder.join(format!("{}.jnl", keep.journal));
        File::create_new(path)?.sync_all()?;
    }
    for (number, path) in journals {
        if number < keep.journal {
            continue;
        }
        let mut kept = (0..).map(|copy| shelf.join(format!("{number}.jnl.{copy}")));
        let place = kept.find(|place| !place.exists());
        let place = place.ok_or_else(|| io::Error::other("there are too many copies"))?;
        copy_readable(&path, &place)?;
        if number == keep.journal {
            cut_at(&path, keep.bytes)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    File::open(shelf)?.sync_all()?;
    File::open(folder)?.sync_all()
}

/// Copies a file, with holes where the disk cannot read the original.
fn copy_readable(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (File::open(from)?, File::create_new(to)?);
    let length = from.metadata()?.len();
    let mut sector = [0; SECTOR_BYTES];
    for at in (0..length).step_by(SECTOR_BYTES) {
        let count = from.read_at(&mut sector, at).unwrap_or(0);
        if sector[..count].iter().any(|byte| *byte != 0) {
            to.write_all_at(&sector[..count], at)?;
        }
    }
    to.set_len(length)?;
    to.sync_all()
}

/// Cuts a journal after its complete batches.
pub(super) fn cut_at(path: &Path, bytes: u64) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    file.set_len(bytes)?;
    file.sync_all()
}

fn damaged(path: &Path, what: impl Into<String>) -> OpenError {
    OpenError::Damaged(Damage::of_tables(path, what.into()))
}

fn failed(action: &str, path: &Path, error: &io::Error) -> MetadataError {
    MetadataError::of(format_args!("{action} {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A journal with an unreadable sector could not be repaired, although everything before the sector is complete.
    #[test]
    fn what_lies_before_an_unreadable_sector_is_read() {
        let unreadable = 3 * SECTOR_BYTES as u64;
        let disk = vec![7; 5 * SECTOR_BYTES];
        let read = |buffer: &mut [u8], at: u64| {
            let end = at + buffer.len() as u64;
            if (at..end).contains(&unreadable) {
                return Err(io::Error::from(rustix::io::Errno::IO));
            }
            let rest = &disk[at as usize..];
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        };
        let (bytes, what) = read_while_readable(read).unwrap();
        assert_eq!(bytes, disk[..unreadable as usize]);
        assert!(what.unwrap().contains("byte 1536"));
    }
}

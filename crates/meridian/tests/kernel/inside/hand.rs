//! A process that does one thing after another as the story on the host tells it, over a connection
//! of its own. It lets a story order the steps of several clients exactly.
//!
//! What must never enter: decisions; what comes of an act is judged by the story.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use serde::{Deserialize, Serialize};

/// What came of an act: some text, or the error number.
pub type Outcome = Result<String, i32>;

/// The first byte and the number of bytes; zero bytes reach to the end of any file.
pub type Range = (i64, i64);

/// How a file is opened.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Way {
    Read,
    /// For reading and writing; created where it is not there.
    Write,
    /// For writing at the end; created where it is not there.
    Append,
}

/// The kinds of byte-range locks.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Kind {
    Shared,
    Exclusive,
}

/// One step. Open files go by the path they were opened by.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Act {
    Open(String, Way),
    Close(String),
    ReadAt(String, Range),
    WriteAt(String, u64, String),
    Sync(String),
    /// Takes a lock or fails at once.
    TryLock(String, Kind, Range),
    /// Waits for a lock.
    Lock(String, Kind, Range),
    Unlock(String, Range),
    /// Who would be in the way of a lock: its kind and range, or "free".
    TestLock(String, Kind, Range),
    /// Opens, truncates, writes and closes.
    WriteFile(String, String),
    /// Opens, reads to the end and closes.
    ReadFile(String),
    /// Creates what must not be there, as O_EXCL does.
    CreateNew(String),
    MakeDirectory(String),
    Rename(String, String),
    Link(String, String),
    Remove(String),
    RemoveDirectory(String),
    SetMode(String, u32),
    SetOwner(String, u32, u32),
    /// Mode in octal, owner, group, number of links, size.
    Stat(String),
    /// The names, sorted.
    List(String),
}

/// Calls the story back and obeys until it hangs up.
pub fn obey(referee: &str, name: &str) -> Result<()> {
    let mut stream =
        TcpStream::connect(referee).with_context(|| format!("could not reach {referee}"))?;
    stream.set_nodelay(true)?;
    let mut open = HashMap::new();
    for line in BufReader::new(stream.try_clone()?).lines() {
        let act: Act = serde_json::from_str(&line?)?;
        let done = perform(act, &mut open);
        let outcome: Outcome = done.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO));
        let mut answer = serde_json::to_string(&outcome)?;
        answer.push('\n');
        stream.write_all(answer.as_bytes())?;
    }
    println!("hand {name} is free");
    Ok(())
}

fn perform(act: Act, open: &mut HashMap<String, File>) -> io::Result<String> {
    let done = match act {
        Act::Open(path, way) => {
            let file = options(way).open(&path)?;
            open.insert(path, file);
            Ok(())
        }
        Act::Close(path) => close(open, &path),
        Act::ReadAt(path, range) => return read_at(known(open, &path)?, range),
        Act::WriteAt(path, at, text) => known(open, &path)?.write_all_at(text.as_bytes(), at),
        Act::Sync(path) => known(open, &path)?.sync_all(),
        Act::TryLock(path, kind, range) => {
            set_lock(known(open, &path)?, number_of(kind), range, false)
        }
        Act::Lock(path, kind, range) => set_lock(known(open, &path)?, number_of(kind), range, true),
        Act::Unlock(path, range) => set_lock(known(open, &path)?, libc::F_UNLCK, range, false),
        Act::TestLock(path, kind, range) => return test_lock(known(open, &path)?, kind, range),
        other => return perform_by_path(other),
    };
    done.map(|()| String::new())
}

/// The acts that need no open file.
fn perform_by_path(act: Act) -> io::Result<String> {
    let done = match act {
        Act::WriteFile(path, text) => fs::write(path, text),
        Act::ReadFile(path) => return fs::read_to_string(path),
        Act::CreateNew(path) => File::create_new(path).map(drop),
        Act::MakeDirectory(path) => fs::create_dir(path),
        Act::Rename(from, to) => fs::rename(from, to),
        Act::Link(original, link) => fs::hard_link(original, link),
        Act::Remove(path) => fs::remove_file(path),
        Act::RemoveDirectory(path) => fs::remove_dir(path),
        Act::SetMode(path, mode) => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
        Act::SetOwner(path, user, group) => std::os::unix::fs::chown(path, Some(user), Some(group)),
        Act::Stat(path) => return fs::symlink_metadata(path).map(|found| described(&found)),
        Act::List(path) => return names(Path::new(&path)),
        open_file => unreachable!("{open_file:?} is for open files"),
    };
    done.map(|()| String::new())
}

/// Adds one to the number in a file, `steps` times, each time under a lock of its own.
pub fn count(path: &Path, steps: u32) -> Result<()> {
    const WHOLE: Range = (0, 0);
    let file = options(Way::Write).open(path)?;
    for _ in 0..steps {
        set_lock(&file, libc::F_WRLCK, WHOLE, true)?;
        let number: u32 = read_at(&file, (0, 20))?.parse()?;
        file.write_all_at((number + 1).to_string().as_bytes(), 0)?;
        set_lock(&file, libc::F_UNLCK, WHOLE, false)?;
    }
    Ok(())
}

/// Appends `lines` lines, each under a lock of its own: fcntl(2), or flock(2) with `way` "flock".
pub fn append(path: &Path, way: &str, name: &str, lines: u32) -> Result<()> {
    const WHOLE: Range = (0, 0);
    let mut options = options(Way::Append);
    let mut file = options.read(true).open(path)?;
    for number in 0..lines {
        match way {
            "flock" => file.lock()?,
            _ => set_lock(&file, libc::F_WRLCK, WHOLE, true)?,
        }
        file.write_all(format!("{name} {number}\n").as_bytes())?;
        match way {
            "flock" => file.unlock()?,
            _ => set_lock(&file, libc::F_UNLCK, WHOLE, false)?,
        }
    }
    Ok(())
}

fn options(way: Way) -> OpenOptions {
    let mut options = OpenOptions::new();
    match way {
        Way::Read => options.read(true),
        Way::Write => options.read(true).write(true).create(true).truncate(false),
        Way::Append => options.append(true).create(true),
    };
    options
}

fn known<'f>(open: &'f HashMap<String, File>, path: &str) -> io::Result<&'f File> {
    let file = open.get(path);
    file.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
}

/// Closes with the error that dropping a file would hide.
fn close(open: &mut HashMap<String, File>, path: &str) -> io::Result<()> {
    let file = open.remove(path);
    let file = file.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
    Ok(nix::unistd::close(file)?)
}

fn read_at(file: &File, (at, length): Range) -> io::Result<String> {
    let mut bytes = vec![0; usize::try_from(length).expect("stories read little")];
    let read = file.read_at(&mut bytes, at.unsigned_abs())?;
    bytes.truncate(read);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn number_of(kind: Kind) -> libc::c_int {
    match kind {
        Kind::Shared => libc::F_RDLCK,
        Kind::Exclusive => libc::F_WRLCK,
    }
}

fn described_lock(number: libc::c_int, (at, length): Range) -> libc::flock {
    libc::flock {
        l_type: number as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at,
        l_len: length,
        l_pid: 0,
    }
}

fn set_lock(file: &File, number: libc::c_int, range: Range, waits: bool) -> io::Result<()> {
    let lock = described_lock(number, range);
    let request = match waits {
        true => FcntlArg::F_SETLKW(&lock),
        false => FcntlArg::F_SETLK(&lock),
    };
    fcntl(file, request)?;
    Ok(())
}

fn test_lock(file: &File, kind: Kind, range: Range) -> io::Result<String> {
    let mut lock = described_lock(number_of(kind), range);
    fcntl(file, FcntlArg::F_GETLK(&mut lock))?;
    Ok(match libc::c_int::from(lock.l_type) {
        libc::F_RDLCK => format!("shared {} {}", lock.l_start, lock.l_len),
        libc::F_WRLCK => format!("exclusive {} {}", lock.l_start, lock.l_len),
        _ => "free".to_owned(),
    })
}

fn described(found: &fs::Metadata) -> String {
    format!(
        "{:o} {} {} {} {}",
        found.mode(),
        found.uid(),
        found.gid(),
        found.nlink(),
        found.size()
    )
}

fn names(folder: &Path) -> io::Result<String> {
    let names =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<io::Result<_>>()?;
    names.sort();
    Ok(names.join(" "))
}

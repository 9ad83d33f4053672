//! A disk with its own cache: it remembers which writes were not flushed, so that a test can simulate a power failure that loses any
//! part of them.
//!
//! It is below the file system of the store, as a file that a loop device uses as its disk. A FUSE server of the test provides
//! that file; each flush of the loop device arrives there as an fsync. Needs `/dev/fuse` and the superuser.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyOpen,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::SeekFrom;

use crate::fixture::random::Random;

/// The unit that a disk writes completely or not at all.
const SECTOR_BYTES: usize = 512;

/// How long the kernel may cache attributes, which never change.
const ALWAYS: Duration = Duration::from_secs(3600);

/// What happens to unflushed writes when the power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of them are there, as if the disk had no cache.
    Nothing,
    /// All of them are gone.
    Everything,
    /// Some are there and some are not, in any order.
    Writes,
    /// The same for each sector: writes are torn.
    Sectors,
}

impl Loss {
    pub const ALL: [Loss; 4] = [Loss::Sectors, Loss::Everything, Loss::Writes, Loss::Nothing];
}

/// The content of the disk.
struct Held {
    /// The current content.
    now: File,
    /// The content at the last flush.
    flushed: File,
    /// The writes since then, in this order.
    pending: Vec<(u64, Vec<u8>)>,
    flushes: u64,
    /// The folder for copies of the disk that are made before each flush.
    copies: Option<PathBuf>,
}

impl Held {
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.now.write_all_at(bytes, at)?;
        self.pending.push((at, bytes.to_vec()));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushes += 1;
        if let Some(folder) = &self.copies {
            let copy = File::create(folder.join(format!("flush-{}", self.flushes)))?;
            copy_data(&self.flushed, &copy)?;
            for (at, bytes) in &self.pending {
                copy.write_all_at(bytes, *at)?;
            }
        }
        for (at, bytes) in self.pending.drain(..) {
            self.flushed.write_all_at(&bytes, at)?;
        }
        Ok(())
    }
}

/// The file that the loop device uses as its disk.
struct Server {
    held: Arc<Mutex<Held>>,
    bytes: u64,
}

impl Server {
    fn attributes(&self) -> FileAttr {
        FileAttr {
            ino: INodeNo::ROOT,
            size: self.bytes,
            blocks: self.bytes / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: FileType::RegularFile,
            perm: 0o600,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

fn failed(error: &io::Error) -> Errno {
    eprintln!("the disk below the test fails: {error}");
    Errno::EIO
}

impl Filesystem for Server {
    fn getattr(&self, _: &Request, _: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&ALWAYS, &self.attributes());
    }

    /// A disk keeps its size, whatever change of the file is requested.
    fn setattr(
        &self,
        _: &Request,
        _: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _accessed: Option<TimeOrNow>,
        _modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _: Option<FileHandle>,
        _created: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&ALWAYS, &self.attributes());
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // The kernel caches nothing on the way here.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let left = self.bytes.saturating_sub(offset).min(u64::from(size));
        let mut bytes = vec![0; left as usize];
        let read = self
            .held
            .lock()
            .unwrap()
            .now
            .read_exact_at(&mut bytes, offset);
        match read {
            Ok(()) => reply.data(&bytes),
            Err(error) => reply.error(failed(&error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.held.lock().unwrap().write(offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(failed(&error)),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _data: bool, reply: ReplyEmpty) {
        match self.held.lock().unwrap().flush() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(failed(&error)),
        }
    }
}

/// A disk that exists as a file while this value lives.
pub struct Recorder {
    held: Arc<Mutex<Held>>,
    path: PathBuf,
    session: Option<BackgroundSession>,
}

impl Recorder {
    /// A disk of `bytes` bytes, all zeros; its content lies in a folder. `None` if FUSE is not available.
    pub fn begin(folder: &Path, bytes: u64) -> Option<Recorder> {
        let make = |name: &str| {
            let mut options = File::options();
            let file = options
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(folder.join(name));
            let file = file.unwrap();
            file.set_len(bytes).unwrap();
            file
        };
        let (now, flushed) = (make("now"), make("flushed"));
        let path = folder.join("recorded");
        File::create(&path).unwrap();
        let held = Arc::new(Mutex::new(Held {
            now,
            flushed,
            pending: Vec::new(),
            flushes: 0,
            copies: None,
        }));
        let server = Server {
            held: Arc::clone(&held),
            bytes,
        };
        match fuser::spawn_mount(server, &path, &Config::default()) {
            Ok(session) => Some(Recorder {
                held,
                path,
                session: Some(session),
            }),
            Err(error) => {
                eprintln!(
                    "NOT TESTED: a disk of one's own below a file system needs FUSE: {error}"
                );
                None
            }
        }
    }

    /// The disk, as a file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of flushes.
    pub fn flushes(&self) -> u64 {
        self.held.lock().unwrap().flushes
    }

    /// From now on copies the disk before each flush, with all writes since the last one, into a file in
    /// this folder; `None` ends that. What a file system has not written yet is not in a copy.
    pub fn copy_at_flushes(&self, folder: Option<&Path>) {
        self.held.lock().unwrap().copies = folder.map(PathBuf::from);
    }

    /// Writes the content of the disk after a power loss at this moment into a file. Returns the number of unflushed bytes.
    pub fn lose_power(&self, to: &Path, loss: Loss, random: &mut Random) -> usize {
        let copy = File::create(to).unwrap();
        let pending = {
            let held = self.held.lock().unwrap();
            copy_data(&held.flushed, &copy).unwrap();
            held.pending.clone()
        };
        let unflushed = pending.iter().map(|(_, bytes)| bytes.len()).sum();
        for (at, bytes) in pending {
            let piece = match loss {
                Loss::Sectors => SECTOR_BYTES,
                _ => bytes.len(),
            };
            for (number, piece_bytes) in bytes.chunks(piece.max(1)).enumerate() {
                let stays = match loss {
                    Loss::Nothing => true,
                    Loss::Everything => false,
                    Loss::Writes | Loss::Sectors => random.below(2) == 0,
                };
                if stays {
                    let place = at + (number * piece) as u64;
                    copy.write_all_at(piece_bytes, place).unwrap();
                }
            }
        }
        unflushed
    }
}

/// Copies a file into an empty one, without its holes.
fn copy_data(from: &File, to: &File) -> io::Result<()> {
    let end = from.metadata()?.len();
    to.set_len(end)?;
    let (mut at, mut buffer) = (0, vec![0; 1 << 20]);
    while let Ok(data) = rustix::fs::seek(from, SeekFrom::Data(at)) {
        let hole = rustix::fs::seek(from, SeekFrom::Hole(data))?;
        at = data;
        while at < hole {
            let length = buffer.len().min((hole - at) as usize);
            from.read_exact_at(&mut buffer[..length], at)?;
            to.write_all_at(&buffer[..length], at)?;
            at += length as u64;
        }
    }
    Ok(())
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && let Err(error) = session.umount_and_join()
        {
            eprintln!("{} stays mounted: {error}", self.path.display());
        }
    }
}

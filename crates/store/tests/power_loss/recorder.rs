//! A disk with a cache of its own: it remembers what was written and not flushed, so that a test can have its power fail with any
//! part of that lost.
//!
//! It lies below the file system of the store, as a file that a loop device takes for its disk. A FUSE server of the test's own keeps
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

/// What a disk writes as a whole or not at all.
const SECTOR_BYTES: usize = 512;

/// How long the kernel may believe attributes, which never change.
const ALWAYS: Duration = Duration::from_secs(3600);

/// What becomes of writes that were not flushed when the power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// They are all there, as if the disk had no cache.
    Nothing,
    /// They are all gone.
    Everything,
    /// Some are there and some are not, whichever came first.
    Writes,
    /// The same of each sector: writes are torn.
    Sectors,
}

impl Loss {
    pub const ALL: [Loss; 4] = [Loss::Sectors, Loss::Everything, Loss::Writes, Loss::Nothing];
}

/// What the disk holds.
struct Held {
    /// What is read from it.
    now: File,
    /// What was there at the last flush.
    flushed: File,
    /// What was written since, in this order.
    pending: Vec<(u64, Vec<u8>)>,
    flushes: u64,
    /// Where copies of the disk go that are made whenever it is about to be flushed.
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

/// The file that the loop device takes for its disk.
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

    /// A disk keeps its size, whatever is asked of the file.
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
        // Nothing is kept back by the kernel on its way here.
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

/// A disk that is there as a file as long as this lives.
pub struct Recorder {
    held: Arc<Mutex<Held>>,
    path: PathBuf,
    session: Option<BackgroundSession>,
}

impl Recorder {
    /// A disk of `bytes` bytes with all zeros; what it holds lies in a folder. `None` where FUSE cannot be had.
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

    /// How often it was flushed.
    pub fn flushes(&self) -> u64 {
        self.held.lock().unwrap().flushes
    }

    /// From now on, what is on the disk when it is about to be flushed, with all that was written since, is put into a file of
    /// this folder, until there is no folder. What a file system has not written yet is what it has not put on record.
    pub fn copy_at_flushes(&self, folder: Option<&Path>) {
        self.held.lock().unwrap().copies = folder.map(PathBuf::from);
    }

    /// Puts what is on the disk after a loss of power at this moment into a file. Returns how many bytes had not been flushed.
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

/// Copies a file into an empty one, holes left out.
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

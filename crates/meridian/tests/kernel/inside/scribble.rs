//! Random changes of one file, each compared with a model in memory. The kernel's own caches stand
//! between, so what is read back was sometimes cached and sometimes fetched.
//!
//! What must never enter: a second writer, which the model would not know of.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::tour::drop_caches;

/// The largest size of the file.
const REACH: usize = 1 << 20;

/// Numbers without a pattern, the same for the same seed (xorshift, Marsaglia 2003).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("it is below a usize")
    }

    /// A place in the file and a length that stays within its reach.
    fn span(&mut self) -> (usize, usize) {
        let at = self.below(REACH - 1);
        let longest = match self.below(3) {
            0 => 300,
            _ => 70_000,
        };
        (at, 1 + self.below(longest.min(REACH - at)))
    }
}

struct Scribbler<'p> {
    path: &'p Path,
    file: File,
    /// What the file ought to be.
    model: Vec<u8>,
    dice: Dice,
}

/// Makes `steps` changes and prints the number of each.
pub fn scribble(path: &Path, seed: u64, steps: u32) -> Result<()> {
    let mut scribbler = Scribbler {
        path,
        file: open(path)?,
        model: Vec::new(),
        dice: Dice(seed.wrapping_mul(2) + 1),
    };
    for number in 0..steps {
        let did = scribbler.step();
        let did = did.with_context(|| format!("seed {seed}, step {number}"))?;
        println!("{number} {did}");
    }
    drop_caches()?;
    scribbler
        .compare(0, REACH)
        .with_context(|| format!("seed {seed}, at the end"))
}

fn open(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).context("open")
}

impl Scribbler<'_> {
    fn step(&mut self) -> Result<&'static str> {
        let (at, length) = self.dice.span();
        Ok(match self.dice.below(20) {
            0..8 => self.write(at, length)?,
            8..11 => self.read(at, length)?,
            11..13 => self.truncate(at)?,
            13..15 => self.punch(at, length)?,
            15 => self.allocate(at, length)?,
            16 => self.synchronise()?,
            17 => self.reopen()?,
            18 => self.forget()?,
            _ => self.size()?,
        })
    }

    fn write(&mut self, at: usize, length: usize) -> Result<&'static str> {
        let letter = b'a' + u8::try_from(self.dice.below(26))?;
        let text: Vec<u8> = (0..length)
            .map(|place| letter ^ (place / 64) as u8)
            .collect();
        self.file.write_all_at(&text, at as u64).context("write")?;
        self.grow(at + length);
        self.model[at..at + length].copy_from_slice(&text);
        Ok("write")
    }

    fn read(&mut self, at: usize, length: usize) -> Result<&'static str> {
        self.compare(at, length)?;
        Ok("read")
    }

    fn truncate(&mut self, size: usize) -> Result<&'static str> {
        self.file.set_len(size as u64).context("truncate")?;
        self.model.resize(size, 0);
        Ok("truncate")
    }

    fn punch(&mut self, at: usize, length: usize) -> Result<&'static str> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if !self.fallocate(flags, at, length)? {
            return Ok("punch: not supported");
        }
        let end = (at + length).min(self.model.len());
        if at < end {
            self.model[at..end].fill(0);
        }
        Ok("punch")
    }

    fn allocate(&mut self, at: usize, length: usize) -> Result<&'static str> {
        if !self.fallocate(FallocateFlags::empty(), at, length)? {
            return Ok("allocate: not supported");
        }
        self.grow(at + length);
        Ok("allocate")
    }

    /// False where the mount's version, or the kind of file, does not support it; the program for holes shows where it is.
    fn fallocate(&self, flags: FallocateFlags, at: usize, length: usize) -> Result<bool> {
        match rustix::fs::fallocate(&self.file, flags, at as u64, length as u64) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error).context("fallocate"),
        }
    }

    fn synchronise(&mut self) -> Result<&'static str> {
        self.file.sync_all().context("fsync")?;
        Ok("fsync")
    }

    fn reopen(&mut self) -> Result<&'static str> {
        self.file = open(self.path)?;
        Ok("reopen")
    }

    /// Whatever is read next comes from the server.
    fn forget(&mut self) -> Result<&'static str> {
        self.file.sync_all()?;
        drop_caches()?;
        self.compare(0, REACH)?;
        Ok("forget and read all")
    }

    fn size(&mut self) -> Result<&'static str> {
        let size = fs::metadata(self.path)?.len();
        ensure!(
            size == self.model.len() as u64,
            "{size} bytes instead of {}",
            self.model.len()
        );
        Ok("size")
    }

    fn grow(&mut self, size: usize) {
        if self.model.len() < size {
            self.model.resize(size, 0);
        }
    }

    /// Reads and compares; past the end there must be nothing.
    fn compare(&self, at: usize, length: usize) -> Result<()> {
        let mut bytes = vec![0; length];
        let mut read = 0;
        while let more @ 1.. = self.file.read_at(&mut bytes[read..], (at + read) as u64)? {
            read += more;
        }
        let wanted = &self.model[at.min(self.model.len())..(at + length).min(self.model.len())];
        ensure!(
            read == wanted.len(),
            "{read} bytes at {at} instead of {}",
            wanted.len()
        );
        let wrong = bytes
            .iter()
            .zip(wanted)
            .position(|(byte, wanted)| byte != wanted);
        ensure!(
            wrong.is_none(),
            "byte {:?} is not what was written",
            wrong.map(|place| at + place)
        );
        Ok(())
    }
}

//! Copies a data file, sharing its blocks if the file system below supports that.
//!
//! Never a hard link: the data file will be changed in place.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::io::Errno;
use vfs::{Result, SeekTarget};

use crate::data::Holey;
use crate::error::from_os;
use crate::open_store::OpenStore;
use crate::space::Demand;

/// The number of bytes read at a time if the kernel cannot copy.
const BUFFER_BYTES: usize = 1 << 20;

/// The largest copy that is requested from the kernel at a time.
const STRETCH_BYTES: u64 = 1 << 30;

impl OpenStore {
    /// Copies the first `size` bytes of a data file with their holes.
    pub(super) fn copy_data(&self, from: &File, to: &File, size: u64) -> Result<()> {
        let failed = |error: io::Error| from_os("copy data", &error);
        let shared = rustix::fs::ioctl_ficlone(to.as_fd(), from.as_fd()).is_ok();
        // Also if the data file is longer or shorter than its size.
        to.set_len(size).map_err(failed)?;
        if shared {
            return Ok(());
        }
        let blocks = from.metadata().map_err(failed)?.blocks();
        let space = Demand::Space(blocks.saturating_mul(512));
        let _admission = self.headroom.admit(space)?;
        let mut at = 0;
        while let Some(start) =
            Holey::seek(from, at, SeekTarget::Data)?.filter(|start| *start < size)
        {
            let hole = Holey::seek(from, start, SeekTarget::Hole)?;
            let end = hole.unwrap_or(size).min(size);
            copy_stretch(from, to, start, end).map_err(failed)?;
            at = end;
        }
        Ok(())
    }

    /// Copies bytes that lie elsewhere to another file; parts that are all zeros become holes.
    pub(super) fn copy_from_elsewhere(&self, from: &dyn Holey, to: &File, size: u64) -> Result<()> {
        let failed = |error: io::Error| from_os("copy data", &error);
        to.set_len(size).map_err(failed)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut at = 0;
        while at < size {
            let length =
                usize::try_from(size - at).map_or(BUFFER_BYTES, |left| left.min(BUFFER_BYTES));
            let part = &mut buffer[..length];
            let filled = from.read(part, at)?;
            let part = &part[..filled];
            if part.iter().any(|byte| *byte != 0) {
                let _admission = self.headroom.admit(Demand::Space(filled as u64))?;
                to.write_all_at(part, at).map_err(failed)?;
            }
            at += length as u64;
        }
        Ok(())
    }
}

fn copy_stretch(from: &File, to: &File, start: u64, end: u64) -> io::Result<()> {
    let (mut source, mut target) = (start, start);
    while source < end {
        let length = usize::try_from((end - source).min(STRETCH_BYTES)).unwrap_or(usize::MAX);
        let copied = rustix::fs::copy_file_range(
            from.as_fd(),
            Some(&mut source),
            to.as_fd(),
            Some(&mut target),
            length,
        );
        match copied {
            // The data file was cut meanwhile; missing bytes read as zeros.
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                return copy_by_hand(from, to, source, end);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn copy_by_hand(from: &File, to: &File, mut at: u64, end: u64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    while at < end {
        let length = usize::try_from(end - at).map_or(BUFFER_BYTES, |left| left.min(BUFFER_BYTES));
        let count = match from.read_at(&mut buffer[..length], at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        if count == 0 {
            return Ok(());
        }
        to.write_all_at(&buffer[..count], at)?;
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_by_the_kernel_and_by_hand_are_the_same() {
        let (from, by_kernel, by_hand) = (file(), file(), file());
        from.write_all_at(&[7; 3_000_000], 5).unwrap();
        copy_stretch(&from, &by_kernel, 100, 2_500_000).unwrap();
        copy_by_hand(&from, &by_hand, 100, 2_500_000).unwrap();
        for copied in [by_kernel, by_hand] {
            let mut bytes = vec![1; 2_500_000];
            copied.read_exact_at(&mut bytes, 0).unwrap();
            assert!(bytes[..100].iter().all(|byte| *byte == 0));
            assert!(bytes[100..].iter().all(|byte| *byte == 7));
            assert_eq!(copied.metadata().unwrap().len(), 2_500_000);
        }
    }

    fn file() -> File {
        tempfile::tempfile().unwrap()
    }
}

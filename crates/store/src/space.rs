//! Room on the file system below, and what of it is kept back.
//!
//! A full disk must still let things be removed, and the embedded store must never meet one: it cannot
//! go on after that. So data and new objects are refused while less than the reserve is free, and
//! everything is refused when even most of the reserve is gone.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use vfs::{Error, Space};

use crate::error::{StoreError, from_os};
use crate::options::Reserve;

/// The most that [`Reserve::Automatic`] keeps back.
const AUTOMATIC_BYTES: u64 = 256 << 20;
/// The part of the file system that [`Reserve::Automatic`] keeps back: one in so many.
const AUTOMATIC_PART: u64 = 50;
/// The part of the reserve that even removals leave alone: one in so many.
const LAST_PART: u64 = 8;
/// How long a look at the file system counts when there was plenty of room.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// What one new object, name or attribute is taken to need.
pub(crate) const ROW_BYTES: u64 = 4096;

/// What an operation needs of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// So many bytes more than now.
    Room(u64),
    /// Nothing in the end, as something goes; for the moment a few rows.
    Removal,
}

#[derive(Debug)]
struct Look {
    at: Instant,
    /// Bytes free then, less what has been admitted since.
    free_bytes: u64,
}

/// Decides whether there is room.
#[derive(Debug)]
pub(crate) struct Headroom {
    data: File,
    reserve_bytes: u64,
    look: Mutex<Option<Look>>,
}

impl Headroom {
    /// Watches the file system that holds `data`, a directory.
    pub(crate) fn new(data: &std::path::Path, reserve: Reserve) -> Result<Headroom, StoreError> {
        let directory = File::open(data).map_err(|error| StoreError::io("open", data, error))?;
        let total = rustix::fs::fstatvfs(directory.as_fd())
            .map_err(|errno| StoreError::io("look at the space of", data, errno.into()))?;
        let total_bytes = total.f_blocks.saturating_mul(total.f_frsize);
        let reserve_bytes = match reserve {
            Reserve::Automatic => AUTOMATIC_BYTES.min(total_bytes / AUTOMATIC_PART),
            Reserve::Bytes(bytes) => bytes,
        };
        Ok(Headroom {
            data: directory,
            reserve_bytes,
            look: Mutex::new(None),
        })
    }

    /// [`Error::NoSpace`] unless there is room for what an operation needs.
    pub(crate) fn admit(&self, demand: Demand) -> vfs::Result<()> {
        let (wanted_bytes, kept_bytes) = match demand {
            Demand::Room(bytes) => (bytes, self.reserve_bytes),
            Demand::Removal => (0, self.reserve_bytes / LAST_PART),
        };
        let mut look = self.look.lock().unwrap_or_else(PoisonError::into_inner);
        // With much more room than is asked for, one look serves many operations.
        let recent = look.as_mut().filter(|look| look.at.elapsed() < LOOK_AGAIN);
        if let Some(look) = recent
            && look.free_bytes / 2 > wanted_bytes.saturating_add(kept_bytes)
        {
            look.free_bytes -= wanted_bytes;
            return Ok(());
        }
        let free_bytes = self.free_bytes()?;
        let room = free_bytes >= wanted_bytes.saturating_add(kept_bytes);
        let left_bytes = free_bytes.saturating_sub(if room { wanted_bytes } else { 0 });
        *look = Some(Look {
            at: Instant::now(),
            free_bytes: left_bytes,
        });
        if room { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Room as clients are told.
    pub(crate) fn space(&self, objects: u64) -> vfs::Result<Space> {
        let below = rustix::fs::fstatvfs(self.data.as_fd())
            .map_err(|errno| from_os("statvfs", &errno.into()))?;
        let unit_bytes = below.f_frsize;
        let usable_bytes = below.f_bavail.saturating_mul(unit_bytes);
        let available_bytes = usable_bytes.saturating_sub(self.reserve_bytes);
        // Objects are rows: their number ends with the bytes, or with the files below.
        let by_bytes = available_bytes / ROW_BYTES;
        let free_objects = if below.f_files == 0 {
            by_bytes
        } else {
            by_bytes.min(below.f_favail)
        };
        Ok(Space {
            total_bytes: below.f_blocks.saturating_mul(unit_bytes),
            free_bytes: below.f_bfree.saturating_mul(unit_bytes),
            available_bytes,
            total_objects: objects.saturating_add(free_objects),
            free_objects,
        })
    }

    fn free_bytes(&self) -> vfs::Result<u64> {
        let below = rustix::fs::fstatvfs(self.data.as_fd())
            .map_err(|errno| from_os("statvfs", &errno.into()))?;
        Ok(below.f_bavail.saturating_mul(below.f_frsize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_back_is_refused_to_data_and_left_to_removals() {
        let directory = tempfile::tempdir().unwrap();
        let free = Headroom::new(directory.path(), Reserve::Bytes(0))
            .unwrap()
            .free_bytes()
            .unwrap();
        // All that is free, and a good deal more than other tests can free meanwhile.
        let tight = Headroom::new(directory.path(), Reserve::Bytes(free + free / 2)).unwrap();
        assert_eq!(tight.admit(Demand::Room(1)), Err(Error::NoSpace));
        assert_eq!(tight.admit(Demand::Removal), Ok(()));
        assert_eq!(tight.space(1).unwrap().available_bytes, 0);
        let gone = Headroom::new(directory.path(), Reserve::Bytes(free * 10)).unwrap();
        assert_eq!(gone.admit(Demand::Removal), Err(Error::NoSpace));
    }

    #[test]
    fn a_demand_beyond_the_disk_is_refused_although_there_is_plenty() {
        let directory = tempfile::tempdir().unwrap();
        let headroom = Headroom::new(directory.path(), Reserve::Automatic).unwrap();
        assert_eq!(headroom.admit(Demand::Room(1 << 60)), Err(Error::NoSpace));
        assert_eq!(headroom.admit(Demand::Room(1)), Ok(()));
        assert_eq!(headroom.admit(Demand::Room(1 << 60)), Err(Error::NoSpace));
    }
}

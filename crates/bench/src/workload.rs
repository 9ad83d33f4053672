//! The workloads, their names and units, and how to run one.
//!
//! What must never enter: their order and length; see `turn` and `load`.

pub(crate) mod data;
pub(crate) mod directory;
pub(crate) mod files;
mod null;

use std::time::Duration;

use anyhow::Result;
use bench::tally::{Span, Tally};
use clap::ValueEnum;
use nfs4_client::StableHow4;
use serde::Serialize;

use crate::worker::Crew;

/// One kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// Call the procedure that does nothing
    Null,
    /// Create a file, write 4 KiB (UNSTABLE), close it
    Create,
    /// Create a file, write 4 KiB (FILE_SYNC), close it
    CreateDurable,
    /// Attributes of a file by its handle
    Getattr,
    /// A handle by directory and name
    Lookup,
    /// Remove a file
    Remove,
    /// A directory of 10,000 entries with their attributes
    Readdir,
    /// Write a file from its beginning in pieces of 1 MiB, and COMMIT
    Write,
    /// Read a file from its beginning in pieces of 1 MiB
    Read,
    /// Read 4 KiB anywhere in a file
    RandomRead,
    /// Write 4 KiB anywhere in a file, again and again, and COMMIT
    RandomWrite,
}

impl Workload {
    /// All workloads, in the order of the tables.
    pub(crate) const ORDER: [Self; 11] = [
        Workload::Null,
        Workload::Create,
        Workload::CreateDurable,
        Workload::Remove,
        Workload::Getattr,
        Workload::Lookup,
        Workload::Readdir,
        Workload::Write,
        Workload::Read,
        Workload::RandomRead,
        Workload::RandomWrite,
    ];

    /// Its title in tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Workload::Null => "bare RPC (NULL)",
            Workload::Create => "create, write 4 KiB, close",
            Workload::CreateDurable => "the same, the write FILE_SYNC",
            Workload::Getattr => "getattr",
            Workload::Lookup => "lookup",
            Workload::Remove => "remove",
            Workload::Readdir => "readdir with attributes",
            Workload::Write => "sequential write and COMMIT",
            Workload::Read => "sequential read",
            Workload::RandomRead => "random read of 4 KiB",
            Workload::RandomWrite => "random write of 4 KiB, and COMMIT",
        }
    }

    /// The unit that is counted each second.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Workload::Create | Workload::CreateDurable | Workload::Remove => "files/s",
            Workload::Null
            | Workload::Getattr
            | Workload::Lookup
            | Workload::RandomRead
            | Workload::RandomWrite => "op/s",
            Workload::Readdir => "entries/s",
            Workload::Write | Workload::Read => "MiB/s",
        }
    }

    /// The divisor that converts a count to that unit.
    pub(crate) fn scale(self) -> f64 {
        match self {
            Workload::Write | Workload::Read => f64::from(1 << 20),
            _ => 1.0,
        }
    }

    /// The number of requests per unit; `None` if it depends on how much a server returns in each.
    pub(crate) fn requests(self) -> Option<f64> {
        match self {
            Workload::Create | Workload::CreateDurable => Some(3.0),
            Workload::Readdir => None,
            _ => Some(1.0),
        }
    }

    /// Lets the crew do it, for this long if the work has no end of its own. The needed files, the large
    /// directory or the large files must exist.
    pub(crate) async fn run(self, crew: &mut Crew, length: Duration) -> Result<(Tally, Duration)> {
        let span = Span::of(length);
        match self {
            Workload::Null => crew.all(move |worker| null::call(worker, span)).await,
            Workload::Create => {
                crew.all(move |worker| files::create(worker, span, StableHow4::Unstable))
                    .await
            }
            Workload::CreateDurable => {
                crew.all(move |worker| files::create(worker, span, StableHow4::FileSync))
                    .await
            }
            Workload::Getattr => crew.all(move |worker| files::getattr(worker, span)).await,
            Workload::Lookup => crew.all(move |worker| files::lookup(worker, span)).await,
            Workload::Remove => crew.all(files::remove).await,
            Workload::Readdir => {
                crew.all(move |worker| directory::read_for(worker, span))
                    .await
            }
            Workload::Write => {
                let share = data::Share::of(crew.data());
                crew.all(move |worker| data::write(worker, share)).await
            }
            Workload::Read => {
                let share = data::Share::of(crew.data());
                crew.all(move |worker| data::read(worker, share)).await
            }
            Workload::RandomRead => {
                let share = data::Share::of(crew.data());
                crew.all(move |worker| data::read_randomly(worker, share, span))
                    .await
            }
            Workload::RandomWrite => {
                let share = data::Share::of(crew.data());
                crew.all(move |worker| data::write_randomly(worker, share, span))
                    .await
            }
        }
    }
}

//! What is measured: the workloads, their names and units, and the way to run one.
//!
//! What must never enter: in which order and for how long; see `turn` and `load`.

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
    /// All, in the order of the tables.
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

    /// How the tables call it.
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

    /// What is counted each second.
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

    /// By how much a count is divided to be in that unit.
    pub(crate) fn scale(self) -> f64 {
        match self {
            Workload::Write | Workload::Read => f64::from(1 << 20),
            _ => 1.0,
        }
    }

    /// How many requests one of that unit takes; `None` where that depends on how much a server tells in each.
    pub(crate) fn requests(self) -> Option<f64> {
        match self {
            Workload::Create | Workload::CreateDurable => Some(3.0),
            Workload::Readdir => None,
            _ => Some(1.0),
        }
    }

    /// Has the crew do it, for this long where the work has no end of its own. What the work needs
    /// must be there: files to look at, the large directory, the large files.
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

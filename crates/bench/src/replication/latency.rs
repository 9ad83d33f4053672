//! What single operations take: the first after quiet, and those that follow; beside each the same
//! operation at a server that is alone, in turns.
//!
//! What must never enter: how it is shown.

use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use nfs4::{Attributes4, NfsFh4, Stateid4};
use nfs4_client::{Client, How, OpenFile, StableHow4};
use serde::Serialize;
use testbed::LinkSettings;

use crate::sites::Sites;
use crate::tally::Tally;
use crate::worker::Target;

/// The size of a small file.
const SIZE: usize = 4096;

/// An operation, and whether it comes first after quiet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// OPEN that makes a file, when nothing is controlled.
    FirstCreate,
    /// CLOSE of that file, after a WRITE of 4 KiB.
    FirstClose,
    /// OPEN that makes a file.
    Create,
    /// WRITE of 4 KiB, FILE_SYNC.
    Write,
    /// CLOSE of the file written.
    Close,
    /// SETATTR of its mode.
    SetMode,
    /// RENAME within its directory.
    Rename,
    /// REMOVE.
    Remove,
    /// CREATE of a directory.
    MakeDirectory,
    /// LOOKUP of a name that is there.
    Lookup,
}

impl Kind {
    /// How the tables call it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Kind::FirstCreate => "first create",
            Kind::FirstClose => "first close",
            Kind::Create => "create",
            Kind::Write => "write 4 KiB",
            Kind::Close => "close",
            Kind::SetMode => "chmod",
            Kind::Rename => "rename",
            Kind::Remove => "remove",
            Kind::MakeDirectory => "mkdir",
            Kind::Lookup => "lookup",
        }
    }
}

/// An operation at one number of replicas and distance.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Latency {
    /// How many replicas.
    pub(crate) replicas: usize,
    /// The round trip asked for, in microseconds.
    pub(crate) distance_us: u64,
    /// The round trip measured, in microseconds.
    pub(crate) round_trip_us: u64,
    /// What was done.
    pub(crate) kind: Kind,
    /// How often.
    pub(crate) count: usize,
    /// At the set: median and what 95 of 100 did not exceed, in microseconds.
    pub(crate) replicated_us: [u32; 2],
    /// At the server that is alone.
    pub(crate) alone_us: [u32; 2],
}

/// How often.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Beginnings after quiet.
    pub(crate) beginnings: usize,
    /// Files after each.
    pub(crate) following: usize,
}

/// One of the two servers.
struct Side {
    client: Client,
    home: NfsFh4,
    samples: Vec<(Kind, Duration)>,
}

impl Side {
    async fn at(target: &Target, name: &str) -> Result<Self> {
        let (client, root) = target.client().await?;
        let home = client.create_directory(&root, name, 0o755).await?;
        Ok(Self {
            client,
            home,
            samples: Vec::new(),
        })
    }

    fn count(&mut self, kind: Kind, began: Instant) {
        self.samples.push((kind, began.elapsed()));
    }

    fn tally(&self, kind: Kind) -> Tally {
        let matching = self.samples.iter().filter(|(one, _)| *one == kind);
        let took = matching.map(|(_, took)| took.as_micros() as u32);
        let latencies_us: Vec<u32> = took.collect();
        Tally {
            amount: latencies_us.len() as u64,
            latencies_us,
        }
    }

    async fn create(&mut self, kind: Kind, place: &NfsFh4, name: &str) -> Result<OpenFile> {
        let how = How::create_new(0o644);
        let began = Instant::now();
        let file = self.client.open(place, name, &how).await?;
        self.count(kind, began);
        Ok(file)
    }

    async fn write_and_close(&mut self, kind: Kind, file: &OpenFile) -> Result<()> {
        let data = Bytes::from_static(&[0x61; SIZE]);
        let began = Instant::now();
        let write = self.client.write(file, 0, data, StableHow4::FileSync);
        write.await?;
        if kind == Kind::Close {
            self.count(Kind::Write, began);
        }
        let began = Instant::now();
        self.client.close(file).await?;
        self.count(kind, began);
        Ok(())
    }

    /// Everything that is done with a name once it is there.
    async fn handle(&mut self, place: &NfsFh4, file: &NfsFh4, name: &str) -> Result<()> {
        let began = Instant::now();
        self.client.lookup(place, name).await?;
        self.count(Kind::Lookup, began);
        let mode = Attributes4 {
            mode: Some(0o600),
            ..Attributes4::default()
        };
        let began = Instant::now();
        let set = self.client.setattr(file, Stateid4::ANONYMOUS, &mode);
        set.await?;
        self.count(Kind::SetMode, began);
        let other = format!("{name}-renamed");
        let began = Instant::now();
        self.client.rename(place, name, place, &*other).await?;
        self.count(Kind::Rename, began);
        let directory = format!("{name}-directory");
        let began = Instant::now();
        let made = self.client.create_directory(place, &*directory, 0o755);
        made.await?;
        self.count(Kind::MakeDirectory, began);
        let began = Instant::now();
        self.client.remove(place, &*other).await?;
        self.count(Kind::Remove, began);
        Ok(())
    }
}

/// Measures all kinds at one distance.
pub(crate) async fn measure(
    sites: &Sites,
    distance: Duration,
    extent: Extent,
) -> Result<Vec<Latency>> {
    sites.set(&LinkSettings::round_trip(distance))?;
    let round_trip = sites.round_trip()?;
    let name = format!("latency-{}", distance.as_micros());
    let replicated = Side::at(&sites.replicas[0].target(), &name).await?;
    let mut sides = [replicated, Side::at(&sites.alone.target(), &name).await?];
    for beginning in 0..extent.beginnings {
        let mut places = Vec::new();
        for side in &sides {
            let name = format!("beginning-{beginning}");
            let made = side.client.create_directory(&side.home, &*name, 0o755);
            places.push(made.await?);
        }
        sites.wait_for_quiet()?;
        begin(&mut sides, &places).await?;
        for number in 0..extent.following {
            let name = format!("file-{number}");
            for (side, place) in sides.iter_mut().zip(&places) {
                let file = side.create(Kind::Create, place, &name).await?;
                side.write_and_close(Kind::Close, &file).await?;
                side.handle(place, &file.handle, &name).await?;
            }
        }
    }
    let [replicated, alone] = sides;
    let rows = rows(&replicated, &alone).map(|(kind, here, there)| Latency {
        replicas: sites.replicas.len(),
        distance_us: distance.as_micros() as u64,
        round_trip_us: round_trip.as_micros() as u64,
        kind,
        count: here.latencies_us.len(),
        replicated_us: both(here),
        alone_us: both(there),
    });
    let rows = rows.collect();
    replicated.client.leave().await?;
    alone.client.leave().await?;
    Ok(rows)
}

/// The first file after quiet.
async fn begin(sides: &mut [Side; 2], places: &[NfsFh4]) -> Result<()> {
    for (side, place) in sides.iter_mut().zip(places) {
        let file = side.create(Kind::FirstCreate, place, "first").await?;
        side.write_and_close(Kind::FirstClose, &file).await?;
    }
    Ok(())
}

fn rows<'a>(
    replicated: &'a Side,
    alone: &'a Side,
) -> impl Iterator<Item = (Kind, Tally, Tally)> + 'a {
    let kinds = [
        Kind::FirstCreate,
        Kind::FirstClose,
        Kind::Create,
        Kind::Write,
        Kind::Close,
        Kind::SetMode,
        Kind::Rename,
        Kind::Remove,
        Kind::MakeDirectory,
        Kind::Lookup,
    ];
    kinds
        .into_iter()
        .map(|kind| (kind, replicated.tally(kind), alone.tally(kind)))
}

fn both(mut tally: Tally) -> [u32; 2] {
    [tally.percentile(0.5), tally.percentile(0.95)]
}

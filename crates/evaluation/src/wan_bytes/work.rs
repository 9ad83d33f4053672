//! Small pieces of work that write more than what remains.
//!
//! What must never enter: how the servers are configured.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::trial::{self, Outcome};
use bytes::{Bytes, BytesMut};
use nfs4::NfsFh4;
use nfs4_client::{Client, How, StableHow4};

use crate::field::runtime;
use crate::replay::Text;
use crate::sites::Sites;

/// The size of one write.
const PIECE: usize = 16 << 10;

/// The interval between steps.
const PACE: Duration = Duration::from_millis(40);

/// The number of steps.
const STEPS: usize = 60;

/// A temporary file is removed after this number of further files.
const KEPT: usize = 2;

/// A piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// One file is overwritten repeatedly, at the same place.
    Rewriting,
    /// One file grows.
    Growing,
    /// Files are made and soon removed.
    Temporary,
}

/// All pieces of work.
pub(super) const ALL: [Work; 3] = [Work::Rewriting, Work::Growing, Work::Temporary];

/// All settings that affect results.
pub(super) fn settings() -> String {
    format!("{PIECE} {PACE:?} {STEPS} {KEPT}")
}

/// A description of the pieces of work.
pub(super) fn described() -> String {
    format!(
        "Beside the package, {STEPS} steps with {} ms between them, each a WRITE of {} KiB of text and a CLOSE: *rewriting* the same \
         {} KiB of a file, a *growing* file, and *temporary* files, each removed when {KEPT} more are there.",
        PACE.as_millis(),
        PIECE >> 10,
        PIECE >> 10
    )
}

impl Work {
    /// Its title in tables and plots.
    pub(super) fn title(self) -> &'static str {
        match self {
            Work::Rewriting => "rewriting",
            Work::Growing => "growing",
            Work::Temporary => "temporary",
        }
    }

    /// Does it at the first replica and compares what remains at the last.
    ///
    /// # Errors
    /// Fails when that differs, and when a server has not run all the time.
    pub(super) fn measure(self, sites: &Sites, home: &str) -> Result<Outcome> {
        sites.wait_for_quiet()?;
        let before = sites.sent()?;
        let left = runtime()?.block_on(async {
            let (client, root) = sites.replicas[0].target().client().await?;
            let directory = client.create_directory(&root, home, 0o755).await?;
            let left = self.perform(&client, &directory).await?;
            client.leave().await?;
            Ok::<_, anyhow::Error>(left)
        })?;
        sites.wait_for_copies()?;
        let sent = sites.sent()?.since(before);
        sites.wait_for_quiet()?;
        let last = sites.replicas.last().context("a set has replicas")?;
        runtime()?.block_on(async {
            let (client, root) = last.target().client().await?;
            let directory = client.lookup(&root, home).await?;
            compare(&client, &directory, &left).await?;
            Ok::<_, anyhow::Error>(client.leave().await?)
        })?;
        sites.check_running()?;
        let figures = [
            ("written_bytes", (STEPS * PIECE) as f64),
            ("wire_bytes", sent.wire as f64),
            ("content_bytes", sent.content as f64),
            ("record_bytes", sent.records as f64),
        ];
        Ok(trial::named(figures))
    }

    /// Returns the files that remain.
    async fn perform(self, client: &Client, place: &NfsFh4) -> Result<Vec<(String, Bytes)>> {
        let mut text = Text::from_seed(3);
        let mut left: Vec<(String, Bytes)> = Vec::new();
        for step in 0..STEPS {
            let mut piece = vec![0; PIECE];
            text.fill(&mut piece);
            let piece = Bytes::from(piece);
            let (name, offset) = match self {
                Work::Rewriting => ("file".to_owned(), 0),
                Work::Growing => ("file".to_owned(), step * PIECE),
                Work::Temporary => (format!("file-{step}"), 0),
            };
            write(client, place, &name, offset, piece.clone()).await?;
            match (self, left.last_mut()) {
                (Work::Rewriting, Some((_, content))) => *content = piece,
                (Work::Growing, Some((_, content))) => {
                    let mut longer = BytesMut::from(&content[..]);
                    longer.extend_from_slice(&piece);
                    *content = longer.freeze();
                }
                _ => left.push((name, piece)),
            }
            if left.len() > KEPT {
                let (oldest, _) = left.remove(0);
                client.remove(place, &*oldest).await?;
            }
            tokio::time::sleep(PACE).await;
        }
        Ok(left)
    }
}

async fn write(
    client: &Client,
    place: &NfsFh4,
    name: &str,
    offset: usize,
    piece: Bytes,
) -> Result<()> {
    let file = client.open(place, name, &How::create(0o644)).await?;
    let written = client.write(&file, offset as u64, piece, StableHow4::FileSync);
    ensure!(written.await?.count as usize == PIECE, "a WRITE fell short");
    Ok(client.close(&file).await?)
}

async fn compare(client: &Client, place: &NfsFh4, left: &[(String, Bytes)]) -> Result<()> {
    let names = client.readdir(place, nfs4::Bitmap4::EMPTY).await?;
    ensure!(
        names.len() == left.len(),
        "{} names are there where {} are expected",
        names.len(),
        left.len()
    );
    for (name, content) in left {
        let file = client.open(place, &**name, &How::read()).await?;
        let found = client.read_to_end(&file).await?;
        client.close(&file).await?;
        ensure!(found == *content, "{name} differs at the other site");
    }
    Ok(())
}

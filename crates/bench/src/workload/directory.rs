//! One large directory: made once for a server, read by all clients.

use std::collections::HashSet;
use std::time::Instant;

use anyhow::{Result, ensure};
use bench::client::Target;
use bench::tally::{Span, Tally};
use nfs4::NfsStat4;
use nfs4_client::{How, STAT};

use crate::worker::Worker;

/// The number of its entries.
pub(crate) const ENTRIES: usize = 10_000;

/// Its name in the export.
const NAME: &str = "large-directory";

/// The number of files that are made at once.
const MAKERS: usize = 16;

/// Makes the directory unless it exists.
pub(crate) async fn make(target: &Target) -> Result<()> {
    let (client, root) = target.client().await?;
    let directory = match client.create_directory(&root, NAME, 0o755).await {
        Err(error) if error.status() == Some(NfsStat4::Exist) => return Ok(client.leave().await?),
        other => other?,
    };
    let makers: Vec<_> = (0..MAKERS)
        .map(|maker| {
            let (client, directory) = (client.clone(), directory.clone());
            tokio::spawn(async move {
                let how = How::create_new(0o644).by(format!("maker-{maker}"));
                for number in (maker..ENTRIES).step_by(MAKERS) {
                    let name = format!("entry-{number:05}");
                    let file = client.open(&directory, &*name, &how).await?;
                    client.close(&file).await?;
                }
                Ok::<(), nfs4_client::Error>(())
            })
        })
        .collect();
    for maker in makers {
        maker.await??;
    }
    let entries = client.readdir(&directory, STAT).await?;
    let names: HashSet<&[u8]> = entries.iter().map(|entry| &*entry.name.0).collect();
    ensure!(
        entries.len() == ENTRIES && names.len() == ENTRIES,
        "a directory of {ENTRIES} entries lists {} of {} names",
        entries.len(),
        names.len()
    );
    Ok(client.leave().await?)
}

/// Reads the whole directory repeatedly.
pub(crate) async fn read_for(worker: Worker, span: Span) -> Result<(Worker, Tally)> {
    let mut tally = Tally::default();
    let client = &worker.client;
    let directory = client.lookup(&worker.root, NAME).await?;
    while span.goes_on() {
        let began = Instant::now();
        let entries = client.readdir(&directory, STAT).await?;
        tally.add(began, entries.len() as u64);
        ensure!(
            entries.len() == ENTRIES,
            "a directory of {ENTRIES} entries lists {}",
            entries.len()
        );
    }
    Ok((worker, tally))
}

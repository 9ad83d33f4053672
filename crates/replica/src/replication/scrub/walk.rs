//! A run of the scrub through all objects, by identifier, and when one begins.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use vfs::{ObjectId, Result};

use super::asking::{blocking, is_comparable};
use super::{contents, rows};
use crate::driver::local_replica::LocalReplica;
use crate::state::time::unix_seconds;
use crate::state::wire;

/// Objects compared together.
const PAGE: u64 = 256;
/// Files listed at a time.
const FILES: usize = 64;
/// Files compared at once.
const AT_ONCE: usize = 8;
const LAST: ObjectId = ObjectId::from_u64(u64::MAX);
/// How often to check whether a run is due, or may begin.
const LOOK: Duration = Duration::from_secs(10);
/// How often to check whether this replica can compare yet. No operation waits for that, and it depends on several things.
const WAIT: Duration = Duration::from_millis(200);

/// The fact that says how far the scrub is.
const FACT: &[u8] = b"scrub";

/// What survives a restart.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// When this replica first ran the scrub, in seconds since 1970.
    since_unix_s: u64,
    /// When the last run was finished.
    finished_unix_s: Option<u64>,
    /// A run was under way and had reached this object.
    next: Option<u64>,
}

/// Compares the copies on schedule and on request, until the replica stops.
pub(crate) async fn keep(replica: Arc<LocalReplica>) {
    if let Err(error) = keep_on(&replica).await {
        // The store has failed, which ends the server.
        tracing::error!(%error, "the scrub ends");
    }
}

async fn keep_on(replica: &Arc<LocalReplica>) -> Result<()> {
    let mut asked = replica.state.scrub.asked.subscribe();
    let mut served = 0;
    let mut progress = load(replica)?.unwrap_or(Progress {
        since_unix_s: unix_seconds(),
        ..Progress::default()
    });
    note(replica, progress).await?;
    if let Some(finished) = progress.finished_unix_s {
        replica.state.scrub.set_last_finished(finished);
    }
    loop {
        let wanted = *asked.borrow_and_update();
        if wanted == served && !is_due(replica, &progress) {
            // A request and a timeout are handled alike.
            let _ = tokio::time::timeout(LOOK, asked.changed()).await;
            continue;
        }
        while !is_comparable(replica) {
            tokio::time::sleep(WAIT).await;
        }
        if wanted != served {
            progress.next = None;
            served = wanted;
        }
        run(replica, &mut progress).await?;
    }
}

/// Whether a run was interrupted, or the last one is long enough ago.
fn is_due(replica: &LocalReplica, progress: &Progress) -> bool {
    let interval = replica.state.settings.scrub_interval.as_secs();
    let last = progress.finished_unix_s.unwrap_or(progress.since_unix_s);
    progress.next.is_some() || (interval > 0 && unix_seconds() >= last.saturating_add(interval))
}

/// Checks everything from where the last run was interrupted.
async fn run(replica: &Arc<LocalReplica>, progress: &mut Progress) -> Result<()> {
    replica.state.scrub.begin_run();
    let mut from = ObjectId::from_u64(progress.next.unwrap_or(0));
    while is_comparable(replica) {
        let store = replica.store.clone();
        let page = blocking(move || store.digest_metadata(from..=LAST, PAGE)).await;
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                let what = format!("rows behind object {from} cannot be read: {error}");
                replica.state.scrub.undecided(from, what);
                return finish(replica, progress).await;
            }
        };
        rows::compare(replica, (from, page.through)).await?;
        if !contents_of(replica, (from, page.through)).await? {
            break;
        }
        replica.state.scrub.note_looked_at(page.objects);
        if page.through == LAST {
            return finish(replica, progress).await;
        }
        from = ObjectId::from_u64(page.through.as_u64() + 1);
        progress.next = Some(from.as_u64());
        note(replica, *progress).await?;
    }
    // This replica has left the view; the run goes on when it is back.
    progress.next = Some(from.as_u64());
    replica.state.scrub.end_run(false);
    note(replica, *progress).await
}

/// Compares the files of a page; returns whether it reached the end.
async fn contents_of(
    replica: &Arc<LocalReplica>,
    (from, through): (ObjectId, ObjectId),
) -> Result<bool> {
    let mut after = from.as_u64().checked_sub(1).map(ObjectId::from_u64);
    loop {
        let files = replica.store.files(after, FILES)?;
        let ids: Vec<ObjectId> = files.iter().map(|(file, _)| *file).collect();
        let of_page = ids.iter().take_while(|file| **file <= through);
        for group in of_page.copied().collect::<Vec<_>>().chunks(AT_ONCE) {
            if !is_comparable(replica) {
                return Ok(false);
            }
            compare_all(replica, group).await;
        }
        match ids.last() {
            Some(last) if *last <= through => after = Some(*last),
            _ => return Ok(true),
        }
    }
}

/// Compares some files at once, so that round trips do not add up.
async fn compare_all(replica: &Arc<LocalReplica>, files: &[ObjectId]) {
    let mut looks = JoinSet::new();
    for file in files.iter().copied() {
        let replica = replica.clone();
        looks.spawn(async move { contents::compare(&replica, file).await });
    }
    while let Some(looked) = looks.join_next().await {
        if !looked.unwrap_or(false) {
            replica.state.scrub.note_skipped();
        }
    }
}

async fn finish(replica: &LocalReplica, progress: &mut Progress) -> Result<()> {
    replica.state.scrub.end_run(true);
    progress.next = None;
    progress.finished_unix_s = Some(unix_seconds());
    note(replica, *progress).await
}

fn load(replica: &LocalReplica) -> Result<Option<Progress>> {
    let facts = replica.store.facts(FACT)?;
    // A note of another version of the program is useless.
    let noted = facts.first().map(|(_, value)| wire::decode(value));
    Ok(noted.and_then(std::result::Result::ok))
}

async fn note(replica: &LocalReplica, progress: Progress) -> Result<()> {
    let rows = vec![(FACT.to_vec(), Some(wire::encode(&progress)))];
    replica.store.put_facts(rows).await.map(|_| ())
}

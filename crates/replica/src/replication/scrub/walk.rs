//! A run of the scrub through all objects, by identifier, and when one begins.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use vfs::{ObjectId, Result};

use super::{blocking, contents, is_comparable, rows};
use crate::driver::local_replica::LocalReplica;
use crate::state::time::unix_seconds;
use crate::state::wire;

/// Objects looked at together.
const PAGE: u64 = 256;
/// Files listed at a time.
const FILES: usize = 64;
/// Files compared at once.
const AT_ONCE: usize = 8;
const LAST: ObjectId = ObjectId::from_u64(u64::MAX);
/// How often to see whether a run is due, or may begin.
const LOOK: Duration = Duration::from_secs(10);
/// How often to see whether this replica can compare yet.
const WAIT: Duration = Duration::from_millis(200);

/// The fact that says how far the scrub is.
const FACT: &[u8] = b"scrub";

/// What survives a restart.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// When the scrub was first heard of, in seconds since 1970.
    since_unix_s: u64,
    /// When the last run was finished.
    finished_unix_s: Option<u64>,
    /// A run was under way and had got so far.
    next: Option<u64>,
}

/// Compares the copies whenever it is time or somebody asks for it, until the replica stops.
pub(crate) async fn keep(shared: Arc<LocalReplica>) {
    if let Err(error) = keep_on(&shared).await {
        // The store has failed, which ends the server.
        tracing::error!(%error, "the scrub ends");
    }
}

async fn keep_on(shared: &Arc<LocalReplica>) -> Result<()> {
    let mut asked = shared.state.scrub.asked.subscribe();
    let mut served = 0;
    let mut progress = load(shared)?.unwrap_or(Progress {
        since_unix_s: unix_seconds(),
        ..Progress::default()
    });
    note(shared, progress).await?;
    if let Some(finished) = progress.finished_unix_s {
        shared.state.scrub.set_last_finished(finished);
    }
    loop {
        let wanted = *asked.borrow_and_update();
        if wanted == served && !is_due(shared, &progress) {
            // Whether somebody asks or time passes makes no difference.
            let _ = tokio::time::timeout(LOOK, asked.changed()).await;
            continue;
        }
        while !is_comparable(shared) {
            tokio::time::sleep(WAIT).await;
        }
        if wanted != served {
            progress.next = None;
            served = wanted;
        }
        run(shared, &mut progress).await?;
    }
}

/// Whether a run was broken off, or the last one is long enough ago.
fn is_due(shared: &LocalReplica, progress: &Progress) -> bool {
    let interval = shared.state.settings.scrub_interval.as_secs();
    let last = progress.finished_unix_s.unwrap_or(progress.since_unix_s);
    progress.next.is_some() || (interval > 0 && unix_seconds() >= last.saturating_add(interval))
}

/// Looks at everything from where the last run was broken off.
async fn run(shared: &Arc<LocalReplica>, progress: &mut Progress) -> Result<()> {
    shared.state.scrub.begin_run();
    let mut from = ObjectId::from_u64(progress.next.unwrap_or(0));
    while is_comparable(shared) {
        let store = shared.store.clone();
        let page = blocking(move || store.digest_metadata(from..=LAST, PAGE)).await;
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                let what = format!("rows behind object {from} cannot be read: {error}");
                shared.state.scrub.undecided(from, what);
                return finish(shared, progress).await;
            }
        };
        rows::compare(shared, (from, page.through)).await?;
        if !contents_of(shared, (from, page.through)).await? {
            break;
        }
        shared.state.scrub.note_looked_at(page.objects);
        if page.through == LAST {
            return finish(shared, progress).await;
        }
        from = ObjectId::from_u64(page.through.as_u64() + 1);
        progress.next = Some(from.as_u64());
        note(shared, *progress).await?;
    }
    // This replica has left the view; the run goes on when it is back.
    progress.next = Some(from.as_u64());
    shared.state.scrub.end_run(false);
    note(shared, *progress).await
}

/// Compares the files of a page; says whether that could be done to the end.
async fn contents_of(
    shared: &Arc<LocalReplica>,
    (from, through): (ObjectId, ObjectId),
) -> Result<bool> {
    let mut after = from.as_u64().checked_sub(1).map(ObjectId::from_u64);
    loop {
        let files = shared.store.files(after, FILES)?;
        let ids: Vec<ObjectId> = files.iter().map(|(file, _)| *file).collect();
        let of_page = ids.iter().take_while(|file| **file <= through);
        for group in of_page.copied().collect::<Vec<_>>().chunks(AT_ONCE) {
            if !is_comparable(shared) {
                return Ok(false);
            }
            compare_all(shared, group).await;
        }
        match ids.last() {
            Some(last) if *last <= through => after = Some(*last),
            _ => return Ok(true),
        }
    }
}

/// Compares some files at once, so that round trips do not add up.
async fn compare_all(shared: &Arc<LocalReplica>, files: &[ObjectId]) {
    let mut looks = JoinSet::new();
    for file in files.iter().copied() {
        let shared = shared.clone();
        looks.spawn(async move { contents::compare(&shared, file).await });
    }
    while let Some(looked) = looks.join_next().await {
        if !looked.unwrap_or(false) {
            shared.state.scrub.note_skipped();
        }
    }
}

async fn finish(shared: &LocalReplica, progress: &mut Progress) -> Result<()> {
    shared.state.scrub.end_run(true);
    progress.next = None;
    progress.finished_unix_s = Some(unix_seconds());
    note(shared, *progress).await
}

fn load(shared: &LocalReplica) -> Result<Option<Progress>> {
    let facts = shared.store.facts(FACT)?;
    // What another version of the program noted is of no use.
    let noted = facts.first().map(|(_, value)| wire::decode(value));
    Ok(noted.and_then(std::result::Result::ok))
}

async fn note(shared: &LocalReplica, progress: Progress) -> Result<()> {
    let rows = vec![(FACT.to_vec(), Some(wire::encode(&progress)))];
    shared.store.put_facts(rows).await.map(|_| ())
}

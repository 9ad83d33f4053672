//! Files that a lost replica had sent only in part, when it is decided to go on without it.
//!
//! One survivor, the first of those that hold contents, gives each of them a new version that all others take over: the version
//! before, where somebody still had it as a whole; else what there is, kept aside and marked as torn, so that
//! nobody reads a mixture of versions unawares.
//!
//! What must never enter: when it is decided, and how the survivors came to have the same.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use store::Store;
use tokio::time::Instant;
use vfs::{AccessCheck, Credentials, Error, FileSystem, ObjectId, Result, SetAttributes};

use super::level::is_first;
use crate::driver::local_replica::LocalReplica;
use crate::driver::waiting::{CALM, changed};
use crate::frontend::durability;
use crate::frontend::file_system::ReplicatedFileSystem;
use crate::replication::renewing;
use crate::state::settings::Durability;
use crate::state::time::unix_seconds;

/// After such a time a survivor does what the first of them has not done.
const PATIENCE: Duration = Duration::from_secs(30);

/// So long a new version is tried in a row; then other things have their turn.
const IN_A_ROW: Duration = Duration::from_secs(1);

/// Adopting abandoned files.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    /// Since when there are some.
    since: Option<Instant>,
    /// Torn ones of which is kept what there is.
    kept: BTreeSet<ObjectId>,
}

/// What becomes of an abandoned file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is the version before, of this size.
    Before(u64),
    /// What was answered is in what there is.
    AsItIs,
    /// Nobody knows what it is.
    Torn,
}

impl Adoption {
    /// Adopts what is abandoned, if that is up to this replica.
    pub(super) async fn go_on(&mut self, replica: &Arc<LocalReplica>) {
        let abandoned = replica.store.abandoned().unwrap_or_default();
        if abandoned.is_empty() {
            *self = Adoption::default();
            return;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let due = is_first(replica) || since.elapsed() > PATIENCE;
        if !due || !replica.takes_part() || !replica.lease.may_answer() {
            return;
        }
        let mut fates = Vec::with_capacity(abandoned.len());
        for (file, whole) in abandoned {
            fates.push((file, fate(replica, file, whole).await));
        }
        let torn = fates.iter().filter(|(_, fate)| *fate == Fate::Torn);
        let torn = torn.map(|(file, _)| *file);
        let torn: Vec<ObjectId> = torn.filter(|file| !self.kept.contains(file)).collect();
        if let Some(first) = torn.first() {
            keep_aside(replica, *first, &torn).await;
            self.kept.extend(torn);
        }
        for (file, fate) in fates {
            match adopt(replica, file, fate).await {
                Ok(()) => {}
                // It is tried again.
                Err(Error::Delay) => return,
                Err(error) => {
                    return tracing::error!(%file, %error, "an abandoned file cannot be adopted");
                }
            }
        }
    }
}

async fn fate(replica: &LocalReplica, file: ObjectId, whole: Option<u64>) -> Fate {
    match whole {
        _ if durability::setting_of(replica, file).await.0 == Durability::Majority => Fate::AsItIs,
        Some(size) => Fate::Before(size),
        None => Fate::Torn,
    }
}

/// What there is of torn files is kept, because the files themselves cannot be read.
async fn keep_aside(replica: &LocalReplica, first: ObjectId, files: &[ObjectId]) {
    let label = format!("torn-{}-{:x}", unix_seconds(), first.as_u64());
    let reason = "parts of these files were lost with a server";
    match replica.store.save_aside(&label, reason, files).await {
        // A moment ago.
        Ok(_) | Err(Error::Exists) => {
            let files = files.len();
            tracing::warn!(
                files,
                label,
                "parts of files were lost; see `meridian recovered`"
            );
        }
        Err(error) => tracing::error!(%error, "what is left of torn files cannot be kept aside"),
    }
}

async fn adopt(replica: &Arc<LocalReplica>, file: ObjectId, fate: Fate) -> Result<()> {
    if let Fate::Before(size) = fate {
        cut(replica, file, size).await?;
    }
    let torn = fate == Fate::Torn;
    let deadline = Instant::now() + IN_A_ROW;
    let adopt = |store: Store| async move { store.adopt(file, torn).await };
    loop {
        // What changes from here on counts. Control that was won is there for the next attempt, if that comes soon.
        let mut changes = replica.engine.notifications();
        if renewing::give_new_version(replica, file, adopt).await {
            break;
        }
        if Instant::now() >= deadline {
            return Err(Error::Delay);
        }
        changed(&mut changes, CALM, deadline).await;
    }
    let path = replica.store.path_of(file).unwrap_or_default();
    match fate {
        Fate::Before(_) => {
            tracing::warn!(%path, "a file is the last version that had come as a whole");
        }
        Fate::AsItIs => {}
        Fate::Torn => tracing::error!(
            %path,
            "a file is torn: part of its contents was lost with a server"
        ),
    }
    Ok(())
}

/// Gives a file the size that its version before had.
async fn cut(replica: &Arc<LocalReplica>, file: ObjectId, size: u64) -> Result<()> {
    match replica.store.attributes(file).await {
        Ok(now) if now.size != size => {}
        Ok(_) | Err(Error::Stale) => return Ok(()),
        Err(error) => return Err(error),
    }
    let file_system = ReplicatedFileSystem::adopting(replica.clone());
    let set = SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    let root = Credentials::root();
    match file_system
        .set_attributes(AccessCheck::Open(&root), file, &set)
        .await
    {
        Ok(_) | Err(Error::Stale) => Ok(()),
        Err(error) => Err(error),
    }
}

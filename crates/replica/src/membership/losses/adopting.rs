//! Files that a lost replica had sent only in part, after the set decided to go on without it.
//!
//! The first survivor that holds contents gives each file a new version, which all others take over. It is the previous version if a survivor
//! still had it whole. Otherwise it is what is left, kept aside and marked as torn, so that no client unknowingly reads a mixture of versions.
//!
//! What must never enter: when this is decided, and how the survivors came to have the same.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use store::{Fate, Store, VersionBefore};
use tokio::time::Instant;
use vfs::{Error, ObjectId, Result};

use super::level::is_first;
use crate::driver::local_replica::LocalReplica;
use crate::driver::waiting::{CALM, changed};
use crate::frontend::durability;
use crate::replication::renewing;
use crate::state::settings::Durability;
use crate::state::time::unix_seconds;

/// After this time any survivor does what the first one has not done.
const PATIENCE: Duration = Duration::from_secs(30);

/// Logged once; repeats are summed later.
const KEEPING: &str = "what is left of torn files cannot be kept aside";

/// A change of a file is tried for this long in a row; then that of the next one.
const IN_A_ROW: Duration = Duration::from_secs(2);

/// The adoption of abandoned files.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    /// The files that were abandoned at the last look, and since when these and no others are.
    waiting: BTreeSet<ObjectId>,
    since: Option<Instant>,
    /// Torn files whose remains are kept aside.
    kept: BTreeSet<ObjectId>,
    /// Logged once for each file.
    failed: BTreeSet<ObjectId>,
}

impl Adoption {
    /// Adopts abandoned files, if this replica is responsible.
    pub(super) async fn go_on(&mut self, replica: &Arc<LocalReplica>) {
        let mut abandoned = replica.store.abandoned().unwrap_or_default();
        // What a lost replica controls waits for that one.
        let active = replica.lease.view().active;
        abandoned.retain(|(file, _)| {
            let holder = replica.engine.foreign_primary(*file);
            holder.is_none_or(|holder| active.contains(&holder))
        });
        if abandoned.is_empty() {
            *self = Adoption::default();
            return;
        }
        let since = self.waiting_since(&abandoned);
        let due = is_first(replica) || since.elapsed() > PATIENCE;
        if !due || !replica.takes_part() || !replica.lease.may_answer() {
            return;
        }
        let mut fates = Vec::with_capacity(abandoned.len());
        // A survivor that knows what the others had comes first.
        let is_late = since.elapsed() > 2 * PATIENCE;
        for (file, before) in abandoned {
            if let Some(fate) = fate(replica, file, before, is_late).await {
                fates.push((file, fate));
            }
        }
        self.kept.retain(|file| self.waiting.contains(file));
        let (torn, others): (Vec<_>, Vec<_>) =
            fates.into_iter().partition(|(_, fate)| *fate == Fate::Torn);
        self.adopt_all(replica, others).await;
        let files = torn.iter().map(|(file, _)| *file);
        let files: Vec<ObjectId> = files.filter(|file| !self.kept.contains(file)).collect();
        if let Some(first) = files.first()
            && keep_aside(replica, *first, &files).await
        {
            self.kept.extend(files);
        }
        // What is left of a torn file may be removed once the file has its new version.
        let kept = (torn.into_iter()).filter(|(file, _)| self.kept.contains(file));
        let kept = kept.collect();
        self.adopt_all(replica, kept).await;
    }

    async fn adopt_all(&mut self, replica: &Arc<LocalReplica>, fates: Vec<(ObjectId, Fate)>) {
        for (file, fate) in fates {
            if !replica.lease.may_answer() {
                return;
            }
            match adopt(replica, file, fate).await {
                Ok(()) => {}
                // It is tried again, and must not keep others waiting: what holds it may be lost.
                Err(Error::Delay) => {}
                Err(error) => {
                    if self.failed.insert(file) {
                        tracing::error!(%file, %error, "an abandoned file cannot be adopted yet");
                    }
                }
            }
        }
    }
}

impl Adoption {
    /// Since when nobody has adopted any of these.
    fn waiting_since(&mut self, abandoned: &[(ObjectId, VersionBefore)]) -> Instant {
        let files: BTreeSet<ObjectId> = abandoned.iter().map(|(file, _)| *file).collect();
        if files != self.waiting {
            (self.waiting, self.since) = (files, None);
        }
        *self.since.get_or_insert_with(Instant::now)
    }
}

/// `None` while another survivor may know better.
async fn fate(
    replica: &LocalReplica,
    file: ObjectId,
    before: VersionBefore,
    is_late: bool,
) -> Option<Fate> {
    match before {
        _ if durability::setting_of(replica, file).await.0 == Durability::Majority => {
            Some(Fate::AsItIs)
        }
        VersionBefore::Whole(size) => Some(Fate::Before(size)),
        VersionBefore::Partial => Some(Fate::Torn),
        VersionBefore::Unknown => is_late.then_some(Fate::Torn),
    }
}

/// Keeps the remains of torn files aside, because the files themselves cannot be read. Returns whether they are kept.
async fn keep_aside(replica: &LocalReplica, first: ObjectId, files: &[ObjectId]) -> bool {
    let label = format!("torn-{}-{:x}", unix_seconds(), first.as_u64());
    let reason = "parts of these files were lost with a server";
    match replica.store.save_aside(&label, reason, files).await {
        // It was saved a moment ago.
        Ok(_) | Err(Error::Exists) => {
            let files = files.len();
            tracing::warn!(
                files,
                label,
                "parts of files were lost; see `meridian recovered`"
            );
            true
        }
        Err(error) => {
            if let Some(sum) = replica.state.repeats.is_to_tell_of(KEEPING, first.as_u64()) {
                tracing::error!(%error, %sum, "what is left of torn files cannot be kept aside; they are not given up before");
            }
            false
        }
    }
}

async fn adopt(replica: &Arc<LocalReplica>, file: ObjectId, fate: Fate) -> Result<()> {
    let deadline = Instant::now() + IN_A_ROW;
    let adopt = |store: Store| async move { store.adopt(file, fate).await };
    loop {
        // Changes count from here on. An early next attempt can use control that was won.
        let mut changes = replica.engine.notifications();
        if !replica.store.is_to_be_adopted(file) {
            // Another survivor has adopted it meanwhile.
            return Ok(());
        }
        match renewing::give_new_version(replica, file, adopt).await {
            Err(Error::Delay) => {}
            adopted => break adopted?,
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

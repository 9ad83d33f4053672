//! What has to be looked after now and then: records and marks that nobody needs any more, new members.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use control::Position;
use tokio::sync::broadcast::error::RecvError;
use vfs::{Error, ObjectId};

use crate::sessions;
use crate::shared::Shared;

const INTERVAL: Duration = Duration::from_secs(1);

/// Between attempts to renew a file that another replica controls.
const PAUSE: Duration = Duration::from_millis(20);

/// So many birthplaces are remembered before those that everybody knows are dropped.
const BIRTHS: usize = 4096;

/// Looks after things until the replica stops.
pub(crate) async fn keep(shared: Arc<Shared>) {
    let mut trimmed = 0;
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        look_for_members(&shared);
        let outcome = match forget_marks(&shared).await {
            Ok(()) => trim(&shared, &mut trimmed).await,
            failed => failed,
        };
        if let Err(error) = outcome {
            // The store has failed, which ends the server.
            return tracing::error!(%error, "replication cannot tidy up");
        }
    }
}

/// Tells of locks that arrived with updates, for ever.
pub(crate) async fn pass_lock_changes_on(shared: Arc<Shared>) {
    let mut changes = shared.store.lock_changes();
    loop {
        match changes.recv().await {
            Ok(file) => shared.tell_of_locks(file),
            // Whoever waits for one that was missed asks again by itself, a little later.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Gives files new versions whose unstable data a crash has taken: everybody gets what is left, and no
/// client trusts what it remembers.
pub(crate) async fn renew_recovered(shared: Arc<Shared>, recovered: Vec<ObjectId>) {
    let left = |files: usize| {
        shared
            .figures
            .recovering
            .store(files as u64, Ordering::Relaxed)
    };
    for (done, file) in recovered.iter().enumerate() {
        while !renew(&shared, *file).await {
            tokio::time::sleep(PAUSE).await;
        }
        left(recovered.len() - done - 1);
    }
}

/// Says whether it is done.
async fn renew(shared: &Shared, file: ObjectId) -> bool {
    match shared.store.renew(file).await {
        Ok(()) => {
            shared.engine.turn(|turn| {
                let (now, follows) = (turn.now, Position(turn.ledger.last_position));
                turn.ledger
                    .unshipped
                    .changed(now, file, 0..u64::MAX, follows);
                turn.core.handle_data_unshipped(file, &[]);
                turn.settle_content(file);
            });
            shared.engine.ring_contents();
            true
        }
        Err(Error::Refused(number)) => {
            if let Some(verdict) = shared.engine.verdict(number) {
                // It is tried again, whatever became of it.
                let _ = verdict.await;
            }
            false
        }
        Err(error) => {
            tracing::error!(%file, %error, "a file cannot be renewed");
            true
        }
    }
}

/// The founder learns of members from its own files, where joining writes them.
fn look_for_members(shared: &Arc<Shared>) {
    match shared.set.member_list() {
        Ok(list) if list.version > shared.member_list().version => {
            sessions::adopt_members(shared, list);
        }
        Ok(_) => {}
        Err(error) => tracing::error!(%error, "the list of members cannot be read"),
    }
}

/// Takes the durable marks off files that everybody has.
async fn forget_marks(shared: &Shared) -> vfs::Result<()> {
    let shipped = shared.engine.turn(|turn| {
        let known = turn.ledger.known_everywhere();
        if turn.ledger.born.len() > BIRTHS {
            turn.ledger.born.retain(|_, position| *position > known);
        }
        std::mem::take(&mut turn.ledger.shipped)
    });
    if shipped.is_empty() {
        return Ok(());
    }
    let files: Vec<ObjectId> = shipped.into_iter().collect();
    let still = &mut |file| {
        shared.engine.turn(|turn| {
            turn.ledger.unshipped.complete_everywhere(file) && !turn.ledger.pins.contains_key(&file)
        })
    };
    shared.store.forget_unshipped(&files, still).await
}

/// Removes records that every member has applied.
async fn trim(shared: &Shared, trimmed: &mut u64) -> vfs::Result<()> {
    let through = shared.engine.turn(|turn| turn.ledger.known_everywhere());
    if through > *trimmed {
        shared.store.trim_updates(through).await?;
        *trimmed = through;
    }
    Ok(())
}

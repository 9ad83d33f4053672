//! The server's work about once a second: leases, the grace period, failed stores, the service manager.
//!
//! What must never enter: the shutdown of the server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::overview::Overview;
use super::{Ending, ServeError, full_disk, pool, process};

/// The interval of this work.
const INTERVAL: Duration = Duration::from_secs(1);

/// Does this work until a store fails. Then returns how the server ends.
///
/// # Errors
/// [`ServeError::StorageFailed`] when only a person can help.
pub(super) async fn keep(overview: &Arc<Overview>) -> Result<Ending, ServeError> {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut supervisor = process::Supervisor::default();
    let mut under_way = JoinSet::new();
    loop {
        ticks.tick().await;
        while under_way.try_join_next().is_some() {}
        // Another site may have to release what vanished clients held, so leases and all other work must not wait for that.
        let mut letting_go = Box::pin(overview.service.housekeep());
        if !is_done_at_once(letting_go.as_mut()) {
            under_way.spawn(letting_go);
        }
        if let Some(tree) = overview.failed_tree() {
            return full_disk::end_of(tree);
        }
        if let Some(pool::Role::Data(server)) = &overview.pool
            && server.has_failed()
        {
            return Err(ServeError::StorageFailed("shelf".to_owned()));
        }
        supervisor.tell_alive(|| overview.summary());
    }
}

/// Whether nothing remains to wait for. Usually no client has vanished, and a separate task would wake another thread
/// for nothing. A task that is started now checks its condition again.
fn is_done_at_once(work: Pin<&mut impl Future<Output = ()>>) -> bool {
    let mut nobody = Context::from_waker(Waker::noop());
    work.poll(&mut nobody).is_ready()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_looked_at_once_still_wakes_its_task() {
        assert!(is_done_at_once(std::pin::pin!(async {})));
        let (done, told) = tokio::sync::oneshot::channel();
        let mut work = Box::pin(async move {
            let _told = told.await;
        });
        assert!(!is_done_at_once(work.as_mut()));
        let task = tokio::spawn(work);
        tokio::task::yield_now().await;
        done.send(()).unwrap();
        task.await.unwrap();
    }
}

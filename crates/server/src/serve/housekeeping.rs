//! What the server looks after about once a second: leases, the grace period, stores that have failed, the service manager.
//!
//! What must never enter: what happens when the server ends.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::overview::Overview;
use super::{Ending, ServeError, full_disk, pool, process};

/// How often leases and the grace period are looked after.
const INTERVAL: Duration = Duration::from_secs(1);

/// Looks after everything until a store fails. Returns how the server ends then.
///
/// # Errors
/// [`ServeError::StorageFailed`] where only a person can help.
pub(super) async fn keep(overview: &Arc<Overview>) -> Result<Ending, ServeError> {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut supervisor = process::Supervisor::default();
    let mut under_way = JoinSet::new();
    loop {
        ticks.tick().await;
        while under_way.try_join_next().is_some() {}
        // What vanished clients held may be another site's to let go, so neither leases nor anything else waits for it.
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

/// Whether nothing is left to wait for. Most times nobody has vanished, and a task of its own would wake another thread for
/// nothing; one that is started now looks again at what it waits for.
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

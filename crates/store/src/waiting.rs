//! How a thread of the store waits for locks that operations hold.
//!
//! It queues like every operation, so that the order is fair; but it gives up when the store is being
//! closed. The thread that closes the store may be the one that would have released the lock.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// How long a thread may need to notice that it has to give up.
const NOTICE: Duration = Duration::from_millis(50);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future, or gives up and returns `None`.
pub(crate) fn wait<T>(future: impl Future<Output = T>, give_up: impl Fn() -> bool) -> Option<T> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        if give_up() {
            return None;
        }
        thread::park_timeout(NOTICE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_thread_gets_its_turn_or_gives_up() {
        let lock = tokio::sync::Mutex::new(1);
        assert_eq!(wait(lock.lock(), || false).map(|value| *value), Some(1));
        let held = lock.try_lock().unwrap();
        let closing = AtomicBool::new(false);
        thread::scope(|scope| {
            let waiting =
                scope.spawn(|| wait(lock.lock(), || closing.load(Ordering::Relaxed)).is_none());
            closing.store(true, Ordering::Relaxed);
            assert!(waiting.join().unwrap());
            let waiting = scope.spawn(|| wait(lock.lock(), || false).is_some());
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }
}

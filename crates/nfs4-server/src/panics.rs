//! A panic in a request ends only that request: the same task also polls other requests of the connection.
//!
//! What must never enter: the answer.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use throttle::Throttle;

/// Logs requests that panic. One for the whole process, like the log itself.
static PANICS: Throttle = Throttle::new();
const PANICKED: throttle::Subject = ("a request panicked", 0);

/// Runs a future to its end. `None` if it panicked, which is logged with its name. By then its locks and gates are
/// free, and their data is as it was at the panic. The caller pins the future: moving it in here would double its size
/// in every request.
pub(crate) async fn caught<F: Future>(
    what: impl Fn() -> String,
    mut future: Pin<&mut F>,
) -> Option<F::Output> {
    let outcome = poll_fn(|context| {
        // It is not polled again after a panic.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        }
    })
    .await;
    if outcome.is_none()
        && let Some(sum) = PANICS.failed(PANICKED, Instant::now())
    {
        tracing::error!(
            what = what(),
            %sum,
            "a request panicked, which is a fault of this program; its client gets NFS4ERR_SERVERFAULT"
        );
    }
    outcome
}

//! A panic in a request ends nothing but what the request was doing: other requests of the connection are polled by
//! the same task.
//!
//! What must never enter: what to answer.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use throttle::Throttle;

/// What is told of requests that panic. Like the log itself, one for the whole process.
static PANICS: Throttle = Throttle::new();
const PANICKED: throttle::Subject = ("a request panicked", 0);

/// Runs a future to its end; `None` if it panicked, which is told with what it was. Locks and gates that it held are free
/// by then, and the data behind them is what it was at the panic. It is pinned where it is made: moved in here, it would take its
/// space twice in every request.
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
